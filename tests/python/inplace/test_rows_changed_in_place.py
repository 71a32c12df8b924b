"""In-place changes of rows and slices of a tensor that the function made: part of the graph where no gradient flows."""

import paddle
import paddle_sot_rs as sot
import pytest

pytestmark = pytest.mark.default_python


def fills_a_row(x):
    y = x * 2
    y[0].fill_(3.0)
    y[1, 1:].zero_()
    return y


def sets_an_item_of_a_row(x):
    y = x * 2
    y[0][1] = 7.0
    y[1][:2] = x[0, 1:]
    y[-1][0] += 5
    return y + 1


def adds_to_a_row(x):
    y = x * 2
    row = y[0]
    row.add_(x[1])
    row.multiply_(row)
    return y, row * 3


def fills_items_in_loops(x):
    y = paddle.zeros([2, 3])
    for i in range(2):
        for j in range(3):
            y[i][j] = x[i, j] * (i + j)
    return y


def hands_out_both(x):
    y = x + 1
    row = y[1]
    row.tanh_()
    row.clip_(-0.5, 0.5)
    return row, y


def of_a_slice_of_a_slice(x):
    y = x.tile([3, 2])
    part = y[1:5, ::2][1:, 1:]
    part.scale_(0.5).add_(paddle.ones(part.shape))
    return y, part.sum()


def in_a_new_axis(x):
    y = x * 1
    y[None][0, 1].fill_(2.0)
    y[..., 0].subtract_(x[:, 1])
    return y


FUNCTIONS = [
    *(fills_a_row, sets_an_item_of_a_row, adds_to_a_row, fills_items_in_loops, hands_out_both),
    *(of_a_slice_of_a_slice, in_a_new_axis),
]


def outcomes(call, trains=False):
    found = []
    for at in range(3):
        x = paddle.arange(6.0).reshape([2, 3]) / 7 + at
        x.stop_gradient = not trains
        try:
            result = call(x)
            kept = paddle.utils.flatten(result)
            values = [each.tolist() for each in kept]
            if trains:
                kept[0].sum().backward()
            else:
                # What shares storage changes together.
                kept[0].fill_(at + 0.5)
                values += [each.tolist() for each in kept]
        except RuntimeError as error:
            values = type(error)
        found.append((values, None if x.grad is None else x.grad.tolist()))
    return found


@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_graph(function):
    translated = sot.to_static(function, min_graph_size=0)
    assert outcomes(translated) == outcomes(function)
    stats = sot.stats(translated)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_without_gradients_in_a_step(function):
    def step(x):
        with paddle.no_grad():
            made = paddle.utils.flatten(function(x.detach()))
        return made[0].sum() * x

    translated = sot.to_static(step, min_graph_size=0)
    assert outcomes(translated, trains=True) == outcomes(step, trains=True)


def another_view_is_used(x):
    y = x * 2
    row, other = y[0], y[0]
    row.fill_(1.0)
    return other + y, other


def reads_what_it_writes(x):
    y = x * 2
    y[0].add_(y[0, 1:2])
    y[1][0] = y[1][1]
    return y


def of_a_reshaped_one(x):
    y = x * 2
    y.reshape([6])[2:4].fill_(9.0)
    y.t()[0].zero_()
    return y


def of_another_shape(x):
    y = x * 2
    y[0].add_(paddle.ones([2, 3]))
    return y


def of_an_argument(x):
    x = x.detach()
    x[0].fill_(2.0)
    x[1][1] = 3.0
    return x * 2


def out_of_range(x):
    y = x * 2
    y[0][5] = 1.0
    return y


def takes_another_dtype(x):
    y = x * 2
    y[0][0] = paddle.to_tensor(2, dtype="int32")
    return y


def in_a_list(x):
    y = x * 2
    rows = [y[0], y[1]]
    for row in rows:
        row.add_(row)
    return y, rows


OTHERS = [
    *(another_view_is_used, reads_what_it_writes, of_a_reshaped_one, of_another_shape, of_an_argument),
    *(out_of_range, takes_another_dtype, in_a_list),
]


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS + OTHERS)
def test_what_is_done_is_right(function, trains):
    def run(call):
        try:
            return outcomes(call, trains)
        except (ValueError, IndexError, TypeError, SystemError) as error:
            return type(error)

    assert run(sot.to_static(function, min_graph_size=0)) == run(function)


def sets_listed_rows(x):
    y = x.tile([2, 1])
    y[[0, 2]] = 1.5
    y[[3, 1]] = x
    return y * 2


def sets_one_listed_row(x):
    y = x * 2
    y[[1]] = x[0:1]
    return y


def sets_a_listed_row_twice(x):
    y = x * 2
    y[[1, 1]] = x
    y[[-1, 0]] = 2.0
    return y


def sets_rows_by_bools(x):
    y = x * 2
    y[[True, False]] = 2.0
    return y


@pytest.mark.parametrize("function", [sets_listed_rows, sets_one_listed_row])
def test_rows_of_a_list_are_in_the_graph(function):
    translated = sot.to_static(function, min_graph_size=0)
    assert outcomes(translated) == outcomes(function)
    stats = sot.stats(translated)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize(
    "function",
    [sets_listed_rows, sets_one_listed_row, sets_a_listed_row_twice, sets_rows_by_bools],
)
def test_rows_of_a_list(function, trains):
    def run(call):
        try:
            return outcomes(call, trains)
        except (ValueError, IndexError, TypeError, SystemError) as error:
            return type(error)

    assert run(sot.to_static(function, min_graph_size=0)) == run(function)
