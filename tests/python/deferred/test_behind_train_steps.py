"""What is computed behind a train step from what it does not change: metrics, averages of losses. It is one graph."""

import contextlib
import traceback

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn, optimizer
from paddle.nn import functional as F

pytestmark = pytest.mark.default_python


class Trainer:
    def __init__(self, given=optimizer.AdamW, rate=0.01):
        paddle.seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        self.rate = rate() if callable(rate) else rate
        self.optimizer = given(self.rate, parameters=self.net.parameters())
        self.smooth = paddle.zeros([])
        self.batch = 0
        self.losses = []

    def state(self):
        held = self.optimizer.state_dict().items()
        state = [value.tolist() for name, value in held if paddle.is_tensor(value)]
        gradients = [None if p.grad is None else p.grad.tolist() for p in self.net.parameters()]
        return [p.tolist() for p in self.net.parameters()], state, gradients, seen(self.losses), self.smooth.item()


def seen(value):
    if isinstance(value, dict):
        return {key: seen(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [seen(item) for item in value]
    if paddle.is_tensor(value):
        return value.tolist(), value.dtype, value.stop_gradient, value.is_leaf
    return value


def batches(count=20):
    paddle.seed(1)
    return [(paddle.randn([5, 4]), paddle.randint(0, 3, [5])) for _ in range(count)]


def compare(step, graphs=1, breaks=0, count=20, make=Trainer):
    one, other = make(), make()
    translated = translate(step)
    for x, y in batches(count):
        assert seen(translated(other, x, y)) == seen(step(one, x, y))
    assert other.state() == one.state()
    stats = sot.stats(translated)
    assert (stats.graphs, len(stats.graph_breaks), stats.fallbacks) == (graphs, breaks, [])


def correct(self, logits, loss, x, y):
    return loss, (logits.argmax(-1) == y).astype("float32").mean()


def prediction(self, logits, loss, x, y):
    return loss.detach(), logits.argmax(-1)


def top(self, logits, loss, x, y):
    values, places = paddle.topk(logits.detach(), 2)
    return values, places, paddle.equal(places, y.unsqueeze(-1)).any(-1).sum()


def probabilities(self, logits, loss, x, y):
    with paddle.no_grad():
        return loss, F.softmax(logits)


def logged(self, logits, loss, x, y):
    return {"loss": loss.detach(), "perplexity": loss.detach().exp(), "batch": x.shape[0]}


def smoothed(self, logits, loss, x, y):
    self.smooth = 0.9 * self.smooth + 0.1 * loss.detach()
    return self.smooth


def gathered(self, logits, loss, x, y):
    self.losses.append(loss.detach())
    return logits.detach().mean(0), x.abs().max()


def new_ones(self, logits, loss, x, y):
    return loss, paddle.zeros([2]), paddle.to_tensor(3.0), paddle.zeros_like(y)


def views(self, logits, loss, x, y):
    return logits.detach()[0], logits.detach().reshape([-1]), y.unsqueeze(0), x.T


def with_gradients(self, logits, loss, x, y):
    return loss * 2, F.softmax(logits, -1).argmax(-1), (F.sigmoid(logits) > 0.5).sum()


BEHIND = [correct, prediction, top, probabilities, logged, smoothed, gathered, new_ones, views, with_gradients]


@pytest.mark.parametrize("behind", BEHIND, ids=lambda it: it.__name__)
def test_twenty_steps(behind):
    def step(self, x, y):
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return behind(self, logits, loss, x, y)

    compare(step)


@pytest.mark.parametrize("behind", [correct, prediction, smoothed], ids=lambda it: it.__name__)
def test_between_the_calls_of_a_step(behind):
    def step(self, x, y):
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        self.optimizer.clear_grad()
        loss.backward()
        result = behind(self, logits, loss, x, y)
        self.optimizer.step()
        return result

    # What the frame writes has to come before the step.
    compare(step, breaks=int(behind is smoothed))


@pytest.mark.parametrize("kind", ["SGD", "Momentum", "Adam"])
def test_schedules_and_rates(kind):
    def step(self, x, y):
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return (logits.argmax(-1) == y).sum(), self.optimizer.get_lr()

    compare(step, make=lambda: Trainer(getattr(optimizer, kind)))


def of_a_parameter(self, logits, loss, x, y):
    return self.net[0].weight.norm()


def of_a_view_of_a_parameter(self, logits, loss, x, y):
    return self.early.sum(), self.early * 1


def another_forward(self, logits, loss, x, y):
    with paddle.no_grad():
        return F.cross_entropy(self.net(x), y)


def noise(self, logits, loss, x, y):
    return logits.detach() + paddle.randn([5, 3])


@pytest.mark.parametrize(
    "behind", [of_a_parameter, of_a_view_of_a_parameter, another_forward, noise], ids=lambda it: it.__name__
)
def test_what_a_step_may_change_begins_another_graph(behind):
    def step(self, x, y):
        self.early = self.net[0].weight.detach()
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        paddle.seed(5)
        return behind(self, logits, loss, x, y)

    one, other = Trainer(), Trainer()
    translated = translate(step)
    for x, y in batches(5):
        assert seen(translated(other, x, y)) == seen(step(one, x, y))
    assert other.state() == one.state()


def part_of_a_parameter(trainer):
    return trainer.net[0].weight.detach()[0]


def whole_parameter(trainer):
    return trainer.net[2].bias.detach()


def gradient(trainer):
    return trainer.net[0].weight.grad


def moment(trainer):
    moments = trainer.optimizer._accumulators["moment1"]
    return moments[trainer.net[0].weight.name]


def other_memory(trainer):
    return paddle.ones([3])


@pytest.mark.parametrize(
    "make", [part_of_a_parameter, whole_parameter, gradient, moment, other_memory], ids=lambda it: it.__name__
)
@pytest.mark.parametrize("late", [False, True])
def test_tensors_in_the_memory_of_what_a_step_changes(make, late):
    def step(self, x, y, given):
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        first = given.sum()
        self.optimizer.step()
        second = given * 2
        self.optimizer.clear_grad()
        return first, second, given.max()

    one, other = Trainer(), Trainer()
    translated = translate(step)
    for number, (x, y) in enumerate(batches(8)):
        answers = []
        for trainer, run in ((one, step), (other, translated)):
            usual = number == 0 or late and number < 4
            if usual:
                given = paddle.ones({part_of_a_parameter: [8], gradient: [4, 8], moment: [4, 8]}.get(make, [3]))
            else:
                # A gradient is there.
                trainer.net(x).sum().backward()
                given = make(trainer)
            answers.append(seen(run(trainer, x, y, given)))
        assert answers[0] == answers[1]
    assert other.state() == one.state()


def test_a_leaf_that_no_optimizer_has():
    def step(self, leaf, x, y, given):
        loss = F.cross_entropy(self.net(x) * leaf, y)
        loss.backward()
        self.optimizer.step()
        return given.sum()

    one, other = Trainer(), Trainer()
    leaves = [paddle.ones([3]), paddle.ones([3])]
    translated = translate(step)
    for leaf in leaves:
        leaf.stop_gradient = False
    for x, y in batches(5):
        given = [paddle.ones([3]) if leaf.grad is None else leaf.grad for leaf in leaves]
        expected = step(one, leaves[0], x, y, given[0])
        assert translated(other, leaves[1], x, y, given[1]).tolist() == expected.tolist()
    assert leaves[0].grad.tolist() == leaves[1].grad.tolist()


def test_an_exception_behind_the_step():
    def step(self, x, y, at):
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return paddle.gather(logits.detach(), at)

    one, other = Trainer(), Trainer()
    translated = translate(step)
    for number, (x, y) in enumerate(batches(6)):
        at = paddle.to_tensor([0, 2 if number != 3 else 7])
        answers = []
        for trainer, run in ((one, step), (other, translated)):
            try:
                answers.append(seen(run(trainer, x, y, at)))
            except (IndexError, ValueError, OSError) as error:
                answers.append(type(error))
        assert answers[0] == answers[1]
        assert other.state() == one.state()


@pytest.mark.parametrize("again", ["product", "softmax"])
def test_backward_from_what_is_computed_behind(again):
    def step(self, x, y):
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        self.optimizer.step()
        return loss * 2 if again == "product" else F.softmax(logits).mean()

    one, other = Trainer(), Trainer()
    translated = translate(step)
    for x, y in batches(4):
        answers = []
        for trainer, run in ((one, step), (other, translated)):
            result = run(trainer, x, y)
            try:
                result.backward()
                answers.append("walked")
            except (RuntimeError, SystemError):
                answers.append("freed")
        assert answers[0] == answers[1]
        assert other.state() == one.state()


@pytest.mark.parametrize("kind", ["norm", "named", "largest", "value", "one"])
def test_gradients_that_are_clipped(kind):
    def norm(self, x, y):
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss, y * 2

    def named(self, x, y):
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters=self.net.parameters(), max_norm=0.5, norm_type=1)
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss

    def largest(self, x, y):
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.1, float("inf"), error_if_nonfinite=True)
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss

    def value(self, x, y):
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        nn.utils.clip_grad_value_(self.net.parameters(), clip_value=0.01)
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss

    def one(self, x, y):
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net[0].weight, 0.01)
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss

    compare({"norm": norm, "named": named, "largest": largest, "value": value, "one": one}[kind])


