"""Tensors that captured control flow may leave as they were, and that are changed in place afterwards."""

import paddle
import paddle_sot_rs as sot
import pytest
from paddle.distributed.fleet.utils import recompute

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

DATA = ([1.0, 2.0], [-1.0, -2.0], [3.0, -1.0])
GLOBAL = paddle.ones([2])
ONE = paddle.to_tensor(1.0)


def a_global(x):
    y = GLOBAL if x.sum() > 0 else x * 2
    y.add_(ONE)
    return y * 1


def an_argument(x):
    y = x if x.sum() > 0 else x * 2
    y[0] = 5.0
    return y * 1


def a_tensor_of_the_frame(x):
    z = x * 3
    y = z if x.sum() > 0 else x * 2
    y.add_(ONE)
    return y * 1 + z


def the_other_name(x):
    z = x * 3
    y = z if x.sum() > 0 else x * 2
    z.add_(ONE)
    return y * 1 + z


def a_view(x):
    z = x * 3
    if x.sum() > 0:
        y = z[0:1]
    else:
        y = x[0:1]
    y.add_(ONE)
    return z * 1 + y


def exchanged_in_a_loop(x):
    z = x * 3
    i = x.sum() * 0
    a, b = z, x * 1
    while i < x.sum():
        a, b = b, a
        i = i + 1
    a.add_(ONE)
    return z * 1 + a + b


def without_a_round(x):
    z = x * 3
    y = z
    while y.sum() > 5:
        y = y - 1
    y.add_(ONE)
    return y * 1 + z


def branch_in_a_branch(x):
    z = x * 3
    y = x * 2
    if x.sum() > 0:
        if x.max() > 2:
            y = z
    y.add_(ONE)
    return y * 1 + z


def in_a_callee(x):
    def choose(a, b):
        return a if a.sum() > 0 else b

    z = x * 3
    y = choose(z, x)
    y.add_(ONE)
    return y * 1 + z


FUNCTIONS = [
    a_global,
    an_argument,
    a_tensor_of_the_frame,
    the_other_name,
    a_view,
    exchanged_in_a_loop,
    without_a_round,
    branch_in_a_branch,
    in_a_callee,
]


def run(function, numbers):
    GLOBAL.set_value(paddle.ones([2]))
    x = paddle.to_tensor(numbers)
    return function(x).numpy().tolist(), x.numpy().tolist(), GLOBAL.numpy().tolist()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_interpreter_runs_what_could_tell(function):
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for numbers in (*DATA, *DATA):
        assert run(static, numbers) == run(function, numbers)
    messages = {broken.message for broken in sot.stats(static).graph_breaks}
    # What an argument may be changes behind the break: no more breaks where nothing else is it.
    told = ("changes the tensor in place", "only the interpreter can make it")
    assert any(text in message for message in messages for text in told)
    with pytest.raises(sot.GraphBreakError, match="changes the tensor in place"):
        run(sot.to_static(function, full_graph=True), DATA[0])


def test_what_a_native_call_could_change():
    def fill(tensor):
        tensor.set_value(paddle.zeros([2]))

    def function(x):
        z = x * 3
        y = z if x.sum() > 0 else x * 2
        sot.graph_break()
        fill(y)
        return z + y

    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for numbers in DATA:
        assert run(static, numbers) == run(function, numbers)


def cut(a, b, m):
    t = (a if m < 3 else b).detach()
    t.stop_gradient = False
    return (t * b).sum()


def a_view_of_it(a, b, m):
    t = (a if m < 3 else b)[:1]
    sot.graph_break()
    return (t * b).sum()


def computed_again(a, b, m):
    t = (a if m < 3 else b).detach()
    t.stop_gradient = False
    return recompute(lambda v, w: (v * w).tanh() + v, b, t).sum()


@pytest.mark.parametrize("function", [cut, a_view_of_it, computed_again], ids=lambda f: f.__name__)
def test_the_caller_changes_what_a_view_behind_a_break_is_of(function):
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for _ in range(3):
        seen = []
        for call in (function, static):
            a, b = (paddle.to_tensor(numbers) * 1.0 for numbers in DATA[:2])
            leaf = b.detach()
            leaf.stop_gradient = False
            loss = call(a, leaf, paddle.to_tensor(1))
            a.set_value(a * 2)
            loss.backward()
            seen.append(leaf.grad.tolist())
        assert seen[1] == seen[0]
    messages = {broken.message for broken in sot.stats(static).graph_breaks}
    assert any("only the interpreter can make it" in message for message in messages)


def view_and_base(x):
    if x.sum() > 0:
        y = x * 2
        z = y[:1]
    else:
        y = x * 3
        z = y[1:]
    z[0] = 5.0
    return y, z


def on_one_side_alone(x):
    if x.sum() > 0:
        y = x * 2
        z = y.reshape([1, 2])
    else:
        y = x * 3
        z = y.reshape([1, 2]) * 1
    y.add_(ONE)
    return y, z


def two_views(x):
    y = x * 3
    first, second = (y[:2], y[1:]) if x.sum() > 0 else (y[1:], y[:1])
    if x.sum() > 0:
        third = x * 2
        first, second = third[:2], third[1:]
    first[0] = 5.0
    second.add_(ONE)
    return first, second


def in_a_list(x):
    made = [x, x]
    if x.sum() > 0:
        made[0] = x * 2
        made[1] = made[0].detach()
    else:
        made[0] = x * 3
        made[1] = made[0].detach()
    made[1].add_(ONE)
    return tuple(made)


def of_what_a_side_changes(x):
    y = x * 1
    if x.sum() > 0:
        y.add_(x)
        z = y[:1]
    else:
        y.add_(ONE)
        z = y[:1]
    y[0] = 5.0
    return y, z


def of_a_branch_in_a_branch(x):
    if x.sum() > 0:
        y = x * 2
        z = y[:1] if x[0] > 2 else y[1:]
    else:
        y = x * 3
        z = y[:1]
    y.add_(ONE)
    return y, z


PAIRS = [view_and_base, on_one_side_alone, two_views, in_a_list, of_what_a_side_changes, of_a_branch_in_a_branch]


@pytest.mark.parametrize("function", PAIRS, ids=lambda f: f.__name__)
def test_views_and_bases_that_are_made_inside(function):
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for numbers in (*DATA, *DATA):
        made, expected = (call(paddle.to_tensor(numbers)) for call in (static, function))
        assert [it.tolist() for it in made] == [it.tolist() for it in expected]
    messages = {broken.message for broken in sot.stats(static).graph_breaks}
    assert any("only the interpreter can make it" in message for message in messages)
    with pytest.raises(sot.GraphBreakError):
        sot.to_static(function, full_graph=True)(paddle.to_tensor(DATA[0]))


def test_gradients_of_what_is_changed_through_a_view():
    def function(x):
        if x.sum() > 0:
            y = x * 2
            z = y.detach()
        else:
            y = x * 3
            z = y.detach()
        z.add_(ONE)
        return (y * y).sum()

    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for numbers in DATA:
        seen = []
        for call in (function, static):
            x = paddle.to_tensor(numbers, stop_gradient=False)
            result = call(x)
            result.backward()
            seen.append((result.tolist(), x.grad.tolist()))
        assert seen[1] == seen[0]


def always_new(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x * 3
    y[0] = 1.0
    y.add_(ONE)
    return y


def test_new_tensors_are_changed_in_the_graph():
    static = sot.to_static(always_new, full_graph=True, min_graph_size=0)
    for numbers in DATA:
        assert run(static, numbers) == run(always_new, numbers)
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])
