"""Whole train steps: `backward()`, `step()` and `clear_grad()` are calls behind one graph, and nothing breaks it."""

import traceback

import paddle
import paddle_sot_rs as sot
import pytest
from harness import apart, translate
from paddle import nn, optimizer
from paddle.nn import functional as F


def _one_of(names):
    return lambda name: name in names


OPTIMIZERS = {
    "SGD": lambda given: optimizer.SGD(0.1, parameters=given),
    "SGD, L2": lambda given: optimizer.SGD(0.1, parameters=given, weight_decay=0.01),
    "Momentum": lambda given: optimizer.Momentum(0.1, parameters=given),
    "Momentum, Nesterov, L2": lambda given: optimizer.Momentum(
        0.1, parameters=given, use_nesterov=True, weight_decay=0.01
    ),
    "Adam": lambda given: optimizer.Adam(0.01, parameters=given),
    "Adam, L1": lambda given: optimizer.Adam(0.01, parameters=given, weight_decay=paddle.regularizer.L1Decay(0.01)),
    "Adam, AMSGrad": lambda given: optimizer.Adam(0.01, parameters=given, amsgrad=True),
    "AdamW": lambda given: optimizer.AdamW(0.01, parameters=given),
    "AdamW, some decay": lambda given: optimizer.AdamW(
        0.01, parameters=given, weight_decay=0.5, apply_decay_param_fun=_one_of([p.name for p in given[::2]])
    ),
    "AdamW, named": lambda given: optimizer.AdamW(0.01, parameters=given, name="mine", weight_decay=0.1),
    "AdamW, global norm": lambda given: optimizer.AdamW(0.01, parameters=given, grad_clip=nn.ClipGradByGlobalNorm(0.1)),
    "AdamW, norm": lambda given: optimizer.AdamW(0.01, parameters=given, grad_clip=nn.ClipGradByNorm(0.1)),
    "SGD, value": lambda given: optimizer.SGD(0.1, parameters=given, grad_clip=nn.ClipGradByValue(0.01)),
    "SGD, schedule": lambda given: optimizer.SGD(optimizer.lr.StepDecay(0.1, 2, gamma=0.5), parameters=given),
    "AdamW, schedule": lambda given: optimizer.AdamW(optimizer.lr.CosineAnnealingDecay(0.01, 10), parameters=given),
    "groups": lambda given: optimizer.AdamW(
        0.01,
        parameters=[{"params": given[:2], "weight_decay": 0.0}, {"params": given[2:], "learning_rate": 0.1}],
    ),
    "RMSProp": lambda given: optimizer.RMSProp(0.01, parameters=given),
    "Adagrad": lambda given: optimizer.Adagrad(0.01, parameters=given),
    "Lamb": lambda given: optimizer.Lamb(0.01, parameters=given),
}


