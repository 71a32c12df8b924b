"""The CINN-prim backend: black list, primitive operators, options, and equality with eager mode."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
import zoo
from paddle.base import core
from paddle.base.libpaddle import pir

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

QUICK = [network for network in zoo.NETWORKS if network.quick]
TOLERANCE = 1e-5
# Five steps of these in single precision differ as much when one weight changes by one bit: batch
# norms over two to eight numbers. They are compared in double precision instead.
ILL_CONDITIONED = {"resnet18", "mobilenet_v1", "mobilenet_v2", "densenet121", "shufflenet_v2_x0_25"}
# Eager mode itself cannot run this one in double precision.
SINGLE = {"densenet121"}
DOUBLE = [network for network in QUICK if network.name in ILL_CONDITIONED - SINGLE or network.name == "unet"]
STEADY = [network for network in QUICK if network.name not in ILL_CONDITIONED]


def cinn(target, **settings):
    settings.setdefault("min_graph_size", 0)
    return sot.to_static(target, backend="cinn", **settings)


def took(static, graphs, breaks, fallbacks=0):
    record = sot.stats(static)
    assert (record.graphs, sum(it.count for it in record.graph_breaks), len(record.fallbacks)) == (
        graphs,
        breaks,
        fallbacks,
    ), record
    return record


def report(static, number=0):
    """A graph's report: the text behind each heading."""
    return dict(line.split(": ", 1) for line in sot.report.static_function(static).graphs()[number].report[:-1])


def numbers(*shape):
    return paddle.to_tensor(np.random.default_rng(0).standard_normal(shape).astype("float32"), stop_gradient=False)


def same(function, x, graphs, breaks, fallbacks=0, **settings):
    """Compares two calls, and gradients, with plain Python."""
    static = cinn(function, **settings)
    for _ in range(2):
        gradients = []
        results = []
        for run in (function, static):
            given = x.detach()
            given.stop_gradient = x.stop_gradient
            paddle.seed(5)
            result = run(given)
            results.append(zoo.outputs_of(result))
            roots = [(output**2).sum() for output in results[-1] if not output.stop_gradient]
            if roots:
                sum(roots).backward()
            gradients.append(given.grad)
        assert zoo.difference(*results) <= TOLERANCE
        assert [a.stop_gradient for a in results[0]] == [b.stop_gradient for b in results[1]]
        assert (gradients[0] is None) == (gradients[1] is None)
        if gradients[0] is not None:
            np.testing.assert_allclose(gradients[0].numpy(), gradients[1].numpy(), rtol=1e-4, atol=1e-4)
    took(static, graphs, breaks, fallbacks)
    return static


@pytest.mark.parametrize("network", QUICK, ids=lambda network: network.name)
def test_inference_is_one_graph_with_static_shapes_in_primitive_operators(network):
    eager, static, inputs = zoo.pair(network, cinn)
    for _ in range(2):
        assert zoo.difference(zoo.infer(eager, inputs), zoo.infer(static, inputs)) <= TOLERANCE
    took(static, graphs=1, breaks=0)
    found = report(static)
    assert found["operators with dims of -1"] == "none"
    assert found["composite operators that Paddle's rules leave"] in ("none", "embedding 1", "embedding 2")


@pytest.mark.parametrize("network", STEADY, ids=lambda network: network.name)
def test_five_training_steps_equal_eager(network):
    eager, static, inputs = zoo.pair(network, cinn)
    assert zoo.difference(zoo.train(eager, inputs), zoo.train(static, inputs)) <= TOLERANCE
    took(static, graphs=1, breaks=0)
    found = report(static)
    assert found["operators with dims of -1"] == "none"
    assert found["composite operators that Paddle's rules leave"] in ("none", "embedding 1", "embedding 2")


