"""Callers of translated code that go backward more than once, ask for gradients, or for gradients of gradients."""

import gc
import os

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import _Picture, difference, tensor, translate
from paddle import nn

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


def layers(*widths, between=nn.Tanh):
    parts = []
    for width, following in zip(widths, widths[1:], strict=False):
        parts += [nn.Linear(width, following), between()]
    return nn.Sequential(*parts[:-1])


class Heads(nn.Layer):
    """Outputs that depend on different parameters."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 3)
        self.one, self.two = nn.Linear(3, 1), nn.Linear(3, 2)

    def forward(self, x):
        x = self.trunk(x).tanh()
        return self.one(x), self.two(x)


class Step:
    """What a program does with translated parts, and everything that it sees."""

    def __init__(self, wrap):
        self.wrap, self.seen, self.layers = wrap, [], []

    def part(self, made):
        made = self.wrap(made)
        if isinstance(made, nn.Layer):
            self.layers.append(made)
        return made

    def see(self, *values):
        grads = [None if p.grad is None else p.grad.numpy() for layer in self.layers for p in layer.parameters()]
        values = [v.numpy() if isinstance(v, paddle.Tensor) else v for v in values]
        self.seen.append(_Picture().of([values, grads]))

    def forget(self):
        for layer in self.layers:
            layer.clear_gradients()


def retained(step):
    net = step.part(layers(4, 6, 3, between=nn.Sigmoid))
    for seed in range(3):
        x = tensor(5, 4, seed=seed, grad=True)
        loss = net(x).square().mean()
        for _ in range(3):
            loss.backward(retain_graph=True)
            step.see(x.grad)
        loss.backward()
        step.see(x.grad)
        step.forget()


def retained_in_several_losses(step):
    net = step.part(Heads())
    for seed in range(3):
        one, two = net(tensor(5, 4, seed=seed))
        one.mean().backward(retain_graph=True)
        step.see()
        two.square().mean().backward()
        step.see()
        step.forget()


def retained_by_paddle_autograd(step):
    net = step.part(layers(4, 6, 3))
    x = tensor(5, 4, grad=True)
    y = net(x)
    paddle.autograd.backward([y.sum(), y.mean()], retain_graph=True)
    paddle.autograd.backward([y], [paddle.ones_like(y)])
    step.see(x.grad)


def many_in_flight(step):
    net = step.part(layers(4, 6, 3))
    inputs = [tensor(2, 4, seed=seed, grad=True) for seed in range(40)]
    losses = [net(x).sum() for x in inputs]
    for loss in losses:
        loss.backward(retain_graph=True)
    step.see()
    sum(losses).backward()
    step.see(*(x.grad for x in inputs))


def through_time(step):
    cell = step.part(nn.GRUCell(3, 4))
    for length in (40, 5, 40):
        state, x = paddle.zeros([2, 4]), tensor(2, 3, grad=True)
        for _ in range(length):
            _, state = cell(x, state)
        state.sum().backward()
        step.see(x.grad)
        step.forget()


def gradients_then_backward(step):
    net = step.part(layers(4, 6, 3))
    for seed in range(3):
        x = tensor(5, 4, seed=seed, grad=True)
        y = net(x)
        (gradient,) = paddle.grad(y.sum(), x, retain_graph=True)
        y.mean().backward()
        step.see(gradient, x.grad)
        step.forget()


def gradients_of_heads(step):
    net = step.part(Heads())
    for seed in range(3):
        x = tensor(2, 4, seed=seed, grad=True)
        one, two = net(x)
        step.see(*paddle.grad(one.sum(), [x, net.one.weight], retain_graph=True))
        step.see(*paddle.grad(two.sum(), [x, net.two.weight], retain_graph=True))
        one.sum().backward()
        step.see(x.grad)
        step.forget()


def gradient_penalty(step):
    critic = step.part(nn.Sequential(nn.Conv2D(1, 4, 3, padding=1), nn.LeakyReLU(), nn.Conv2D(4, 1, 4)))
    optimizer = paddle.optimizer.RMSProp(1e-2, parameters=critic.parameters())
    for seed in range(3):
        real, fake = tensor(3, 1, 4, 4, seed=seed), tensor(3, 1, 4, 4, seed=seed + 9)
        mixed = real * 0.25 + fake * 0.75
        mixed.stop_gradient = False
        judged = critic(mixed)
        ones = paddle.ones_like(judged)
        (gradient,) = paddle.grad(judged, mixed, grad_outputs=ones, create_graph=True, retain_graph=True)
        penalty = ((gradient.reshape([3, -1]).square().sum(axis=1).sqrt() - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        loss.backward()
        step.see(loss, penalty)
        optimizer.step()
        optimizer.clear_grad()


def differential_equation(step):
    net = step.part(layers(2, 8, 8, 1))
    for seed in range(3):
        x = tensor(6, 2, seed=seed, grad=True)
        u = net(x)
        (first,) = paddle.grad(u, x, create_graph=True)
        (second,) = paddle.grad(first[:, :1], x, create_graph=True)
        (third,) = paddle.grad(second[:, :1], x, create_graph=True)
        loss = ((first[:, 1:] + u * first[:, :1] - second[:, :1] + third[:, :1]) ** 2).mean()
        loss.backward()
        step.see(first, second, third, loss)
        step.forget()


def chain(step):
    one, two = step.part(layers(3, 4, 4)), step.part(layers(4, 4, 1, between=nn.Sigmoid))
    for seed in range(3):
        x = tensor(5, 3, seed=seed, grad=True)
        hidden = one(x)
        y = two(hidden.square() + hidden) + hidden.mean() + x.sum()
        (gradient,) = paddle.grad(y.sum(), x, create_graph=True)
        (gradient.square().sum() + y.mean()).backward()
        step.see(y, gradient, x.grad)
        step.forget()


def running_statistics(step):
    net = step.part(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1D(4), nn.Tanh(), nn.Linear(4, 1)))
    for seed in range(3):
        x = tensor(5, 3, seed=seed, grad=True)
        (gradient,) = paddle.grad(net(x).square().sum(), x, create_graph=True)
        step.see(gradient, net[1]._mean, net[1]._variance)
        (gradient.square().sum() * 0.01).backward()
        step.see(net[1]._mean)
        step.forget()


def inner_steps(step):
    forward = step.part(lambda x, w, b: paddle.tanh(x @ w + b).sum(axis=-1))
    w, b = tensor(3, 2, seed=1, grad=True), tensor(2, seed=2, grad=True)
    for seed in range(3):
        loss = forward(tensor(4, 3, seed=seed), w, b).square().mean()
        grads = paddle.grad(loss, [w, b], create_graph=True)
        outer = forward(tensor(4, 3, seed=seed + 5), w - 0.1 * grads[0], b - 0.1 * grads[1]).square().mean()
        outer.backward()
        step.see(loss, outer, w.grad, b.grad)


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
@pytest.mark.parametrize(
    "program",
    [
        *(retained, retained_in_several_losses, retained_by_paddle_autograd, many_in_flight, through_time),
        *(gradients_then_backward, gradients_of_heads, gradient_penalty, differential_equation, chain),
        *(running_statistics, inner_steps),
    ],
)
def test_equals_eager(program, backend):
    steps = [Step(lambda part: part), Step(lambda part: translate(part, backend=backend))]
    for step in steps:
        paddle.seed(3)
        program(step)
    found = difference(steps[0].seen, steps[1].seen, close=True)
    assert found is None, f"eager and translated: {found}"


def test_a_program_that_is_used_up_raises():
    net = translate(layers(4, 6, 3))
    loss = net(tensor(2, 4)).sum()
    loss.backward()
    with pytest.raises((RuntimeError, SystemError), match="retain_graph"):
        loss.backward()


def test_dropout_raises_what_eager_mode_raises():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 1))
    for f in (net, sot.to_static(lambda x: net(x), min_graph_size=0)):
        x = tensor(2, 4, grad=True)
        with pytest.raises(RuntimeError, match="dropout_grad doesn't have any grad op"):
            paddle.grad(f(x).sum(), x, create_graph=True)


def test_memory_that_was_kept_is_freed():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def step():
        x = paddle.rand([512, 256])
        x.stop_gradient = False
        loss = net(x).sum()
        loss.backward(retain_graph=True)
        paddle.grad(loss, x)
        (gradient,) = paddle.grad(loss, x, create_graph=True)
        gradient.sum().backward()
        net.clear_gradients()

    net = translate(layers(256, 256, 256))
    for _ in range(20):
        step()
    gc.collect()
    before = resident()
    for _ in range(100):
        step()
    gc.collect()
    # One step keeps some four megabytes.
    assert resident() - before < 40


def elsewhere(translated):
    """Gradients are asked for beside a program, which must still go backward."""
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    y = translated(x)
    copy = y.detach()
    copy.stop_gradient = False
    beside = paddle.grad((copy * y).sum(), copy)[0]
    again = paddle.grad((copy * y).sum(), copy, create_graph=True)[0]
    (y * y).sum().backward()
    return beside.tolist(), again.tolist(), x.grad.tolist()


@pytest.mark.parametrize("capture", [False, True])
def test_gradients_asked_for_beside_a_program(capture):
    def function(x):
        return x * 2 + 1

    translated = sot.to_static(function, min_graph_size=0, capture_control_flow=capture)
    for _ in range(3):
        assert elsewhere(translated) == elsewhere(function)


def test_gradients_asked_for_beside_captured_control_flow():
    def function(x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        return y

    translated = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    try:
        found = elsewhere(translated)
    except RuntimeError as error:
        assert "captured control flow" in str(error)
    else:
        assert found == elsewhere(function)


def test_a_graph_that_goes_while_an_exception_is_on_its_way(caplog):
    """A value on the stack goes with the exception set: what then runs in Python must not meet it, nor swallow it."""

    def boom():
        raise ValueError("on its way")

    def once(function, backward):
        x = tensor(2, 3, grad=True)
        y = function(x)
        backward(y, x)
        return y

    def by_grad(y, x):
        return paddle.grad(y.sum(), x, retain_graph=True)

    function = translate(lambda x: (x * 2).tanh())
    for backward in (by_grad, lambda y, x: y.sum().backward(retain_graph=True), lambda y, x: y.sum().backward()):
        for _ in range(2):
            with pytest.raises(ValueError, match="on its way") as raised:
                [once(function, backward), boom()]  # noqa: B018 - the list is never made
            assert [frame.name for frame in raised.traceback][1:] == ["boom"]
    assert not caplog.records
    assert sot.stats(function).graphs == 1


def test_gradients_of_gradients_by_what_another_graph_returned():
    def first(x):
        return (x.tanh() * 2).sin()

    def second(y):
        return (y * y).exp().mean()

    def gradients(first, second):
        x = tensor(2, 3, grad=True)
        y = first(x)
        z = y * 3
        (of_y, of_z) = paddle.grad([second(y) + second(z)], [y, z], create_graph=True)
        of_y.square().sum().backward(retain_graph=True)
        of_z.square().sum().backward()
        return [of_y.numpy(), of_z.numpy(), x.grad.numpy()]

    plain = gradients(first, second)
    for one, other in ((translate(first), second), (first, translate(second)), (translate(first), translate(second))):
        for a, b in zip(plain, gradients(one, other), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
