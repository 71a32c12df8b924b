"""Tensors made of NumPy arrays, of tensors and of lists of tensors inside of functions; `to`, `cpu` and `increment`."""

import warnings

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest


def same(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.stop_gradient == other.stop_gradient
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def batch(array, weight):
    x = paddle.to_tensor(array)
    y = paddle.to_tensor(data=array, dtype="float32", place=None, stop_gradient=True)
    x += 1
    return x, y * weight


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_arrays_are_inputs_of_the_graph(dtype):
    static = sot.to_static(batch, min_graph_size=0, full_graph=True)
    weight = paddle.to_tensor([2.0], stop_gradient=False)
    for start in range(3):
        array = np.arange(start, start + 6).reshape(2, 3).astype(dtype)
        same(static(array, weight), batch(array, weight))
    assert (sot.stats(static).translations, sot.stats(static).graphs) == (1, 1)
    other = np.ones((4, 1), dtype)
    same(static(other, weight), batch(other, weight))
    same(static(other[::-1], weight), batch(other[::-1], weight))
    assert sot.stats(static).translations == 2


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32", "float64"])
def test_assign(dtype):
    def function(array):
        return paddle.assign(array), paddle.assign(x=array)

    static = sot.to_static(function, min_graph_size=0, full_graph=True)
    for start in range(3):
        array = np.arange(start, start + 3).astype(dtype)
        same(static(array), function(array))
    assert sot.stats(static).translations == 1


def test_the_array_is_read_at_each_call():
    static = sot.to_static(lambda a: paddle.to_tensor(a) * 2, min_graph_size=0)
    array = np.zeros(3, "float32")
    for value in range(4):
        array[:] = value
        np.testing.assert_array_equal(static(array).numpy(), array * 2)
    result = static(array)
    array[:] = 77
    np.testing.assert_array_equal(result.numpy(), [6.0, 6.0, 6.0])
    assert sot.stats(static).translations == 1


def test_an_array_in_a_layer_whose_shape_changes():
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.table = np.arange(6, dtype="float32")

        def forward(self, x):
            return x + paddle.to_tensor(self.table)

    net = Net()
    static = sot.to_static(net.forward, min_graph_size=0)
    x = paddle.ones([1])
    for _ in range(3):
        same([static(x)], [Net.forward(net, x)])
    net.table.resize((2, 3), refcheck=False)
    same([static(x)], [Net.forward(net, x)])
    net.table = net.table.astype("float64")
    x = x.astype("float64")
    same([static(x)], [Net.forward(net, x)])


def test_subclasses_and_other_arrays_are_left_to_the_interpreter():
    class Mine(np.ndarray):
        pass

    static = sot.to_static(lambda a: paddle.to_tensor(a) + 1, min_graph_size=0)
    np.testing.assert_array_equal(static(np.ones(2).view(Mine)).numpy(), [2.0, 2.0])
    with pytest.raises(ValueError):
        static(np.array(["text"]))


def test_one_array_twice():
    def function(a, b):
        return paddle.to_tensor(a) * paddle.to_tensor(b) + paddle.to_tensor(a)

    static = sot.to_static(function, min_graph_size=0, full_graph=True)
    for value in (1.0, 2.0):
        one, other = np.full(2, value, "float32"), np.full(2, value + 1, "float32")
        same([static(one, one)], [function(one, one)])
        same([static(one, other)], [function(one, other)])


def test_control_flow_on_an_array():
    def function(a):
        x = paddle.to_tensor(a)
        while x.sum() < 10:
            x = x * 2
        return x if x.max() > 5 else -x

    static = sot.to_static(function, full_graph=True)
    for array in (np.ones(2, "float32"), np.array([0.1, 3], "float32"), np.full(2, 100, "float32")):
        same([static(array)], [function(array)])
    assert sot.stats(static).translations == 1


def test_copies_of_tensors():
    def function(x):
        y = paddle.to_tensor(x)
        y += 1
        z = x * 2
        return y, paddle.to_tensor(z, dtype="int64"), paddle.to_tensor([x, z]), x + y

    paddle.to_tensor(paddle.ones([1]))  # Paddle warns once.
    static = sot.to_static(function, min_graph_size=0, full_graph=True)
    x = paddle.to_tensor([1.5, -2.0], stop_gradient=False)
    found, wanted = static(x), function(x)
    same(found, wanted)
    found[3].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, 1.0])
    assert sot.stats(static).graphs == 1