@pytest.mark.parametrize("network", DOUBLE, ids=lambda network: network.name)
def test_gradients_and_running_statistics_equal_eager_in_double_precision(network):
    paddle.set_default_dtype("float64")
    try:
        eager, static, inputs = zoo.pair(network, cinn)
        assert zoo.relative_difference(zoo.one_step(eager, inputs), zoo.one_step(static, inputs)) <= 1e-6
    finally:
        paddle.set_default_dtype("float32")
    took(static, graphs=1, breaks=0)
    assert report(static)["operators with dims of -1"] == "none"


def test_one_training_step_of_densenet_equals_eager():
    (network,) = (network for network in QUICK if network.name in SINGLE)
    eager, static, inputs = zoo.pair(network, cinn)
    # One bit of the weights makes half of this difference.
    assert zoo.relative_difference(zoo.one_step(eager, inputs), zoo.one_step(static, inputs)) <= 1e-3
    took(static, graphs=1, breaks=0)


def softmax_gelu(x):
    return F.gelu(F.softmax(x, -1)) + F.layer_norm(x, 6)


def test_composite_operators_become_primitive_ones():
    static = same(softmax_gelu, numbers(4, 6), graphs=1, breaks=0)
    found = report(static)
    before, after = (found[f"operators {when} decomposition"] for when in ("before", "after"))
    for name in ("softmax", "gelu", "layer_norm"):
        assert f"{name} 1" in before
        assert name not in after
    assert found["composite operators that Paddle's rules leave"] == "none"
    assert found["gradient operators without a primitive form"] == "none"
    assert "operators after decomposition" in str(sot.explain(static)(numbers(4, 6)))


def test_values_that_stop_gradients_still_do():
    def f(x):
        with paddle.no_grad():
            weights = F.softmax(x, -1) + F.gelu(x)
        return weights * x + F.softmax(x, -1).detach(), weights

    same(f, numbers(4, 6), graphs=1, breaks=0)
    same(f, numbers(4, 6), graphs=1, breaks=0, fallbacks=1, options={"compile_budget_s": 0})


def test_an_output_twice_views_and_dropout():
    def f(x):
        y = F.softmax(x, -1)
        return y, y, x.reshape([6, 4]), x.unsqueeze(0), F.dropout(x, 0.5) * 2

    same(f, numbers(4, 6), graphs=1, breaks=0)


def test_the_switch_for_primitive_operators_is_as_before():
    for forward in (False, True):
        core._set_prim_forward_enabled(forward)
        try:
            static = cinn(softmax_gelu)
            static(numbers(4, 6))
            given_up = cinn(softmax_gelu, options={"compile_budget_s": 0})
            given_up(numbers(4, 6))
            assert (core._is_fwd_prim_enabled(), core._is_bwd_prim_enabled()) == (forward, False)
        finally:
            core._set_prim_forward_enabled(False)
        took(static, graphs=1, breaks=0)


LISTED = {
    "nonzero": lambda x: (x * 2).nonzero().astype("float32") + 1,
    "masked_select": lambda x: paddle.masked_select(x * 2, x > 0) + 1,
    "unique": lambda x: paddle.unique(x * 2) + 1,
    "where": lambda x: paddle.where(x * 2 > 0)[0] + 1,
    "__getitem__": lambda x: (x * 2)[x > 0] + 1,
}


@pytest.mark.parametrize("name", LISTED)
def test_listed_calls_break_the_graph(name):
    static = same(LISTED[name], numbers(4, 6), graphs=2, breaks=1)
    (reason,) = sot.stats(static).graph_breaks
    assert (reason.code, reason.message.partition("(")[0]) == ("CDBL", name)


def test_calls_of_the_same_name_with_static_results_are_captured():
    same(lambda x: paddle.where(x > 0, x * 2, x)[1:, 0] + 1, numbers(4, 6), graphs=1, breaks=0)


@pytest.mark.parametrize("entry", ["nonzero", "paddle.nonzero", "paddle.Tensor.nonzero", paddle.nonzero])
def test_removed_entries_are_captured(entry):
    x = numbers(4, 6).detach()
    static = same(LISTED["nonzero"], x, graphs=1, breaks=0, options={"cdbl": {"remove": [entry]}})
    assert "nonzero 1" in report(static)["operators with dims of -1"]


