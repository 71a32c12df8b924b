"""Networks that train through captured branches and loops: the same steps as in eager mode."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.autograd import PyLayer

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


class Switch(nn.Layer):
    """One expert or the other."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 6)
        self.one = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
        self.two = nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3))

    def forward(self, x):
        h = self.trunk(x).tanh()
        if x.mean() > 0:
            y = self.one(h)
        else:
            y = self.two(h)
        return y


class Experts(Switch):
    """Some of them, in sides of sides, and one that is shared."""

    def __init__(self):
        super().__init__()
        self.scale = self.create_parameter([6], default_initializer=nn.initializer.Constant(1.5))
        self.last = nn.Linear(3, 3)

    def forward(self, x):
        h = self.trunk(x).tanh()
        if x.mean() > 0:
            if x.max() > 2:
                h = h * self.scale
            y = self.one(h)
        else:
            y = self.two(h * self.scale)
        if y.mean() > 0:
            y = self.last(y)
        return y


class Refine(nn.Layer):
    """A loop that may not run, with another part in some of its rounds."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 4)
        self.step = nn.Linear(4, 4)
        self.sharp = nn.Linear(4, 4)

    def forward(self, x):
        h, rounds = self.trunk(x), (x.mean() * 10).abs()
        while rounds > 1:
            h = self.step(h).tanh()
            if rounds > 3:
                h = h + self.sharp(h)
            rounds = rounds - 1
        return h


NETWORKS = [Switch, Experts, Refine]
OPTIMIZERS = {
    "momentum": lambda parameters: paddle.optimizer.Momentum(0.05, 0.9, parameters, weight_decay=0.1),
    "adam": lambda parameters: paddle.optimizer.Adam(0.02, parameters=parameters, weight_decay=0.1),
    "adamw": lambda parameters: paddle.optimizer.AdamW(0.02, parameters=parameters, weight_decay=0.1),
}


def made(network):
    paddle.seed(7)
    return network()


def batch(step):
    numbers = np.random.RandomState(step).randn(5, 4).astype("float32") * (0.3 if step % 5 == 4 else 1)
    return paddle.to_tensor(numbers + (0.5 if step % 2 else -0.5) * (step % 3))


def numbers_of(tensors):
    return [None if tensor is None else tensor.numpy() for tensor in tensors]


def same(got, want):
    assert [one is None for one in got] == [one is None for one in want]
    for one, other in zip(got, want, strict=True):
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def grads(net):
    return numbers_of([parameter.grad for parameter in net.parameters()])


def compare(network, run, **settings):
    """`run(net, call)` says what it saw, in eager mode and translated."""
    plain, net = made(network), made(network)
    static = sot.to_static(net, full_graph=True, min_graph_size=0, **settings)
    want, got = run(plain, plain), run(net, static)
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        same(one, other)
    assert all("pd_op" in graph.program for graph in sot.report.static_function(static).graphs())
    return static


@pytest.mark.parametrize("clearing", [True, False], ids=["zeros", "none"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("network", NETWORKS)
def test_ten_steps(network, optimizer, clearing):
    def run(net, call):
        steps = OPTIMIZERS[optimizer](net.parameters())
        seen = []
        for step in range(10):
            call(batch(step)).square().mean().backward()
            seen.append(grads(net))
            steps.step()
            steps.clear_grad(set_to_zero=clearing)
            seen.append(numbers_of(net.parameters()))
        return seen

    static = compare(network, run)
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_that_accumulate(network):
    def run(net, call):
        seen = []
        for step in range(6):
            call(batch(step)).square().mean().backward()
            seen.append(grads(net))
        return seen

    compare(network, run)


@pytest.mark.parametrize("network", NETWORKS)
def test_one_graph_twice_in_a_step(network):
    def run(net, call):
        seen = []
        for step in range(4):
            (call(batch(step)).square().mean() + call(batch(step + 1)).mean()).backward()
            seen.append(grads(net))
            net.clear_gradients(set_to_zero=False)
            first = call(batch(step))
            call(first.tile([1, 2])[:, :4] if first.shape[1] < 4 else first).mean().backward()
            seen.append(grads(net))
            net.clear_gradients(set_to_zero=False)
        return seen

    compare(network, run)


@pytest.mark.parametrize("network", NETWORKS)
def test_without_gradients_and_with_frozen_parts(network):
    def run(net, call):
        seen = []
        net.trunk.weight.stop_gradient = True
        for step in range(4):
            with paddle.no_grad():
                result = call(batch(step))
                assert result.stop_gradient
            seen.append(numbers_of([result]))
            call(batch(step)).mean().backward()
            seen.append(grads(net))
        return seen

    compare(network, run)


@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_that_are_asked_for(network):
    def run(net, call):
        seen = []
        for step in range(4):
            parameters = net.parameters()
            seen.append(numbers_of(paddle.grad(call(batch(step)).mean(), parameters, allow_unused=True)))
            seen.append(grads(net))
        return seen

    compare(network, run)


@pytest.mark.parametrize("network", NETWORKS)
def test_hooks_and_the_tensors_in_front(network):
    def run(net, call):
        seen = []
        paddle.seed(3)
        calls = []
        for name, parameter in net.named_parameters():
            parameter.register_hook(lambda gradient, name=name: calls.append(name))
        weight = paddle.to_tensor(np.eye(4, dtype="float32"), stop_gradient=False)
        for step in range(4):
            calls.clear()
            call(batch(step) @ weight).mean().backward()
            seen.append(numbers_of([weight.grad]) + grads(net))
            seen.append([np.array(sorted(calls))] if calls else [None])
            weight.clear_gradient(set_to_zero=False)
            net.clear_gradients(set_to_zero=False)
        return [[one if one is None or one.dtype.kind != "U" else np.array([len(one)]) for one in row] for row in seen]

    compare(network, run)


class Half(PyLayer):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x)
        return x * weight

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensor()
        return gradient * 0.5, (gradient * x).sum(0)


class WithPyLayers(nn.Layer):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 4)
        self.scale = self.create_parameter([4], default_initializer=nn.initializer.Constant(1.5))

    def forward(self, x):
        h = self.trunk(x)
        if x.mean() > 0:
            h = Half.apply(h, self.scale)
        return h * 2


class WithTargets(nn.Layer):
    """What an operator gives no gradient to."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 4)
        self.target = self.create_parameter([5, 4], default_initializer=nn.initializer.Constant(0.25))

    def forward(self, x):
        h = nn.functional.log_softmax(self.trunk(x))
        if x.mean() > 0:
            h = nn.functional.kl_div(h, self.target, reduction="none")
        return h * 2


