"""Captured control flow: a gradient arrives where one does in eager mode, and nothing is computed from zeros elsewhere.

Zeros show: an infinite slope makes a NaN of them, a gradient that the user wrote makes something else of them.
"""

import gc
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from harness import apart, tensor
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

PARAMETER = paddle.create_parameter([3], "float32", default_initializer=paddle.nn.initializer.Constant(0.5))
W = paddle.to_tensor([0.5, -1.0, 2.0], stop_gradient=False)


class Offset(PyLayer):
    """Its gradient is not zero where the one that arrives is."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensor()
        return gradient * 2 + x + 1


class Weighed(PyLayer):
    """Its forward uses what is no argument."""

    @staticmethod
    def forward(ctx, x):
        return x * W

    @staticmethod
    def backward(ctx, gradient):
        return gradient * W


def in_front_of_a_branch(x, y, n):
    root = x.sqrt()
    return (root if n > 1 else x * y).sum()


def in_front_of_branches(x, y, n):
    root, other = x.sqrt(), Offset.apply(y)
    if n > 1:
        x = x * root
        if n > 2:
            x = x + other
    return x.sum()


def one_result_of_a_branch(x, y, n):
    if n > 1:
        a, b = x.sqrt(), Offset.apply(y)
    else:
        a, b = x * y, y * 3
    return a, b


def unused_result_of_a_branch(x, y, n):
    z = x * 1
    if n > 1:
        z = Offset.apply(x) + x.sqrt()
    else:
        y = y * z
    return y.sum()


def inside_of_branches(x, y, n):
    if n > 0:
        root = x.sqrt() + Offset.apply(y)
        z = x * y
        if n > 2:
            z = z + root
    else:
        z = x
    return z.sum()


def in_front_of_a_loop(x, y, n):
    root, z, i = x.sqrt(), y * 2, paddle.zeros([], "int64")
    while i < n:
        z, i = z * root.sum(), i + 1
    return z.sum()


def a_loop_in_front_of_a_branch(x, y, n):
    z, i = x * 1, paddle.zeros([], "int64")
    while i < n:
        z, i = z * y, i + 1
    root = z.abs().sqrt()
    return (root if n > 1 else x * y).sum()


def one_variable_of_a_loop(x, y, n):
    a, b, i = x, y, paddle.zeros([], "int64")
    while i < n:
        a, b, i = a + W, Offset.apply(b) + W, i + 1
    return a, b


def one_variable_from_another(x, y, n):
    a, b, i = y, x, paddle.zeros([], "int64")
    while i < n:
        a, b, i = a * b, b.sqrt() + 1, i + 1
    return a, b


def branches_in_a_loop(x, y, n):
    a, i = y, paddle.zeros([], "int64")
    root = x.sqrt()
    while i < n:
        step = Offset.apply(a)
        if i > 1:
            a = a + step
        elif n > 3:
            a = a * root
        i = i + 1
    return a.sum(), a


def branches_after_branches(x, y, n):
    if n > 1:
        y = y * x.sqrt()
    else:
        x = x - y.detach()
    return x, (y if n > 2 else x)


def dead_results(x, y, n):
    if n > 1:
        y = y.detach()
    return y, (W * x if n > 2 else (y * 2).tanh() + y)


def dead_rounds(x, y, n):
    x = x.detach()
    for _ in range(n):
        x = x + W
    return x, (x * x[0]).sum(), y * 2


def both_sides_of_both(x, y, n):
    if n > 1:
        x = x * x.detach()
    else:
        y = y * 1.0
    return x, y


def recompute_of_one_way(x, y, n):
    z = x if n > 1 else y
    return recompute(lambda v: (v * x.detach()).sin(), z, use_reentrant=False), z * 2


def custom_gradient_of_one_way(x, y, n):
    z = x * 1 if n > 1 else y * 1
    return Weighed.apply(z), z * 2


def recompute_of_a_parameter(x, y, n):
    z = (x + y) * 1 if n > 1 else x * y
    for _ in range(n):
        z = recompute(lambda v: (v * PARAMETER).tanh(), z)
    return z if n < 3 else recompute(lambda v: v - PARAMETER, z)


FUNCTIONS = [value for value in list(globals().values()) if getattr(value, "__module__", "") == __name__]
FUNCTIONS = [value for value in FUNCTIONS if not isinstance(value, type)]
DATA = ([0.0, 0.25, 4.0], [1.0, -2.0, 0.5])


def observe(function, n, used, needs, computed):
    """Results, what they say of gradients, and the gradients after going backward from some of them."""
    for weight in (W, PARAMETER):
        weight.clear_gradient(set_to_zero=False)
    leaves = [paddle.to_tensor(data, stop_gradient=not need) for data, need in zip(DATA, needs, strict=True)]
    given = [leaf * 1.0 for leaf in leaves] if computed else leaves
    results = function(*given, paddle.to_tensor(n))
    results = results if isinstance(results, tuple) else (results,)
    ends = [results[at] for at in used if at < len(results) and not results[at].stop_gradient]
    if ends:
        sum((end * end).sum() for end in ends).backward()
    gradients = [None if leaf.grad is None else leaf.grad.numpy() for leaf in (*leaves, W, PARAMETER)]
    return [result.numpy() for result in results], [result.stop_gradient for result in results], gradients


def same(want, got):
    assert got[1] == want[1]
    for expected, actual in zip((*want[0], *want[2]), (*got[0], *got[2]), strict=True):
        assert (actual is None) == (expected is None)
        if expected is not None:
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["paddle", "eager"])
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_gradients_arrive_as_in_eager_mode(function, computed, backend):
    for needs in ((True, True), (True, False), (False, True)):
        static = sot.to_static(apart(function), min_graph_size=0, capture_control_flow=True, backend=backend)
        for n in (2, 2, 0, 1, 3, 4):
            for used in ((0, 1, 2), (0,), (1,)):
                given = (n, used, needs, computed)
                same(observe(function, *given), observe(static, *given))
        stats = sot.stats(static)
        assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


def stops_on_one_way(x, y, n):
    z = x.detach() if n > 1 else x * y
    return recompute(lambda v: (v * PARAMETER).tanh(), z), z


def stops_inside_of_a_branch(x, y, n):
    z = x.detach() if n > 1 else x * y
    if n > 0:
        z = recompute(lambda v: (v * PARAMETER).tanh(), z)
    return z


def stops_after_a_round(x, y, n):
    z = x * y
    for _ in range(n):
        z = recompute(lambda v: (v * PARAMETER).tanh(), z).detach()
    return z + x


@pytest.mark.parametrize(
    "function", [stops_on_one_way, stops_inside_of_a_branch, stops_after_a_round], ids=lambda it: it.__name__
)
@pytest.mark.parametrize("computed", [False, True])
def test_reentrant_recompute_of_what_needs_no_gradient_on_some_ways(function, computed):
    """Eager mode gives its parameters no gradients then. No program does so: the interpreter runs the function."""
    static = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    for n in (2, 2, 0, 1, 3, 1):
        for used in ((0, 1), (0,), (1,)):
            given = (n, used, (True, True), computed)
            same(observe(function, *given), observe(static, *given))
    stats = sot.stats(static)
    assert stats.graph_breaks or stats.fallbacks


def test_what_a_run_keeps_for_its_backward_goes_with_its_results():
    static = sot.to_static(one_result_of_a_branch, min_graph_size=0, capture_control_flow=True)
    observe(static, 2, (), (True, True), False)
    runs = sys.modules["paddle_sot_rs._paddle.gradients.double_backward"].runs
    gc.collect()
    before = len(runs())
    for used in ((), (0,), (1,), (0, 1)):
        observe(static, 2, used, (True, True), False)
    assert len(runs()) == before


def handed_on(x, y, n):
    with paddle.no_grad():
        z = x if n > 1 else y
    return z * 2


def kept_on_one_side(x, y, n):
    with paddle.no_grad():
        z = x
        if n > 1:
            z = y * 2
    return z * 2


def kept_without_rounds(x, y, n):
    with paddle.no_grad():
        z = x
        for _ in range(n):
            z = z + y
    return z * 2


@pytest.mark.parametrize("function", [handed_on, kept_on_one_side, kept_without_rounds], ids=lambda it: it.__name__)
def test_what_no_grad_hands_on_keeps_its_gradient(function):
    """It is the tensor itself: the graph breaks."""
    static = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    for n in (2, 0, 1, 3):
        given = (n, (0,), (True, True), False)
        same(observe(function, *given), observe(static, *given))
    reasons = {reason.message for reason in sot.stats(static).graph_breaks}
    assert any("may be a tensor that needs a gradient, while gradients are off" in reason for reason in reasons)


def without_gradients(x, y, n):
    with paddle.no_grad():
        z = x * 1
        if n > 1:
            z = y * 2
        for _ in range(n):
            z = z + y
    return z * W


def test_what_no_grad_computes_is_captured():
    static = sot.to_static(without_gradients, min_graph_size=0, capture_control_flow=True)
    for n in (2, 0, 1, 3):
        given = (n, (0,), (True, True), False)
        same(observe(without_gradients, *given), observe(static, *given))
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


OPERANDS = {
    "index": lambda x, y: paddle.gather(y, paddle.argsort(x)),
    "condition": lambda x, y: paddle.where(x > 0, y, y * 2),
    "target": lambda x, y: F.kl_div(y, x),
    "several": lambda x, y: paddle.gather(y * 2, paddle.argsort(x)).tanh() + y,
}


@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("needs", [(True, False), (False, True), (True, True)])
def test_operands_without_a_gradient_make_no_result_need_one(name, needs):
    def function(x, y, n):
        return OPERANDS[name](x, y)

    static = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        given = (0, (0,), needs, False)
        same(observe(function, *given), observe(static, *given))
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])


def test_negation_takes_no_graph_in_one_piece():
    """Results of different operations are programs of their own: those that do not go backward give no gradients."""

    def function(x, y, n):
        return Offset.apply(x), (-y * x).mean(), -x

    static = sot.to_static(function, min_graph_size=0)
    for used in ((0, 1, 2), (1,), (2,), (0,)):
        given = (0, used, (True, True), False)
        same(observe(function, *given), observe(static, *given))
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_of_one_of_several_results(reentrant):
    """Reentrant, zeros arrive for the other one, and go on to its parameters."""
    linear = paddle.nn.Linear(4, 4)

    def function(x):
        return recompute(lambda x: (linear(x), x * 2), x, use_reentrant=reentrant)

    translated = sot.to_static(function, min_graph_size=0)
    for at in (1, 0, 1):
        found = []
        for run in (function, translated):
            x = tensor(3, 4, grad=True)
            run(x)[at].sum().backward()
            found.append([it.grad is not None and it.grad.tolist() for it in (x, *linear.parameters())])
            linear.clear_gradients(set_to_zero=False)
        assert found[0] == found[1]
    assert sot.stats(translated).graphs == 1
    assert not sot.stats(translated).graph_breaks
