"""Pieces that differ in their layers alone run one program: equal to eager mode, digit by digit."""

import threading

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn

pytestmark = pytest.mark.default_python

DEPTH = 16


def encoder(depth=DEPTH, dropout=0.1, **settings):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=dropout, **settings)
    return nn.TransformerEncoder(layer, depth)


class Block(nn.Layer):
    def __init__(self, plain):
        super().__init__()
        self.norm = nn.Identity() if plain else nn.BatchNorm1D(4)
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.0 if plain else 0.2)

    def forward(self, x):
        return x + self.dropout(self.two(paddle.tanh(self.one(self.norm(x)))))


class Deep(nn.Layer):
    def __init__(self, depth=80, plain=False):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.blocks = nn.LayerList([Block(plain) for _ in range(depth)])

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x


def built(call, graph=0):
    """How many parts the graph has, and how many of them run a program that another one has."""
    first = sot.report.static_function(call).graphs()[graph].report[0]
    assert " parts, one after the other" in first
    shared = first.partition("(")[2] if "run one that another part has" in first else "0"
    return int(first.split()[0]), int(shared.split()[0])


def data(make, rows=2):
    shape = [rows, 3, 8] if make is encoder else [2 * rows, 4]
    return paddle.linspace(-1, 1, int(np.prod(shape))).reshape(shape)


def pair(make):
    """Two networks with the same numbers, the second one translated."""
    nets = []
    for _ in range(2):
        paddle.seed(3)
        nets.append(make())
    for net in nets:
        # Each block has numbers of its own: some layers of Paddle's begin with the same.
        paddle.seed(4)
        for parameter in net.parameters():
            parameter.set_value(parameter + 0.1 * paddle.rand(parameter.shape))
    return nets[0], nets[1], sot.to_static(nets[1])


def step(net, call, x):
    """Loss, gradients and states after one step."""
    optimizer = paddle.optimizer.SGD(0.05, parameters=net.parameters())
    x = x.clone()
    x.stop_gradient = False
    loss = (call(x) ** 2).mean()
    loss.backward()
    seen = [loss.numpy(), x.grad.numpy()]
    seen += [it.grad.numpy() for it in net.parameters() if it.grad is not None]
    optimizer.step()
    net.clear_gradients()
    return seen + [value.numpy() for value in net.state_dict().values()]


def assert_equal(expected, found):
    assert len(expected) == len(found)
    assert all((a == b).all() for a, b in zip(expected, found, strict=True))


def assert_steps(net, other, call, x, steps=3):
    for _ in range(steps):
        paddle.seed(7)
        expected = [*step(net, net, x), paddle.rand([2]).numpy()]
        paddle.seed(7)
        assert_equal(expected, [*step(other, call, x), paddle.rand([2]).numpy()])


def assert_one_graph(call, graphs=1):
    stats = sot.stats(call)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (graphs, [], [])


@pytest.mark.parametrize("make", [encoder, Deep])
def test_training(make):
    net, other, call = pair(make)
    assert_steps(net, other, call, data(make), 4)
    assert_one_graph(call)
    parts, shared = built(call)
    assert parts >= 4 and shared >= parts - 3


@pytest.mark.parametrize("make", [encoder, Deep])
def test_inference(make):
    net, other, call = pair(make)
    net.eval(), other.eval()
    with paddle.no_grad():
        for rows in (2, 2, 3):
            x = data(make, rows)
            assert_equal([net(x)], [call(x)])
    parts, shared = built(call)
    assert parts >= 4 and shared >= parts - 3
    assert sot.stats(call).graph_breaks == []


def test_gradients_of_gradients():
    """Pieces run again call by call, each with its own layers."""
    answers = []
    net, other, call = pair(lambda: Deep(120, plain=True))
    for own, run in ((net, net), (other, call), (other, call)):
        x = data(Deep)
        x.stop_gradient = False
        (slope,) = paddle.grad(run(x).square().sum(), x, create_graph=True)
        (slope**2).sum().backward()
        answers.append(
            [slope.numpy(), x.grad.numpy(), *(it.grad.numpy() for it in own.parameters() if it.grad is not None)]
        )
        own.clear_gradients()
    for found in answers[1:]:
        assert len(found) == len(answers[0])
        for a, b in zip(answers[0], found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * abs(a).max())
    assert built(call)[1] > 0


def test_many_runs_wait_for_their_backward():
    net, other, call = pair(lambda: encoder(dropout=0.0))
    seen = []
    for own, run in ((net, net), (other, call)):
        results = [run(data(encoder) * scale) for scale in range(1, 8)]
        sum(result.square().sum() for result in results).backward(retain_graph=True)
        results[2].sum().backward()
        seen.append([it.grad.numpy() for it in own.parameters() if it.grad is not None])
    assert_equal(*seen)


def test_what_changes_later():
    """Frozen, replaced and other settings: what is alike is asked anew."""
    net, other, call = pair(encoder)
    x = data(encoder)
    assert_steps(net, other, call, x, 2)
    for own in (net, other):
        own.layers[5].linear1.weight.stop_gradient = True
    assert_steps(net, other, call, x, 2)
    for own in (net, other):
        own.layers[5].linear1.weight.stop_gradient = False
        own.layers[9].norm1 = nn.LayerNorm(8, epsilon=0.0005)
    assert_steps(net, other, call, x, 2)
    for own in (net, other):
        paddle.seed(11)
        own.layers[2].linear2 = nn.Linear(16, 8)
        own.layers[1].dropout1.p = 0.7
    assert_steps(net, other, call, x, 2)
    assert sot.stats(call).graph_breaks == []
    parts, shared = built(call, -1)
    assert 0 < shared < parts


def test_weights_that_two_layers_share():
    """A tensor is at another place of what its layer holds, or is held twice."""

    def make():
        net = encoder()
        net.layers[6].linear1.bias = net.layers[5].linear1.bias
        net.layers[11].norm2.weight = net.layers[11].norm1.weight
        return net

    net, other, call = pair(make)
    assert_steps(net, other, call, data(encoder), 3)
    with paddle.no_grad():
        net.eval(), other.eval()
        assert_equal([net(data(encoder))], [call(data(encoder))])


def test_hooks_and_a_block_in_another_mode():
    net, other, call = pair(encoder)
    for own in (net, other):
        own.layers[3].eval()
        own.layers[7].linear1.weight.register_hook(lambda gradient: gradient * 2)
    assert_steps(net, other, call, data(encoder), 3)


def test_auto_cast():
    net, other, call = pair(encoder)
    with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
        assert_steps(net, other, call, data(encoder), 2)


def test_threads():
    net, other, call = pair(lambda: encoder(dropout=0.0))
    net.eval(), other.eval()
    inputs = [data(encoder) * scale for scale in range(1, 5)]
    with paddle.no_grad():
        expected = [net(x).numpy() for x in inputs]
        call(inputs[0])
    wrong = []

    def run(x, numbers):
        with paddle.no_grad():
            for _ in range(20):
                if (call(x).numpy() != numbers).any():
                    wrong.append(x)

    threads = [threading.Thread(target=run, args=pair) for pair in zip(inputs, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_networks_whose_blocks_differ_share_nothing():
    class Growing(nn.Layer):
        def __init__(self):
            super().__init__()
            made = (nn.TransformerEncoderLayer(8, 2, 8 + at, dropout=0.0) for at in range(DEPTH))
            self.layers = nn.LayerList(made)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    net, other, call = pair(Growing)
    assert_steps(net, other, call, data(encoder), 2)
    assert "run one that another part has" not in sot.report.static_function(call).graphs()[0].report[0]
