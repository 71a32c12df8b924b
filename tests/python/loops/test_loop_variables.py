"""What loops carry from round to round: tuples made anew, variables of inner functions, names bound inside only."""

from collections import namedtuple

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.static import InputSpec
from support import eager_deletion

DATA = ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.5, -0.25, 0.125], [4.0, 5.0, 6.0])
w = paddle.to_tensor([0.5, -1.0, 2.0], stop_gradient=False)
Pair = namedtuple("Pair", "a b")
paddle.seed(3)
cell = nn.LSTMCell(3, 3)


def a_pair(x):
    pair = (x, x * 2)
    while pair[0].sum() < 10:
        pair = (pair[0] + 1, pair[1] * w)
    return pair


def tuples_in_tuples(x):
    state = (x, (x * w, 1), "kept", None)
    while state[0].sum() < 10:
        first, (second, rounds), *rest = state
        state = (first + 1, (second * 1.1, rounds + 1), *rest)
    return state


def named(x):
    pair = Pair(x, x * 2)
    while pair.a.sum() < 10:
        pair = Pair(pair.a + 1, pair.b * w)
    return pair


def state_of_a_cell(x):
    row = x.unsqueeze(0)
    state = (paddle.zeros([1, 3]), paddle.zeros([1, 3]))
    total = paddle.zeros([1, 3])
    for at in range(paddle.to_tensor(4)):
        out, state = cell(row * at, state)
        total = total + out
    return total, state


def tuples_in_a_list(x):
    states = [(x, x * 2), (x * w, 0)]
    while states[0][0].sum() < 10:
        states[0] = (states[0][0] + 1, states[0][1] * 1.1)
        states[1] = (states[1][0], states[1][1] + 1)
    return states


def a_loop_in_a_loop(x):
    pair = (x, 0)
    for _ in range(paddle.to_tensor(2)):
        for at in range(paddle.to_tensor(3)):
            pair = (pair[0] * w + at, pair[1] + 1)
        pair = pair[::1]
    return pair


def returned_from_inside(x):
    pair = (x, x * 2)
    while True:
        pair = (pair[0] + 1, pair[1] * w)
        if pair[0].sum() > 10:
            return pair


def nonlocal_tensor(x):
    total, rounds = x, 0

    def step(by):
        nonlocal total, rounds
        total = total * 1.1 + by
        rounds += 1

    while total.sum() < 10:
        step(w.abs() + 1)
    return total, rounds


def nonlocal_in_a_branch(x):
    rounds = 0

    def step(value):
        nonlocal rounds
        rounds += 1
        return value + w.abs()

    for _ in range(paddle.to_tensor(5)):
        if x.sum() < 10:
            x = step(x)
    return x, rounds


def read_by_an_inner_function(x):
    def doubled():
        return x * 2

    while x.sum() < 10:
        x = x + 1
    return doubled() * w


def inner_functions_of_a_round(x):
    total = x * 1
    while total.sum() < 10:
        total = (lambda value: value + total.abs() + 1)(total)
        total = total + sum([total * at for at in range(3)])
    return total


def bound_in_each_round(x):
    i = paddle.to_tensor(0)
    while i < 3:
        with paddle.no_grad():
            y = x * w
        x = x + y
        i += 1
    return x


def read_behind(x):
    i = paddle.to_tensor(0)
    while i < 3:
        last = x * i * w
        i = i + 1
    return last, i


def numbers_of_both_loops(x):
    for i in range(paddle.to_tensor(3)):
        for j in range(paddle.to_tensor(2)):
            x = x * w + j
        x = x * j + i
    return x, i, j


FUNCTIONS = [
    *(a_pair, tuples_in_tuples, named, state_of_a_cell, tuples_in_a_list, a_loop_in_a_loop, returned_from_inside),
    *(nonlocal_tensor, nonlocal_in_a_branch, read_by_an_inner_function, inner_functions_of_a_round),
    *(bound_in_each_round, read_behind, numbers_of_both_loops),
]


def shape_of(value):
    if isinstance(value, (list, tuple)):
        return type(value), [shape_of(item) for item in value]
    return (value.dtype, value.shape, value.stop_gradient) if isinstance(value, paddle.Tensor) else value


def observe(function, numbers, grad=True):
    leaves = [w, *cell.parameters()]
    for leaf in leaves:
        leaf.clear_gradient(set_to_zero=False)
    x = paddle.to_tensor(numbers, stop_gradient=not grad)
    result = function(x)
    tensors = [value for value in paddle.utils.flatten(result) if isinstance(value, paddle.Tensor)]
    if grad:
        sum((value * value).sum() for value in tensors if value.dtype == paddle.float32).backward()
    grads = [None if leaf.grad is None else leaf.grad.numpy() for leaf in (x, *leaves)]
    return shape_of(result), [value.numpy() for value in tensors], grads


