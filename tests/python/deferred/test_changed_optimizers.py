"""Optimizers whose lists, methods and groups change between calls, and code of the user's that a step runs."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn, optimizer
from paddle.nn import functional as F

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python


class Trainer:
    def __init__(self, make):
        paddle.seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.log = []
        self.optimizer = make(self.net, self.log)

    def step(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        seen = len(self.log)
        self.optimizer.clear_grad()
        return loss, seen

    def state(self):
        return [parameter.tolist() for parameter in self.net.parameters()], self.log


def batches():
    paddle.seed(1)
    return [(paddle.randn([3, 4]), paddle.randn([3, 2])) for _ in range(5)]


def trained(trainer, step, change):
    for number, (x, y) in enumerate(batches()):
        loss, seen = step(x, y)
        yield loss.item(), seen
        if number == 1:
            change(trainer)


def translated_and_not(make, change=lambda trainer: None):
    """Trains both; the translated step."""
    one, other = Trainer(make), Trainer(make)
    step = translate(other.step)
    for expected, found in zip(trained(one, one.step, change), trained(other, step, change), strict=True):
        assert found == expected
    assert other.state() == one.state()
    return step


def messages(step):
    return [each.message for each in sot.stats(step).graph_breaks]


def all_parameters(kind):
    return lambda net, log: kind(0.1, parameters=net.parameters())


class Clip:
    """A clip of the user's."""

    def __init__(self, log):
        self.log = log

    def __call__(self, gradients):
        self.log.append("clip")
        return [(parameter, gradient * 0.5) for parameter, gradient in gradients]


class Decay(paddle.regularizer.WeightDecayRegularizer):
    """A regularizer of the user's."""

    def __init__(self, log):
        self.log = log
        self._coeff = 0.1

    def __call__(self, parameter, gradient, block=None):
        self.log.append("decay")
        return parameter * 0.1


class Parameters(list):
    """A list of the user's, which knows when it is gone through."""

    def __init__(self, parameters, log):
        super().__init__(parameters)
        self.log = log

    def __iter__(self):
        self.log.append("iter")
        return super().__iter__()


@pytest.mark.parametrize("kind", [optimizer.SGD, optimizer.Momentum, optimizer.Adam, optimizer.AdamW])
def test_a_list_of_parameters_that_is_replaced(kind):
    def of_the_first(net, log):
        return kind(0.1, parameters=net[0].parameters())

    def all_of_them(trainer):
        trainer.optimizer._parameter_list = trainer.net.parameters()

    step = translated_and_not(of_the_first, all_of_them)
    assert messages(step) == []


def test_groups_of_parameters_that_are_replaced():
    def others(trainer):
        trainer.optimizer._param_groups = trainer.net[2].parameters()

    for kind in (optimizer.SGD, optimizer.AdamW):
        assert messages(translated_and_not(all_parameters(kind), others)) == []


@pytest.mark.parametrize("name", ["step", "clear_grad", "_append_optimize_op", "_apply_optimize"])
def test_a_method_that_an_instance_gets(name):
    def replace(trainer):
        known = getattr(trainer.optimizer, name)

        def method(*args, **kwargs):
            trainer.log.append(name)
            return known(*args, **kwargs)

        setattr(trainer.optimizer, name, method)

    step = translated_and_not(all_parameters(optimizer.AdamW), replace)
    # The second translation is the one with a method of the user's.
    assert sot.stats(step).translations >= 2


@pytest.mark.parametrize("kind", [nn.ClipGradByGlobalNorm, nn.ClipGradByNorm])
def test_a_method_that_a_clip_gets(kind):
    def clipping(net, log):
        return optimizer.SGD(0.1, parameters=net.parameters(), grad_clip=kind(0.01))

    def replace(trainer):
        clip = trainer.optimizer._grad_clip
        known = clip._dygraph_clip

        def method(gradients):
            trainer.log.append("clip")
            return known(gradients)

        clip._dygraph_clip = method

    translated_and_not(clipping, replace)


def with_clip(net, log):
    groups = [{"params": net[0].parameters(), "grad_clip": Clip(log)}, {"params": net[2].parameters()}]
    return optimizer.SGD(0.1, parameters=groups)


def with_decay(net, log):
    return optimizer.Adam(0.1, parameters=[{"params": net.parameters(), "weight_decay": Decay(log)}])


def with_own_decay(net, log):
    net[0].weight.regularizer = Decay(log)
    return optimizer.SGD(0.1, parameters=net.parameters())


@pytest.mark.parametrize("make", [with_clip, with_decay, with_own_decay])
def test_a_step_that_runs_code_of_the_users(make):
    step = translated_and_not(make)
    assert all("works on gradients" in message for message in messages(step))
    assert len(messages(step)) == 2


