"""Programs run the kernels that eager mode has: what has none raises what eager mode raises, and nothing ends the
process."""

import itertools
import sys

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle.nn import functional as F

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "int32", "bool")

UNARY = {
    "relu": F.relu,
    "gelu": F.gelu,
    "softmax": F.softmax,
    "abs": paddle.abs,
    "sqrt": paddle.sqrt,
    "sum": paddle.sum,
    "scale": lambda x: x * 2,
    "transpose": lambda x: x.t(),
    "cast": lambda x: x.astype("float32"),
    "layer_norm": lambda x: F.layer_norm(x, [4]),
    "clip": lambda x: x.clip(0, 1),
}

BINARY = {
    "matmul": lambda x, y: x @ y,
    "linear": lambda x, y: F.linear(x, y),
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "concat": lambda x, y: paddle.concat([x, y]),
    "conv2d": lambda x, y: F.conv2d(x.reshape([1, 1, 4, 4]), y.reshape([1, 1, 4, 4])),
}


def made(dtype):
    numbers = 1 + paddle.arange(16, dtype="float32").reshape([4, 4]) / 4
    x = numbers.astype(dtype)
    x.stop_gradient = not (x.is_floating_point() or x.is_complex())
    return x


def observed(function, operands):
    """Its result and its gradients, or the class of what it raises on the way there."""
    found = []
    try:
        y = function(*operands)
        found.append((y.dtype, str(y.numpy())))
        if not y.stop_gradient:
            y.astype("complex64").real().sum().backward()
            found += [None if x.grad is None else (x.grad.dtype, str(x.grad.numpy())) for x in operands]
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        found.append(type(error))
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_one_operand_of_any_dtype(name, dtype):
    function = UNARY[name]
    assert observed(translate(lambda x: function(x)), [made(dtype)]) == observed(function, [made(dtype)])


@pytest.mark.parametrize(("one", "other"), [*zip(DTYPES, DTYPES, strict=True), *itertools.permutations(DTYPES[1:5], 2)])
@pytest.mark.parametrize("name", BINARY)
def test_two_operands_of_any_dtypes(name, one, other):
    function = BINARY[name]
    translated = translate(lambda x, y: function(x, y))
    assert observed(translated, [made(one), made(other)]) == observed(function, [made(one), made(other)])


def test_a_product_of_bfloat16_is_refused_as_in_eager_mode():
    translated = translate(lambda x, y: x @ y)
    x, y = (paddle.ones([2, 2], "bfloat16") for _ in range(2))
    for function in (translated, paddle.matmul):
        with pytest.raises(RuntimeError, match="kernel"):
            function(x, y)
    assert sot.stats(translated).graphs == 0


def test_a_float_beside_a_complex_operand_has_its_gradient():
    def gradients(function):
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        y = paddle.to_tensor([1 + 2j, 3 - 1j], stop_gradient=False)
        function(x, y).real().sum().backward()
        return x.grad.dtype, x.grad.tolist(), y.grad.tolist()

    translated = translate(lambda x, y: paddle.kron(x, y))
    assert gradients(translated) == gradients(paddle.kron)


def test_onednn_has_more_kernels_for_few_dtypes_alone():
    # Operations of other dtypes are not looked up.
    sot.to_static(lambda x: x + 1)(paddle.ones([2]))
    kernels = sys.modules["paddle_sot_rs._paddle.kernels"]
    more = {dtype for dtypes in kernels.only_in_onednn().values() for dtype in dtypes}
    assert more == {str(dtype).removeprefix("paddle.") for dtype in kernels.MORE_IN_ONEDNN}


VIEWS = {
    "flatten": (lambda x: x.flatten(), ["float16", "complex64"]),
    "unsqueeze": (lambda x: x.unsqueeze(0), ["float16"]),
    "diagonal": (lambda x: x.diagonal(), ["float16", "bfloat16", "uint8", "int16"]),
    "unbind": (lambda x: x.unbind()[1], ["uint8", "int8", "int16"]),
}


@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name, (_, dtypes) in VIEWS.items() for dtype in dtypes])
def test_what_eager_mode_makes_views_of_alone_breaks_the_graph(name, dtype):
    """A program copies, and has no kernel for that: it raised in each call, and ran again."""
    function = VIEWS[name][0]
    static = sot.to_static(lambda x: function(x) * 1, min_graph_size=0)
    x = paddle.arange(16, dtype="float32").reshape([4, 4]).astype(dtype)
    for _ in range(3):
        assert str(static(x).numpy()) == str((function(x) * 1).numpy())
    record = sot.stats(static)
    assert {it.id for it in record.graph_breaks} == {"PSR0207"}
    assert not record.fallbacks


def test_few_dtypes_have_views_alone():
    sot.to_static(lambda x: x + 1)(paddle.ones([2]))
    kernels = sys.modules["paddle_sot_rs._paddle.kernels"]
    viewed = {dtype for dtypes in kernels.only_by_strides().values() for dtype in dtypes}
    known = {str(dtype).removeprefix("paddle.") for dtype in kernels.RARE}
    assert {dtype for dtype in viewed if not dtype.startswith("float8")} <= known
