"""What rounds of a captured loop hand on, of tensors that later rounds change in place: it changes too."""

import paddle
import paddle_sot_rs as sot
import pytest


def appended(x, n):
    y, out = x * 1, []
    for _ in range(n):
        y.multiply_(x)
        out.append(y)
    return out, y


def appended_to_a_list_that_is_not_empty(x, n):
    y, out = x * 1, [x]
    for i in range(n):
        y[i % 3] = 7.0
        out += [y, y + 1]
    return paddle.stack(out)


def appended_as_a_view(x, n):
    y, out = x * 1, [x.reshape([3, 1])]
    for _ in range(n):
        y.add_(x)
        out.append(y.reshape([3, 1]))
    return paddle.stack(out)


def appended_as_a_view_on_one_way(x, n):
    y, out = x * 1, [x]
    for i in range(n):
        y.add_(x)
        out.append(y.reshape([3]) if i < 1 else y * 2)
    return paddle.stack(out)


def appended_behind_an_inner_loop(x, n):
    y, out = x * 1, [x]
    for _ in range(n):
        y.add_(x)
        for j in range(n):
            out.append(y * j)
        out.append(y)
    return paddle.stack(out)


def appended_as_the_same_dtype(x, n):
    y, out = x * 1, [x]
    for _ in range(n):
        y.add_(x)
        out.append(y.astype("float32"))
    return paddle.stack(out)


def appended_until_a_tensor_ends_it(x, n):
    y, out = x * 1, [x]
    for _ in range(40):
        y.multiply_(x)
        out.append(y)
        if y.max() > n:
            break
    return paddle.stack(out)


def kept_on_one_way(x, n):
    y, z = x * 1, x * 3
    for i in range(n):
        y.add_(x)
        if i < 1:
            z = y
    return z * 1


def view_kept_on_one_way(x, n):
    y, z = x * 1, x[1:] * 3
    i = paddle.to_tensor(0)
    while i < n:
        y.add_(x)
        if i < 1:
            z = y[1:]
        i += 1
    return z * 1


def view_of_the_round_before(x, n):
    y, v = x * 1, x[1:] * 1
    before = v
    for _ in range(n):
        y.add_(x)
        before = v
        v = y[1:]
    return before + v


def detached_in_the_round_before(x, n):
    y, v, total = x * 1, x * 1, x * 0
    for _ in range(n):
        y.add_(x)
        total = total + v
        v = y.detach()
    return total


def item_of_a_list(x, n):
    y, kept = x * 1, [x * 3]
    for i in range(n):
        y.add_(x)
        if i < 1:
            kept[0] = y
    return kept[0] * 1


def item_of_a_dict(x, n):
    y, kept = x * 1, {"a": x * 3}
    for i in range(n):
        y.add_(x)
        if i < 1:
            kept["a"] = y
    return kept["a"] * 1


def item_of_a_tuple(x, n):
    y, kept = x * 1, (x * 3, 1)
    for i in range(n):
        y.add_(x)
        if i < 1:
            kept = (y, 2)
    return kept[0] * 1


def item_of_a_tuple_that_moves_on(x, n):
    y, kept = x * 1, (x * 0, x * 2)
    for _ in range(n):
        y.add_(x)
        kept = (kept[1], y)
    return kept[0] * 1


SHARED = [
    appended,
    appended_to_a_list_that_is_not_empty,
    appended_as_a_view,
    appended_as_a_view_on_one_way,
    appended_behind_an_inner_loop,
    appended_as_the_same_dtype,
    appended_until_a_tensor_ends_it,
    kept_on_one_way,
    view_kept_on_one_way,
    view_of_the_round_before,
    detached_in_the_round_before,
    item_of_a_list,
    item_of_a_dict,
    item_of_a_tuple,
    item_of_a_tuple_that_moves_on,
]


def copies(x, n):
    y, out = x * 1, [x]
    for _ in range(n):
        y.add_(x)
        out.append(y.clone())
    return paddle.stack(out), y


def made_anew_in_each_round(x, n):
    y, out = x * 1, [x]
    for _ in range(n):
        y = y * 1
        y.add_(x)
        out.append(y)
    return paddle.stack(out)


def best_as_a_copy(x, n):
    y, best = x * 1, x * 0
    for _ in range(n):
        y.add_(x)
        if y.sum() > best.sum():
            best = y * 1
    return best


def view_that_no_round_reads(x, n):
    y, v = x * 1, x[1:] * 1
    for _ in range(n):
        y.add_(x)
        v = y[1:]
    return v * 1


def returned_from_inside(x, n):
    y = x * 1
    for i in range(n):
        y.add_(x)
        if y.sum() > 8:
            return y, i
    return y * 2, -1


CAPTURED = [copies, made_anew_in_each_round, best_as_a_copy, view_that_no_round_reads, returned_from_inside]


def named(function):
    return function.__name__


def same_results(function, static):
    for n in (3, 1, 0, 5, 2, 3):
        want, got = (
            paddle.utils.flatten(run(paddle.to_tensor([0.5, 2.0, 3.0]), paddle.to_tensor(n)))
            for run in (function, static)
        )
        assert [it.tolist() if isinstance(it, paddle.Tensor) else it for it in got] == [
            it.tolist() if isinstance(it, paddle.Tensor) else it for it in want
        ]


@pytest.mark.parametrize("function", SHARED, ids=named)
def test_the_interpreter_runs_what_shares_storage(function):
    same_results(function, sot.to_static(function, capture_control_flow=True, min_graph_size=0))
    with pytest.raises(sot.GraphBreakError):
        sot.to_static(function, full_graph=True)(paddle.to_tensor([0.5, 2.0, 3.0]), paddle.to_tensor(3))


@pytest.mark.parametrize("function", CAPTURED, ids=named)
def test_is_captured(function):
    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    same_results(function, static)
    assert sot.stats(static).graphs == 1
