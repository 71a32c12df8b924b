"""`core.clear_executor_cache()` of the user's: between runs, and while runs wait for their backward."""

import random

import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.base import core

pytestmark = pytest.mark.default_python


class Rounds(nn.Layer):
    def __init__(self):
        super().__init__()
        paddle.seed(1)
        self.step = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 4))

    def forward(self, x):
        state = x
        for _ in range(3):
            state = self.step(state).tanh() + state * x
        return state, (state * state).mean()


def twins(translate):
    plain, other = Rounds(), Rounds()
    return plain, other, translate(other)


def leaf(x):
    x = x.clone()
    x.stop_gradient = False
    return x


def forward(nets, waiting):
    x = paddle.randn([3, 4])
    leaves = [leaf(x) for _ in nets]
    results = [net(x) for net, x in zip(nets, leaves, strict=True)]
    for one, other in zip(*results, strict=True):
        assert paddle.allclose(one, other, 1e-5, 1e-6)
    waiting.append((leaves, results))


def backward(layers, run, at):
    leaves, results = run
    grads = []
    for layer, x, result in zip(layers, leaves, results, strict=True):
        layer.clear_gradients()
        (result[at] * result[at]).sum().backward()
        grads.append([x.grad, *(weight.grad for weight in layer.parameters())])
    for one, other in zip(*grads, strict=True):
        assert paddle.allclose(one, other, 1e-4, 1e-5)


def translated(net):
    return sot.to_static(net, min_graph_size=0, compile_at_call=1)


@pytest.mark.parametrize("translate", [translated, paddle.jit.to_static], ids=["ours", "Paddle's"])
@pytest.mark.parametrize("seed", range(6))
def test_any_order(seed, translate):
    """Paddle's own `to_static` is told as well: without that such a backward ends the process."""
    choose = random.Random(seed)
    plain, other, static = twins(translate)
    waiting = []
    for _ in range(40):
        act = choose.choice(["forward", "forward", "backward", "drop executors", "drop a run"])
        if act == "forward":
            forward((plain, static), waiting)
        elif act == "drop executors":
            core.clear_executor_cache()
        elif waiting:
            run = waiting.pop(choose.randrange(len(waiting)))
            if act == "backward":
                backward((plain, other), run, choose.randrange(2))
    if translate is translated:
        record = sot.stats(static)
        assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])


def test_between_calls_without_gradients():
    static = sot.to_static(lambda x: (x * 2).tanh() + 1, min_graph_size=0)
    for _ in range(4):
        x = paddle.randn([3])
        assert paddle.equal_all(static(x), (x * 2).tanh() + 1)
        core.clear_executor_cache()
    assert sot.stats(static).graphs == 1