def same(got, want):
    assert got[0] == want[0]
    for one, other in zip(got[1] + got[2], want[1] + want[2], strict=True):
        assert (one is None) == (other is None)
        if other is not None:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", ["paddle", "eager"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_one_graph(function, backend):
    static = sot.to_static(function, full_graph=True, min_graph_size=0, backend=backend)
    for numbers in (*DATA, *DATA):
        same(observe(static, numbers), observe(function, numbers))
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])
    assert "while_loop" in static.code


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_export(function, tmp_path):
    path = str(tmp_path / "saved")
    sot.save(function, path, input_spec=[InputSpec([3], "float32", "x")])
    loaded = paddle.jit.load(path)
    for numbers in DATA:
        with eager_deletion():
            found = paddle.utils.flatten(loaded(paddle.to_tensor(numbers)))
        want = observe(function, numbers, grad=False)[1]
        for one, other in zip(found, want, strict=False):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)


def after_no_round(x, n):
    for at in range(n):
        last = x * at
    return last, at


def cell_after_no_round(x, n):
    def seen():
        return last * 2

    for at in range(n):
        last = x + at
    try:
        return seen(), n
    except NameError:
        return x, n


def test_without_a_round_names_are_not_bound():
    x = paddle.to_tensor(DATA[0])
    static = sot.to_static(after_no_round, full_graph=True, min_graph_size=0)
    other = sot.to_static(cell_after_no_round, capture_control_flow=True, min_graph_size=0)
    for rounds in (2, 0, 3, 0, 1):
        n = paddle.to_tensor(rounds)
        np.testing.assert_array_equal(other(x, n)[0].numpy(), cell_after_no_round(x, n)[0].numpy())
        if rounds:
            same(
                observe(lambda x, n=n: static(x, n), DATA[0], False),
                observe(lambda x, n=n: after_no_round(x, n), DATA[0], False),
            )
            continue
        with pytest.raises(UnboundLocalError, match="local variable 'last'"):
            static(x, n)


def outer():
    total = paddle.zeros([3])

    def add(x):
        nonlocal total
        while total.sum() < x.sum():
            total = total + x
        return total

    return add, lambda: total


def test_variables_of_functions_around():
    plain, static = outer(), outer()
    translated = sot.to_static(static[0], capture_control_flow=True, min_graph_size=0)
    for numbers in (DATA[2], DATA[1], DATA[0], DATA[3]):
        x = paddle.to_tensor(numbers)
        np.testing.assert_array_equal(translated(x).numpy(), plain[0](x).numpy())
        np.testing.assert_array_equal(static[1]().numpy(), plain[1]().numpy())


def three(x):
    return (x.detach().sum() * 0 + 3).astype("int64")


def bound_on_one_way(x):
    i = (x.detach().sum() * 0).astype("int64")
    while i < 3:
        if x.sum() > 0:
            y = x
        i += 1
    return y


def other_in_the_first_round(x):
    first = True
    for _ in range(three(x)):
        if first:
            y = x
            first = False
        else:
            y = y + 1
    return y


def caught(x):
    for _ in range(three(x)):
        try:
            y = y + 1
        except NameError:
            y = x * 0
    return y


LEFT = [
    (bound_on_one_way, '"y" is a tensor on one way and not bound on the other'),
    (other_in_the_first_round, "read of an unbound local"),
    (caught, "read of an unbound local"),
]


@pytest.mark.parametrize(("function", "text"), LEFT, ids=lambda value: getattr(value, "__name__", None))
def test_what_is_left_to_the_interpreter(function, text):
    data = [numbers for numbers in DATA if function is not bound_on_one_way or sum(numbers) > 0]
    with pytest.raises(sot.GraphBreakError, match=text):
        sot.to_static(function, full_graph=True)(paddle.to_tensor(data[0]))
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for numbers in data:
        same(observe(static, numbers, False), observe(function, numbers, False))


def cut_to_seven(x):
    for at in range(paddle.to_tensor(5)):
        x = paddle.concat([x + at, x])[:7]
    return x, x[:5], x[-6:]


def cut_from_the_front(x):
    for at in range(paddle.to_tensor(3)):
        x = paddle.concat([x, x + at, x])[1:20:3]
    return x


def set_in_the_middle(x):
    for _ in range(paddle.to_tensor(4)):
        y = paddle.concat([x, x])
        y[2:7] = 3.0
        y[:5] = 1.0
        x = y * 2
    return x


def differences(x):
    for _ in range(paddle.to_tensor(3)):
        x = paddle.concat([paddle.diff(x), x])
    return x


def cut_in_a_branch(x):
    for at in range(paddle.to_tensor(4)):
        x = paddle.concat([x, x * at])
        if x.sum() > 0:
            x = x[:8]
    return x


GROW = [cut_to_seven, cut_from_the_front, set_in_the_middle, differences, cut_in_a_branch]


@pytest.mark.parametrize("function", GROW, ids=lambda function: function.__name__)
def test_variables_that_change_their_size(function):
    """Code of Paddle that looks at a shape does not see the first one in all rounds."""
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for size in (3, 3, 4, 6, 9):
        x = paddle.arange(1.0, size + 1)
        for a, b in zip(*map(paddle.utils.flatten, (static(x), function(x))), strict=True):
            assert a.tolist() == b.tolist()
    assert not sot.stats(static).graph_breaks
