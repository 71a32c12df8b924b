"""Numbers, dicts, sets and texts with operators of the user's, which a step of an optimizer reads: it runs natively."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn, optimizer
from paddle.nn import functional as F

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

OPERATORS = {
    float: ("__mul__", "__rmul__", "__float__", "__eq__", "__hash__", "__lt__", "__rsub__", "__neg__"),
    dict: ("__getitem__", "get", "__contains__", "items", "keys", "__iter__", "copy", "__len__", "__setitem__"),
    set: ("__contains__", "add"),
    list: ("__iter__", "__contains__", "__getitem__"),
    str: ("__eq__", "__hash__", "__add__", "__format__"),
}


def own(value, log):
    """The same value, of a class whose operators are seen."""
    kind = type(value)

    def seen(name):
        known = getattr(kind, name)

        def operator(self, *args):
            log.append(name)
            return known(self, *args)

        return operator

    return type("Own", (kind,), {name: seen(name) for name in OPERATORS[kind]})(value)


class Flag:
    """A setting whose truth and comparisons are seen."""

    def __init__(self, log):
        self.log = log

    def __bool__(self):
        self.log.append("bool")
        return False

    def __eq__(self, other):
        self.log.append("eq")
        return False

    __hash__ = None


class Trainer:
    def __init__(self, make):
        paddle.seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.log = []
        self.optimizer = make(self.net)

    def step(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        seen = len(self.log)
        self.optimizer.clear_grad()
        return loss, seen


def plain(kind, *args, **settings):
    return lambda net: kind(0.1, *args, parameters=net.parameters(), **settings)


def grouped(kind, **settings):
    return lambda net: kind(0.1, parameters=[{"params": net.parameters(), **settings}])


def clipped(kind):
    return lambda net: optimizer.SGD(0.1, parameters=net.parameters(), grad_clip=kind(0.1))


def scheduled(net):
    return optimizer.Adam(optimizer.lr.StepDecay(0.1, 2), parameters=net.parameters())


def attribute(*path):
    """The attribute or item at the end of a path from the optimizer becomes one of the user's."""

    def change(trainer):
        *way, last = path
        found = trainer.optimizer
        for name in way:
            found = getattr(found, name) if isinstance(name, str) else found[name[0]]
        if isinstance(last, str):
            setattr(found, last, own(getattr(found, last), trainer.log))
        else:
            found[last[0]] = own(found[last[0]], trainer.log)

    return change


def flag(name):
    return lambda trainer: setattr(trainer.optimizer, name, Flag(trainer.log))


def of_a_parameter(name, key=None):
    def change(trainer):
        weight = trainer.net[0].weight
        if key is None:
            setattr(weight, name, own(getattr(weight, name), trainer.log))
        else:
            getattr(weight, name)[key] = own(getattr(weight, name)[key], trainer.log)

    return change


def tables(trainer):
    held = trainer.optimizer._accumulators
    for name in list(held):
        held[name] = own(held[name], trainer.log)


def exclusion(trainer):
    trainer.optimizer._exclude_from_weight_decay_fn = lambda parameter: bool(trainer.log.append("asked"))


FLOATS = {
    "a rate": (plain(optimizer.SGD), attribute("_learning_rate")),
    "a rate of a scheduler": (scheduled, attribute("_learning_rate", "last_lr")),
    "a beta": (plain(optimizer.Adam), attribute("_beta1")),
    "a beta of a group": (grouped(optimizer.AdamW, beta2=0.9), attribute("_param_groups", [0], ["beta2"])),
    "a momentum": (plain(optimizer.Momentum), attribute("_momentum")),
    "a decay": (plain(optimizer.SGD, weight_decay=0.1), attribute("regularization", "_coeff")),
    "a norm": (clipped(nn.ClipGradByGlobalNorm), attribute("_grad_clip", "clip_norm")),
    "a bound": (clipped(nn.ClipGradByValue), attribute("_grad_clip", "max")),
    "a rate of a parameter": (plain(optimizer.AdamW), of_a_parameter("optimize_attr", "learning_rate")),
}
OTHERS = {
    "a dict of a parameter": (plain(optimizer.SGD), of_a_parameter("optimize_attr")),
    "tables of state": (plain(optimizer.Momentum), tables),
    "what state there is": (plain(optimizer.Adam), attribute("_already_create_accumulator")),
    "a name": (plain(optimizer.Adam, name="mine"), attribute("_name")),
    "a flag": (plain(optimizer.AdamW), flag("_use_multi_tensor")),
    "a function": (plain(optimizer.Lamb), exclusion),
}
for each in ("_auxiliary_vars", "_learning_rate_map", "_param_groups"):
    OTHERS[each] = (plain(optimizer.SGD), attribute(each))
