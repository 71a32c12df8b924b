"""Gradients that meet at one tensor on their way from several results are added in eager mode's order."""

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


def conv(inputs, outputs, stride=1):
    return nn.Sequential(nn.Conv2D(inputs, outputs, 3, stride, 1), nn.BatchNorm2D(outputs), nn.ReLU())


class Segmentation(nn.Layer):
    """As FastSCNN of PaddleSeg: an auxiliary head beside two ways to the result, and statistics of few pixels."""

    def __init__(self):
        super().__init__()
        self.stem, self.deep = conv(3, 8, 2), nn.Sequential(conv(8, 8, 2), conv(8, 8, 2))
        self.high, self.head = conv(8, 8), nn.Sequential(conv(8, 8), nn.Dropout(0.1), nn.Conv2D(8, 3, 1))
        self.auxiliary = nn.Sequential(conv(8, 4), nn.Dropout(0.1), nn.Conv2D(4, 3, 1))

    def forward(self, x):
        high = self.stem(x)
        low = F.interpolate(self.deep(high), high.shape[2:], mode="bilinear")
        result = self.head(F.relu(self.high(high) + low))
        return [F.interpolate(scale, x.shape[2:], mode="bilinear") for scale in (result, self.auxiliary(high))]


class Inception(nn.Layer):
    """As GoogLeNet: an auxiliary head beside four branches."""

    def __init__(self):
        super().__init__()
        self.stem, self.branches = conv(3, 8, 2), nn.LayerList([conv(8, 4) for _ in range(4)])
        self.head, self.auxiliary = nn.Linear(16, 3), nn.Linear(8, 3)

    def forward(self, x):
        x = self.stem(x)
        joined = paddle.concat([branch(x) for branch in self.branches], axis=1)
        return self.head(joined.mean([2, 3])), self.auxiliary(x.mean([2, 3]))


class Pyramid(nn.Layer):
    """One result a scale; a scale that leaves is used twice by the next one."""

    def __init__(self):
        super().__init__()
        self.scales = nn.LayerList([conv(3, 4, 2), conv(4, 4, 2), conv(4, 4, 2)])

    def forward(self, x):
        found = []
        for scale in self.scales:
            x = scale(x)
            x = x * x.tanh() + x
            found.append(x)
        return found


NETWORKS = {one.__name__: one for one in (Segmentation, Inception, Pyramid)}


def losses(outputs):
    return outputs[0].square().mean() + sum(0.4 * one.square().mean() for one in outputs[1:])


def train(network, call, images):
    """Five steps: the losses, gradients, parameters and statistics of each."""
    network.train()
    paddle.seed(7)
    optimizer = paddle.optimizer.SGD(0.01, parameters=network.parameters())
    seen = []
    for _ in range(5):
        loss = losses(call(images))
        loss.backward()
        seen += [bits(loss), *(bits(one.grad) for one in network.parameters())]
        optimizer.step()
        optimizer.clear_grad()
        seen += [bits(one) for one in network.state_dict().values()]
    return seen


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_with_several_results_train_bit_equal(name, backend):
    paddle.seed(3)
    plain, images = NETWORKS[name](), paddle.randn([2, 3, 32, 32])
    translated = NETWORKS[name]()
    translated.set_state_dict(plain.state_dict())
    static = sot.to_static(translated, backend=backend)
    assert train(translated, static, images) == train(plain, plain, images)
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])


def of_an_argument(x, w):
    near = x * w
    far = (near.tanh() + x.sin() * 2).exp().tanh() @ w
    return far + x.cos(), (x * 3 + near).sum()


def of_a_tensor_of_the_graph(x, w):
    h = x.tanh()
    far = ((h * w).tanh() + h.sin() * 2).exp().tanh() @ w
    return far + h.cos(), h * 3, h @ w


def of_a_result(x, w):
    h = x.tanh()
    return (h * h.sin()).exp() @ w + h, h


def twice_in_one_call(x, w):
    h = x * w
    return ((h * h) @ w).tanh() + h.sin(), paddle.concat([h, h]).cos()


