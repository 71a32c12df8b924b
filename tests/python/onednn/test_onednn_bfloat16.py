"""Backend `onednn` with `options={"bfloat16": True}`: within 3% of the largest number of a result.

Where the processor only emulates it, the results are the same ones, and a test says that it can.
"""

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from harness import translate
from onednn.test_onednn_backend import FOUND, NETWORKS, made, shown
from onednn.test_onednn_blocks import FUNCTIONS, given, layers
from paddle import nn
from paddle.base import core

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

HALVES = dict(backend="onednn", options={"bfloat16": True, "least_elements": 0})
ASKED = "supports_bfloat16_fast_performance"


@pytest.fixture
def supported(monkeypatch):
    core.supports_bfloat16() or pytest.skip("the processor does not even emulate it")
    monkeypatch.setattr(core, ASKED, lambda: True)


def compare(found, expected):
    found, expected = shown(found), shown(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape, a.stop_gradient) == (b.dtype, b.shape, b.stop_gradient)
        a, b = a.astype("float32").numpy(), b.astype("float32").numpy()
        largest = np.abs(b[np.isfinite(b)]).max(initial=0)
        np.testing.assert_allclose(a, b, rtol=0, atol=0.03 * largest)


def report(translated):
    return "\n".join(translated.graphs()[-1].report)


@pytest.mark.parametrize("name", NETWORKS)
def test_inference(name, supported):
    network, shape = NETWORKS[name]
    network.eval()
    translated = translate(lambda x: network(x), **HALVES)
    with paddle.no_grad():
        for seed in range(3):
            compare(translated(made(shape, seed=seed)), network(made(shape, seed=seed)))
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


def test_parameters_that_change(supported):
    network = nn.Sequential(nn.Conv2D(3, 8, 3), nn.BatchNorm2D(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 5))
    network.eval()
    translated = translate(lambda x: network(x), **HALVES)
    with paddle.no_grad():
        for seed in range(4):
            x = made([2, 3, 6, 6], seed=seed)
            compare(translated(x), network(x))
            for parameter in network.parameters():
                parameter.set_value(made(parameter.shape, seed=seed).abs())
    assert sot.stats(translated).translations == 1


def test_the_report_says_what_runs_in_which_type(supported):
    convolution = nn.Conv2D(3, 8, 3)
    translated = translate(lambda x: paddle.exp(F.relu(convolution(x))), **HALVES, min_graph_size=1)
    with paddle.no_grad():
        translated(made([1, 3, 6, 6]))
    assert report(translated).splitlines() == [
        "oneDNN: 1 of 3 operators",
        "oneDNN: onednn_op.fused_conv2d in bfloat16",
        "oneDNN: pd_op.exp, pd_op.memcpy in float32, or the dtype that is given",
        "oneDNN: not for pd_op.exp",
    ]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_blocks(function, supported):
    net = layers()
    frozen = sot.freeze(lambda x: function(net, x), [(given(0),)], options={"bfloat16": True}, on_miss="error")
    for at in range(4):
        with paddle.no_grad():
            compare(frozen(given(at)), function(net, given(at)))


def test_whole_numbers_are_exact(supported):
    def f(x, y):
        return x + y, x * 3, x.reshape([4, 3]), (x > y).astype("int64"), paddle.concat([x, y])

    translated = translate(f, **HALVES)
    x, y = made([3, 4], "int64") * 1000003, made([3, 4], "int64", seed=1)
    with paddle.no_grad():
        for found, expected in zip(translated(x, y), f(x, y), strict=True):
            assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())


def test_doubles_stay_doubles(supported):
    translated = translate(lambda x: (x + 1) * 3, **HALVES)
    x = made([3, 4], "float64")
    with paddle.no_grad():
        assert translated(x).tolist() == ((x + 1) * 3).tolist()


@pytest.mark.parametrize("name", [name for name in FOUND if "no number" not in name])
def test_what_a_probe_has_found(name, supported):
    function, arguments = FOUND[name]
    translated = translate(function, **HALVES)
    for grad in (True, False):
        with paddle.set_grad_enabled(grad):
            compare(translated(*arguments), function(*arguments))


def test_filters_that_are_arguments(supported):
    """The kernel kept the one that it was first called with."""
    translated = translate(F.conv2d, **HALVES)
    with paddle.no_grad():
        for seed in range(3):
            x, weight = made([1, 3, 8, 8], seed=seed), made([4, 3, 3, 3], seed=seed + 5)
            compare(translated(x, weight), F.conv2d(x, weight))


@pytest.mark.parametrize("make", [sot.to_static, lambda f, **asked: sot.freeze(f, [(made([2]),)], **asked)])
def test_it_is_refused_where_the_processor_cannot(make, monkeypatch):
    monkeypatch.setattr(core, ASKED, lambda: False)
    with pytest.raises(ValueError, match="options: bfloat16: this processor lacks the instructions"):
        make(lambda x: x + 1, backend="onednn", options={"bfloat16": True})


def test_another_value_is_refused():
    with pytest.raises(ValueError, match="options: bfloat16: expected True or False"):
        sot.to_static(lambda x: x + 1, backend="onednn", options={"bfloat16": "yes"})


def test_false_is_float32():
    layer = nn.Linear(8, 8)
    translated = translate(lambda x: layer(x) * 2, backend="onednn", options={"bfloat16": False, "least_elements": 0})
    with paddle.no_grad():
        np.testing.assert_allclose(translated(made([2, 8])).numpy(), (layer(made([2, 8])) * 2).numpy(), rtol=1e-4)
    assert "bfloat16" not in report(translated)