@pytest.mark.parametrize("entry", ["relu", "paddle.nn.functional.relu", F.relu])
def test_added_entries_break_the_graph(entry):
    def f(x):
        return F.relu(x * 2) + 1

    for settings in ({"options": {"cdbl": {"add": [entry]}}}, {"black_list": [entry]}):
        static = same(f, numbers(4, 6), graphs=2, breaks=1, **settings)
        assert [reason.code for reason in sot.stats(static).graph_breaks] == ["CDBL"]


def test_black_lists_of_other_backends_take_names_too():
    def f(x):
        return (x * 2).exp() + 1

    static = sot.to_static(f, black_list=iter(["exp"]), min_graph_size=0)
    static(numbers(4, 6))
    took(static, graphs=2, breaks=1)


def test_dynamic_lets_unknown_dims_through():
    same(LISTED["nonzero"], numbers(4, 6).detach(), graphs=1, breaks=0, dynamic=True)
    static = cinn(softmax_gelu, dynamic=True)
    for batch in (2, 3, 4, 5):
        x = numbers(batch, 6)
        assert zoo.difference(static(x), softmax_gelu(x)) <= TOLERANCE
    took(static, graphs=2, breaks=0)


def test_without_it_each_shape_is_a_graph_of_its_own():
    static = cinn(softmax_gelu)
    for batch in (2, 3, 4, 3):
        x = numbers(batch, 6)
        assert zoo.difference(static(x), softmax_gelu(x)) <= TOLERANCE
    took(static, graphs=3, breaks=0)


def test_lists_of_values_that_stop_gradients_are_decomposed():
    def places(x):
        height, width = x.shape
        rows = paddle.arange(0, height * 8, 8, dtype="float32")
        rows, columns = paddle.meshgrid(rows, paddle.arange(0, width * 8, 8, dtype="float32"))
        return paddle.stack((rows.reshape([-1]), columns.reshape([-1])) * 2, axis=1)

    translated = cinn(places)
    for shape in ([4, 2], [4, 2], [6, 3], [5, 5]):
        x = paddle.zeros(shape)
        np.testing.assert_array_equal(translated(x).numpy(), places(x).numpy())


def test_declared_open_dims_do_not_reach_the_compiler():
    spec = [paddle.static.InputSpec([None, 6], "float32")]
    static = cinn(softmax_gelu, input_spec=spec)
    x = numbers(4, 6)
    assert zoo.difference(static(x), softmax_gelu(x)) <= TOLERANCE
    record = took(static, graphs=1, breaks=0, fallbacks=1)
    assert record.fallbacks[0].message.startswith("dims of -1 are left (pass dynamic=True to let them through)")


def test_a_graph_that_takes_too_long_runs_call_by_call():
    static = same(softmax_gelu, numbers(4, 6), 1, 0, fallbacks=1, options={"compile_budget_s": 0.0})
    (reason,) = sot.stats(static).fallbacks
    assert "compile_budget_s=0:" in reason.message
    assert sot.report.static_function(static).graphs()[0].backend == "eager (given up by cinn)"
    same(softmax_gelu, numbers(4, 6), 1, 0, options={"compile_budget_s": 60})


@pytest.mark.skipif(paddle.is_compiled_with_cinn(), reason="this Paddle has CINN")
def test_without_cinn_one_line_says_so_or_it_is_an_error(caplog):
    with pytest.raises(RuntimeError, match="require_cinn: this Paddle is built without CINN"):
        cinn(softmax_gelu, options={"require_cinn": True})
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            static = cinn(softmax_gelu, options={"require_cinn": False})
            static(numbers(4, 6))
            took(static, graphs=1, breaks=0)
    said = [line for line in caplog.messages if "built without CINN" in line]
    # Once per process: another test may have been first.
    assert len(said) <= 1


