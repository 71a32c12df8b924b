"""What else stands in a train step: steps of schedulers, and gradients that parameters and layers clear."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn, optimizer
from paddle.nn import functional as F
from paddle.optimizer import lr

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

SCHEDULERS = {
    "StepDecay": lambda: lr.StepDecay(0.1, 2, gamma=0.5),
    "MultiStepDecay": lambda: lr.MultiStepDecay(0.1, [2, 4], gamma=0.5),
    "CosineAnnealingDecay": lambda: lr.CosineAnnealingDecay(0.1, 10),
    "ExponentialDecay": lambda: lr.ExponentialDecay(0.1, 0.9),
    "PolynomialDecay": lambda: lr.PolynomialDecay(0.1, 10),
    "NoamDecay": lambda: lr.NoamDecay(64, 10),
    "PiecewiseDecay": lambda: lr.PiecewiseDecay([2, 4], [0.1, 0.05, 0.01]),
    "OneCycleLR": lambda: lr.OneCycleLR(0.1, 20),
    "CyclicLR": lambda: lr.CyclicLR(0.1, 0.2, 3),
    "LinearWarmup": lambda: lr.LinearWarmup(0.1, 4, 0.0, 0.1),
}

# They call code of the user's, or another scheduler: followed, they break the graph.
BREAKING = {
    "LambdaDecay": lambda: lr.LambdaDecay(0.1, lambda epoch: 0.9**epoch),
    "MultiplicativeDecay": lambda: lr.MultiplicativeDecay(0.1, lambda epoch: 0.9),
    "nested": lambda: lr.LinearWarmup(lr.StepDecay(0.1, 2), 4, 0.0, 0.1),
}


class Trainer:
    def __init__(self, make=SCHEDULERS["StepDecay"]):
        paddle.seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        # No gradient comes to it.
        self.net[2].bias.stop_gradient = True
        self.scheduler = make()
        self.optimizer = optimizer.AdamW(self.scheduler, parameters=self.net.parameters())

    def loss(self, x, y):
        return F.mse_loss(self.net(x), y)

    def state(self):
        known = {name: value for name, value in self.scheduler.state_dict().items() if name != "LinearWarmup_LR"}
        gradients = [None if p.grad is None else p.grad.tolist() for p in self.net.parameters()]
        return [p.tolist() for p in self.net.parameters()], gradients, known


def both(step, make=SCHEDULERS["StepDecay"], count=10):
    """Trains one in eager mode and one translated, equally; the translated step."""
    one, other = Trainer(make), Trainer(make)
    translated = translate(step)
    paddle.seed(1)
    for _ in range(count):
        x, y = paddle.randn([3, 4]), paddle.randn([3, 2])
        expected, found = step(one, x, y), translated(other, x, y)
        if not isinstance(expected, tuple):
            expected, found = (expected,), (found,)
        assert (found[0].tolist(), found[1:]) == (expected[0].tolist(), expected[1:])
        assert other.state() == one.state()
    return translated


def is_whole(translated):
    stats = sot.stats(translated)
    return (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


def between(self, x, y):
    loss = self.loss(x, y)
    loss.backward()
    self.optimizer.step()
    self.scheduler.step()
    self.optimizer.clear_grad()
    return loss


def at_the_end(self, x, y):
    loss = self.loss(x, y)
    loss.backward()
    self.optimizer.step()
    self.optimizer.clear_grad()
    self.scheduler.step()
    return loss


def at_the_start(self, x, y):
    self.scheduler.step()
    loss = self.loss(x, y)
    loss.backward()
    self.optimizer.step()
    self.optimizer.clear_grad()
    return loss


@pytest.mark.parametrize("step", [between, at_the_end])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers(name, step):
    assert is_whole(both(step, SCHEDULERS[name]))


@pytest.mark.parametrize("step", [between, at_the_end])
@pytest.mark.parametrize("name", BREAKING)
def test_schedulers_that_call_others(name, step):
    both(step, BREAKING[name])


def test_schedulers_first():
    both(at_the_start)


def test_schedulers_of_the_users():
    seen = []

    class Own(lr.LRScheduler):
        def get_lr(self):
            seen.append(self.last_epoch)
            return 0.1 / (1 + self.last_epoch)

    def step(self, x, y):
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        before = len(seen)
        self.scheduler.step()
        self.optimizer.clear_grad()
        return loss, len(seen) - before

    both(step, lambda: Own(0.1))


def test_rates_that_are_read_behind_the_step():
    def step(self, x, y):
        loss = self.loss(x, y)
        before = self.scheduler.last_lr
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.clear_grad()
        return loss, before, self.scheduler.last_lr, self.optimizer.get_lr(), self.scheduler.__dict__["last_epoch"]

    both(step)


def test_a_dictionary_that_is_read_behind_the_step():
    def step(self, held, x, y):
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return loss.tolist(), held["last_epoch"]

    answers = []
    for run in (step, translate(step)):
        trainer = Trainer()
        paddle.seed(1)
        x, y = paddle.randn([3, 4]), paddle.randn([3, 2])
        answers.append([run(trainer, trainer.scheduler.__dict__, x, y) for _ in range(4)])
    assert answers[0] == answers[1]


def test_settings_that_change(monkeypatch):
    one, other = Trainer(), Trainer()
    translated = translate(between)
    paddle.seed(1)
    for number in range(8):
        x, y = paddle.randn([3, 4]), paddle.randn([3, 2])
        assert translated(other, x, y).tolist() == between(one, x, y).tolist()
        for trainer in (one, other):
            if number == 2:
                trainer.scheduler.gamma = 2
            if number == 4:
                trainer.scheduler.get_lr = lambda: 0.25
        if number == 6:
            monkeypatch.setattr(lr.StepDecay, "step", lambda self: None)
    assert other.state() == one.state()


def all_parameters(self):
    for parameter in self.net.parameters():
        parameter.clear_gradient()


def deletes_gradients(self):
    for parameter in self.net.parameters():
        parameter.clear_gradient(False)


def those_that_train(self):
    for parameter in self.net.parameters():
        if parameter.trainable:
            parameter.clear_grad()


def the_layer(self):
    self.net.clear_gradients()


def deletes_those_of_the_layer(self):
    self.net.clear_gradients(set_to_zero=False)


CLEARS = [all_parameters, deletes_gradients, those_that_train, the_layer, deletes_those_of_the_layer]


@pytest.mark.parametrize("clear", CLEARS)
def test_what_clears_gradients(clear):
    def step(self, x, y):
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        clear(self)
        return loss

    assert is_whole(both(step))


def test_arguments_by_name():
    def step(self, x, y):
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        for parameter in self.net.parameters():
            # Paddle makes zeros of them all the same.
            parameter.clear_gradient(set_to_zero=False)
        return loss

    both(step)


@pytest.mark.parametrize("when", [0, 2])
@pytest.mark.parametrize("name", ["clear_grad", "clear_gradient"])
def test_methods_that_are_replaced(name, when, monkeypatch):
    seen = []

    def step(self, x, y):
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        before = len(seen)
        for parameter in self.net.parameters():
            parameter.clear_grad()
        behind = len(seen)
        self.net.clear_gradients()
        return loss.tolist(), behind - before, len(seen) - behind

    answers = []
    for run in (step, translate(step)):
        trainer = Trainer()
        paddle.seed(1)
        answers.append([])
        with monkeypatch.context() as patch:
            for number in range(4):
                if number == when:
                    patch.setattr(paddle.Tensor, name, lambda self, *given: seen.append(given))
                answers[-1].append(run(trainer, paddle.randn([3, 4]), paddle.randn([3, 2])))
    assert answers[0] == answers[1]


def test_gradients_that_somebody_holds():
    def step(self, held, x, y):
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        self.net.clear_gradients()
        return loss.tolist(), held.sum().tolist()

    answers = []
    for run in (step, translate(step)):
        trainer = Trainer()
        paddle.seed(1)
        x, y = paddle.randn([3, 4]), paddle.randn([3, 2])
        trainer.loss(x, y).backward()
        held = trainer.net[0].weight.grad
        answers.append([run(trainer, held, x, y) for _ in range(4)])
    assert answers[0] == answers[1]


def test_parameters_that_stop_training():
    def step(self, x, y):
        trains = [p.trainable for p in self.net.parameters()]
        return self.loss(x, y), trains

    one = Trainer()
    translated = translate(step)
    x, y = paddle.randn([3, 4]), paddle.randn([3, 2])
    for number in range(3):
        assert translated(one, x, y)[1] == step(one, x, y)[1]
        one.net[0].weight.trainable = number == 1


def rate_first(self, x, y):
    rate = self.optimizer.get_lr()
    loss = self.loss(x, y)
    loss.backward()
    self.optimizer.step()
    self.scheduler.step()
    self.optimizer.clear_grad()
    return loss, rate


def rate_between(self, x, y):
    loss = self.loss(x, y)
    loss.backward()
    rate = self.optimizer.get_lr()
    self.optimizer.step()
    self.optimizer.clear_grad()
    self.scheduler.step()
    return loss, rate


@pytest.mark.parametrize("step", [rate_first, rate_between], ids=lambda step: step.__name__)
@pytest.mark.parametrize("name", ["StepDecay", "CosineAnnealingDecay"])
def test_the_rate_is_asked_for_in_front_of_the_step(name, step):
    assert is_whole(both(step, SCHEDULERS[name]))


def test_what_hides_a_method_is_seen():
    one, other = Trainer(), Trainer()
    translated = translate(rate_first)
    for rate in (None, 5.0, 6.0):
        for trainer in (one, other):
            if rate is not None:
                trainer.optimizer.get_lr = lambda rate=rate: rate
        x, y = paddle.ones([3, 4]), paddle.ones([3, 2])
        assert translated(other, x, y)[1] == rate_first(one, x, y)[1]
        assert one.state() == other.state()