FUNCTIONS = {one.__name__: one for one in (of_an_argument, of_a_tensor_of_the_graph, of_a_result, twice_in_one_call)}


def leaves():
    numbers = np.random.default_rng(5)
    found = [paddle.to_tensor(numbers.standard_normal((16, 16)).astype("float32")) for _ in range(2)]
    for leaf in found:
        leaf.stop_gradient = False
    return found


def total(results):
    """A loss from which every result is as far."""
    return paddle.stack([one.square().mean() for one in results]).sum()


def all_together(results, given):
    total(results).backward()


def one_by_one(results, given):
    for number, result in enumerate(results):
        result.square().mean().backward(retain_graph=number + 1 < len(results))


def twice(results, given):
    loss = total(results)
    loss.backward(retain_graph=True)
    loss.backward()


def the_last_alone(results, given):
    results[-1].square().mean().backward()


def the_first_alone(results, given):
    results[0].square().mean().backward()


def asked_for(results, given):
    for leaf, gradient in zip(given, paddle.grad(total(results), given), strict=True):
        leaf.grad = gradient


WAYS = {one.__name__: one for one in (all_together, one_by_one, twice, the_last_alone, the_first_alone, asked_for)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "way"), [*itertools.product(FUNCTIONS, WAYS)])
def test_sums_are_those_of_eager_mode(name, way, backend):
    function = FUNCTIONS[name]
    static = sot.to_static(function, backend=backend, min_graph_size=0)
    seen = []
    for call in (function, static, static):
        given, told = leaves(), []
        for leaf in given:
            leaf.register_hook(lambda gradient, told=told: told.append(bits(gradient)))
        WAYS[way](call(*given), given)
        seen.append(([bits(leaf.grad) for leaf in given], told))
    assert seen[1] == seen[0]
    assert seen[2] == seen[0]
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_gradients_go_through_sums(name):
    function = FUNCTIONS[name]
    static = sot.to_static(function, min_graph_size=0)
    seen = []
    for call in (function, static):
        given = leaves()
        first = paddle.grad(total(call(*given)), given, create_graph=True)
        sum(one.square().mean() for one in first).backward()
        seen.append([leaf.grad.numpy() for leaf in given])
    for plain, translated in zip(*seen, strict=True):
        np.testing.assert_allclose(translated, plain, rtol=1e-4, atol=1e-6)


def test_gradients_of_sums_say_what_eager_mode_says():
    static = sot.to_static(of_an_argument, min_graph_size=0)
    for call in (of_an_argument, static):
        given = leaves()
        total(call(*given)).backward()
        assert [leaf.grad.stop_gradient for leaf in given] == [False, False]


def test_a_tensor_that_changed_is_refused():
    static = sot.to_static(of_an_argument, min_graph_size=0)
    for call in (of_an_argument, static):
        x, w = leaves()
        x = x * 1.0
        loss = total(call(x, w))
        with paddle.no_grad():
            x.add_(paddle.ones([16, 16]))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def disjoint(x, w):
    return (x * w).exp(), (x + w).sin(), (x * 3).tanh() + x.cos(), x @ w, w.sin()


def disjoint_behind_a_leaf(x, w):
    leaf = paddle.full([16, 16], 0.5)
    leaf.stop_gradient = False
    return (leaf * w).exp(), (leaf * 3).tanh() + leaf.cos(), (leaf + w).sin()


# Each may go backward alone: eager mode keeps nothing that they share.
@pytest.mark.parametrize("function", [disjoint, disjoint_behind_a_leaf])
def test_results_with_leaves_alone_in_common_go_backward_one_by_one(function):
    static = sot.to_static(function, min_graph_size=0)
    seen = []
    for call in (function, static):
        given = leaves()
        for result in call(*given)[:2]:
            result.sum().backward()
        seen.append([paddle.zeros([1]).numpy() if leaf.grad is None else leaf.grad.numpy() for leaf in given])
    for plain, translated in zip(*seen, strict=True):
        np.testing.assert_allclose(translated, plain, rtol=1e-5)
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])
