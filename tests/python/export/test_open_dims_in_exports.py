"""Programs with open dims: quotients, lists of sizes, reshapes that copy at some sizes, and sizes as results."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.nn import functional as F
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

SHAPES = [(2, 3), (1, 1), (7, 9), (4, 4), (5, 2), (3, 8)]


def equal(found, wanted):
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.numpy().tobytes() == wanted.numpy().tobytes()


def exported(function, path, *spec):
    sot.save(function, str(path / "m"), input_spec=[InputSpec(list(spec), "float32", "x")])
    return paddle.jit.load(str(path / "m"))


QUOTIENTS = {
    "of one": lambda x: 1 / (1 + paddle.exp(-x)),
    "of a float": lambda x: 0.1 / x,
    "of a sum": lambda x: x / (2 / x.abs().sum(1, keepdim=True)),
    "by whole numbers": lambda x: 3 / (x * 10).astype("int64"),
    "by doubles": lambda x: 0.1 / x.astype("float64"),
}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients_of_a_number(name, tmp_path):
    """Bit by bit: eager mode divides a tensor as large as the divisor."""
    function = QUOTIENTS[name]
    loaded = exported(function, tmp_path, None, None)
    for shape in [*SHAPES, (0, 3)]:
        x = paddle.randn(shape)
        equal(loaded(x), function(x))


def test_gradients_of_quotients_with_open_dims():
    def function(x):
        return (1 / (1 + x * x)).sum()

    translated = sot.to_static(function, dynamic=True, min_graph_size=0)
    for shape in SHAPES:
        grads = []
        for call in (function, translated):
            paddle.seed(1)
            x = paddle.randn(shape)
            x.stop_gradient = False
            call(x).backward()
            grads.append(x.grad.tolist())
        assert grads[0] == grads[1]
    assert sot.stats(translated).graph_breaks == []


LISTS = {
    "index": lambda x: paddle.gather(x, paddle.to_tensor([x.shape[0] - 1])),
    "shape": lambda x: paddle.to_tensor(x.shape) * 2,
    "with constants": lambda x: x + paddle.to_tensor([x.shape[0], 3, x.shape[1]]).sum(),
    "floats": lambda x: x * paddle.to_tensor([x.shape[0] * 0.5, 1.0]).sum(),
    "as floats": lambda x: paddle.to_tensor((x.shape[0], x.shape[1]), dtype="float32") * x.sum(),
    "as int32": lambda x: paddle.to_tensor([x.shape[0], x.shape[1]], dtype="int32") + 1,
}


@pytest.mark.parametrize("name", LISTS)
def test_tensors_of_lists_of_sizes(name, tmp_path):
    function = LISTS[name]
    loaded = exported(function, tmp_path, None, None)
    for shape in SHAPES:
        x = paddle.randn(shape)
        equal(loaded(x), function(x))


CONDITIONS = {
    "times": lambda x: x * (x.shape[0] > 2),
    "plus": lambda x: (x.shape[1] == 3) + x.astype("int64"),
    "minus": lambda x: x.astype("float64") - (x.shape[0] < x.shape[1]),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_on_sizes_are_numbers(name, tmp_path):
    function = CONDITIONS[name]
    loaded = exported(function, tmp_path, None, None)
    for shape in SHAPES:
        x = paddle.randn(shape)
        equal(loaded(x), function(x))


def test_sizes_are_results(tmp_path):
    """As files of `paddle.jit.save` have them: a program computes them where dims are open."""

    def function(x):
        return {"a": x.sum(), "b": [x.shape[0], x.shape[1] * 2 + 1], "c": 1 / x.shape[0], "d": x.ndim}

    loaded = exported(function, tmp_path, None, None)
    for shape in SHAPES:
        x = paddle.randn(shape)
        total, rows, columns, part = loaded(x)
        equal(total, x.sum())
        assert [rows.item(), columns.item()] == [shape[0], shape[1] * 2 + 1]
        assert (rows.dtype, columns.dtype) == (paddle.int64, paddle.int64)
        assert part.item() == pytest.approx(1 / shape[0])


class Windows(nn.Layer):
    """Its reshapes of transposed views copy at some sizes."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2D(3, 4, 2, 2), nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x).transpose([0, 2, 3, 1])
        b, h, w, c = x.shape
        x = x.reshape([b, h // 4, 4, w // 4, 4, c]).transpose([0, 1, 3, 2, 4, 5]).reshape([-1, 16, c])
        x = F.softmax(x @ x.transpose([0, 2, 1])) @ self.last(x)
        return x.reshape([b, h // 4, w // 4, 4, 4, c]).transpose([0, 1, 3, 2, 4, 5]).reshape([b, h, w, c])


def test_reshapes_that_copy_at_some_sizes(tmp_path):
    net = Windows()
    net.eval()
    loaded = exported(net, tmp_path, None, 3, None, None)
    for shape in ([2, 3, 8, 16], [1, 3, 16, 8], [3, 3, 24, 8], [1, 3, 8, 8]):
        x = paddle.randn(shape)
        np.testing.assert_allclose(loaded(x).numpy(), net(x).numpy(), rtol=1e-5, atol=1e-6)


def test_views_that_are_copies_at_some_sizes_change_as_in_eager_mode(tmp_path):
    """Refused, or equal: what is written to a view is there in what it is a view of."""

    def function(x):
        base = x * 1
        base.transpose([1, 0]).reshape([x.shape[1], x.shape[0]]).add_(paddle.ones([]))
        return base

    try:
        loaded = exported(function, tmp_path, None, None)
    except sot.GraphBreakError:
        return
    for shape in SHAPES:
        x = paddle.randn(shape)
        equal(loaded(x), function(x))


def set_by_mask(key, value, of=lambda x: x * 1):
    def function(x):
        y = of(x)
        y[key(x, y)] = value
        return y

    return function


MASKS = {
    "of itself": set_by_mask(lambda x, y: y < 0, 0),
    "of what it is made of": set_by_mask(lambda x, y: x.abs() > 0.5, 0.25),
    "rows": set_by_mask(lambda x, y: x[:, 0] > 0, -1.0),
    "whole numbers": set_by_mask(lambda x, y: y > 1, 7, of=lambda x: (x * 3).astype("int64") + 1),
    "two": lambda x: set_by_mask(lambda _, y: y > 0, 1.0)(set_by_mask(lambda _, y: y < -0.5, 0.0)(x)),
}


@pytest.mark.parametrize("name", MASKS)
def test_items_that_a_mask_chooses(name, tmp_path):
    function = MASKS[name]
    loaded = exported(function, tmp_path, None, 4)
    for rows in (1, 0, 2, 3, 5, 8):
        x = paddle.randn([rows, 4])
        equal(loaded(x), function(x))


def test_a_mask_of_another_size_fails(tmp_path):
    """As in eager mode: a program would take one row for all."""

    def function(x, other):
        y = x * 1
        y[other > 0] = 0.0
        return y

    spec = [InputSpec([None, 4], "float32", name) for name in ("x", "other")]
    sot.save(function, str(tmp_path / "m"), input_spec=spec)
    loaded = paddle.jit.load(str(tmp_path / "m"))
    x = paddle.randn([3, 4])
    equal(loaded(x, -x), function(x, -x))
    for rows in (1, 2):
        for call in (function, loaded):
            with pytest.raises((RuntimeError, ValueError, IndexError)):
                call(x, paddle.ones([rows, 4]))


SIGNALS = {
    "spectrum": lambda x: paddle.fft.rfft(x).real(),
    "frames": lambda x: paddle.signal.frame(x, 16, 8).sum(1),
    "along the first": lambda x: paddle.signal.frame(x.T, 16, 8, axis=0).mean([0, 1]),
    "spectrum of frames": lambda x: paddle.fft.rfft(paddle.signal.frame(x, 16, 8).transpose([0, 2, 1])).abs(),
}


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("length", [None, 48])
def test_signals_of_open_length(name, length, tmp_path):
    function = SIGNALS[name]
    loaded = exported(function, tmp_path, None, length)
    for rows, size in ((1, 48), (2, 64), (3, 50), (5, 33)):
        x = paddle.randn([rows, length or size])
        np.testing.assert_allclose(loaded(x).numpy(), function(x).numpy(), rtol=1e-5, atol=1e-5)


class Columns(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = self.create_parameter([4, 3])

    def forward(self, x):
        return paddle.gather(self.table, paddle.arange(x.shape[0]) % 3, 1) * 2


def test_columns_of_a_parameter(tmp_path):
    layer = Columns()
    loaded = exported(layer, tmp_path, None)
    for size in (0, 1, 2, 7):
        equal(loaded(paddle.ones([size])), layer(paddle.ones([size])))
