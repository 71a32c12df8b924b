"""Whole steps whose gradients are cleared through the network, or one by one, and that call `minimize`."""

import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn, optimizer
from paddle.nn import functional as F
from train_steps import FIRST, Convolutions, adam, adamw, check, momentum, perceptron, run, sgd

pytestmark = pytest.mark.default_python


def loss_of(net, x, y):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    return loss


def the_network(net, updates, x, y):
    loss = loss_of(net, x, y)
    updates.step()
    net.clear_gradients()
    return loss


def let_go(net, updates, x, y):
    loss = loss_of(net, x, y)
    updates.step()
    net.clear_gradients(set_to_zero=False)
    return loss


def one_by_one(net, updates, x, y):
    loss = loss_of(net, x, y)
    updates.step()
    for parameter in net.parameters():
        parameter.clear_grad()
    return loss


def backwards(net, updates, x, y):
    loss = loss_of(net, x, y)
    updates.step()
    for parameter in net.parameters()[::-1]:
        parameter.clear_gradient(False)
    return loss


def by_both(net, updates, x, y):
    loss = loss_of(net, x, y)
    updates.step()
    net.clear_gradients()
    updates.clear_grad()
    return loss


def minimize(net, updates, x, y):
    loss = loss_of(net, x, y)
    updates.minimize(loss)
    updates.clear_grad()
    return loss


def minimize_and_let_go(net, updates, x, y):
    loss = loss_of(net, x, y)
    updates.minimize(loss)
    net.clear_gradients(False)
    return loss


WHOLE = the_network, let_go, one_by_one, backwards, by_both, minimize, minimize_and_let_go


@pytest.mark.parametrize("optimize", [sgd, momentum, adam, adamw])
@pytest.mark.parametrize("step", WHOLE, ids=lambda step: step.__name__)
def test_whole_steps(step, optimize):
    answers, translated = run(step, perceptron, optimize, calls=20)
    check(answers, translated, 20 - FIRST)
    assert sot.stats(translated).graphs == 1


@pytest.mark.parametrize("step", WHOLE, ids=lambda step: step.__name__)
def test_convolutions(step):
    check(*run(step, Convolutions, adam), 7 - FIRST)


def some(net, updates, x, y):
    loss = loss_of(net, x, y)
    updates.step()
    for parameter in net.parameters()[1:]:
        parameter.clear_grad()
    return loss


def otherwise(net, updates, x, y):
    loss = loss_of(net, x, y)
    updates.step()
    for parameter in net.parameters():
        parameter.clear_gradient(parameter.ndim == 2)
    return loss


def taken(net, updates, x, y):
    loss = loss_of(net, x, y)
    found = updates.minimize(loss)
    updates.clear_grad()
    return loss, paddle.to_tensor(len(found[1]))


def named(net, updates, x, y):
    loss = loss_of(net, x, y)
    updates.minimize(loss, parameters=net.parameters()[:2])
    updates.clear_grad()
    return loss


@pytest.mark.parametrize("step", [some, otherwise, taken, named], ids=lambda step: step.__name__)
def test_other_steps_stay_apart(step):
    answers, translated = run(step, perceptron, adam)
    assert answers[0] == answers[1]
    assert sot.stats(translated).whole_steps == 0


class WithOthers(nn.Layer):
    """Not all of its parameters are used."""

    def __init__(self):
        super().__init__()
        self.used, self.left = nn.Linear(12, 3), nn.Linear(2, 2)

    def forward(self, x):
        return F.tanh(self.used(x)).exp().sqrt() * 2 + 1


@pytest.mark.parametrize("step", WHOLE, ids=lambda step: step.__name__)
def test_gradients_of_parameters_that_are_not_used(step):
    def between(number, net, updates):
        if number in (3, 5):
            (net.left(paddle.ones([1, 2])) * number).sum().backward()

    answers, translated = run(
        step, WithOthers, lambda net: optimizer.Adam(0.1, parameters=net.used.parameters()), between=between
    )
    assert answers[0] == answers[1]
    assert sot.stats(translated).whole_steps > 0


@pytest.mark.parametrize("step", [minimize, minimize_and_let_go], ids=lambda step: step.__name__)
def test_minimize_with_a_frozen_parameter(step):
    """It takes the gradient that such a one has, which a clip of all of them sees."""

    def between(number, net, updates):
        net[0].weight.stop_gradient = number == 4
        if number == 3:
            F.cross_entropy(net(paddle.ones([2, 12])), paddle.zeros([2], "int64")).backward()

    answers, _ = run(step, perceptron, adamw, between=between)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("step", [minimize, the_network], ids=lambda step: step.__name__)
def test_groups(step):
    def optimize(net):
        groups = [{"params": net[0].parameters()}, {"params": [*net[2].parameters(), *net[4].parameters()]}]
        return optimizer.AdamW(0.01, parameters=groups)

    if step is minimize:
        with pytest.raises(TypeError):
            run(step, perceptron, optimize)
        return
    check(*run(step, perceptron, optimize), 7 - FIRST)