class Trainer:
    def __init__(self, name="AdamW", freeze=False):
        paddle.seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
        # No gradient comes to it.
        self.net.add_parameter("unused", self.net.create_parameter([3]))
        if freeze:
            self.net[2].weight.stop_gradient = True
        self.optimizer = OPTIMIZERS[name](self.net.parameters())

    def step(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss

    def state(self):
        state = self.optimizer.state_dict()
        # Their names count parameters of the process.
        held = [state[name] for name in sorted(state) if name != "LR_Scheduler"]
        held = [each.tolist() if paddle.is_tensor(each) else repr(each) for each in held]
        gradients = [None if p.grad is None else p.grad.tolist() for p in self.net.parameters()]
        return [p.tolist() for p in self.net.parameters()], len(held), sorted(map(str, held)), gradients


def batches(count=20):
    paddle.seed(1)
    return [(paddle.randn([3, 4]), paddle.randn([3, 2])) for _ in range(count)]


def is_whole(step, graphs=1):
    stats = sot.stats(step)
    return stats.graphs == graphs and stats.graph_breaks == [] and stats.fallbacks == []


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_twenty_steps(name, freeze):
    one, other = Trainer(name, freeze), Trainer(name, freeze)
    step = translate(other.step)
    for x, y in batches():
        expected, found = one.step(x, y), step(x, y)
        assert found.tolist() == expected.tolist()
        assert (found.stop_gradient, found.is_leaf) == (expected.stop_gradient, expected.is_leaf)
        for trainer in (one, other):
            if isinstance(trainer.optimizer._learning_rate, optimizer.lr.LRScheduler):
                trainer.optimizer._learning_rate.step()
    assert other.state() == one.state()
    assert is_whole(step)


@pytest.mark.parametrize("backend", ["paddle", "cinn", "onednn", "pylayer", "eager"])
def test_backends(backend):
    one, other = Trainer(), Trainer()
    step = translate(other.step, backend=backend)
    for x, y in batches(5):
        assert step(x, y).item() == pytest.approx(one.step(x, y).item(), rel=1e-5)
    assert is_whole(step)


def test_one_graph_where_it_has_to_be():
    one, other = Trainer(), Trainer()
    step = translate(other.step, full_graph=True)
    for x, y in batches(5):
        assert step(x, y).tolist() == one.step(x, y).tolist()


def test_states_are_saved_and_loaded_in_the_middle():
    one, other = Trainer("AdamW, schedule"), Trainer("AdamW, schedule")
    step = translate(other.step)
    for number, (x, y) in enumerate(batches(8)):
        assert step(x, y).tolist() == one.step(x, y).tolist()
        if number == 3:
            for trainer in (one, other):
                kept = [p.clone() for p in trainer.net.parameters()], trainer.optimizer.state_dict()
                trainer.net.set_state_dict(dict(zip(trainer.net.state_dict(), kept[0], strict=True)))
                trainer.optimizer.set_state_dict(kept[1])
    assert other.state() == one.state()


def test_a_rate_that_is_set():
    one, other = Trainer(), Trainer()
    step = translate(other.step)
    for number, (x, y) in enumerate(batches(8)):
        assert step(x, y).tolist() == one.step(x, y).tolist()
        for trainer in (one, other):
            trainer.optimizer.set_lr(0.01 / (number + 1))
    assert other.state() == one.state()
    assert is_whole(step)


def test_gradients_that_are_summed_over_calls():
    def step(self, x, y, last):
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        if last:
            self.optimizer.step()
            self.optimizer.clear_grad()
        return loss

    one, other = Trainer(), Trainer()
    translated = translate(step)
    for number, (x, y) in enumerate(batches(9)):
        last = number % 3 == 2
        assert translated(other, x, y, last).tolist() == step(one, x, y, last).tolist()
        assert other.state() == one.state()
    assert is_whole(translated, 2)


def test_gradients_that_are_cleared_first():
    def step(trainer, held, x, y):
        trainer.optimizer.clear_grad()
        loss = F.mse_loss(trainer.net(x), y)
        mean = held.mean()
        loss.backward()
        trainer.optimizer.step()
        return loss, mean

    one, other = Trainer(), Trainer()
    translated = translate(step)
    # Without a gradient, and with one that somebody holds.
    helds = [paddle.ones([8]), paddle.ones([8])]
    for x, y in batches(5):
        expected, found = step(one, helds[0], x, y), translated(other, helds[1], x, y)
        assert [each.tolist() for each in found] == [each.tolist() for each in expected]
        helds = [trainer.net[0].bias.grad for trainer in (one, other)]
        assert other.state() == one.state()
    # Whoever holds a gradient sees that it is cleared: what is computed behind that is another
    # graph.
    assert len(sot.stats(translated).graph_breaks) == 1


@pytest.mark.parametrize("when", [0, 3])
def test_hooks_that_change_what_the_step_reads(when):
    seen = []

    def step(trainer, x, y):
        before = len(seen)
        loss = F.mse_loss(trainer.net(x), y)
        loss.backward()
        behind = len(seen)
        trainer.optimizer.step()
        trainer.optimizer.clear_grad()
        return loss, before, behind, len(seen)

    answers = []
    for run in (step, translate(step)):
        trainer = Trainer()
        seen.clear()
        answers.append([])
        for number, (x, y) in enumerate(batches(6)):
            if number == when:
                # The list, and no function of Python.
                trainer.net[0].weight.register_hook(seen.append)
                trainer.net[4].bias._register_backward_hook(lambda: seen.append(None))
            loss, *counts = run(trainer, x, y)
            answers[-1].append((loss.tolist(), counts))
    assert answers[0] == answers[1]


def test_what_is_waiting_is_done_before():
    log = []

    def step(trainer, x, y):
        log.append("before")
        loss = F.mse_loss(trainer.net(x), y)
        loss.backward()
        log.append("behind")
        trainer.optimizer.step()
        trainer.optimizer.clear_grad()
        log.append("end")
        return loss

    one, other = Trainer(), Trainer()
    translated = translate(step)
    for x, y in batches(3):
        assert translated(other, x, y).tolist() == step(one, x, y).tolist()
    logs = []
    for run, trainer in ((step, one), (translated, other)):
        log.clear()
        trainer.net[0].weight.regularizer = "no function"
        with pytest.raises(TypeError):
            run(trainer, *batches(1)[0])
        logs.append([*log])
        trainer.optimizer.clear_grad()
    assert logs[0] == logs[1] == ["before", "behind"]
    assert other.state() == one.state()


def frames(error):
    return [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]


def test_an_exception_in_the_middle():
    found = []
    one, other = Trainer(), Trainer()
    step = translate(other.step)
    for x, y in batches(3):
        one.step(x, y), step(x, y)
    for run, trainer in ((one.step, one), (step, other)):
        trainer.net[0].weight.regularizer = "no function"
        with pytest.raises(TypeError) as caught:
            run(*batches(1)[0])
        at = [frame for frame in frames(caught.value) if frame[0] != "test_an_exception_in_the_middle"]
        found.append((str(caught.value), at))
    assert found[0] == found[1]
    assert other.state() == one.state()
    for trainer in (one, other):
        trainer.net[0].weight.regularizer = None
        trainer.optimizer.clear_grad()
    for x, y in batches(3):
        assert step(x, y).tolist() == one.step(x, y).tolist()


def test_an_exception_that_the_function_catches():
    def step(trainer, x, y):
        loss = F.mse_loss(trainer.net(x), y)
        try:
            loss.backward()
            trainer.optimizer.step()
        except TypeError:
            return loss, "caught"
        trainer.optimizer.clear_grad()
        return loss, "done"

    one, other = Trainer(), Trainer()
    translated = translate(step)
    for fails in (False, True, False):
        for trainer in (one, other):
            trainer.net[0].weight.regularizer = "no function" if fails else None
        for x, y in batches(2):
            expected, found = step(one, x, y), translated(other, x, y)
            assert (expected[0].tolist(), expected[1]) == (found[0].tolist(), found[1])
        for trainer in (one, other):
            trainer.optimizer.clear_grad()
    assert other.state() == one.state()


def test_what_is_read_behind_it():
    def step(trainer, x, y):
        loss = F.mse_loss(trainer.net(x), y)
        loss.backward()
        first = trainer.net[0].weight.grad.sum()
        trainer.optimizer.step()
        names = len(trainer.optimizer._accumulators)
        weight = trainer.net[0].weight.sum()
        trainer.optimizer.clear_grad()
        return loss, first, names, weight, trainer.net[0].weight.grad

    one, other = Trainer(), Trainer()
    translated = translate(step)
    for x, y in batches(4):
        expected, found = step(one, x, y), translated(other, x, y)
        assert expected[2] == found[2]
        for at in (0, 1, 3, 4):
            assert found[at].tolist() == expected[at].tolist()
    assert other.state() == one.state()


def test_averages_behind_the_step():
    def step(trainer, averages, x, y):
        loss = F.mse_loss(trainer.net(x), y)
        loss.backward()
        trainer.optimizer.step()
        trainer.optimizer.clear_grad()
        with paddle.no_grad():
            for average, parameter in zip(averages, trainer.net.parameters(), strict=True):
                average.set_value(average * 0.9 + parameter * 0.1)
        return loss

    one, other = Trainer(), Trainer()
    means, others = ([p.detach().clone() for p in trainer.net.parameters()] for trainer in (one, other))
    translated = translate(step)
    for x, y in batches(4):
        assert translated(other, others, x, y).tolist() == step(one, means, x, y).tolist()
    assert [each.tolist() for each in others] == [each.tolist() for each in means]


def test_two_optimizers():
    class Pair:
        def __init__(self):
            paddle.seed(0)
            self.maker = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4))
            self.judge = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
            self.of_maker = optimizer.Adam(0.01, parameters=self.maker.parameters())
            self.of_judge = optimizer.Adam(0.01, parameters=self.judge.parameters())

        def step(self, noise, real):
            made = self.maker(noise)
            judged = F.softplus(-self.judge(real)).mean() + F.softplus(self.judge(made.detach())).mean()
            judged.backward()
            self.of_judge.step()
            self.of_judge.clear_grad()
            fooled = F.softplus(-self.judge(made)).mean()
            fooled.backward()
            self.of_maker.step()
            self.of_maker.clear_grad()
            return judged, fooled

    one, other = Pair(), Pair()
    step = translate(other.step)
    paddle.seed(3)
    for _ in range(6):
        noise, real = paddle.randn([5, 3]), paddle.randn([5, 4])
        assert [each.tolist() for each in step(noise, real)] == [each.tolist() for each in one.step(noise, real)]
    for name in ("maker", "judge"):
        pairs = zip(getattr(one, name).parameters(), getattr(other, name).parameters(), strict=True)
        assert all(a.tolist() == b.tolist() for a, b in pairs)
    # The second graph, and its backward: what it takes of the first one is no leaf.
    assert (sot.stats(step).graphs, len(sot.stats(step).graph_breaks)) == (2, 2)


