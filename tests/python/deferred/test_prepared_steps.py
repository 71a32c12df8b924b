"""Prepared steps of optimizers: what updates all parameters at once, groups, and where Paddle's own step runs."""

import itertools
import re

import numpy
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn, optimizer
from paddle.nn import functional as F
from paddle_sot_rs import _core

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

# Why the first step of an optimizer is Paddle's own.
MADE = {"states are made": 1}


class Trainer:
    def __init__(self, make, dtype="float32"):
        paddle.seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)).to(
            dtype=dtype
        )
        # No gradient comes to it.
        self.net.add_parameter("unused", self.net.create_parameter([3], dtype=dtype))
        self.net[2].bias.stop_gradient = True
        self.optimizer = make(self.net.parameters())
        self.dtype = dtype

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
        settings = [getattr(self.optimizer, name, None) for name in ("_beta1", "_beta2", "_epsilon", "_weight_decay")]
        gradients = [None if p.grad is None else p.grad.tolist() for p in self.net.parameters()]
        return [p.tolist() for p in self.net.parameters()], sorted(map(str, held)), settings, gradients


def is_one_of(names):
    return lambda name: name in names


def batches(count, dtype="float32"):
    paddle.seed(1)
    return [(paddle.randn([3, 4]).astype(dtype), paddle.randn([3, 2]).astype(dtype)) for _ in range(count)]


def outcome(step, *args):
    try:
        return step(*args).tolist()
    except Exception as error:
        return type(error), str(error)


def trained(make, change=lambda trainer, number: None, count=20, dtype="float32"):
    """Trains one in eager mode and one translated, equally; why steps of that were Paddle's own."""
    one, other = Trainer(make, dtype), Trainer(make, dtype)
    step = translate(other.step)
    for number, (x, y) in enumerate(batches(count, dtype)):
        assert outcome(step, x, y) == outcome(one.step, x, y)
        for trainer in (one, other):
            change(trainer, number)
    assert other.state() == one.state()
    stats = sot.stats(step)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])
    return stats.own_steps


def in_groups(given):
    return [
        {"params": given[:2], "weight_decay": 0.0, "grad_clip": nn.ClipGradByGlobalNorm(0.05)},
        {"params": given[2:4], "learning_rate": 0.1, "weight_decay": 0.3},
        {"params": given[4:], "learning_rate": 0.5, "beta1": 0.8, "beta2": 0.9, "epsilon": 1e-6},
    ]


CLIPS = {
    "": lambda: None,
    "global norm": lambda: nn.ClipGradByGlobalNorm(0.05),
    "norm": lambda: nn.ClipGradByNorm(0.05),
    "value": lambda: nn.ClipGradByValue(0.01),
}


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("kind", [optimizer.Adam, optimizer.AdamW])
def test_moments(kind, clip, grouped, amsgrad, scheduled):
    def make(given):
        rate = optimizer.lr.StepDecay(0.02, 3, gamma=0.7) if scheduled else 0.02
        given = in_groups(given) if grouped else given
        return kind(rate, parameters=given, grad_clip=CLIPS[clip](), amsgrad=amsgrad, weight_decay=0.1)

    def change(trainer, number):
        if scheduled:
            trainer.optimizer._learning_rate.step()
        elif number == 5:
            trainer.optimizer.set_lr(0.01)
        if number == 8:
            trainer.optimizer.set_state_dict(trainer.optimizer.state_dict())

    assert trained(make, change) == MADE


@pytest.mark.parametrize("kind", [optimizer.SGD, optimizer.Momentum])
def test_other_classes_in_groups(kind):
    def make(given):
        # Their groups ask for no betas.
        betas = "beta1", "beta2", "epsilon"
        groups = [{name: it[name] for name in it if name not in betas} for it in in_groups(given)]
        return kind(0.1, parameters=groups, weight_decay=0.1)

    assert trained(make) == MADE


@pytest.mark.parametrize("grouped", [False, True])
def test_some_decay(grouped):
    def make(given):
        decays = is_one_of([parameter.name for parameter in given if parameter.ndim > 1])
        given = in_groups(given) if grouped else given
        return optimizer.AdamW(0.02, parameters=given, weight_decay=0.5, apply_decay_param_fun=decays)

    assert trained(make) == MADE


