"""Gradients of weights that layers hold, used several times for several results, are added in eager mode's order."""

import itertools

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.nn import functional as F

# What is done with a graph does not depend on the version of Python.
pytestmark = [pytest.mark.default_python, pytest.mark.filterwarnings("ignore")]

BACKENDS = ("paddle", "pylayer")


def bits(tensor):
    return None if tensor is None else (tensor.shape, tensor.numpy().tobytes())


class Tied(nn.Layer):
    """A language model with one table for words that go in and come out, and a second head on the way."""

    def __init__(self):
        super().__init__()
        self.table, self.block = nn.Embedding(16, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))

    def forward(self, x, words):
        h = self.table(words) + x
        early = h @ self.table.weight.T
        h = self.block(h) + self.table(words)
        return F.linear(self.block(h), self.table.weight.T), early


class OneOfThree(nn.Layer):
    """One layer, called on what comes in and on what it has made, and its weight in a function."""

    def __init__(self):
        super().__init__()
        self.fc, self.last = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, words):
        h = self.last(self.fc(x))
        first = F.linear(h.tanh(), self.fc.weight)
        second = self.fc(self.last(self.fc(h.sin()))).cos()
        return first, second, self.last(h + second)


class Triplet(nn.Layer):
    """Results that have weights alone in common."""

    def __init__(self):
        super().__init__()
        self.fc, self.last = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, words):
        one = self.last(self.fc(self.fc(x).tanh()))
        return one, self.last(self.fc(x.sin())), self.last((x * 2) @ self.fc.weight.T)


class Below(nn.Layer):
    """The weight is that of a layer within one of Paddle's."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0)

    def forward(self, x, words):
        h = self.encoder(x.unsqueeze(0))
        again = self.encoder(h.tanh()) @ self.encoder.linear1.weight
        return h @ self.encoder.linear1.weight, again


NETWORKS = {one.__name__: one for one in (Tied, OneOfThree, Triplet, Below)}


def total(results):
    """A loss from which every result is as far."""
    return paddle.stack([one.square().mean() for one in results]).sum()


def all_together(results, parameters):
    total(results).backward()


def twice(results, parameters):
    loss = total(results)
    loss.backward(retain_graph=True)
    loss.backward()


def asked_for(results, parameters):
    for parameter, gradient in zip(parameters, paddle.grad(total(results), parameters, allow_unused=True), strict=True):
        parameter.grad = gradient


WAYS = {one.__name__: one for one in (all_together, twice, asked_for)}


def train(network, call, way):
    """Five steps: the results, gradients and parameters of each."""
    optimizer = paddle.optimizer.SGD(0.05, parameters=network.parameters())
    numbers, seen = np.random.default_rng(2), []
    for _ in range(5):
        x = paddle.to_tensor(numbers.standard_normal((6, 8)).astype("float32"))
        results = call(x, paddle.to_tensor(numbers.integers(0, 16, (6,))))
        WAYS[way](results, network.parameters())
        seen += [bits(one) for one in results] + [bits(one.grad) for one in network.parameters()]
        seen += [one.grad.stop_gradient for one in network.parameters() if one.grad is not None]
        optimizer.step()
        optimizer.clear_grad()
        seen += [bits(one) for one in network.parameters()]
    return seen


@pytest.mark.parametrize("least", [0, None])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "way"), [*itertools.product(NETWORKS, WAYS)])
def test_weights_of_layers_train_bit_equal(name, way, backend, least):
    paddle.seed(3)
    plain, translated = NETWORKS[name](), NETWORKS[name]()
    translated.set_state_dict(plain.state_dict())
    static = sot.to_static(translated, backend=backend, **({} if least is None else {"min_graph_size": least}))
    assert train(translated, static, way) == train(plain, plain, way)
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])


@pytest.mark.parametrize("least", [0, None])
@pytest.mark.parametrize("name", ["OneOfThree", "Triplet"])
def test_results_go_backward_one_by_one(name, least):
    paddle.seed(3)
    network, seen = NETWORKS[name](), []
    static = sot.to_static(lambda *given: network(*given), **({} if least is None else {"min_graph_size": least}))
    for call in (network, static):
        results = call(paddle.ones([6, 8]), paddle.zeros([6], "int64"))
        for number, result in enumerate(results):
            result.square().mean().backward(retain_graph=name == "OneOfThree" and number < 2)
        seen.append([one.grad.numpy() for one in network.parameters()])
        network.clear_gradients()
    for plain, translated in zip(*seen, strict=True):
        np.testing.assert_allclose(translated, plain, rtol=1e-5, atol=1e-7)


def make(leaf):
    return (leaf.tanh() * leaf).sin() * leaf.exp() + leaf


@pytest.mark.parametrize("least", [0, None])
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("name", ["OneOfThree", "Triplet"])
def test_a_result_goes_backward_alone(name, number, least):
    paddle.seed(3)
    network, seen = NETWORKS[name](), []
    static = sot.to_static(lambda *given: network(*given), **({} if least is None else {"min_graph_size": least}))
    for call in (network, static):
        result = call(paddle.to_tensor(np.linspace(-1, 1, 48, dtype="float32").reshape(6, 8)), None)[number]
        result.square().mean().backward()
        seen.append({at: one.grad.numpy() for at, one in enumerate(network.parameters()) if one.grad is not None})
        network.clear_gradients()
    assert seen[1].keys() == seen[0].keys()
    for at, plain in seen[0].items():
        np.testing.assert_allclose(seen[1][at], plain, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("name", ["OneOfThree", "Triplet"])
def test_gradients_of_gradients(name, behind):
    """`behind`: what comes in is computed by another program."""
    paddle.seed(3)
    network, seen = NETWORKS[name](), []
    network.to(dtype="float64")
    static, first = (
        sot.to_static(lambda *given: network(*given), min_graph_size=0),
        sot.to_static(make, min_graph_size=0),
    )
    for call, before in ((network, make), (static, first)):
        leaf = paddle.to_tensor(np.linspace(-1, 1, 48).reshape(6, 8))
        leaf.stop_gradient = False
        x = before(leaf) if behind else leaf
        results = call(x, paddle.zeros([6], "int64"))
        wanted = [leaf, *network.parameters()]
        found = paddle.grad(total(results), wanted, create_graph=True)
        sum(one.sin().square().sum() for one in found).backward()
        seen.append([one.numpy() for one in found] + [one.grad.numpy() for one in wanted])
        network.clear_gradients()
    for plain, translated in zip(*seen, strict=True):
        np.testing.assert_allclose(translated, plain, rtol=1e-9, atol=1e-12)


def add(network):
    for parameter in network.parameters():
        parameter.add_(paddle.full_like(parameter, 0.5))


def set_value(network):
    for parameter in network.parameters():
        parameter.set_value(parameter * 0.5)


CHANGES = {one.__name__: one for one in (add, set_value)}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", NETWORKS)
def test_weights_that_change_before_the_gradient(name, change):
    seen = []
    paddle.seed(3)
    network = NETWORKS[name]()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    static = sot.to_static(lambda *given: network(*given), min_graph_size=0)
    for call in (network, static):
        network.set_state_dict(before)
        loss = total(call(paddle.ones([6, 8]), paddle.zeros([6], "int64")))
        with paddle.no_grad():
            CHANGES[change](network)
        try:
            loss.backward()
        except RuntimeError as error:
            seen.append("modified by an inplace operation" in str(error))
        else:
            seen.append([bits(one.grad) for one in network.parameters()])
        network.clear_gradients()
    assert seen[1] == seen[0]