def test_a_norm_that_is_looked_at():
    def step(self, x, y):
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss, norm

    compare(step, breaks=1)


@pytest.mark.parametrize("bad", ["kind", "not finite"])
def test_a_clip_that_raises(bad):
    def step(self, x, y):
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        if bad == "kind":
            nn.utils.clip_grad_norm_(self.net.parameters(), 0.5, 3.0)
        else:
            nn.utils.clip_grad_norm_(self.net.parameters(), 0.5, error_if_nonfinite=True)
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss

    one, other = Trainer(), Trainer()
    translated = translate(step)
    for number, (x, y) in enumerate(batches(4)):
        x = x * float("inf") if number == 2 else x
        answers = []
        for trainer, run in ((one, step), (other, translated)):
            try:
                answers.append(repr(seen(run(trainer, x, y))))
            except (ValueError, RuntimeError) as error:
                lines = [it.lineno for it in traceback.extract_tb(error.__traceback__) if it.filename == __file__]
                answers.append((type(error), str(error), lines[-1]))
        assert answers[0] == answers[1]
        assert repr(other.state()) == repr(one.state())


def counted(self, loss):
    self.count = getattr(self, "count", 0) + 1


def noted(self, loss):
    self.losses.append(loss.detach())


def renamed(self, loss):
    self.last, self.previous = loss.detach(), self.smooth
    self.smooth = loss.detach() * 2