@pytest.mark.parametrize("decay", [None, 0.3])
@pytest.mark.parametrize("kind", [optimizer.Adam, optimizer.AdamW, optimizer.Momentum, optimizer.SGD])
def test_rates_and_regularizers_of_parameters(kind, decay):
    def change(trainer, number):
        if number == 4:
            trainer.net[0].weight.optimize_attr["learning_rate"] = 0.5
            trainer.net[2].weight.optimize_attr["learning_rate"] = 2
            trainer.net[4].weight.regularizer = paddle.regularizer.L2Decay(0.1)
            trainer.net[4].bias.regularizer = paddle.regularizer.L1Decay(0.1)

    decayed = {} if decay is None else {"weight_decay": decay}
    assert trained(lambda given: kind(0.02, parameters=given, **decayed), change) == MADE


@pytest.mark.parametrize("decay", [paddle.regularizer.L1Decay(0.3), paddle.regularizer.L2Decay(0.3)])
@pytest.mark.parametrize("kind", [optimizer.Adam, optimizer.Momentum, optimizer.SGD])
def test_regularizers_of_some_and_of_all(kind, decay):
    def change(trainer, number):
        own = [None, paddle.regularizer.L2Decay(0.1), paddle.regularizer.L1Decay(0.1)][number // 2 % 3]
        trainer.net[0].weight.regularizer = trainer.net[4].bias.regularizer = own

    assert trained(lambda given: kind(0.02, parameters=given, weight_decay=decay), change) == MADE


def test_doubles():
    assert trained(lambda given: optimizer.AdamW(0.02, parameters=given), dtype="float64") == MADE


def test_lazy_mode():
    assert trained(lambda given: optimizer.AdamW(0.02, parameters=given, lazy_mode=True)) == MADE


@pytest.mark.parametrize("emptied", ["_parameter_list", "_param_groups"])
@pytest.mark.parametrize("grouped", [False, True])
def test_lists_that_are_emptied(grouped, emptied):
    def change(trainer, number):
        if number == 3:
            getattr(trainer.optimizer, emptied).clear()

    def make(given):
        return optimizer.AdamW(0.02, parameters=in_groups(given) if grouped else given)

    assert trained(make, change, 5) == {**MADE, "it has no parameters": 1}


def test_groups_that_are_emptied():
    def change(trainer, number):
        if number == 3:
            trainer.optimizer._param_groups[0]["params"].clear()

    assert trained(lambda given: optimizer.AdamW(0.02, parameters=in_groups(given)), change, 6) == MADE


def test_what_a_group_sets_is_read_behind_the_step():
    def step(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        before = self.optimizer._beta1
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss.item(), before, self.optimizer._beta1, self.optimizer._weight_decay

    make = lambda given: optimizer.AdamW(0.02, parameters=in_groups(given))  # noqa: E731
    one, other = Trainer(make), Trainer(make)
    translated = translate(step)
    for x, y in batches(3):
        assert translated(other, x, y) == step(one, x, y)
    assert other.state() == one.state()


@pytest.mark.parametrize("name", ["RMSProp", "Adagrad", "Lamb"])
def test_classes_that_are_not_prepared(name):
    reason = f"optimizers of class {name} are not prepared"
    assert trained(lambda given: getattr(optimizer, name)(0.02, parameters=given), count=4) == {reason: 4}


def test_flags_that_are_none():
    own = trained(lambda given: optimizer.Adam(0.02, parameters=given, lazy_mode=1), count=4)
    # Paddle's kernels refuse it.
    assert own == {"its settings are no numbers and flags of Python's": 4}


def test_decays_that_are_none():
    def change(trainer, number):
        if number == 2:
            trainer.optimizer._weight_decay = None

    own = trained(lambda given: optimizer.AdamW(0.02, parameters=given), change, 5)
    # Paddle's kernels refuse it.
    assert own == {"states are made": 1, "its settings are no numbers and flags of Python's": 2}


def test_a_scaler_that_looks_for_infinite_gradients():
    def change(trainer, number):
        trainer.optimizer._set_auxiliary_var("found_inf", paddle.to_tensor(number == 2))

    own = trained(lambda given: optimizer.AdamW(0.02, parameters=given), change, 5)
    assert own == {"states are made": 1, "a scaler looks for gradients that are not finite": 4}


def test_checks_of_results():
    def make(given):
        return optimizer.AdamW(0.02, parameters=given)

    def change(trainer, number):
        if number == 2:
            # Its operator is named in the message.
            moment = trainer.optimizer._accumulators["moment1"][trainer.net[0].weight.name]
            numbers = moment.numpy().copy()
            numbers[0, 0] = numpy.nan
            moment.set_value(numbers)

    paddle.set_flags({"FLAGS_check_nan_inf": True})
    try:
        one, other = Trainer(make), Trainer(make)
        step = translate(other.step)
        for number, (x, y) in enumerate(batches(4)):
            expected, found = outcome(one.step, x, y), outcome(step, x, y)
            # Names count parameters of the process.
            assert re.sub(r"linear_\d+", "", str(found)) == re.sub(r"linear_\d+", "", str(expected))
            for trainer in (one, other):
                change(trainer, number)
        assert "op=adamw_" in str(expected)
    finally:
        paddle.set_flags({"FLAGS_check_nan_inf": False})


def test_automatic_casts_around_the_call():
    def make(given):
        return optimizer.AdamW(0.02, parameters=given)

    one, other = Trainer(make), Trainer(make)
    step = translate(other.step)
    for x, y in batches(5):
        with paddle.amp.auto_cast(dtype="bfloat16"):
            assert outcome(step, x, y) == outcome(one.step, x, y)
    assert other.state() == one.state()


def test_sparse_gradients():
    def step(net, updates, x):
        loss = net(x).square().mean()
        loss.backward()
        updates.step()
        updates.clear_grad()
        return loss

    answers, translated = [], translate(step)
    for run in (step, translated):
        paddle.seed(0)
        net = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 2))
        updates = optimizer.Adam(0.1, parameters=net.parameters(), lazy_mode=True)
        losses = [run(net, updates, paddle.to_tensor([1, number])).tolist() for number in range(5)]
        answers.append((losses, [parameter.tolist() for parameter in net.parameters()]))
    assert answers[0] == answers[1]
    assert sot.stats(translated).own_steps == {
        "states are made": 1,
        "a parameter or its gradient is sparse or of another dtype": 4,
    }


