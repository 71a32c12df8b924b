"""Train steps whose update is part of their program: nobody can tell, but by the time that they take."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn, optimizer
from paddle.nn import functional as F
from train_steps import (
    FIRST,
    Attention,
    Convolutions,
    Tied,
    adam,
    adamw,
    around_an_error,
    check,
    described,
    given,
    momentum,
    perceptron,
    run,
    sgd,
    state,
    step,
)

pytestmark = pytest.mark.default_python


def step_to_none(net, updates, x, y):
    outputs = net(x)
    loss = F.cross_entropy(outputs, y)
    loss.backward()
    updates.step()
    updates.clear_grad(set_to_zero=False)
    return loss, outputs.argmax(-1)


def without_a_result(net, updates, x, y):
    F.cross_entropy(net(x), y).backward()
    updates.step()
    updates.clear_grad()


def with_a_schedule(net, updates, x, y):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    updates.step()
    updates.clear_grad()
    if isinstance(updates._learning_rate, optimizer.lr.LRScheduler):
        updates._learning_rate.step()
    return loss


class Trainer:
    def loss(self, net, x, y):
        return F.cross_entropy(net(x), y)

    def update(self, loss, updates):
        loss.backward()
        updates.step()
        updates.clear_grad()


def in_methods(net, updates, x, y):
    trainer = Trainer()
    loss = trainer.loss(net, x, y)
    trainer.update(loss, updates)
    return loss


SCALER = paddle.amp.GradScaler(enable=False)


def with_a_scaler(net, updates, x, y):
    """On a CPU all scalers are off."""
    loss = F.cross_entropy(net(x), y)
    SCALER.scale(loss).backward()
    SCALER.unscale_(updates)
    SCALER.step(updates)
    SCALER.update()
    updates.clear_grad()
    return loss


def with_a_scaler_and_the_network(net, updates, x, y):
    loss = F.cross_entropy(net(x), y)
    SCALER.scale(loss).backward()
    SCALER.step(updates)
    net.clear_gradients(set_to_zero=False)
    SCALER.update()
    return loss


STEPS = (
    with_a_scaler,
    with_a_scaler_and_the_network,
    step,
    step_to_none,
    without_a_result,
    with_a_schedule,
    in_methods,
)


@pytest.mark.parametrize("optimize", [sgd, momentum, adam, adamw])
@pytest.mark.parametrize("make", [perceptron, Convolutions, Tied, Attention])
def test_networks(make, optimize):
    answers, translated = run(step, make, optimize)
    check(answers, translated, 7 - FIRST)
    assert sot.stats(translated).graphs == 1


@pytest.mark.parametrize("optimize", [sgd, adamw])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_steps(step, optimize):
    check(*run(step, perceptron, optimize), 7 - FIRST)


@pytest.mark.parametrize("optimize", [sgd, momentum, adam])
def test_double_precision(optimize):
    check(*run(step, perceptron, optimize, dtype="float64"), 7 - FIRST)


@pytest.mark.parametrize("backend", ["cinn", "eager"])
def test_other_backends_leave_it_apart(backend):
    check(*run(step, perceptron, adamw, backend=backend), 0)


@pytest.mark.parametrize("make", [perceptron, Convolutions])
@pytest.mark.parametrize("backend", ["onednn", "pylayer"])
def test_backends_that_train_by_the_default_one(backend, make):
    check(*run(step, make, adamw, backend=backend), 7 - FIRST)


def test_groups_without_some_parameters_stay_apart():
    def optimize(net):
        groups = [{"params": net[0].parameters()}, {"params": net[2].parameters(), "learning_rate": 0.1}]
        return optimizer.AdamW(0.01, parameters=groups)

    check(*run(step, perceptron, optimize), 0)


def test_a_parameter_that_the_optimizer_has_not():
    check(*run(step, perceptron, lambda net: optimizer.SGD(0.1, parameters=net[0].parameters())), 0)


def test_a_parameter_twice():
    def between(number, net, updates):
        if number == 4:
            updates._parameter_list[-1] = updates._parameter_list[0]

    answers, translated = run(step, perceptron, momentum, between=between)
    assert answers[0] == answers[1]
    assert sot.stats(translated).whole_steps == 2


@pytest.mark.parametrize("after", [1, 5])
def test_an_exception_of_the_graph_leaves_all_as_it_was(after):
    answers = around_an_error(step, after)
    assert answers[0] == answers[1]


def test_nothing_goes_through_its_results_again():
    translated = translate(step, min_graph_size=0)
    paddle.seed(0)
    net = perceptron()
    updates = sgd(net)
    for number in range(5):
        loss = translated(net, updates, *given(number))
    assert sot.stats(translated).whole_steps == 3
    with pytest.raises(SystemError, match="calculate backward twice"):
        loss.backward()
    assert paddle.grad(2 * loss, [loss])[0].item() == 2.0


def test_nan_checks():
    """Kernels are looked at one by one then; the first one that is wrong raises."""

    def between(number, net, updates):
        paddle.set_flags({"FLAGS_check_nan_inf": number >= 4})

    try:
        answers, translated = run(step, perceptron, adamw, between=between)
    finally:
        paddle.set_flags({"FLAGS_check_nan_inf": False})
    assert answers[0] == answers[1]
    assert sot.stats(translated).whole_steps <= 2


def with_a_break(net, updates, x, y):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    updates.step()
    updates.clear_grad()
    value = float(loss)
    return loss * value


def test_a_break_behind_it():
    answers, translated = run(with_a_break, perceptron, momentum)
    assert answers[0] == answers[1]
    stats = sot.stats(translated)
    assert stats.whole_steps == 7 - FIRST
    assert len(stats.graph_breaks) == 1


def adversarial(nets, updates, x, y):
    """Both networks of a GAN; the second step has gradients for the first one's network as well."""
    generator, critic = nets
    fake = generator(x)
    loss = critic(fake.detach()).mean() - critic(x).mean()
    loss.backward()
    updates[0].step()
    updates[0].clear_grad()
    other = -critic(generator(x)).mean()
    other.backward()
    updates[1].step()
    updates[1].clear_grad()
    return loss, other