def test_the_warning_about_copies_of_tensors(monkeypatch):
    monkeypatch.setattr(paddle.tensor.creation, "_warned_in_tensor", False)
    static = sot.to_static(lambda x: paddle.to_tensor(x) + 1, min_graph_size=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            static(paddle.ones([2]))
    assert ["clone" in str(warning.message) for warning in caught] == [True]


def test_a_leaf_is_left_to_the_interpreter():
    def function(x):
        y = paddle.to_tensor(x.numpy(), stop_gradient=False)
        (y * y).sum().backward()
        return y.grad

    static = sot.to_static(function, min_graph_size=0)
    x = paddle.to_tensor([1.0, 3.0])
    np.testing.assert_array_equal(static(x).numpy(), function(x).numpy())


@pytest.mark.skipif(paddle.is_compiled_with_cuda(), reason="one place only")
@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.to("cpu"),
        lambda x: x.to("float64"),
        lambda x: x.to("float32"),
        lambda x: x.to(paddle.float32),
        lambda x: x.to("cpu", "float64"),
        lambda x: x.to("cpu", dtype="int32", blocking=True),
        lambda x: x.to(paddle.ones([1], "float64")),
        lambda x: x.to(dtype=paddle.float64, blocking=False),
        lambda x: x.to(other=x, non_blocking=True),
        lambda x: x.cpu(),
    ],
)
def test_to(move):
    def function(x):
        y = move(x)
        return y * 2, y

    static = sot.to_static(function, min_graph_size=0)
    for stop in (True, False):
        x = paddle.to_tensor([1.0, 2.5], stop_gradient=stop)
        found, wanted = static(x), function(x)
        same(found, wanted)
        assert (found[1] is x) == (wanted[1] is x)
    breaks = sot.stats(static).graph_breaks
    # A tensor of whole numbers that says it has a gradient is left to eager mode.
    assert len(breaks) == (1 if wanted[1].dtype == paddle.int32 else 0)


def test_to_under_no_grad():
    def function(x):
        with paddle.no_grad():
            return x.to("float64")

    static = sot.to_static(function, min_graph_size=0)
    x = paddle.to_tensor([1.0], stop_gradient=False)
    same([static(x)], [function(x)])


def test_increment():
    def function(x):
        i = paddle.zeros([1], "int64")
        j = paddle.full([], 1.5)
        k = paddle.increment(i)
        paddle.increment(j, value=2.0)
        for _ in range(3):
            x = x + i.astype("float32")
            i = paddle.increment(i, 2)
        return x, j, k + i

    static = sot.to_static(function, full_graph=True)
    for value in (0.0, 3.0):
        x = paddle.full([1], value)
        same(static(x), function(x))
    assert sot.stats(static).graphs == 1


def test_increment_of_several_numbers_raises():
    static = sot.to_static(lambda x: paddle.increment(paddle.zeros([2])) + x, min_graph_size=0)
    with pytest.raises(ValueError, match="should be 1"):
        static(paddle.ones([2]))


def test_increment_of_an_argument():
    static = sot.to_static(lambda x: paddle.increment(x) * 2, min_graph_size=0)
    x = paddle.to_tensor([1.0])
    np.testing.assert_array_equal(static(x).numpy(), [4.0])
    np.testing.assert_array_equal(x.numpy(), [2.0])


def test_dims_that_differ_become_dynamic():
    def function(array, weight):
        x = paddle.to_tensor(array)
        rows = x.shape[0]
        if rows > 12:
            x = x - 1
        return paddle.tanh(x @ weight).reshape([rows, 2, 2]).sum(axis=0) * 2, rows

    weight = paddle.arange(16, dtype="float32").reshape([4, 4]) / 10
    translated = sot.to_static(function, min_graph_size=0)
    for rows in (3, 4, 7, 2, 12, 13, 20, 1, 9, 30, 0, 5):
        array = np.arange(rows * 4, dtype="float32").reshape(rows, 4) / 50
        expected, actual = function(array, weight), translated(array, weight)
        assert np.array_equal(expected[0].numpy(), actual[0].numpy()) and expected[1] == actual[1] == rows
    record = sot.stats(translated)
    # 3 rows, any number up to 12, any above, 1 and 0.
    assert (record.graphs, record.translations) == (5, 5), record
    assert (record.graph_breaks, record.fallbacks) == ([], []), record