CHANGES = {
    "a parameter": lambda trainer: setattr(trainer.net[0].weight, "regularizer", Decay(trainer.log)),
    "a group": lambda trainer: trainer.optimizer._param_groups[0].update(grad_clip=Clip(trainer.log)),
    "a list": lambda trainer: setattr(
        trainer.optimizer, "_param_groups", Parameters(trainer.optimizer._param_groups, trainer.log)
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_code_of_the_users_that_comes_later(what):
    def make(net, log):
        parameters = [{"params": net.parameters()}] if what == "a group" else net.parameters()
        return optimizer.SGD(0.1, parameters=parameters)

    translated_and_not(make, CHANGES[what])


def test_settings_of_paddle_in_groups_are_deferred():
    def make(net, log):
        net[0].weight.regularizer = paddle.regularizer.L2Decay(0.1)
        groups = [
            {"params": net[0].parameters(), "grad_clip": nn.ClipGradByNorm(0.1)},
            {"params": net[2].parameters(), "weight_decay": 0.1},
        ]
        return optimizer.SGD(0.1, parameters=groups)

    step = translated_and_not(make)
    assert messages(step) == []
    assert sot.stats(step).graphs == 1


class Holder:
    """Has the state of an optimizer by a name of its own."""

    def __init__(self, state):
        self.state = state


@pytest.mark.parametrize("name", ["_accumulators", "_already_create_accumulator", "_learning_rate_map"])
@pytest.mark.parametrize("held", [False, True])
def test_state_that_is_read_by_another_name(name, held):
    def trained_with(translates):
        trainer = Trainer(all_parameters(optimizer.Adam))
        state = getattr(trainer.optimizer, name)
        holder = Holder(state)

        def step(x, y):
            before = len(holder.state)
            loss = F.mse_loss(trainer.net(x), y)
            loss.backward()
            trainer.optimizer.step()
            behind = len(holder.state if held else state)
            trainer.optimizer.clear_grad()
            return loss, (before, behind)

        step = translates(step)
        results = [(loss.tolist(), seen) for loss, seen in (step(x, y) for x, y in batches())]
        return results, trainer.state(), step

    *expected, _ = trained_with(lambda step: step)
    *found, step = trained_with(translate)
    assert found == expected
    assert any("works on gradients" in message for message in messages(step))


@pytest.mark.parametrize("name", ["set_to_none", "zero"])
def test_a_keyword_that_does_not_exist(name):
    trainer = Trainer(all_parameters(optimizer.SGD))

    def step(x, y):
        F.mse_loss(trainer.net(x), y).backward()
        trainer.optimizer.clear_grad(**{name: True})

    def spelled(x, y):
        F.mse_loss(trainer.net(x), y).backward()
        trainer.optimizer.clear_grad(set_to_none=True)

    for function in (step, spelled):
        translated = translate(function)
        for call in (function, translated, translated):
            with pytest.raises(TypeError, match="unexpected keyword argument"):
                call(paddle.ones([3, 4]), paddle.ones([3, 2]))


class Rates(optimizer.lr.LRScheduler):
    """A scheduler of the user's, whose rate is read as Paddle reads it."""

    def get_lr(self):
        return 0.1


def as_a_property(log):
    def read(self):
        log.append("rate")
        return 0.1

    # Paddle's own class writes it.
    return {"last_lr": property(read, lambda self, value: None)}


def by_an_attribute(log):
    def read(self, name):
        if name == "last_lr":
            log.append("rate")
        return object.__getattribute__(self, name)

    return {"__getattribute__": read}


def by_a_call(log):
    return {"__call__": lambda self: log.append("rate") or 0.1}


@pytest.mark.parametrize("members", [as_a_property, by_an_attribute, by_a_call])
def test_a_rate_that_runs_code_of_the_users(members):
    def make(net, log):
        return optimizer.SGD(type("Counted", (Rates,), members(log))(0.1), parameters=net.parameters())

    step = translated_and_not(make)
    assert any("works on gradients" in message for message in messages(step))


@pytest.mark.parametrize("members", [as_a_property, by_an_attribute, by_a_call])
def test_a_rate_that_runs_code_of_the_users_later(members):
    def make(net, log):
        return optimizer.SGD(type("Later", (Rates,), {})(0.1), parameters=net.parameters())

    def change(trainer):
        for name, member in members(trainer.log).items():
            setattr(type(trainer.optimizer._learning_rate), name, member)

    step = translated_and_not(make, change)
    assert sot.stats(step).translations > 1


def test_a_scheduler_of_the_users_is_deferred():
    step = translated_and_not(lambda net, log: optimizer.SGD(Rates(0.1), parameters=net.parameters()))
    assert messages(step) == []