def train_both(step):
    """Trains both networks in eager mode and translated, which must be equal; the translated function."""
    answers, translated = [], translate(step, min_graph_size=0)
    for function in (step, translated):
        paddle.seed(0)
        nets = nn.Sequential(nn.Linear(12, 12), nn.Tanh()), nn.Sequential(nn.Linear(12, 4), nn.Tanh(), nn.Linear(4, 1))
        updates = momentum(nets[1]), momentum(nets[0])
        seen = []
        for number in range(8):
            seen.append(described(function(nets, updates, *given(number))))
            seen.extend(state(*pair) for pair in zip(nets, updates[::-1], strict=True))
        answers.append(seen)
    assert answers[0] == answers[1]
    return translated


def test_two_steps_in_one_function():
    translated = train_both(adversarial)
    # The first one's gradients are not cleared between its steps.
    assert sot.stats(translated).whole_steps == 0


def test_a_second_step_whose_other_network_is_frozen():
    def frozen(nets, updates, x, y):
        generator, critic = nets
        loss = critic(generator(x).detach()).mean() - critic(x).mean()
        loss.backward()
        updates[0].step()
        updates[0].clear_grad()
        for parameter in critic.parameters():
            parameter.stop_gradient = True
        other = -critic(generator(x)).mean()
        other.backward()
        updates[1].step()
        updates[1].clear_grad()
        for parameter in critic.parameters():
            parameter.stop_gradient = False
        return loss, other

    assert sot.stats(train_both(frozen)).whole_steps > 0


def test_negative_zeros_of_gradients_stay():
    """Eager mode hands a gradient on to a leaf whose gradient was cleared; nothing is added to a zero."""

    def step(net, updates, x, y):
        loss = (net.weight * x).sum() + (net.bias * y).sum()
        for _ in range(6):
            loss = loss * 1.0
        loss.backward()
        updates.step()
        updates.clear_grad()
        return loss

    answers = []
    for function in (step, translate(step, min_graph_size=0)):
        net = nn.Linear(2, 2)
        for parameter in net.parameters():
            parameter.set_value(paddle.full_like(parameter, -0.0))
        updates = optimizer.SGD(1.0, parameters=net.parameters())
        for _ in range(5):
            function(net, updates, paddle.full([2, 2], -0.0), paddle.full([2], -0.0))
        answers.append([(1 / each).tolist() for each in net.parameters()])
    assert answers[0] == answers[1]
