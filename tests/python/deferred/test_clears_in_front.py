"""Train steps that clear gradients first: those of the step are seen behind the call."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn, optimizer
from paddle.nn import functional as F
from train_steps import (
    FIRST,
    Convolutions,
    Tied,
    adam,
    adamw,
    around_an_error,
    check,
    described,
    momentum,
    perceptron,
    run,
    sgd,
)

pytestmark = pytest.mark.default_python


def first(net, updates, x, y):
    updates.clear_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    updates.step()
    return loss


def let_go(net, updates, x, y):
    updates.clear_grad(set_to_zero=False)
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    updates.step()
    return loss


def minimize(net, updates, x, y):
    updates.clear_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    updates.minimize(loss)
    return loss


def first_and_last(net, updates, x, y):
    updates.clear_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    updates.step()
    updates.clear_grad()
    return loss


def twice(net, updates, x, y):
    updates.clear_grad()
    net.clear_gradients()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    updates.step()
    return loss, (loss * 2).detach()


WHOLE = first, let_go, minimize, first_and_last, twice


@pytest.mark.parametrize("optimize", [sgd, momentum, adam, adamw])
@pytest.mark.parametrize("step", WHOLE, ids=lambda step: step.__name__)
def test_steps(step, optimize):
    answers, translated = run(step, perceptron, optimize, calls=20)
    # A clip by the norm of all writes to gradients.
    clipped = optimize is adamw and step is not first_and_last
    check(answers, translated, 0 if clipped else 20 - FIRST)
    assert sot.stats(translated).graphs == 1


@pytest.mark.parametrize("make", [Convolutions, Tied])
@pytest.mark.parametrize("step", WHOLE, ids=lambda step: step.__name__)
def test_networks(step, make):
    check(*run(step, make, adam), 7 - FIRST)


def by_the_network(net, updates, x, y):
    net.clear_gradients()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    updates.step()
    return loss


def without_a_step(net, updates, x, y):
    updates.clear_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    return loss


def alone(net, updates, x, y):
    updates.clear_grad()
    return F.cross_entropy(net(x), y)


def reads_a_gradient(net, updates, x, y):
    before = net.parameters()[0].grad
    updates.clear_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    updates.step()
    return loss, before if before is None else before.clone()


def reads_one_behind(net, updates, x, y):
    updates.clear_grad()
    gradient = net.parameters()[0].grad
    loss = F.cross_entropy(net(x), y)
    if gradient is not None:
        loss = loss + gradient.sum()
    loss.backward()
    updates.step()
    return loss


def returns_what_it_has(net, updates, x, y):
    updates.clear_grad()
    outputs = net(x)
    loss = F.cross_entropy(outputs, y)
    loss.backward()
    updates.step()
    return loss, outputs


def accumulates(net, updates, x, y):
    updates.clear_grad()
    for part in (x[:2], y[:2]), (x[2:], y[2:]):
        loss = F.cross_entropy(net(part[0]), part[1])
        loss.backward()
    updates.step()
    return loss


OTHERS = by_the_network, without_a_step, alone, reads_a_gradient, reads_one_behind, returns_what_it_has, accumulates


@pytest.mark.parametrize("step", OTHERS, ids=lambda step: step.__name__)
def test_eager_mode_decides(step):
    answers, _ = run(step, perceptron, adam)
    assert answers[0] == answers[1]


def held(number, net, updates):
    net.held = [it.grad for it in net.parameters()]
    return [None if it is None else described(it)[0] for it in net.held]


def added(number, net, updates):
    if number % 3 == 2:
        net(paddle.ones([2, 12])).sum().backward()


def looked_at(number, net, updates):
    seen, net.seen = getattr(net, "seen", []), [it.grad for it in net.parameters()]
    return [None if it is None else described(it)[0] for it in seen]


def frozen(number, net, updates):
    net[0].weight.stop_gradient = 3 <= number < 6


def hooked(number, net, updates):
    if number == 4:
        net.seen = []
        net.hook = net[0].weight.register_hook(lambda gradient: net.seen.append(gradient.sum().item()))
    if number == 7:
        net.hook.remove()
    return list(getattr(net, "seen", []))


def loaded(number, net, updates):
    if number == 5:
        net.kept = {
            key: it.clone() if isinstance(it, paddle.Tensor) else it for key, it in updates.state_dict().items()
        }
    if number == 9:
        updates.set_state_dict(net.kept)


@pytest.mark.parametrize("step", [first, let_go], ids=lambda step: step.__name__)
@pytest.mark.parametrize("between", [held, added, looked_at, frozen, hooked, loaded], ids=lambda it: it.__name__)
def test_between_calls(step, between):
    answers, translated = run(step, perceptron, adam, calls=14, between=between)
    assert answers[0] == answers[1]
    assert sot.stats(translated).whole_steps > 0


@pytest.mark.parametrize("step", [first, let_go], ids=lambda step: step.__name__)
def test_arguments_that_are_gradients(step):
    """What is cleared is read by the call."""

    answers = []
    for function in (step, translate(step, min_graph_size=0)):
        paddle.seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
        updates = optimizer.Adam(0.1, parameters=net.parameters())
        x, y = paddle.randn([4, 4]), paddle.randint(0, 3, [4])
        seen = []
        for number in range(10):
            taken = x if number < 5 or number % 2 else net[0].weight.grad
            try:
                seen.append(function(net, updates, taken, y).item())
            except RuntimeError as error:
                # Its memory is gone.
                seen.append(type(error))
            seen.append([it.tolist() for it in net.parameters()])
        answers.append(seen)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("after", [1, 5])
def test_an_exception_of_the_graph(after):
    answers = around_an_error(first, after)
    assert answers[0] == answers[1]
