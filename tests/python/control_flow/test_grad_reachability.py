"""Captured control flow: what the way that was taken does not use gets no gradient, as in eager mode."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

MODES = {
    "program": {"full_graph": True},
    "eager": {"capture_control_flow": True, "backend": "eager"},
    "cinn": {"full_graph": True, "backend": "cinn", "dynamic": True},
}
DATA = ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.1, 0.2, 0.3], [-0.1, -0.1, -0.1], [3.1, 4.2, 5.3], [-7.0, 9.0, -1.0])


def leaf(*numbers):
    return paddle.to_tensor(list(numbers), stop_gradient=False)


a, b, c, d = leaf(1.0, 2.0, 3.0), leaf(0.5, -1.0, 2.0), leaf(2.0, 2.0, -1.0), leaf(1.5, 0.5, 1.0)
WEIGHTS = (a, b, c, d)


def one_side(x):
    if x.sum() > 0:
        x = x * a
    return x * 2


def both_sides(x):
    return x * a if x.sum() > 0 else x - b


def both_sides_alike(x):
    if x.sum() > 0:
        y = x * a
    else:
        y = a - x
    return y * b


def inside_and_outside(x):
    y = x * a
    if x.sum() > 0:
        y = y + a * b
    return y


def in_front_of_a_branch(x):
    y, z = x * a, x.exp() * b
    if x.sum() > 0:
        return y + 1
    return z - 1


def without_the_input(x):
    if x.detach().sum() > 0:
        y = x * 2
    else:
        y = a * 3
    return y


def sides_in_sides(x):
    if x.sum() > 0:
        if x.max() > 2:
            y = x * a
        else:
            y = x * b
    elif x.min() < -2:
        y = x + c
    else:
        y = x
        if x.mean() > -1:
            y = y * d
    return y * y


def sides_after_sides(x):
    y = x * a if x.sum() > 0 else x * b
    z = y * c if y.max() > 2 else x
    return z + d if (z.sum() > 0 and x.max() > 0.25) else z


def the_same_condition_twice(x):
    positive = x.sum() > 0
    y = x * a if positive else x * b
    return y + a if not positive else y + b


def replaced(x):
    y = x * a
    if x.sum() > 0:
        y = paddle.ones([3]) * b
    return y + x


def detached_on_a_side(x):
    if x.sum() > 0:
        y = (x * a).detach() + b
    else:
        y = x * a
    return y * c


def unused_result(x):
    if x.sum() > 0:
        y, z = x * a, x * b
    else:
        y, z = x * c, x * d
    return y + z.detach()


def while_loop(x):
    while x.abs().sum() < 10:
        x = x * 2 + a * 0.7
    return x


def handed_on(x):
    """What the result is computed from depends on the number of rounds."""
    y, z, w, n = x * 1, b * 1, c * 1, x.abs().sum()
    while n < 8:
        y, z, w, n = z * 2, w + x, d * 1, n * 2 + 1
    return y * y


def branch_in_a_loop(x):
    y, n = x, x.detach()
    while n.abs().sum() < 30:
        if n.sum() > 2:
            y = y * a
        elif n.max() < 0:
            y = y - b
        n = n * 2 + 0.5
    return y


def loop_in_a_branch(x):
    y = x
    if x.sum() > 0:
        while y.sum() < 8:
            y = y * 1.5 + a.abs()
        y = y * b
    return y + c


def loop_in_a_loop(x):
    y, n = x, x.detach().abs().sum()
    while n < 20:
        m = n
        while m < 5:
            y, m = y + a, m * 3 + 1
        n = n * 2 + 1
        if n > 12:
            y = y * b
    return y


def left_early(x):
    y = x
    for i in range(paddle.to_tensor(4)):
        if y.sum() > 9:
            break
        if y.sum() < -9:
            return y * b
        y = y + y * i
        if y.max() < 0:
            continue
        y = y * a
    return y


def returned_from_a_loop(x):
    for i in range(paddle.to_tensor(3)):
        x = x + i * a
        if x.sum() > 9:
            return x * b
    return x * c


def several_results(x):
    y = x * a if x.sum() > 0 else x * b
    return y.sum(), (x * c).sum(), (y * d if x.max() > 2 else x * 2)


def some_results_without_gradients(x):
    with paddle.no_grad():
        y = x * a if x.sum() > 0 else x * 1
    return x * b if y.max() > 2 else x, y


FUNCTIONS = [
    *(one_side, both_sides, both_sides_alike, inside_and_outside, in_front_of_a_branch, without_the_input),
    *(sides_in_sides, sides_after_sides, the_same_condition_twice, replaced, detached_on_a_side, unused_result),
    *(while_loop, handed_on, branch_in_a_loop, loop_in_a_branch, loop_in_a_loop, left_early, returned_from_a_loop),
    *(several_results, some_results_without_gradients),
]


def flat(value):
    return [one for one in paddle.utils.flatten(value) if isinstance(one, paddle.Tensor)]


def runs_as(static, mode):
    """Whether the graph is a program, or runs call by call."""
    (graph,) = static.graphs()
    return ("pd_op" in graph.program) == (mode != "eager")


def numbers_of(tensor):
    return None if tensor is None else tensor.numpy()


def same(got, want):
    assert [one is None for one in got] == [one is None for one in want]
    for one, other in zip(got, want, strict=True):
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def observe(function, data, weights, leaf, used=slice(None)):
    """Results, gradients, and the calls of hooks, with the input as a leaf or computed from another tensor."""
    seen, removers = [], []
    for number, weight in enumerate(weights):
        weight.clear_gradient(set_to_zero=False)
        removers.append(weight.register_hook(lambda gradient, number=number: seen.append(number)))
    start = paddle.to_tensor(data, stop_gradient=False)
    before = paddle.ones([3]) * 2
    before.stop_gradient = False
    x = start if leaf else (start * before).tanh() * 5
    x.register_hook(lambda gradient: seen.append("x"))
    results = flat(function(x))
    ends = [one for one in results[used] if not one.stop_gradient]
    if ends:
        sum((one * one).sum() for one in ends).backward()
    for remover in removers:
        remover.remove()
    grads = [numbers_of(one.grad) for one in (start, before, *weights)]
    return [one.numpy() for one in results], grads, sorted(map(str, seen))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_leaf", [True, False], ids=["leaf", "computed"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradients_are_those_of_eager_mode(function, is_leaf, mode):
    static = sot.to_static(function, min_graph_size=0, **MODES[mode])
    for data in (*DATA, *DATA):
        want = observe(function, data, WEIGHTS, is_leaf)
        got = observe(static, data, WEIGHTS, is_leaf)
        same(got[0], want[0])
        same(got[1], want[1])
        assert got[2] == want[2]
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])
    assert runs_as(static, mode)


def test_each_of_several_results_can_go_backward_alone():
    static = sot.to_static(several_results, full_graph=True, min_graph_size=0)
    for data in (*DATA, *DATA):
        for used in (slice(0, 1), slice(1, 2), slice(2, 3), slice(0, 2), slice(1, 3)):
            want = observe(several_results, data, WEIGHTS, True, used)
            same(observe(static, data, WEIGHTS, True, used)[1], want[1])