def test_gradients_of_other_dims():
    def step(parameter, updates, x):
        (parameter * x).sum().backward()
        updates.step()

    found, translated = [], translate(step)
    for run in (step, translated):
        parameter = paddle.create_parameter([3], "float32", default_initializer=nn.initializer.Constant(1.0))
        updates = optimizer.AdamW(0.1, parameters=[parameter])
        for number in range(3):
            if number == 2:
                state = updates._accumulators["moment1"]
                state[parameter.name] = paddle.ones([2])
            try:
                run(parameter, updates, paddle.ones([3]))
            except Exception as error:
                found.append((type(error), str(error)))
        found.append(parameter.tolist())
    assert found[: len(found) // 2] == found[len(found) // 2 :]
    assert isinstance(found[0], tuple)
    assert sot.stats(translated).own_steps["a state is of other dims or of another dtype"] == 1


def test_parameters_that_share_memory():
    def step(one, other, updates, x):
        ((one + other) * x).sum().backward()
        updates.step()
        updates.clear_grad()

    answers = []
    for run in (step, translate(step)):
        one, middle, other = (
            paddle.create_parameter([3], "float32", default_initializer=nn.initializer.Constant(1.0)) for _ in range(3)
        )
        other.get_tensor()._share_data_with(one.get_tensor())
        decays = is_one_of([middle.name])
        updates = optimizer.AdamW(0.1, parameters=[one, middle, other], weight_decay=0.5, apply_decay_param_fun=decays)
        for _ in range(4):
            run(one, other, updates, paddle.ones([3]))
        answers.append([one.tolist(), middle.tolist(), other.tolist()])
    assert answers[0] == answers[1]


def test_what_is_in_any_order():
    whole = paddle.zeros([4, 3])
    rows = [whole[at] for at in range(4)]
    assert _core.are_in_any_order([rows[0], rows[2]], [rows[1], rows[3]])
    for shared in ([whole], [rows[1]], [whole.t()]):
        assert not _core.are_in_any_order(rows, shared)
    # They lie between the numbers of each other.
    assert not _core.are_in_any_order([whole[:, 0]], [whole[:, 1]])


def test_steps_of_two_optimizers_are_counted_together():
    def step(net, updates, x):
        loss = net(x).mean()
        loss.backward()
        for each in updates:
            each.step()
            each.clear_grad()
        return loss

    translated = translate(step)
    paddle.seed(0)
    net = nn.Linear(2, 2)
    updates = [optimizer.SGD(0.1, parameters=[net.weight]), optimizer.Adam(0.1, parameters=[net.bias])]
    for _ in itertools.repeat(None, 3):
        translated(net, updates, paddle.ones([1, 2]))
    assert sot.stats(translated).own_steps == {"states are made": 2}
    assert sot.stats().own_steps["states are made"] >= 2
    sot.reset(translated)
    assert sot.stats(translated).own_steps == {}
