"""One tensor under two names behind captured control flow: `is`, `in` and keys answer as in plain Python."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest

DATA = ([1.0, 2.0], [-1.0, -2.0], [3.0, -1.0], [0.25, 0.5])


def two_names(x):
    if x.sum() > 0:
        a = x * 2
        b = a
    else:
        a = x * 3
        b = a
    return a is b, a is x, a, b


def in_containers(x):
    if x.sum() > 0:
        a = x * 2
        seen = [a, {"a": a}]
    else:
        a = x * 3
        seen = [a, {"a": a}]
    return seen[0] is a, seen[1]["a"] is a, seen, a


def an_argument_or_a_new_one(x):
    z = x * 1
    if x.sum() > 0:
        a, b = z, z
    else:
        a = x * 3
        b = a
    return a is b, a, b


def changed_in_place(x):
    if x.sum() > 0:
        a = x * 2
        b = a
    else:
        a = x * 3
        b = a
    a.add_(paddle.to_tensor(1.0))
    return a * 1 + b, a is b


def of_a_side_of_a_side(x):
    if x.sum() > 0:
        if x.max() > 2:
            a = x * 2
        else:
            a = x * 4
        b = a
    else:
        a = x * 3
        b = a
    return a is b, a + b


def two_tensors(x):
    if x.sum() > 0:
        a, b = x * 2, x * 2
    else:
        a, b = x * 3, x * 3
    return a is b, a is not b, a, b


state = paddle.create_parameter([2], "float32", default_initializer=paddle.nn.initializer.Constant(0.5))


def a_parameter_is_a_tensor(x):
    y = state
    while y.sum() < x.sum():
        y = y + x if isinstance(y, paddle.Tensor) else y * 100
    return isinstance(y, paddle.Tensor), y * 1


def class_of_a_variable(x):
    y = state
    while y.sum() < x.sum():
        y = y + x
    return type(y), isinstance(y, type(state)), y.__class__, y * 1


def class_in_a_round(x):
    y = state
    while y.sum() < x.sum():
        y = y + (1 if isinstance(y, type(state)) else 2)
    return y * 1


WHOLE = [
    a_parameter_is_a_tensor,
    two_names,
    in_containers,
    an_argument_or_a_new_one,
    changed_in_place,
    of_a_side_of_a_side,
    two_tensors,
]


def one_side_only(x):
    if x.sum() > 0:
        a = x * 2
        b = a
    else:
        a, b = x * 3, x * 3
    return a is b, a, b


def left_as_it_was(x):
    y = x
    if x.sum() > 0:
        y = x * 2
    return y is x, y


def left_as_it_was_and_new(x):
    z = x * 1
    y = z if x.sum() > 0 else x * 2
    return y is not z, y, z


def names_of_a_loop(x):
    a = b = x
    while a.sum() < 10 and a.sum() > 0:
        a = b = a * 2
    return a is b, a, b


def without_a_round(x):
    y = x
    while y.abs().sum() < 2:
        y = y * 2
    return y is x, y


def keys(x):
    y = x
    if x.sum() > 0:
        y = x * 2
    return len({x, y}), len({x: 1, y: 2}), y


def in_a_list(x):
    y = x * 1
    z = y
    if x.sum() > 0:
        z = y[0:1]
    return z.shape, any(z is one for one in [y]), z


PIECES = [
    class_of_a_variable,
    class_in_a_round,
    one_side_only,
    left_as_it_was,
    left_as_it_was_and_new,
    names_of_a_loop,
    without_a_round,
    keys,
    in_a_list,
]


def flat(result):
    return [one.numpy().tolist() if isinstance(one, paddle.Tensor) else one for one in paddle.utils.flatten(result)]


def identities(result):
    """Which of the tensors are one object."""
    tensors = [one for one in paddle.utils.flatten(result) if isinstance(one, paddle.Tensor)]
    return [[one is other for other in tensors] for one in tensors]


def compare(function, static):
    for numbers in (*DATA, *DATA):
        want, got = function(paddle.to_tensor(numbers)), static(paddle.to_tensor(numbers))
        assert flat(got) == flat(want)
        assert identities(got) == identities(want)


@pytest.mark.parametrize("function", WHOLE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["paddle", "eager"])
def test_one_graph_where_both_ways_say_the_same(function, backend):
    static = sot.to_static(function, full_graph=True, min_graph_size=0, backend=backend)
    compare(function, static)
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])


@pytest.mark.parametrize("function", PIECES, ids=lambda f: f.__name__)
def test_the_interpreter_runs_what_else_decides(function):
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    compare(function, static)
    with pytest.raises(sot.GraphBreakError, match="captured control flow decides"):
        sot.to_static(function, full_graph=True, min_graph_size=0)(paddle.to_tensor(DATA[0]))


@pytest.mark.parametrize(
    "function", [two_names, of_a_side_of_a_side, an_argument_or_a_new_one], ids=lambda f: f.__name__
)
def test_gradients(function):
    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    for numbers in DATA:
        grads = []
        for run in (function, static):
            x = paddle.to_tensor(numbers, stop_gradient=False)
            sum((one * one).sum() for one in run(x) if isinstance(one, paddle.Tensor)).backward()
            grads.append(x.grad.numpy())
        np.testing.assert_allclose(*grads, rtol=1e-6)


def begins_with(x, n):
    h, out = x, x * 0
    for _ in range(n):
        if h is x:
            out = out + 1
        h = h * 2
    return out + h


def ends_with(x, n):
    h, out = x * 1, x * 0
    for _ in range(n):
        if h is x:
            out = out + 1
        h = x
    return out + h


@pytest.mark.parametrize("function", [begins_with, ends_with], ids=lambda f: f.__name__)
def test_what_a_variable_of_a_loop_is_in_other_rounds(function):
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for numbers in DATA:
        for rounds in (3, 0, 1, 2):
            x, n = paddle.to_tensor(numbers), paddle.to_tensor(rounds)
            assert static(x, n).tolist() == function(x, n).tolist()
