"""What Python does with numbers that only the graph knows, and programs would do otherwise: `is`, sums that no `int64`
holds, bools that choose a dtype, axes."""

import paddle
import paddle_sot_rs as sot
import pytest

LARGE = 2**63 - 1
SENTINEL = 2**62 + 5


def is_true(x):
    b = x.item() > 2
    return b is True, b is not True, b is False, b is None, (b if b is not None else 3)


def is_itself(x):
    n = x.item()
    other = n
    return n is other, n is None, n is not None, n is x


def branch_by_identity(x):
    flag = bool(x > 2)
    if flag is True:
        return x * 2
    return x + 1


def large_constants(x):
    n = x.item()
    return n + 2**62 + 2**62, n - 2**62 - 2**62 - 9, -(2**63) - n


def steps(x):
    n = x.item()
    return n + 1, n - 1, n + 2**24, n * 3 - 7


def counts_from_the_largest(x):
    best = LARGE
    while x < 5:
        best = best + 1
        x = x + 1
    return best, x


def chosen_by_the_graph(x):
    n = LARGE if x > 2 else 0
    return n + 1, x + 1


def large_rounds(x):
    total = 0
    while x < 5:
        total = total + 2**61
        x = x + 1
    return total, x


def filled_with_a_bool(x):
    b = x.item() > 2
    return paddle.full([2], b), paddle.full([2], b, "float32"), paddle.full_like(x, b)


def axes(x):
    axis = x.item() % 2
    m = paddle.arange(6).reshape([2, 3]) + x
    return (
        m.flip(axis),
        paddle.flip(m, axis),
        paddle.roll(m, 1, axis),
        paddle.swapaxes(m, axis, 0),
        m.roll(1, axis=axis),
    )


FUNCTIONS = [
    is_true,
    is_itself,
    branch_by_identity,
    large_constants,
    steps,
    counts_from_the_largest,
    chosen_by_the_graph,
    large_rounds,
    filled_with_a_bool,
    axes,
]


def picture(value):
    if isinstance(value, tuple):
        return [picture(item) for item in value]
    if isinstance(value, paddle.Tensor):
        return (str(value.dtype), value.shape, value.tolist())
    return (type(value), value)


@pytest.mark.parametrize("backend", ["paddle", "eager"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_numbers_are_pythons(function, backend):
    static = sot.to_static(function, min_graph_size=0, capture_control_flow=True, backend=backend)
    # No loop goes on to numbers that a tensor wraps around to.
    values = [3, 0, -7, 4, LARGE - 1, SENTINEL, 3] if function in (steps, is_true, is_itself) else [3, 0, -7, 4, 3]
    for value in values:
        x = paddle.to_tensor(value)
        assert picture(static(x)) == picture(function(x)), value


def test_steps_are_one_graph():
    static = sot.to_static(steps, min_graph_size=0, full_graph=True)
    for value in (3, -7, 0):
        x = paddle.to_tensor(value)
        assert picture(static(x)) == picture(steps(x))
    assert sot.stats(static).graphs == 1


def stops_on_one_way(x):
    y = x.detach() if x.sum() > 0 else x * 2
    z = y * 2
    return z + 1 if z.stop_gradient else z


def stops_without_rounds(x):
    y = x.detach()
    while y.sum() < 6:
        y = y + x
    return y, y.stop_gradient


@pytest.mark.parametrize("function", [stops_on_one_way, stops_without_rounds], ids=lambda function: function.__name__)
def test_whether_gradients_stop_is_up_to_the_way(function):
    static = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    for values in ([9.0, 1.0], [-1.0, 0.5], [1.0, 1.0], [2.0, 1.0]):
        x = paddle.to_tensor(values, stop_gradient=False)
        if function is stops_without_rounds and x.sum() < 1:
            continue
        assert picture(static(x)) == picture(function(x)), values


LIMITED = {
    "eye": lambda x, n: paddle.eye(n) + x.sum(),
    "columns": lambda x, n: paddle.eye(3, num_columns=n) + x.sum(),
    "topk": lambda x, n: x.topk(n)[0],
    "topk of Paddle": lambda x, n: paddle.topk(x, k=n)[0] * 2,
}


@pytest.mark.parametrize("name", LIMITED)
def test_numbers_that_kernels_do_not_look_at(name):
    """`eye` of no rows would not end. One graph for all dims that are not too small; the graph's numbers break it."""
    function = LIMITED[name]
    of_dims = sot.to_static(lambda x: function(x, x.shape[0] - 3), min_graph_size=0)
    of_graph = sot.to_static(lambda x: function(x, int(x[0])), min_graph_size=0, capture_control_flow=True)

    def outcome(run, *args):
        try:
            return picture(run(*args))
        except (TypeError, ValueError) as error:
            return type(error)

    for size in (6, 5, 7, 4):
        x = paddle.arange(1.0, size + 1)
        assert outcome(of_dims, x) == outcome(function, x, size - 3)
    assert sot.stats(of_dims).graphs == 2 and not sot.stats(of_dims).graph_breaks
    for size in (3, 2, 8):
        x = paddle.arange(1.0, size + 1)
        assert outcome(of_dims, x) == outcome(function, x, size - 3)
    for number in (2.0, 1.0, 0.0, -1.0, 3.0):
        x = paddle.to_tensor([number, 5.0, 4.0, 1.0])
        assert outcome(of_graph, x) == outcome(function, x, int(number))
