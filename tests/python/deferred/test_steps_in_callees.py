"""Calls of a train step in functions that the translated one calls: they are deferred as its own are."""

import contextlib
import traceback

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn, optimizer
from paddle.nn import functional as F


class Trainer:
    def __init__(self):
        paddle.seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.optimizer = optimizer.AdamW(0.02, parameters=self.net.parameters())
        self.scaler = paddle.amp.GradScaler(enable=False)
        self.seen = []

    def loss(self, x, y):
        return F.mse_loss(self.net(x), y)

    def update(self, loss):
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()

    def below(self, loss):
        self.update(loss)

    def state(self):
        return [p.tolist() for p in self.net.parameters()], self.seen


def batches(count=8):
    paddle.seed(1)
    return [(paddle.randn([3, 4]), paddle.randn([3, 2])) for _ in range(count)]


def one_level(self, x, y):
    loss = self.loss(x, y)
    self.update(loss)
    return loss


def two_levels(self, x, y):
    loss = self.loss(x, y)
    self.below(loss)
    return loss


def in_pieces(self, x, y):
    def backward(loss):
        loss.backward()

    loss = self.loss(x, y)
    backward(loss)
    nn.utils.clip_grad_norm_(self.net.parameters(), 0.1)
    self.optimizer.step()
    self.optimizer.clear_grad()
    return loss * 2


def scaled(self, x, y):
    loss = self.loss(x, y)
    self.scaler.scale(loss).backward()
    self.scaler.step(self.optimizer)
    self.scaler.update()
    self.optimizer.clear_grad()
    return loss


def clipped_below(self, x, y):
    def clip(parameters):
        nn.utils.clip_grad_norm_(parameters, 0.1)

    loss = self.loss(x, y)
    loss.backward()
    clip(self.net.parameters())
    self.optimizer.step()
    self.optimizer.clear_grad()
    return loss


WHOLE = [one_level, two_levels, in_pieces, scaled, clipped_below]


def both(step, count=8):
    """Trains one in eager mode and one translated, equally; the translated step."""
    one, other = Trainer(), Trainer()
    translated = translate(step)
    for x, y in batches(count):
        expected, found = step(one, x, y), translated(other, x, y)
        assert found.tolist() == expected.tolist()
        assert other.state() == one.state()
    return translated


@pytest.mark.parametrize("step", WHOLE)
def test_whole_steps(step):
    stats = sot.stats(both(step))
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])
    assert stats.own_steps == {"states are made": 1}


def test_what_is_computed_behind_it():
    def step(self, x, y):
        loss = self.loss(x, y)
        self.update(loss)
        return loss + self.net(x).sum()

    assert len(sot.stats(both(step)).graph_breaks) > 0


def test_two_rounds():
    def step(self, x, y):
        for _ in range(2):
            loss = self.loss(x, y)
            self.update(loss)
        return loss

    both(step)


def test_what_is_written_behind_it():
    def step(self, x, y):
        loss = self.loss(x, y)
        self.update(loss)
        self.seen.append(self.net[0].bias.grad.sum().item())
        return loss

    both(step)


@pytest.mark.parametrize("kind", ["try", "with", "finally"])
def test_what_sees_exceptions_around_the_call(kind):
    def step(self, x, y):
        loss = self.loss(x, y)
        if kind == "try":
            try:
                self.update(loss)
            except TypeError:
                self.seen.append("caught")
        elif kind == "with":
            with contextlib.suppress(TypeError):
                self.update(loss)
        else:
            try:
                self.update(loss)
            finally:
                self.seen.append("done")
        return loss

    one, other = Trainer(), Trainer()
    translated = translate(step)
    for number, (x, y) in enumerate(batches(5)):
        for trainer in (one, other):
            trainer.net[0].weight.regularizer = "no function" if number == 2 else None
        found = []
        for run, trainer in ((step, one), (translated, other)):
            try:
                found.append(run(trainer, x, y).tolist())
            except TypeError as error:
                found.append(str(error))
        assert found[0] == found[1]
        assert other.state() == one.state()
        for trainer in (one, other):
            trainer.optimizer.clear_grad()


@pytest.mark.parametrize("step", [one_level, two_levels, scaled])
def test_tracebacks(step):
    one, other = Trainer(), Trainer()
    translated = translate(step)
    for x, y in batches(3):
        step(one, x, y), translated(other, x, y)
    found = []
    for run, trainer in ((step, one), (translated, other)):
        trainer.net[0].weight.regularizer = "no function"
        with pytest.raises(TypeError) as caught:
            run(trainer, *batches(1)[0])
        frames = traceback.extract_tb(caught.value.__traceback__)
        found.append([(it.filename, it.name, it.lineno, it.line) for it in frames if it.name != "test_tracebacks"])
    assert found[0] == found[1]
    assert other.state() == one.state()


def test_generators():
    def losses(self, x, y):
        for _ in range(2):
            loss = self.loss(x, y)
            self.update(loss)
            yield loss

    def step(self, x, y):
        return sum(losses(self, x, y))

    both(step)


def test_code_without_gradients_around_it():
    @paddle.no_grad()
    def update(self):
        self.optimizer.step()
        self.optimizer.clear_grad()

    def step(self, x, y):
        loss = self.loss(x, y)
        loss.backward()
        update(self)
        return loss

    both(step)


def reads_the_loss(self, loss):
    loss.backward()
    self.optimizer.step()
    self.optimizer.clear_grad()
    return loss.item()


def shows_a_gradient(self, loss):
    loss.backward()
    self.seen.append(self.net[0].bias.grad.tolist())
    self.optimizer.step()
    self.optimizer.clear_grad()
    self.seen.append(self.net[0].bias.tolist())


def clears_first(self, loss):
    self.optimizer.clear_grad()
    loss.backward()
    self.optimizer.step()


def counts(self, loss):
    self.seen.append(1)
    loss.backward()
    self.seen.append(2)
    self.optimizer.step()
    self.optimizer.clear_grad()


def calls_itself(self, loss, depth=3):
    if depth:
        return calls_itself(self, loss, depth - 1)
    loss.backward()
    self.optimizer.step()
    self.optimizer.clear_grad()
    return self.optimizer.get_lr()


def goes_back_twice(self, loss):
    loss.backward(retain_graph=True)
    loss.backward()
    self.optimizer.step()
    self.optimizer.clear_grad()


CALLEES = [reads_the_loss, shows_a_gradient, clears_first, counts, calls_itself, goes_back_twice]


@pytest.mark.parametrize("update", CALLEES)
def test_what_else_a_callee_does(update):
    def step(self, x, y):
        loss = self.loss(x, y)
        self.seen.append(update(self, loss))
        return loss

    both(step)


@pytest.mark.parametrize("update", CALLEES)
def test_what_is_done_behind_a_callee(update):
    def step(self, x, y):
        self.seen.append(0)
        loss = self.loss(x, y)
        update(self, loss)
        self.seen.append(len(self.seen))
        return loss + 1

    both(step)
