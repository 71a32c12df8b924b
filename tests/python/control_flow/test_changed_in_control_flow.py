"""Lists, dicts and tensors of the frame that change inside of captured branches and loops."""

import paddle
import paddle_sot_rs as sot
import pytest
from test_control_flow import DATA, check


def item_of_a_list(x):
    a = [x, x * 2]
    if x.sum() > 0:
        a[0] = a[0] + 1
    else:
        a[1] = x * x
    return a[0] * a[1], a


def lists_grow_alike(x):
    a = []
    if x.sum() > 0:
        a.append(x)
        a.append(x * 2)
    else:
        a.extend([x * x, x])
    a.append(x + 3)
    return a


def same_keys(x):
    d = {"k": x}
    if x.sum() > 0:
        d["y"] = x * 2
        d["z"] = 1
    else:
        d["y"] = x * x
        d["z"] = 2
    return d["y"], d


def one_key_on_one_side(x):
    d = {"y": x, "n": 3}
    if x.sum() > 0:
        d["y"] = x * x
    return d["y"] + d["n"], d


def known_under_two_names(x):
    a = b = [x]
    if x.sum() > 0:
        b[0] = x * 3
    a.append(b[0])
    return b


def in_containers(x):
    a = {"l": [x, [x]], "m": 3}
    if x.sum() > 0:
        a["l"][1][0] = x * x
    else:
        a["l"][0] = x + 1
    return a


def returns_on_both_sides(x):
    a = [x, 1]
    if x.sum() > 0:
        a[0] = x * 2
        return a, a[0]
    a[1] = 2
    return a, x


def items_in_a_loop(x):
    a = [x, x * 0, 7]
    while a[0].sum() < 9:
        a[0] = a[0] + 1
        a[1] = a[1] + a[0]
    return a


def dict_in_a_loop(x):
    d = {"y": x, "n": 0, "fixed": x}
    for i in range((x.sum().astype("int64") % 4).abs()):
        d["y"] = d["y"] * 1.5 + d["fixed"]
        d["n"] = d["n"] + i
    return d, d["n"] + 1


def list_in_branch_in_loop(x):
    a = [x, x]
    n = paddle.zeros([], "int64")
    while n < 5:
        if x.sum() + n > 2:
            a[0] = a[0] * 1.1
        else:
            a[1] = a[1] - 1
        if n == 3:
            break
        n = n + 1
    return a, n


def list_in_loop_in_loop(x):
    a = [x, 0]
    n = paddle.zeros([], "int64")
    while n < 3:
        m = paddle.zeros([], "int64")
        while m < n:
            a[0] = a[0] + m
            a[1] = a[1] + 1
            m = m + 1
        n = n + 1
    return a


def returned_list(x):
    a = [x, x]
    for i in range(x.sum().astype("int64").abs() % 5):
        a[1] = a[1] + i
        if a[1].sum() > 7:
            return a
        a[0] = a[0] * 2
    return a


def in_a_method(x):
    class State:
        pass

    state = State()
    state.seen = [x]
    if x.sum() > 0:
        state.seen[0] = x * 2
    return state.seen[0]


CONTAINERS = [
    item_of_a_list,
    lists_grow_alike,
    same_keys,
    one_key_on_one_side,
    known_under_two_names,
    in_containers,
    returns_on_both_sides,
    items_in_a_loop,
    dict_in_a_loop,
    list_in_branch_in_loop,
    list_in_loop_in_loop,
    returned_list,
]


@pytest.mark.parametrize("function", CONTAINERS, ids=lambda function: function.__name__)
def test_containers(function):
    check(function)


def increments(x):
    i = paddle.zeros([1], "int64")
    n = paddle.full([1], 4, "int64")
    while i < n:
        x = x * 1.5
        i = paddle.increment(i)
    return x, i


def increments_without_a_name(x):
    i = paddle.zeros([1])
    j = i
    while i < 5:
        x = x + i
        paddle.increment(i, 2.0)
    return x, i, j


def adds_in_a_branch(x):
    y = x.detach() * 2
    z = y
    if x.sum() > 0:
        y.add_(paddle.ones([3]))
    return y * x, z


def adds_on_both_sides(x):
    y = x.detach() * 2
    if x.sum() > 0:
        y.add_(paddle.ones([3]))
    else:
        y.scale_(3.0)
    y.add_(paddle.ones([3]))
    return x * y


def items_of_tensors(x):
    buffer = paddle.zeros([4, 3])
    n = paddle.zeros([], "int64")
    while n < 3:
        buffer[1] = (x.detach() + n) * 2
        buffer[0, 1] = 5.0
        n = n + 1
    return buffer, n


def clears_or_fills(x):
    y = paddle.zeros([3])
    y[:] = 0
    if x.sum() > 0:
        y[:] = 1
    else:
        y[1:] = 2
    return y * x


def in_both_loops(x):
    i = paddle.zeros([1])
    total = paddle.zeros([3])
    while i < 3:
        j = paddle.zeros([1])
        while j < 2:
            total.add_(paddle.ones([3]))
            paddle.increment(j)
        paddle.increment(i)
    return x * total, i


def copied_for_the_gradient(x):
    y, total = paddle.zeros([1]), x * 0
    for _ in range(paddle.to_tensor(3)):
        kept = y + 0
        y.add_(paddle.ones([1]))
        total = total + x * kept + y
    return total, y