def test_with_cinn_programs_go_through_its_passes(monkeypatch):
    """A Paddle that says it has CINN, whose passes only note what they are given."""
    given = []
    monkeypatch.setattr(paddle, "is_compiled_with_cinn", lambda: True)
    monkeypatch.setattr(pir, "apply_cinn_pass", lambda program: given.append(str(program)))
    static = same(softmax_gelu, numbers(4, 6), graphs=1, breaks=0, options={"require_cinn": True})
    assert len(given) == 2
    for program in given:
        assert not any(
            name in program for name in ('= "pd_op.softmax', '= "pd_op.gelu', '= "pd_op.layer_norm', "tensor<-1")
        )
    assert "pd_op.exp" in given[0]
    assert sot.report.static_function(static).graphs()[0].report[-1].startswith("runs on CINN; compiled in")
    given.clear()
    with paddle.no_grad():
        cinn(softmax_gelu)(numbers(4, 6))
    assert len(given) == 1


def test_passes_of_cinn_that_fail_give_the_graph_up(monkeypatch):
    def fails(program):
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(paddle, "is_compiled_with_cinn", lambda: True)
    monkeypatch.setattr(pir, "apply_cinn_pass", fails)
    static = same(softmax_gelu, numbers(4, 6), graphs=1, breaks=0, fallbacks=1)
    assert "no compiler here" in sot.stats(static).fallbacks[0].message


ALONE = """
import logging
logging.basicConfig(level=logging.INFO, format="%(message)s")
import paddle
import paddle_sot_rs as sot

for number in range(3):
    static = sot.to_static(lambda x: x * number + 1, backend="cinn", min_graph_size=0)
    assert (static(paddle.ones([2])) == number + 1).all()
"""


@pytest.mark.skipif(paddle.is_compiled_with_cinn(), reason="this Paddle has CINN")
def test_a_process_says_so_once():
    run = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert (run.stdout + run.stderr).count(
        "Paddle is built without CINN: graphs of the cinn backend run decomposed"
    ) == 1


LISTS = """
import paddle
import paddle_sot_rs as sot

def lists(x):
    for _ in range(8):
        one, other = paddle.unbind(x * 1.5)
        one, other = paddle.meshgrid(one, other)
        x = paddle.stack([one.sum(0), other.sum(1)]) + 1.0
    return x

x = paddle.ones([2, 6])
static = sot.to_static(lists, backend="cinn", min_graph_size=0)
assert paddle.allclose(static(x), lists(x))
assert sot.stats(static).fallbacks == []
"""


@pytest.mark.parametrize("filler", ["1", "165", "255"])
def test_what_takes_lists_apart_is_not_read_after_it_is_gone(filler):
    """Memory is filled when it is freed: what reads it then crashes."""
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": filler}
    subprocess.run([sys.executable, "-c", LISTS], env=environment, check=True)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"speed": 3}, ValueError, 'the cinn backend has no option "speed"'),
        ({"cdbl": ["relu"]}, TypeError, '"cdbl" must be a dict'),
        ({"cdbl": {"plus": []}}, ValueError, 'cdbl has "add" and "remove"'),
        ({"cdbl": {"add": ["no_such_thing"]}}, ValueError, "no function or tensor method named 'no_such_thing'"),
        ({"cdbl": {"add": [len]}}, ValueError, "no function of Paddle's"),
        ({"cdbl": {"add": "relu"}}, TypeError, "expected a list"),
        ({"cdbl": {"remove": ["relu"]}}, ValueError, "relu is not in the table"),
        ({"cdbl": {"add": ["unique"], "remove": ["unique"]}}, ValueError, 'adds and removes "unique"'),
        ({"compile_budget_s": "long"}, TypeError, "number of seconds"),
        ({"compile_budget_s": -1}, ValueError, "0 or more"),
        ({"require_cinn": 1}, TypeError, "True or False"),
    ],
)
def test_wrong_options_are_clear_errors(options, error, message):
    with pytest.raises(error, match=message):
        cinn(softmax_gelu, options=options)