def another_optimizer(self, loss):
    self.optimizer, self.spare = self.spare, self.optimizer


@pytest.mark.parametrize("write", [counted, noted, renamed, another_optimizer], ids=lambda it: it.__name__)
@pytest.mark.parametrize("behind", [False, True])
def test_what_is_written_in_front_of_a_step(write, behind):
    """It is done before the calls of the step; where something is written behind them too, the graph breaks."""

    def step(self, x, y):
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        write(self, loss)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        if behind:
            self.seen = loss.detach()
        return loss, logits.argmax(-1)

    def make():
        made = Trainer()
        made.count = 0
        made.spare = optimizer.SGD(0.1, parameters=made.net.parameters())
        return made

    one, other = make(), make()
    translated = translate(step)
    for x, y in batches(20):
        assert seen(translated(other, x, y)) == seen(step(one, x, y))
        assert other.count == one.count
    assert other.state() == one.state()
    if not behind:
        assert sot.stats(translated).graph_breaks == []


def test_what_is_written_in_front_of_a_step_that_raises():
    def step(self, x, y):
        self.batch, self.rate = x.shape[0], self.batch
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net[0].weight, 0.5, 2.0, error_if_nonfinite=True)
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss

    one, other = Trainer(), Trainer()
    translated = translate(step)
    for number, (x, y) in enumerate(batches(6)):
        x = x * float("inf") if number == 3 else x
        for trainer, run in ((one, step), (other, translated)):
            with pytest.raises(RuntimeError) if number == 3 else contextlib.nullcontext():
                run(trainer, x, y)
        assert (other.batch, other.rate) == (one.batch, one.rate)
        assert repr(other.state()) == repr(one.state())
        if number == 3:
            for trainer in (one, other):
                trainer.optimizer.clear_grad()
    assert sot.stats(translated).graph_breaks == []


def test_lists_of_an_optimizer_are_written_behind_a_break():
    def step(self, given, x, y):
        loss = F.cross_entropy(self.net(x), y)
        given.append(self.late)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss

    one, other = Trainer(), Trainer()
    translated = translate(step)
    for trainer in (one, other):
        trainer.late = trainer.net.create_parameter([2])
    for x, y in batches(4):
        expected = step(one, one.optimizer._parameter_list, x, y)
        assert translated(other, other.optimizer._parameter_list, x, y).tolist() == expected.tolist()
    assert len(one.optimizer._parameter_list) == len(other.optimizer._parameter_list)
    assert other.state() == one.state()
