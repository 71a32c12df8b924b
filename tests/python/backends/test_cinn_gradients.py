"""The CINN-prim backend where Paddle's rules for primitive gradients are wrong, or give other inputs gradients."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python


def numbers(*shape):
    return np.random.default_rng(len(shape)).uniform(0.1, 0.9, shape)


COUNT = np.asarray([1, 0, 1, 3])
CASES = {
    "slice to one number": (lambda x: x[1] * 2 + x[0], numbers(3)),
    "iteration over numbers": (lambda x: sum(v * v for v in x), numbers(4)),
    "vstack": (lambda x: paddle.vstack([x[0], x[1] * 2]), numbers(2)),
    "lerp": (paddle.lerp, numbers(4, 6), numbers(4, 6), numbers(4, 6)),
    "binary cross entropy": (F.binary_cross_entropy_with_logits, numbers(4, 6), numbers(4, 6)),
    "kl_div": (F.kl_div, numbers(4, 6), numbers(4, 6)),
    "scatter": (lambda x, y: paddle.scatter(x, paddle.to_tensor(1), y), numbers(4, 6), numbers(6)),
    "index_add": (lambda x, y: paddle.index_add(x, paddle.to_tensor(COUNT), 1, y), numbers(4, 6), numbers(4, 4)),
    "masked_fill": (lambda x: paddle.masked_fill(x, x > 0.5, 3.0), numbers(4, 6)),
    "put_along_axis": (
        lambda x, y: paddle.put_along_axis(x, paddle.ones([4, 1], "int64"), y, 1),
        numbers(4, 6),
        numbers(4, 1),
    ),
    "gather one": (lambda x: paddle.gather(x, paddle.to_tensor(1)), numbers(4, 6)),
    "broadcast": (lambda x, y: x * y / (y + 1) - y**x, numbers(4, 6), numbers(6)),
    "reductions": (lambda x: x.max() + x.prod() + x.mean(0).min() + x.std() + x.logsumexp(), numbers(4, 6)),
    "max of equal numbers": (
        lambda x: x.round().max(1) * x.sum(1) + paddle.maximum(x, x.clip(0.3)).sum(1),
        numbers(4, 6),
    ),
    "cumulated": (lambda x: x.cumsum(1) * x.cumprod(0), numbers(4, 6)),
    "norms of rows": (lambda x: F.batch_norm(x, x[0].detach(), x[1].detach(), training=False), numbers(4, 6)),
    "powers of zero": (lambda x, y: (x - 0.5).clip(0) ** (y.round() * 2), numbers(4, 6), numbers(4, 6)),
    "matmul of vectors": (lambda x, y: x @ y + y @ x.T, numbers(4, 6), numbers(6)),
    "where": (lambda x, y: paddle.where(x > 0.5, x * y, y), numbers(4, 6), numbers(6)),
    "stack, split, concat": (lambda x: paddle.concat(paddle.stack([x, x * 2]).split(2, axis=1)), numbers(4, 6)),
    "complex products": (
        lambda x, y: (paddle.complex(x, y) * paddle.complex(y, x + 1) / paddle.complex(x, x)).abs() ** 2,
        numbers(4, 6),
        numbers(4, 6),
    ),
    "complex sums": (
        lambda x: paddle.as_real(paddle.complex(x, x * 2).sum(1) * paddle.complex(x, x).conj().prod(1)),
        numbers(4, 6),
    ),
    "grids": (
        lambda x, y: (
            sum(a * b for a, b in [paddle.meshgrid(x, y)])
            * paddle.meshgrid(paddle.arange(0, 4, 1, "float64"), paddle.arange(0, 6, 1, "float64"))[0]
        ),
        numbers(4),
        numbers(6),
    ),
    "group norm without a weight": (lambda x: F.group_norm(x * 1, 2) * 1, numbers(2, 4, 3)),
    "group norm with a bias alone": (lambda x, y: F.group_norm(x * 1, 2, bias=y * 1) * 1, numbers(2, 4, 3), numbers(4)),
    "group norm with a weight alone": (
        lambda x, y: F.group_norm(x * 1, 2, weight=y * 1) * 1,
        numbers(2, 4, 3),
        numbers(4),
    ),
    "sum of another dtype": (lambda x: (x.astype("float16") * 1).sum(1, dtype="float32"), numbers(4, 6)),
    "norms of the largest": (
        lambda x: paddle.linalg.norm(x - 0.7, float("inf"), 1) + paddle.linalg.norm(x - 0.7, -float("inf"), 1),
        numbers(4, 6),
    ),
    "pad and roll": (lambda x: F.pad(x, [1, 2, 0, 1]).roll(1, 0) ** 2, numbers(4, 6)),
}


def outcome(run, arrays):
    tensors = [paddle.to_tensor(array, stop_gradient=False) for array in arrays]
    result = run(*tensors)
    (result * result).sum().backward()
    return result.numpy(), [None if tensor.grad is None else tensor.grad.numpy() for tensor in tensors]


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_eager_mode(name):
    function, *arrays = CASES[name]

    def run(*tensors):
        return function(*tensors)

    static = sot.to_static(run, backend="cinn", min_graph_size=0)
    want, got = outcome(run, arrays), outcome(static, arrays)
    np.testing.assert_allclose(want[0], got[0], rtol=1e-9)
    for a, b in zip(want[1], got[1], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert sot.stats(static).fallbacks == []
    assert sot.stats(static).graphs >= 1


def kept(x):
    return x[x[:, 0] > 0.5]


SOME, NONE = paddle.to_tensor([0]), paddle.zeros([0], "int64")
OF_OPEN_DIMS = {
    "slice to no columns": lambda x: paddle.concat([x[:, :0], x * 2], 1),
    "slices of rows": lambda x: paddle.concat([kept(x)[1:] * 2, kept(x)[:-1], kept(x)[:, 1:3].sum() * x]),
    "joined rows": lambda x: paddle.concat([kept(x), x * 2, kept(x)[:0]]),
    "joined columns": lambda x: paddle.concat([kept(x), kept(x) * 2], 1),
    "selected rows": lambda x: paddle.index_select(x, SOME) * 2,
    "no selected rows": lambda x: paddle.concat([paddle.index_select(x, NONE), x]),
    "no selected columns": lambda x: paddle.concat([paddle.index_select(x, NONE, 1), x], 1),
}


@pytest.mark.parametrize("name", OF_OPEN_DIMS)
def test_gradients_of_open_and_empty_dims(name):
    function = OF_OPEN_DIMS[name]

    def run(x):
        return function(x)

    static = sot.to_static(run, backend="cinn", min_graph_size=0, dynamic=True)
    for rows in (4, 7, 9):
        want, got = outcome(run, [numbers(rows, 6)]), outcome(static, [numbers(rows, 6)])
        assert want[0].shape == got[0].shape and want[1][0].shape == got[1][0].shape
        np.testing.assert_allclose(want[0], got[0], rtol=1e-9)
        np.testing.assert_allclose(want[1][0], got[1][0], rtol=1e-9)
    assert (sot.stats(static).graph_breaks, sot.stats(static).fallbacks) == ([], [])


def test_a_batch_norm_of_one_number_leaves_it():
    nets = [paddle.nn.BatchNorm2D(6) for _ in range(2)]
    static = sot.to_static(nets[1], backend="cinn", min_graph_size=0)
    for rows in (1, 4, 1):
        x = paddle.rand([rows, 6, 1, 1])
        np.testing.assert_allclose(nets[0](x).numpy(), static(x).numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(nets[0]._mean.numpy(), nets[1]._mean.numpy(), rtol=1e-5)
    np.testing.assert_allclose(nets[0]._variance.numpy(), nets[1]._variance.numpy(), rtol=1e-5)


def test_a_batch_norm_of_rows_trains():
    paddle.seed(0)
    nets = [paddle.nn.BatchNorm1D(6) for _ in range(2)]
    static = sot.to_static(nets[1], backend="cinn", min_graph_size=0)
    results = [outcome(net, [numbers(4, 6).astype("float32")]) for net in (nets[0], static)]
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(results[0][1][0], results[1][1][0], rtol=1e-2, atol=1e-4)
    np.testing.assert_allclose(nets[0]._mean.numpy(), nets[1]._mean.numpy(), rtol=1e-5)
    assert sot.stats(static).fallbacks == []


NORM = paddle.nn.GroupNorm(2, 4)
READERS = {
    "amax": lambda x: x.amax(axis=1),
    "clip": lambda x: x.clip(0.3, 0.8),
    "clip_of_a_view": lambda x: x.reshape([-1]).clip(0.3, 0.8),
    "clip_of_a_result": lambda x: (x * 2).clip(0.3, 0.8),
    "cumprod": lambda x: x.cumprod(1),
    "divide": lambda x: x / (x.detach() + 1),
    "group_norm": lambda x: NORM(x.reshape([1, 4, 2])).sin(),
    "max": lambda x: x.max(axis=1),
    "normalize": lambda x: F.normalize(x),
    "prod": lambda x: x.prod(axis=1),
    "reciprocal": lambda x: x.reciprocal(),
    "silu": lambda x: F.silu(x),
    "cross_entropy": lambda x: F.binary_cross_entropy_with_logits(x, (x.detach() > 0.5).astype("float32")),
    "gelu": lambda x: F.gelu(x),
    "layer_norm": lambda x: F.layer_norm(x, [4]),
    "softmax": lambda x: F.softmax(x),
}


@pytest.mark.parametrize("name", READERS)
def test_numbers_that_change_before_the_gradient_is_computed(name):
    """No version counts `set_value`: gradients read what is there, and keep what was made of it."""
    function = READERS[name]

    def run(call):
        x = paddle.to_tensor([[0.5, 0.55, 0.62, 0.7], [0.33, 0.25, 0.41, 0.9]], stop_gradient=False)
        y = call(x)
        x.set_value(paddle.to_tensor([[0.3, 0.6, 0.2, 0.9], [0.7, 0.45, 0.35, 0.15]]))
        (y * paddle.arange(1.0, y.size + 1).reshape(y.shape)).sum().backward()
        return x.grad.numpy()

    static = sot.to_static(function, backend="cinn", dynamic=True, min_graph_size=0)
    for _ in range(2):
        np.testing.assert_allclose(run(static), run(function), rtol=1e-4, atol=1e-5)
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])
