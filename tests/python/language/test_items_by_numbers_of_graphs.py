"""Items of lists and tuples, and of tensors that are set, by a number that only the graph knows."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec
from support import eager_deletion
from test_loop_variables import DATA, observe, same, w

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


def item_of_a_list(x):
    parts = [x * w, x + w, x - 1]
    total = x
    for at in range(paddle.to_tensor(3)):
        total = total + parts[at] * (at + 1)
    return total


def item_of_a_tuple_from_the_end(x):
    parts = (x * w, x + w)
    at = paddle.to_tensor(-1)
    total = x
    while total.sum() < 10:
        total = total + parts[at].abs() + 1
        at = -3 - at
    return total


def item_that_a_tensor_says(x):
    parts = [x, x * w, x + 2]
    return parts[x.argmax()] * 2 + parts[x.argmin() - 3]


def pairs_of_a_list(x):
    pairs = [(x * w, 1.0), (x + 1, 2.0)]
    total = x
    for at in range(paddle.to_tensor(2)):
        part, scale = pairs[at]
        total = total + part * scale
    return total


def items_that_are_set(x):
    parts = [x] * 4
    for at in range(paddle.to_tensor(2)):
        parts[at] = x * w * (at + 2)
    return paddle.stack(parts)


def item_that_is_set_by_a_tensor(x):
    parts = [x * w, x, x + 1]
    parts[x.argmax()] = x * x
    return paddle.stack(parts).sum(0), parts[-1]


FUNCTIONS = [
    *(item_of_a_list, item_of_a_tuple_from_the_end, item_that_a_tensor_says, pairs_of_a_list),
    *(items_that_are_set, item_that_is_set_by_a_tensor),
]


@pytest.mark.parametrize("backend", ["paddle", "eager"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_one_graph(function, backend):
    static = sot.to_static(function, full_graph=True, min_graph_size=0, backend=backend)
    for grad in (True, False):
        for numbers in (*DATA, *DATA):
            same(observe(static, numbers, grad), observe(function, numbers, grad))
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (2, [], [])


def picked(x, at):
    return [x, x * 2, x * 3][at] + 1


def put(x, at):
    y = x * 2
    y[at] = 7.0
    return y


def put_in_a_row(x, at):
    y = paddle.zeros([2, 3])
    y[1, at] = x.sum()
    y[at, 1:] = x[1:]
    return y


def put_in_a_while(x, at):
    y = paddle.zeros_like(x)
    while at < x.shape[0]:
        y[at] = x[at] * 2
        at = at + 1
    return y


def put_in_a_for(x, at):
    y = paddle.zeros_like(x)
    for i in range(at + 3):
        y[i - 1] = x[i] * 2
    return y


SETS = [put, put_in_a_row, put_in_a_while, put_in_a_for]


@pytest.mark.parametrize("function", [picked, *SETS], ids=lambda f: f.__name__)
def test_places_in_range(function):
    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    for numbers, at in zip(DATA * 2, (0, -1, -2, 0, -1, -2, -2, 0), strict=True):
        x = paddle.to_tensor(numbers)
        got, want = (f(x, paddle.to_tensor(at)) for f in (static, function))
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


@pytest.mark.parametrize("function", [picked, put], ids=lambda f: f.__name__)
def test_places_out_of_range(function):
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    x = paddle.to_tensor(DATA[0])
    for at in (1, 3, -3, -4, 2):
        outcomes = []
        for f in (static, function):
            try:
                outcomes.append(f(x, paddle.to_tensor(at)).numpy().tolist())
            except (IndexError, ValueError) as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("function", SETS, ids=lambda f: f.__name__)
def test_export(function, tmp_path):
    path = str(tmp_path / "saved")
    sot.save(function, path, input_spec=[InputSpec([3], "float32", "x"), InputSpec([], "int64", "at")])
    loaded = paddle.jit.load(path)
    for numbers, at in zip(DATA, (0, -1, -2, 0), strict=True):
        x, at = paddle.to_tensor(numbers), paddle.to_tensor(at)
        with eager_deletion():
            found = loaded(x, at)
        np.testing.assert_array_equal(found.numpy(), function(x, at).numpy())


def test_rows_of_an_open_size_are_set(tmp_path):
    def doubled(x):
        y = paddle.zeros_like(x)
        for at in range(x.shape[0]):
            y[-1 - at] = x[at] * 2
        return y

    path = str(tmp_path / "saved")
    sot.save(doubled, path, input_spec=[InputSpec([None, 2], "float32", "x")])
    loaded = paddle.jit.load(path)
    for rows in (1, 4, 2, 7):
        x = paddle.randn([rows, 2])
        with eager_deletion():
            found = loaded(x)
        np.testing.assert_array_equal(found.numpy(), doubled(x).numpy())
