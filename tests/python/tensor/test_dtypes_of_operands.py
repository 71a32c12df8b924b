"""Which dtype an operation of two operands has: that of eager mode, where a program has rules of its own."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import apart, check
from paddle.nn import functional as F

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

WHOLE = ("uint8", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "float32", "float64")
PAIRS = [(a, b) for kind in (WHOLE, FLOATS) for a in kind for b in kind]


def tensor(dtype, shape):
    return paddle.to_tensor(np.full(shape, 7, dtype))


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
def test_floor_division_by_a_tensor_without_dims(backend):
    def divided(tensors, scalars):
        quotients = []
        for x, y in zip(tensors, scalars, strict=True):
            quotients += [x // y, y // x, paddle.floor_divide(x, y), x.floor_divide(y), x.__rfloordiv__(y)]
        return quotients

    tensors = [tensor(a, (3,)) for a, _ in PAIRS]
    scalars = [tensor(b, ()) for _, b in PAIRS]
    check(divided, tensors, scalars, graphs=1, breaks=0, backend=backend)


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
def test_floor_division_by_a_number(backend):
    def divided(tensors):
        quotients = []
        for x in tensors:
            quotients += [paddle.floor_divide(x, 2), x.floor_divide(-3), paddle.floor_divide(y=2.5, x=x)]
            quotients += [x // 2, 20 // x, x // 2.5]
        return quotients

    check(divided, [tensor(dtype, (3,)) for dtype in WHOLE + FLOATS], fallbacks=None, backend=backend)


def test_sums_of_two_dtypes_or_shapes():
    def added(x, y):
        return paddle.add_n([x, y])

    x = paddle.ones([3])
    x.stop_gradient = False
    check(added, x, paddle.ones([3], "int64"), fallbacks=None)
    check(added, x, paddle.ones([3], "float64"), fallbacks=None)
    check(added, x, paddle.ones([3]), graphs=1, breaks=0)


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32", "float64", "complex64"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.any(), x.any().dtype, x.all(0).dtype),
        lambda x: (paddle.zeros_like(x.any(0)), paddle.ones_like(x.all(0)), paddle.full_like(x.any(0), 1)),
        lambda x: x.any(0).max(),
        lambda x: (x.unique().dtype, paddle.zeros_like(x.unique())),
        lambda x: (x.unique_consecutive().dtype, paddle.zeros_like(x.unique_consecutive())),
        lambda x: (x.reduce_as(x[0]).dtype, paddle.zeros_like(x.reduce_as(x[0]))),
        lambda x: (paddle.signal.overlap_add(x, 1).dtype, paddle.zeros_like(paddle.signal.overlap_add(x, 1))),
        lambda x: (paddle.linalg.svd(x)[1].dtype, paddle.zeros_like(paddle.linalg.svd(x)[1])),
    ],
)
def test_results_of_other_dtypes(function, dtype, backend):
    for rows in ([[1, 0, 2], [0, 0, 3]], [[0, 1, -1], [0, 1, 1]]):
        check(function, paddle.to_tensor(rows).astype(dtype), fallbacks=None, backend=backend)


WITHOUT_KERNELS = {
    "slice of halves": ("float16", lambda x: (x * 2)[1:, ::2] + 1),
    "slice of halves from behind": ("float16", lambda x: (x * 2)[::-1, 1:2] * 3),
    "real sum of complex numbers": ("complex64", lambda x: (x * 2).sum(dtype="float32") * 3),
}


@pytest.mark.parametrize("name", WITHOUT_KERNELS)
def test_gradients_that_programs_have_no_kernel_for(name):
    """They break the graph; without gradients nothing does."""
    dtype, function = WITHOUT_KERNELS[name]
    translated = sot.to_static(function, min_graph_size=0)

    def gradient(call):
        x = paddle.arange(12.0).reshape([3, 4]).astype(dtype)
        x.stop_gradient = False
        result = call(x)
        result.sum().backward()
        return result.numpy(), x.grad.numpy()

    for want, got in zip(gradient(function), gradient(translated), strict=True):
        np.testing.assert_array_equal(want, got)
    assert sum(it.count for it in sot.stats(translated).graph_breaks) == 1

    whole = sot.to_static(apart(function), min_graph_size=0)
    x = paddle.arange(12.0).reshape([3, 4]).astype(dtype)
    np.testing.assert_array_equal(whole(x).numpy(), function(x).numpy())
    assert sot.stats(whole).graph_breaks == []


def test_clip_of_bfloat16_raises():
    """A program would cast it, and end the process where the bounds are the wrong way around."""
    translated = sot.to_static(lambda x: (x * 2).clip(3, 1), min_graph_size=0)
    with pytest.raises(RuntimeError, match="bfloat16"):
        translated(paddle.ones([3, 4]).astype("bfloat16"))


def test_bools_that_have_a_name_say_how():
    """A bool as the other operand of one of bools is left to eager mode."""

    def function(mask):
        return mask.any(1, keepdim=True), mask.sum(1, keepdim=True), paddle.all(mask, -1, keepdim=True)

    static = sot.to_static(function, min_graph_size=0)
    mask = paddle.to_tensor([[True, False], [False, False]])
    for one, other in zip(static(mask), function(mask), strict=True):
        assert one.dtype == other.dtype
        assert (one == other).all()
    assert not sot.stats(static).graph_breaks


SLOPES = {
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "elu": lambda x: F.elu(x, 0.3),
    "celu": lambda x: F.celu(x, 0.7),
    "softplus": lambda x: F.softplus(x, 1.1, 3.3),
    "hardtanh": lambda x: F.hardtanh(x, -0.1, 0.3),
    "hardshrink": lambda x: F.hardshrink(x, 0.1),
    "softshrink": lambda x: F.softshrink(x, 0.1),
    "thresholded_relu": lambda x: F.thresholded_relu(x, 0.1),
    "normalize": lambda x: F.normalize(x, 2, 1, 0.3),
    "hardsigmoid": lambda x: F.hardsigmoid(x, 0.3, 0.1),
    "selu": lambda x: F.selu(x, 1.07, 1.7),
    "stanh": lambda x: paddle.stanh(x, 0.67, 1.7),
    "rrelu": lambda x: F.rrelu(x, 0.1, 0.3, training=False),
    "label_smooth": lambda x: F.label_smooth(x, None, 0.1),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x * 2, "none", 0.3),
    "renorm": lambda x: paddle.renorm(x, 2.3, 0, 0.3),
    "group_norm": lambda x: F.group_norm(x, 2, 0.3),
    "instance_norm": lambda x: F.instance_norm(x.unsqueeze(1), None, None, None, None, True, 0.9, 0.3),
    "batch_norm": lambda x: F.batch_norm(
        x, paddle.zeros([4], "float64"), paddle.ones([4], "float64"), None, None, False, 0.7, 0.3
    ),
    "addmm": lambda x: paddle.addmm(x @ x.T, x, x.T, 0.3, 0.1),
}


@pytest.mark.parametrize("name", SLOPES)
def test_numbers_of_activations_of_doubles_are_doubles(name):
    function = SLOPES[name]
    static = sot.to_static(function, min_graph_size=0)
    ours, theirs = (paddle.linspace(-2, 2, 12, "float64").reshape([3, 4]) for _ in range(2))
    for x, run in ((ours, static), (theirs, function)):
        x.stop_gradient = False
        y = run(x)
        (y * y).sum().backward()
        x.result = y
    assert ours.result.numpy().tobytes() == theirs.result.numpy().tobytes()
    assert ours.grad.numpy().tobytes() == theirs.grad.numpy().tobytes()
    assert not sot.stats(static).graph_breaks
