"""Quanters that learn their scales: those of LSQ, and moving averages of what layers answer."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.base import unique_name
from paddle.nn.quant.lsq import FakeQuantActLSQPlus, FakeQuantWeightLSQPlus
from paddle.nn.quant.quant_layers import MAOutputScaleLayer, MovingAverageAbsMaxScale, QuantizedConv2D

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python


class Chain(nn.Layer):
    def __init__(self, *parts):
        super().__init__()
        self.first, self.second = parts

    def forward(self, x):
        return self.second(self.first(x))


def by_channel():
    def of_weights():
        return FakeQuantWeightLSQPlus(8, per_channel=True, batch_init=3, channel_num=2)

    def of_activations():
        return FakeQuantActLSQPlus(8, batch_init=3)

    return QuantizedConv2D(nn.Conv2D(1, 2, 3), weight_quant_layer=of_weights, act_quant_layer=of_activations)


LSQ = {
    "activations": lambda: Chain(nn.Linear(5, 3), FakeQuantActLSQPlus(8, batch_init=3)),
    "symmetric": lambda: Chain(nn.Linear(5, 3), FakeQuantActLSQPlus(8, symmetric=True, batch_init=3)),
    "positive": lambda: Chain(nn.ReLU(), FakeQuantActLSQPlus(4, all_positive=True, batch_init=3)),
    "in front": lambda: Chain(FakeQuantActLSQPlus(8, batch_init=3), nn.Linear(5, 3)),
    "weights": by_channel,
}
AVERAGES = {
    "behind": lambda: Chain(nn.Linear(5, 3), MovingAverageAbsMaxScale()),
    "in front": lambda: Chain(MovingAverageAbsMaxScale(moving_rate=0.5), nn.Linear(5, 3)),
    "around": lambda: MAOutputScaleLayer(nn.Linear(5, 3)),
}


def made(make):
    paddle.seed(0)
    with unique_name.guard():
        return make()


def batch(seed):
    return paddle.to_tensor(np.random.RandomState(seed).randn(2, 1, 5, 5).astype("float32"))


def steps(net, call, seeds):
    """What each step answers, which gradients come of it, and all that the network is behind it."""
    optimizer = paddle.optimizer.SGD(0.01, parameters=net.parameters())
    seen = []
    for seed in seeds:
        x = batch(seed)
        x.stop_gradient = seed % 3 == 0
        result = call(x)
        (result**2).mean().backward()
        seen.append((result.numpy().tobytes(), None if x.grad is None else x.grad.numpy().tobytes()))
        optimizer.step()
        optimizer.clear_grad()
        seen.append({name: value.numpy().tobytes() for name, value in net.state_dict().items()})
        seen.append([getattr(layer, "init_state", None) for layer in net.sublayers()])
    return seen


@pytest.mark.parametrize("name", LSQ)
def test_scales_are_learnt_as_in_eager_mode_and_then_in_one_graph(name):
    net, other = made(LSQ[name]), made(LSQ[name])
    # Its first calls set the scales, the others learn them.
    call = sot.to_static(other, min_graph_size=0)
    assert steps(other, call, range(5)) == steps(net, net, range(5))
    settled = sot.to_static(lambda x: other(x), min_graph_size=0)
    assert steps(other, settled, range(5, 12)) == steps(net, net, range(5, 12))
    assert (sot.stats(settled).graph_breaks, sot.stats(settled).fallbacks) == ([], [])
    for layer in (net, other):
        layer.eval()
    assert steps(other, settled, range(3)) == steps(net, net, range(3))


@pytest.mark.parametrize("backend", ["paddle", "pylayer", "eager"])
@pytest.mark.parametrize("name", AVERAGES)
def test_averages_are_written_as_in_eager_mode(name, backend):
    net, other = made(AVERAGES[name]), made(AVERAGES[name])
    call = sot.to_static(other, min_graph_size=0, backend=backend)
    # What needs no gradient itself gets none: eager mode raises there once its scales need one.
    for phase in ("train", "eval", "train"):
        for layer in (net, other):
            getattr(layer, phase)()
        assert steps(other, call, (1, 2, 4, 5)) == steps(net, net, (1, 2, 4, 5))
    assert (sot.stats(other).graph_breaks, sot.stats(other).fallbacks) == ([], [])


def test_no_graph_writes_averages_without_gradients_otherwise():
    found = []
    for wrap in (lambda f: f, lambda f: sot.to_static(f, min_graph_size=0)):
        scale = made(MovingAverageAbsMaxScale)
        call = wrap(lambda x, scale=scale: scale(scale(x * 2) + 1))
        with paddle.no_grad():
            answers = [call(batch(seed)).numpy().tobytes() for seed in range(3)]
        found.append((answers, {name: value.item() for name, value in scale.state_dict().items()}))
    assert found[0] == found[1]