TENSORS = [
    copied_for_the_gradient,
    increments,
    increments_without_a_name,
    adds_in_a_branch,
    adds_on_both_sides,
    items_of_tensors,
    clears_or_fills,
    in_both_loops,
]


@pytest.mark.parametrize("function", TENSORS, ids=lambda function: function.__name__)
def test_tensors(function):
    check(function)


def two_names_for_a_new_tensor(x):
    x = x.detach()
    if x.sum() > 0:
        a = b = x * 2
    else:
        a = x * 3
        b = x * 4
    a.add_(paddle.ones([3]))
    return a, b


def first_one_is_kept(x):
    y = x.detach() * 2
    z = y
    while y.sum() < 20:
        y.add_(paddle.ones([3]))
        y = y * 2 + 9
    return y, z


def other_name(x):
    y = x.detach() * 2
    if x.sum() > 0:
        y.add_(paddle.ones([3]))
        z = y
    else:
        z = x * 3
    return y, z


def grows_in_a_loop(x):
    a = []
    while x.sum() < 20:
        a.append(x)
        x = x + 5
    return a, x


def grows_on_one_side(x):
    a = [x]
    if x.sum() > 0:
        a.append(x * 2)
    return a


def view_of_what_changes(x):
    y = x.detach() * 2
    v = y[1:]
    if x.sum() > 0:
        y.add_(paddle.ones([3]))
    return v * 2, y


def gradient_of_what_changes(x):
    y = x * 2
    i = x.detach().sum() * 0
    while i < 3:
        y.add_(x)
        i = i + 1
    return y


def changes_an_argument(x):
    y = x.detach()
    if x.sum() > 0:
        y.add_(paddle.ones([3]))
    return y


def kept_by_the_round_before(x):
    y, total = paddle.zeros([1]), x * 0
    for _ in range(paddle.to_tensor(3)):
        y.add_(paddle.ones([1]))
        total = total + x * y
    return total, y


def item_kept_by_the_round_before(x):
    y, total = paddle.zeros([3]), x * 0
    for _ in range(paddle.to_tensor(3)):
        y[0] = y[0] + 1.0
        total = total + (x * y).exp()
    return total


def view_kept_by_the_round_before(x):
    y, total = paddle.zeros([3]), x * 0
    for _ in range(paddle.to_tensor(3)):
        y.add_(paddle.ones([3]))
        total = total + x * y[1:2]
    return total


def kept_on_a_side_by_the_round_before(x):
    y, total = [paddle.zeros([1])], x * 0
    for _ in range(paddle.to_tensor(3)):
        if x.sum() > -100:
            y[0].add_(paddle.ones([1]))
            total = total + x * y[0]
    return total


def kept_in_a_branch_in_front(x):
    y, total = paddle.zeros([1]), x * 0
    if x.sum() > -100:
        y.add_(paddle.ones([1]))
        total = x * y
    y.add_(paddle.ones([1]))
    return total


KEPT = [
    kept_by_the_round_before,
    item_kept_by_the_round_before,
    view_kept_by_the_round_before,
    kept_on_a_side_by_the_round_before,
    kept_in_a_branch_in_front,
]


@pytest.mark.parametrize("function", KEPT, ids=lambda function: function.__name__)
def test_what_a_gradient_keeps(function):
    """Eager mode refuses the gradient; without gradients there is nothing to keep."""
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for run in (function, static, static):
        result = run(paddle.to_tensor(DATA[0], stop_gradient=False))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            paddle.utils.flatten(result)[0].sum().backward()
    check(function, grad=False)


def views_of_what_changes_that_are_not_used_again(x):
    y = x.detach() * 1
    for i in range(2):
        if y[i] > 0.5:
            y[i] = y[i + 1] * 2
        else:
            y[i] += 1
    return y


def unused_view_of_what_changes_on_one_side(x):
    y = x * 2
    if (y[1:] > 1).any():
        y.add_(x)
    return y, y[1:] * 3


@pytest.mark.parametrize(
    "function",
    [views_of_what_changes_that_are_not_used_again, unused_view_of_what_changes_on_one_side],
    ids=lambda function: function.__name__,
)
def test_views_that_are_not_used_again(function):
    check(function)


def view_that_gets_another_name(x):
    y = x.detach() * 2
    v = y[1:]
    if x.sum() > 0:
        y.add_(paddle.ones([3]))
        w = v
    else:
        w = x[:2]
    return w, y


REFUSED = [
    view_that_gets_another_name,
    two_names_for_a_new_tensor,
    first_one_is_kept,
    other_name,
    grows_in_a_loop,
    grows_on_one_side,
    view_of_what_changes,
    gradient_of_what_changes,
    changes_an_argument,
]


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_refused(function):
    """The interpreter runs the control flow."""
    with pytest.raises(sot.GraphBreakError):
        sot.to_static(function, full_graph=True)(paddle.to_tensor(DATA[0], stop_gradient=False))
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for numbers in DATA:
        got, want = ((one(paddle.to_tensor(numbers))) for one in (static, function))
        got, want = paddle.utils.flatten(got), paddle.utils.flatten(want)
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert bool((a == b).all()) if isinstance(a, paddle.Tensor) else a == b


def test_arguments_stay_as_they_are():
    """A list that others see is left to the interpreter."""

    def function(x, a):
        if x.sum() > 0:
            a[0] = x * 2
        return a[0] + 1

    with pytest.raises(sot.GraphBreakError):
        sot.to_static(function, full_graph=True)(paddle.ones([1]), [paddle.ones([1])])