@pytest.mark.parametrize("network", [WithPyLayers, WithTargets])
def test_custom_operations_and_targets(network):
    def run(net, call):
        seen = []
        for step in range(6):
            call(batch(step)).mean().backward()
            seen.append(grads(net))
            net.clear_gradients(set_to_zero=False)
        return seen

    compare(network, run)


class Losses(Switch):
    """Results that depend on different parameters, depending on the way."""

    def forward(self, x):
        h = self.trunk(x).tanh()
        if x.mean() > 0:
            y, z = self.one(h), h.mean()
        else:
            y, z = self.two(h), self.one(h).mean()
        return y.mean(), z, self.two(h).square().mean()


@pytest.mark.parametrize("used", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_several_results(used):
    def run(net, call):
        seen = []
        for step in range(6):
            results = call(batch(step))
            sum(results[at] for at in used).backward()
            seen.append(grads(net))
            net.clear_gradients(set_to_zero=False)
        return seen

    compare(Losses, run)


def alike(x, w):
    if x.sum() > 0:
        y = x * w
    else:
        y = x + w
    return y.sum()


def alike_in_sides_of_sides(x, w):
    if x.sum() > 0:
        y = x * w
        if x.max() > 1:
            y = y * w
    else:
        y = x + w
    return y.sum()


@pytest.mark.parametrize("function", [alike, alike_in_sides_of_sides])
def test_programs_say_nothing_where_every_way_reaches_the_same(function):
    x, w = paddle.ones([3]), paddle.ones([3])
    w.stop_gradient = False
    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    static(x, w).backward()
    (graph,) = static.graphs()
    assert "pd_op.if" in graph.program
    assert graph.program.count('output_name:"output_') == 1
