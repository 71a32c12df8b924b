"""What is empty, or may be, and leaves control flow, PyLayers or `recompute`: Paddle's executor hands none on."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute
from paddle.static import InputSpec

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


class Double(PyLayer):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * 2, y * y

    @staticmethod
    def backward(ctx, dx, dy):
        x, y = ctx.saved_tensor()
        return dx * 2 + x * 0, dy * y * 3


def rows_of(x, least):
    """None of them, or some: only the graph knows."""
    return x[x[:, 0] > least]


def one_side(x, n):
    if n > 1:
        y = rows_of(x, 100.0) * 2
    else:
        y = x * 3
    return y, (y * y).sum()


def other_side(x, n):
    if n > 1:
        y = x * 3
    else:
        y = x[:0] * 2
    return y, (y * y).sum()


def both_sides(x, n):
    y = rows_of(x, 100.0)
    if n > 1:
        y = y * 2
    else:
        y = y * 3
    return y, (y * y).sum() + x.sum()


def other_axis(x, n):
    if n > 1:
        y = x[:, :0]
    else:
        y = x * 2
    return y, (y * y).sum()


def two_axes(x, n):
    y = paddle.ones([2, 3])
    if n > 1:
        y = rows_of(x, 100.0).t() * 2
    else:
        y = rows_of(x, -100.0)[:0] + x.sum()
    return y, (y * y).sum()


def axes_that_differ(x, n):
    if n > 1:
        y, z = x[:0] * 2, x + 1
    else:
        y, z = x * 2, x[:, :0]
    return y, z, y.sum() + (z * z).sum()


def nested(x, n):
    if n > 0:
        if n > 2:
            y = rows_of(x, 100.0) * 2
        else:
            y = x * 2
        y = y + 1
    else:
        y = x[:0]
    return y, (y * y).sum()


def of_many_dtypes(x, n):
    kept = rows_of(x, 100.0)
    if n > 1:
        a, b, c, d = kept > 0, kept.astype("int16"), paddle.complex(kept, kept), kept.astype("uint8")
    else:
        a, b, c, d = x > 0, x.astype("int16"), paddle.complex(x, x), (x * 0).astype("uint8")
    return a, b, c, d, (c.real() * c.imag()).sum()


def of_all_numbers(x, n):
    if n > 1:
        y = paddle.cumsum(rows_of(x, 100.0))
    else:
        y = paddle.cumsum(rows_of(x, 0.0))
    return y, (y * y).sum() + x.sum()


def in_a_loop(x, n):
    i, total = paddle.zeros([], "int64"), x.sum()
    while i < n:
        if i > 1:
            y = rows_of(x, 100.0)
        else:
            y = x * 2
        total = total + (y * y).sum()
        i = i + 1
    return total * 1, total


def a_loop_on_them(x, n):
    i, y = paddle.zeros([], "int64"), rows_of(x, 100.0)
    while i < n:
        y = y * 2
        i = i + 1
    return y, y.sum() + x.sum()


def custom(x, n):
    y, z = Double.apply(rows_of(x, 100.0), x)
    return y, z, (y * y).sum() + z.sum()


def custom_on_both(x, n):
    y, z = Double.apply(rows_of(x, 0.0), rows_of(x, 100.0))
    return y, z, (y * y).sum() + z.sum()


def again(x, n):
    y = recompute(lambda value: rows_of(value, 100.0) * 2 + 1, x)
    return y, (y * y).sum() + x.sum()


def of_empty_ones_again(x, n):
    y = recompute(lambda value: value * 2 + 1, rows_of(x, 100.0))
    return y, (y * y).sum() + x.sum()


FUNCTIONS = [
    one_side,
    other_side,
    both_sides,
    other_axis,
    two_axes,
    axes_that_differ,
    nested,
    of_many_dtypes,
    of_all_numbers,
    in_a_loop,
    a_loop_on_them,
    custom,
    custom_on_both,
    again,
    of_empty_ones_again,
]


def picture(run, value, n):
    x = paddle.to_tensor(value, stop_gradient=False)
    *results, loss = run(x, paddle.to_tensor(n))
    loss.backward()
    return [(str(it.dtype), it.shape, it.numpy()) for it in (*results, loss, x.grad)]


def assert_alike(run, function, value, n):
    for want, got in zip(picture(function, value, n), picture(run, value, n), strict=True):
        assert want[:2] == got[:2]
        np.testing.assert_allclose(want[2], got[2], rtol=1e-5)


def translated(function, backend):
    settings = {"dynamic": True} if backend == "cinn" else {}
    return sot.to_static(function, backend=backend, min_graph_size=0, capture_control_flow=True, **settings)


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda it: it.__name__)
def test_results_and_gradients(function, backend):
    static = translated(function, backend)
    for rows in (4, 4, 3, 6):
        for n in (3, 0, 1):
            assert_alike(static, function, np.random.RandomState(rows).randn(rows, 3).astype("float32"), n)
    stats = sot.stats(static)
    assert not stats.fallbacks
    # Dims that Paddle multiplies with the -1 of an open one are no dims for its primitive
    # operators.
    assert bool(stats.graph_breaks) == (function is of_all_numbers and backend == "cinn")


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
def test_counts_of_nothing_have_the_dtype_of_eager_mode(backend):
    def function(x):
        kept = rows_of(x, 100.0)[:, 0]
        return paddle.bincount(kept.astype("int64"), weights=kept)

    static = translated(function, backend)
    for most in (90.0, 90.0, 110.0, 90.0):
        x = paddle.to_tensor([[most, 1.0], [3.0, 4.0]])
        assert static(x).dtype == function(x).dtype
        assert static(x).tolist() == function(x).tolist()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda it: it.__name__)
def test_exported(function, tmp_path):
    specs = [InputSpec([None, 3], "float32", "x"), InputSpec([], "int64", "n")]
    sot.save(function, str(tmp_path / "model"), input_spec=specs)
    loaded = paddle.jit.load(str(tmp_path / "model"))
    for rows in (4, 3, 6, 0):
        for n in (3, 0, 1):
            x = paddle.randn([rows, 3])
            for want, got in zip(function(x, paddle.to_tensor(n)), loaded(x, paddle.to_tensor(n)), strict=True):
                assert (want.shape, want.dtype) == (got.shape, got.dtype)
                np.testing.assert_allclose(want.numpy(), got.numpy(), rtol=1e-5)


class Scaled(PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        return dy * (5 if not dy.stop_gradient else 7)


def of_all(x):
    if x.sum() >= 0:
        y = x * 2
    else:
        y = x * 3
    return y


def of_more(x):
    if x.sum() >= 0:
        y = paddle.concat([x, paddle.ones([1, 4])]) * 2
    else:
        y = paddle.concat([x, paddle.ones([1, 4])])
    return y


OF_GIVEN_ONES = {
    "of_all": of_all,
    "of_more": of_more,
    "custom": lambda x: Scaled.apply(x),
    "again": lambda x: recompute(lambda value: value * 2 + 1, x),
}


@pytest.mark.parametrize("backend", ["paddle", "cinn", "pylayer", "eager"])
@pytest.mark.parametrize("name", OF_GIVEN_ONES)
def test_given_empty_ones(name, backend):
    function = OF_GIVEN_ONES[name]
    static = sot.to_static(function, backend=backend, min_graph_size=0, capture_control_flow=True)
    # Empty first, and after others.
    for size in (0, 3, 0, 2, 0):
        seen = []
        for run in (function, static):
            x = paddle.ones([size, 4])
            x.stop_gradient = False
            y = run(x)
            (y * y).sum().backward()
            seen.append((y.shape, y.numpy(), x.grad.shape, x.grad.numpy()))
        for want, got in zip(*seen, strict=True):
            np.testing.assert_allclose(want, got, rtol=1e-6)