CASES = FLOATS | OTHERS


def trained(trainer, step, change, at):
    paddle.seed(1)
    for number in range(5):
        if number == at:
            change(trainer)
        loss, seen = step(paddle.randn([3, 4]), paddle.randn([3, 2]))
        yield loss.item(), seen
    yield [parameter.tolist() for parameter in trainer.net.parameters()], trainer.log


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("what", CASES)
def test_operators_run_when_the_step_does(what, at):
    make, change = CASES[what]
    one, other = Trainer(make), Trainer(make)
    step = translate(other.step)
    expected = list(trained(one, one.step, change, at))
    assert list(trained(other, step, change, at)) == expected
    breaks = [each.message for each in sot.stats(step).graph_breaks]
    assert breaks and all("works on gradients" in message for message in breaks)


def test_names_that_decay_and_become_the_users():
    def steps(translates):
        paddle.seed(0)
        net, log = nn.Linear(4, 2), []
        names = [net.weight.name]
        adam = optimizer.AdamW(0.1, parameters=net.parameters(), apply_decay_param_fun=lambda name: name in names)

        def step(x):
            net(x).sum().backward()
            adam.step()
            seen = len(log)
            adam.clear_grad()
            return seen

        step = translates(step)
        for number in range(4):
            if number == 2:
                names.insert(0, own("another", log))
            yield step(paddle.ones([1, 4]))
        yield [parameter.tolist() for parameter in net.parameters()]

    assert list(steps(translate)) == list(steps(lambda step: step))


def test_a_class_that_says_it_is_numpys():
    def steps(translates):
        paddle.seed(0)
        net, log = nn.Linear(4, 2), []
        sgd = optimizer.SGD(0.1, parameters=net.parameters())
        rate = own(0.5, log)
        type(rate).__module__, type(rate).__name__ = "numpy", "float64"
        net.weight.optimize_attr["learning_rate"] = rate

        def step(x):
            net(x).sum().backward()
            sgd.step()
            seen = len(log)
            sgd.clear_grad()
            return seen

        step = translates(step)
        yield [step(paddle.ones([1, 4])) for _ in range(3)]

    assert list(steps(translate)) == list(steps(lambda step: step))


def test_numbers_of_numpy_are_deferred():
    numpy = pytest.importorskip("numpy")
    paddle.seed(0)
    net = nn.Linear(4, 2)
    groups = [{"params": net.parameters(), "learning_rate": numpy.float64(0.5)}]
    sgd = optimizer.SGD(optimizer.lr.LambdaDecay(0.1, lambda epoch: numpy.float32(0.5)), parameters=groups)

    @translate
    def step(x):
        net(x).sum().backward()
        sgd.step()
        sgd.clear_grad()

    for _ in range(3):
        step(paddle.ones([1, 4]))
    assert sot.stats(step).graph_breaks == []


def test_settings_that_a_step_takes_from_groups():
    def steps(translates):
        paddle.seed(0)
        net = nn.Linear(4, 2)
        adam = optimizer.AdamW(0.1, beta1=0.9, parameters=[{"params": net.parameters(), "beta1": 0.5}])

        def step(x):
            net(x).sum().backward()
            adam.step()
            return adam._beta1, adam._weight_decay

        step = translates(step)
        return [step(paddle.ones([1, 4])) for _ in range(2)]

    assert steps(translate) == steps(lambda step: step)
