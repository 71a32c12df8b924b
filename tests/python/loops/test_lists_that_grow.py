"""Lists that grow in captured loops whose number of rounds only the program knows: rows of a tensor."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

pytestmark = pytest.mark.default_python

DATA = [[1.0, 2.0], [3.0, -4.0]]


def stacked(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
    return paddle.stack(out)


def stacked_behind(x, n):
    out = [x]
    for i in range(n):
        out.append(x.sum(-1, keepdim=True) + x * i)
    return paddle.stack(out, axis=1), paddle.stack(x=out, axis=-1), paddle.stack(out, -2)


def concatenated(x, n):
    out, i = [x], paddle.zeros([], "int64")
    while i < n:
        out.append(out[-1] * 2 + len(out))
        i += 1
    return paddle.concat(out), paddle.concat(out, axis=-1), paddle.concat(x=out, axis=1), len(out)


def chosen(x, n):
    out = []
    for i in range(n):
        if (x * i).sum() > 4:
            out.append(x + i)
    if len(out) > 1:
        return out[1]
    return x


def iterated(x, n):
    out = []
    for i in range(n):
        out.append(x[0] * i)
    total = x.sum() * 0
    for place, row in enumerate(out):
        total = total + row.sum() * place
    for row, other in zip(out, out):  # noqa: B905
        total = total + (row * other).sum()
    return total


def loops_in_loops(x, n):
    out = []
    for i in range(n):
        for j in range(i + 1):
            out.append(x * j + i)
    return paddle.concat(out)


def two_in_a_round(x, n):
    out, other = [], [x]
    for i in range(n):
        out.append(x + i)
        out.append(x - i)
        other.append(out[-2] * other[0])
    return paddle.stack(out), paddle.stack(other)


def returned(x, n):
    out, y = [], x
    for _ in range(n):
        y = y * 2
        out.append(y)
    return out, y


def left_early(x, n):
    out = []
    for i in range(n):
        if i == 3:
            break
        out.append(x.sum(-1) + i)
    return paddle.stack(out, axis=1)


def two_loops(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
    for i in range(n):
        out.append(out[i] + 1)
    out.append(x)
    return paddle.stack(out), out[0], out[-1]


def numbers_of_no_dims(x, n):
    out = []
    for i in range(n):
        out.append((x * i).sum())
    return paddle.stack(out)


def whole_numbers(x, n):
    out = []
    for i in range(n):
        out.append(paddle.argmax(x + i, -1))
    return paddle.stack(out)


def asked_whether_it_holds_any(x, n):
    out = []
    for i in range(n):
        if out:
            out.append(out[-1] + x)
        elif (x * i).sum() > 1:
            out.append(x * 5)
    if not out:
        return x, False
    return paddle.stack(out).sum(0), bool(out)


def extended(x, n):
    out, other = [], [x]
    for i in range(n):
        out.extend([x * i, x + i])
        other += (x - i,)
    return paddle.stack(out), paddle.stack(other)


def summed(x, n):
    out = []
    for i in range(n):
        out.append(x * i - 1)
    return sum(out), sum(range(n)), len(range(0, n, 2)), len(range(n, 0, -1))


def reversed_behind_the_loop(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
    out.reverse()
    out.append(x)
    return paddle.stack(out), out[0], out[-2]


FUNCTIONS = (
    reversed_behind_the_loop,
    stacked,
    stacked_behind,
    concatenated,
    chosen,
    iterated,
    loops_in_loops,
    two_in_a_round,
    returned,
    left_early,
    two_loops,
    numbers_of_no_dims,
    whole_numbers,
    asked_whether_it_holds_any,
    extended,
    summed,
)


def outcome(function, n, data=DATA):
    x, n = paddle.to_tensor(data), paddle.to_tensor(n)
    try:
        made = function(x, n)
    except sot.GraphBreakError:
        raise
    except Exception as error:  # noqa: BLE001 - the same one is expected
        return type(error).__name__
    flat = paddle.utils.flatten(made)
    return [(it.tolist(), str(it.dtype), it.stop_gradient) if isinstance(it, paddle.Tensor) else it for it in flat]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_graph(function):
    compiled = translate(function, full_graph=True, capture_control_flow=True)
    for n in (2, 3, 6, 1):
        assert outcome(compiled, n) == outcome(function, n)
    stats = sot.stats(compiled)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_without_a_round_eager_mode_says_what_is_wrong(function):
    compiled = translate(function, full_graph=True, capture_control_flow=True)
    for n in (3, 0, 2):
        assert outcome(compiled, n) == outcome(function, n)
    assert sot.stats(compiled).graphs == 1


def test_where_gradients_are_on_and_none_flows():
    compiled = translate(concatenated, full_graph=True, capture_control_flow=True)
    w = paddle.ones([2], dtype="float32")
    w.stop_gradient = False
    for n in (1, 4):
        x = paddle.to_tensor(DATA)
        (made, *_), (expected, *_) = compiled(x, paddle.to_tensor(n)), concatenated(x, paddle.to_tensor(n))
        assert made.tolist() == expected.tolist() and made.stop_gradient


def test_items_with_gradients_are_refused():
    compiled = translate(stacked, full_graph=True, capture_control_flow=True)
    x = paddle.to_tensor(DATA, stop_gradient=False)
    with pytest.raises(sot.GraphBreakError, match="control flow on a tensor cannot be captured"):
        compiled(x, paddle.to_tensor(3))
    broken = translate(stacked, capture_control_flow=True)
    for n in (2, 4):
        seen = []
        for function in (broken, stacked):
            x = paddle.to_tensor(DATA, stop_gradient=False)
            function(x, paddle.to_tensor(n)).sum().backward()
            seen.append(x.grad.tolist())
        assert seen[0] == seen[1]


# What would see that a row is a copy, or is not known of such a list.
def changes_the_last(x, n):
    out, y = [], x
    for _ in range(n):
        y = y * 2
        out.append(y)
    y.add_(x)
    return paddle.stack(out)


def changes_in_the_round(x, n):
    out = []
    for i in range(n):
        y = x * i
        out.append(y)
        y.add_(x)
    return paddle.stack(out)


def changes_an_item(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
    out[0].add_(x)
    return paddle.stack(out)


def changes_what_was_there(x, n):
    y = x * 2
    out = [y]
    for i in range(n):
        out.append(x * i)
    y.add_(x)
    return paddle.stack(out)


def asks_for_identity(x, n):
    out, y = [], x
    for _ in range(n):
        y = y * 2
        out.append(y)
    return out[-1] is y, out[0] is y


def appends_while_it_iterates(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
    for row in out:
        if len(out) < 5:
            out.append(row + 1)
    return paddle.stack(out)


def takes_the_last(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
    return out.pop(), len(out)


def changes_what_was_taken(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
    last = out.pop()
    out.append(last)
    last.add_(x)
    return paddle.stack(out)


def changes_a_part(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
    part = out[::-1]
    part[0].add_(x)
    return paddle.stack(out), paddle.stack(part)


def adds_lists(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
    return paddle.stack(out + [x])


@pytest.mark.parametrize(
    "function",
    [
        changes_the_last,
        changes_in_the_round,
        changes_an_item,
        changes_what_was_there,
        asks_for_identity,
        appends_while_it_iterates,
        changes_what_was_taken,
        changes_a_part,
        adds_lists,
    ],
)
def test_what_would_see_it_is_left_to_the_interpreter(function):
    compiled = translate(function, capture_control_flow=True)
    for n in (2, 3, 1):
        assert outcome(compiled, n) == outcome(function, n)
    with pytest.raises(sot.GraphBreakError):
        outcome(translate(function, full_graph=True, capture_control_flow=True), 3)


def test_the_last_is_taken():
    compiled = translate(takes_the_last, full_graph=True, capture_control_flow=True)
    for n in (2, 3, 1):
        assert outcome(compiled, n) == outcome(takes_the_last, n)
    assert outcome(translate(takes_the_last, capture_control_flow=True), 0) == outcome(takes_the_last, 0)


def test_arguments_that_are_appended_are_not_changed():
    def f(x, n):
        out = [x]
        for _ in range(n):
            out.append(x)
        x.add_(paddle.ones([2, 2]))
        return paddle.stack(out)

    compiled = translate(f, capture_control_flow=True)
    for n in (2, 3):
        assert outcome(compiled, n) == outcome(f, n)


def other_shapes(x, n):
    out = []
    for i in range(n):
        out.append(x[: i + 1])
    return paddle.concat(out)


def stacks_other_shapes(x, n):
    out = []
    for i in range(n):
        out.append(x[:, : i + 1])
    return paddle.stack(out)


@pytest.mark.parametrize("function", [other_shapes, stacks_other_shapes])
def test_items_that_do_not_fit_are_left_to_eager_mode(function):
    compiled = translate(function, capture_control_flow=True)
    for n in (1, 2, 3):
        assert outcome(compiled, n) == outcome(function, n)


def test_numbers_of_such_lists_are_numbers():
    compiled = translate(concatenated, full_graph=True, capture_control_flow=True)
    made = compiled(paddle.to_tensor(DATA), paddle.to_tensor(4))
    assert type(made[-1]) is int and np.asarray(made[0]).shape == (10, 2)
