"""The CINN-prim backend and nested graphs: branches, loops and PyLayers as part of the graph."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
import test_control_flow as flow
import test_pylayer as custom
from harness import apart

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


def outcome(function, numbers, grad):
    """Values, and the gradient of their sum."""
    x = paddle.to_tensor(numbers, stop_gradient=not grad)
    result = function(x)
    gradient = flow.gradient(result, x) if grad else None
    return [np.asarray(value) for value in flow.flat(result) if value is not None], gradient


def check(function, data=flow.DATA, grad=True, breaks=0, **settings):
    settings = {"capture_control_flow": True, "min_graph_size": 0, **settings}
    static = sot.to_static(function, backend="cinn", **settings)
    for numbers in data:
        want, got = outcome(function, numbers, grad), outcome(static, numbers, grad)
        for a, b in zip(want[0], got[0], strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        if grad:
            np.testing.assert_allclose(want[1], got[1], rtol=1e-5, atol=1e-6)
    stats = sot.stats(static)
    assert (sum(it.count for it in stats.graph_breaks), stats.fallbacks) == (breaks, []), stats
    if not breaks:
        assert stats.graphs == 1
        report = sot.report.static_function(static).graphs()[0].report
        assert "operators with dims of -1: none" in report
        assert "composite operators that Paddle's rules leave: none" in report
    return static


@pytest.mark.parametrize("function", flow.BRANCHES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("grad", [False, True])
def test_branches(function, grad):
    check(function, grad=grad)


LOOPS = [flow.counts, flow.until, flow.two_tests, flow.continues, flow.nested_loops]


@pytest.mark.parametrize("function", LOOPS, ids=lambda f: f.__name__)
def test_loops(function):
    check(function, grad=False)


@pytest.mark.parametrize("function", LOOPS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_through_loops_keep_a_value_for_each_round_a_number_that_is_unknown(function, dynamic):
    static = sot.to_static(function, backend="cinn", capture_control_flow=True, min_graph_size=0, dynamic=dynamic)
    for numbers in flow.DATA:
        want, got = outcome(function, numbers, True), outcome(static, numbers, True)
        for a, b in zip(want[0], got[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        flow.same_gradients(got[1], want[1])
    stats = sot.stats(static)
    assert stats.fallbacks == []
    if dynamic:
        assert (stats.graphs, stats.graph_breaks) == (1, [])
    else:
        assert {reason.code for reason in stats.graph_breaks} == {"CDBL"}


def branches_of_composites(x):
    x = x.unsqueeze(0)
    h = F.softmax(x)
    if h.max() > 0.5:
        y = F.gelu(h) * 2
    else:
        y = F.softmax(h * x) + F.layer_norm(x, 3)
    return F.gelu(y) + F.layer_norm(y, 3) * x


def loop_of_composites(x):
    x = x.unsqueeze(0)
    h = F.softmax(x)
    while h.sum() < 4:
        h = h + F.gelu(F.softmax(h))
    return F.layer_norm(h, 3) * x


@pytest.mark.parametrize("grad", [False, True])
def test_operators_of_branches_are_decomposed(grad):
    static = check(branches_of_composites, grad=grad)
    (graph,) = sot.report.static_function(static).graphs()
    before, after = graph.report[:2]
    assert "softmax 2" in before
    assert "gelu 2" in before
    assert not any(name in after for name in ("softmax", "gelu", "layer_norm"))
    assert "pd_op.if" in graph.program


def test_operators_of_loops_are_decomposed():
    static = check(loop_of_composites, grad=False)
    (graph,) = sot.report.static_function(static).graphs()
    assert not any(name in graph.report[1] for name in ("softmax", "gelu", "layer_norm"))
    assert "pd_op.while" in graph.program


def opens_a_dim(x):
    if x.sum() > 0:
        y = paddle.masked_select(x, x > 0).sum()
    else:
        y = x.sum()
    return y * 2


def test_calls_with_unknown_dims_in_a_branch_break_the_graph():
    static = sot.to_static(opens_a_dim, backend="cinn", capture_control_flow=True, min_graph_size=0)
    for numbers in flow.DATA:
        np.testing.assert_allclose(*(f(paddle.to_tensor(numbers)).numpy() for f in (static, opens_a_dim)), rtol=1e-6)
    assert sot.stats(static).fallbacks == []
    assert any("masked_select" in reason.message for reason in sot.stats(static).graph_breaks)


def test_a_branch_in_a_graph_that_is_given_up_runs_call_by_call():
    options = {"compile_budget_s": 0}
    for grad in (False, True):
        static = sot.to_static(
            apart(branches_of_composites), backend="cinn", capture_control_flow=True, min_graph_size=0, options=options
        )
        for numbers in flow.DATA:
            want, got = outcome(branches_of_composites, numbers, grad), outcome(static, numbers, grad)
            np.testing.assert_allclose(want[0][0], got[0][0], rtol=1e-5)
            if grad:
                np.testing.assert_allclose(want[1], got[1], rtol=1e-5)
        stats = sot.stats(static)
        assert (stats.graphs, sum(it.count for it in stats.graph_breaks), len(stats.fallbacks)) == (1, 0, 1)


@pytest.mark.parametrize("function", custom.FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("options", [{}, {"compile_budget_s": 0}], ids=["compiled", "given up"])
def test_pylayers(function, options):
    static = sot.to_static(function, backend="cinn", min_graph_size=0, options=options)
    for _ in range(2):
        want, got = (custom.outcome(run, custom.tensors()) for run in (function, static))
        for (a, stop), (b, other) in zip(want[0], got[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
            assert stop == other
        for a, b in zip(want[1], got[1], strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-5)
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, len(stats.fallbacks)) == (1, [], len(options))


@pytest.mark.parametrize("function", [custom.branch_inside, custom.inside_a_branch], ids=lambda f: f.__name__)
def test_pylayers_and_branches(function):
    static = sot.to_static(function, backend="cinn", min_graph_size=0, capture_control_flow=True)
    for sign in (1, -1, 1):
        want, got = (
            custom.outcome(run, [paddle.to_tensor(t.numpy() * sign, stop_gradient=False) for t in custom.tensors()])
            for run in (function, static)
        )
        np.testing.assert_allclose(want[0][0][0], got[0][0][0], rtol=1e-5)
        for a, b in zip(want[1], got[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


@pytest.mark.parametrize("make", [flow.Net, flow.Loop])
def test_training(make):
    paddle.seed(1)
    plain, static = make(), make()
    static.set_state_dict(plain.state_dict())
    static = sot.to_static(static, backend="cinn", min_graph_size=0, capture_control_flow=True)
    optimizers = [paddle.optimizer.SGD(0.05, parameters=net.parameters()) for net in (plain, static)]
    for step in range(4):
        paddle.seed(step)
        x = paddle.randn([3, 4])
        for net, optimizer in zip((plain, static), optimizers, strict=True):
            (net(x) ** 2).mean().backward()
            optimizer.step()
            optimizer.clear_grad()
    for a, b in zip(plain.parameters(), static.parameters(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-6)
