"""Zeros keep their signs: programs scale and shift where eager mode makes a tensor of a bool, or adds `-0.0`."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.nn import functional as F

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

OPERATIONS = [
    "x * v",
    "v * x",
    "x + v",
    "v + x",
    "x - v",
    "v - x",
    "x / v",
    "v / x",
    "paddle.scale(x, v)",
    "paddle.scale(x, 2.0, v)",
    "paddle.full_like(x, v) * x",
    "x * (v == 1)",
    "x * (x.shape[0] > 1)",
    "F.relu(x) * v - v",
]
NUMBERS = [False, True, 0, 0.0, -0.0, 1, -1, 2.5, 1j, -1j, complex(0.0, -0.0), complex(-0.0, 0.0)]
ZEROS = [0.0, -0.0, 1.0, -2.0]


def _function(operation):
    space = {"paddle": paddle, "F": F}
    exec(f"def f(x, v):\n    y = x + x\n    return {operation}, y\n", space)
    return space["f"]


def _outcome(function, dtype, number):
    values = np.array([complex(a, b) for a in ZEROS for b in ZEROS]) if "complex" in dtype else np.array(ZEROS)
    x = paddle.to_tensor(values.astype(dtype), stop_gradient=False)
    try:
        result = function(x, number)[0]
        result.sum().abs().backward()
    except (TypeError, ValueError, RuntimeError) as error:
        return type(error)
    results = result.detach(), x.grad
    return [str(result.dtype), *(None if value is None else repr(value.tolist()) for value in results)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_zeros_keep_their_signs(operation, dtype):
    for number in NUMBERS:
        function = _function(operation)
        translated = sot.to_static(_function(operation), min_graph_size=0)
        expected = _outcome(function, dtype, number)
        for _ in range(2):
            assert _outcome(translated, dtype, number) == expected, number


@pytest.mark.parametrize("flag", [False, True])
def test_a_tensor_times_a_bool_is_one_graph_for_every_shape(flag):
    translated = sot.to_static(_function("x * v"), min_graph_size=0)
    for rows in (2, 3, 4, 5):
        x = paddle.to_tensor(np.array([[0.0, -0.0, -1.0]] * rows, dtype="float32"))
        assert repr(translated(x, flag)[0].tolist()) == repr((x * flag).tolist())
    stats = sot.stats(translated)
    assert stats.translations == 2 and not stats.graph_breaks and not stats.fallbacks, stats


def multiplied(x, w, n):
    for _ in range(n):
        x = x * w
    return x


def added(x, w, n):
    y = x
    while n > 0:
        y, n = y + x * w, n - 1
    return y


def multiplied_on_a_side(x, w, n):
    y = x * w
    if n > 1:
        y = y * w
    return y * x


def either(x, w, n):
    for _ in range(n):
        x = x * w if x.sum() > 0 else x * 3
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [multiplied, added, multiplied_on_a_side, either], ids=lambda it: it.__name__)
def test_zeros_of_gradients_through_control_flow(function, dtype):
    """What does not arrive is no zero that is added."""

    def gradients(run, numbers, rounds):
        given = [paddle.to_tensor(part, dtype, stop_gradient=False) for part in (numbers, [2.0, -3.0])]
        run(*given, paddle.to_tensor(rounds)).sum().backward()
        return [None if it.grad is None else repr(it.grad.tolist()) for it in given]

    translated = sot.to_static(function, full_graph=True)
    for numbers in ([-0.0, 0.0], [1.0, -0.0], [-0.0, -1.0]):
        for rounds in (0, 1, 2, 3):
            assert gradients(translated, numbers, rounds) == gradients(function, numbers, rounds), (numbers, rounds)


def of_a_piece(x, n):
    a, b = x.chunk(2)
    return a * -1 if n > 1 else b.sum() * a


def of_a_piece_in_a_loop(x, n):
    a, b = x.unbind()
    for _ in range(n):
        a = a * b
    return a * -1


@pytest.mark.parametrize("function", [of_a_piece, of_a_piece_in_a_loop], ids=lambda it: it.__name__)
def test_zeros_of_one_of_several_results(function):
    translated = sot.to_static(function, full_graph=True)
    for rounds in (2, 0, 1, 3):
        found = []
        for run in (function, translated):
            x = paddle.to_tensor([[1.0, 2.0], [3.0, -4.0]], stop_gradient=False)
            run(x, paddle.to_tensor(rounds)).sum().backward()
            found.append(repr(x.grad.tolist()))
        assert found[0] == found[1], rounds