def test_functions_of_the_users_in_an_optimizer():
    asked = []

    def decays(name):
        asked.append(name)
        return True

    def step(net, given, x):
        before = len(asked)
        net(x).sum().backward()
        given.step()
        given.clear_grad()
        return before, len(asked)

    answers = []
    for run in (step, translate(step)):
        paddle.seed(0)
        net = nn.Linear(2, 2)
        given = optimizer.AdamW(0.1, parameters=net.parameters(), apply_decay_param_fun=decays)
        asked.clear()
        answers.append([run(net, given, paddle.ones([1, 2])) for _ in range(3)] + [net.weight.tolist()])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("on", ["instance", "class", "update"])
def test_steps_that_are_replaced(on, monkeypatch):
    one, other = Trainer(), Trainer()
    step = translate(other.step)
    for x, y in batches(3):
        assert step(x, y).tolist() == one.step(x, y).tolist()
    calls = []
    if on == "instance":
        for trainer in (one, other):
            trainer.optimizer.step = lambda: calls.append("step")
    elif on == "class":
        monkeypatch.setattr(optimizer.AdamW, "step", lambda self: calls.append("step"))
    else:
        plain = optimizer.AdamW._append_optimize_op

        def update(self, block, given):
            calls.append("update")
            return plain(self, block, given)

        monkeypatch.setattr(optimizer.AdamW, "_append_optimize_op", update)
    for x, y in batches(3):
        assert step(x, y).tolist() == one.step(x, y).tolist()
    assert other.state() == one.state()
    assert len(calls) > 0 and len(calls) % 2 == 0


def test_losses_that_take_what_is_no_leaf():
    def step(net, given, x):
        loss = net(x).square().mean()
        loss.backward()
        given.step()
        given.clear_grad()
        return loss

    answers = []
    for run in (apart(step), translate(step)):
        paddle.seed(0)
        front, net = nn.Linear(2, 3), nn.Linear(3, 2)
        seen = []
        given = optimizer.SGD(0.1, parameters=[*front.parameters(), *net.parameters()])
        for _ in range(3):
            x = front(paddle.ones([1, 2]))
            x.register_hook(seen.append)
            answers.append(run(net, given, x).tolist())
        answers.append(([each.tolist() for each in seen], front.weight.tolist(), net.weight.tolist()))
    assert answers[:4] == answers[4:]


def test_a_closed_over_step():
    trainer = Trainer()

    def inner(loss):
        loss.backward()
        trainer.optimizer.step()
        trainer.optimizer.clear_grad()

    def step(x, y):
        loss = F.mse_loss(trainer.net(x), y)
        inner(loss)
        return loss

    expected = Trainer()
    translated = translate(step)
    for x, y in batches(4):
        assert translated(x, y).tolist() == expected.step(x, y).tolist()
    assert trainer.state() == expected.state()
