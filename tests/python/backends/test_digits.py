"""Digits, signs of zeros, shapes and gradients of what programs compute with another kernel than eager mode."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

F = paddle.nn.functional
INDEX = paddle.to_tensor([0, 2, 1], dtype="int32")
SINGLE = np.float32(2.5)
NONE = np.float32(0)


def floats(*dims, dtype="float32"):
    numbers = np.linspace(-2.1, 3.3, int(np.prod(dims, dtype=int))).reshape(dims)
    numbers.flat[0] = -0.0
    return paddle.to_tensor(numbers.astype(dtype), stop_gradient=False)


INPUTS = {
    "f": lambda: floats(3, 4),
    "f0": lambda: paddle.to_tensor(2.3, stop_gradient=False),
    "d": lambda: floats(3, 4, dtype="float64"),
    "d0": lambda: paddle.to_tensor(2.3, dtype="float64", stop_gradient=False),
    "b": lambda: paddle.to_tensor([True, False, True]),
    "c": lambda: paddle.to_tensor([1 + 2j, 0.3 - 0.7j], dtype="complex128"),
    "image": lambda: floats(1, 1, 3, 3),
    "p": lambda: floats(2, 4),
}

# What is computed, of what, and whether it is one graph.
CASES = [
    ("x.index_fill(INDEX, 1, y)", "f f0", False),
    ("x.index_fill(INDEX, 1, x.sum())", "f", False),
    ("x.index_fill(INDEX, 0, y)", "f d0", False),
    ("x.index_fill(INDEX, 1, 0.5)", "f", True),
    ("x**SINGLE", "f0", True),
    ("x.sum() ** SINGLE", "f", True),
    ("x**SINGLE", "d0", True),
    ("(x * x + 1) ** SINGLE", "f", True),
    ("x // 0.1", "d0", False),
    ("x // 10**12", "d0", False),
    ("0.1 // x", "d0", False),
    ("x // 2", "d0", True),
    ("x // 0.1", "d", True),
    ("x * SINGLE", "f", True),
    ("SINGLE * x", "f", True),
    ("x * NONE", "f", True),
    ("x * SINGLE", "d", True),
    ("x * SINGLE", "f0", True),
    ("x + 16777217", "b", False),
    ("x * 16777217", "b", False),
    ("16777217 - x", "b", False),
    ("x + 10**12", "b", False),
    ("x * 3 + 2", "b", True),
    ("x + (0.1 + 0.3j)", "c", False),
    ("(0.1 + 0.3j) - x", "c", False),
    ("x - 0.1j", "d", False),
    ("x * (0.1 + 0.3j)", "c", True),
    ("x + (0.5 + 0.25j)", "c", True),
    ("x + paddle.full([2], 0.1 + 0.3j, 'complex128')", "c", False),
    ("F.interpolate(x, scale_factor=y, mode='nearest')", "image f0", False),
    ("F.interpolate(x, scale_factor=2, mode='nearest')", "image", True),
    ("x * 0.1", "d", True),
    ("x * 16777217", "d", True),
    ("F.leaky_relu(x, 0.2)", "f", True),
    ("F.elu(x)", "f", True),
    ("F.relu6(x)", "f", True),
    ("paddle.add_n([x])", "f", True),
    ("x.index_put((INDEX,), y[0])", "f p", True),
    ("x.index_put((x[:, 0] > -1,), y[1])", "f p", None),
    ("x.index_put([INDEX, INDEX], y, accumulate=True)", "f f0", True),
]


def made(text):
    namespace = {"paddle": paddle, "F": F, "INDEX": INDEX, "SINGLE": SINGLE, "NONE": NONE}
    exec(f"def function(x, y=None):\n    return {text}\n", namespace)
    return namespace["function"]


def answer(function, names):
    given = [INPUTS[name]() for name in names.split()]
    try:
        result = function(*given)
        if not result.stop_gradient:
            result.sum().backward()
    except Exception as error:
        return type(error)
    gradients = [None if tensor.grad is None else tensor.grad.numpy().tobytes() for tensor in given]
    return str(result.dtype), list(result.shape), result.numpy().tobytes(), gradients


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
@pytest.mark.parametrize(("text", "names", "whole"), CASES)
def test_digits_are_those_of_eager_mode(text, names, whole, backend):
    function = made(text)
    static = sot.to_static(function, backend=backend, min_graph_size=0)
    expected = answer(function, names)
    for _ in range(2):
        assert answer(static, names) == expected
    if whole is not None and not isinstance(expected, type):
        assert (not sot.stats(static).graph_breaks) == whole


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float32", "float64", "bool"])
@pytest.mark.parametrize("number", [2**40 + 5, 2**40, -(2**31) - 1, 300, -1, 1e40, -1e40, 1e300, 2.7, float("inf")])
@pytest.mark.parametrize("name", ["full", "full_like", "full_like_float", "clip", "masked_fill", "scale"])
def test_numbers_that_the_dtype_does_not_hold(name, number, dtype):
    makers = {
        "full": lambda x: paddle.full([2], number, dtype),
        "full_like": lambda x: paddle.full_like(x, number),
        "full_like_float": lambda x: paddle.full_like(x, number, "float32"),
        "clip": lambda x: x.clip(max=number),
        "masked_fill": lambda x: x.masked_fill(x > 0, number),
        "scale": lambda x: paddle.scale(x, number),
    }
    x = paddle.to_tensor([1, 3]).astype(dtype)
    static = sot.to_static(makers[name], min_graph_size=0)
    answers = []
    for run in (makers[name], static, static):
        try:
            result = run(x)
            answers.append((str(result.dtype), result.shape, result.numpy().tobytes()))
        except Exception as error:
            answers.append(type(error))
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("exponent", [0, 1, 2, 5, 17, 40])
def test_powers_of_whole_numbers_wrap_around(exponent, dtype):
    x = paddle.to_tensor([-300, -98, 3, 205, 710]).astype(dtype)
    static = sot.to_static(lambda x: x**exponent, min_graph_size=0)
    for _ in range(2):
        assert static(x).tolist() == (x**exponent).tolist()
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks) == (1, [])
