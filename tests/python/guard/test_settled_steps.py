"""Optimizers that are changed when their steps have settled: each change is seen by the next step."""

import copy
import gc
import weakref

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn, optimizer
from paddle.base import framework

LOG = []


class Number(float):
    """One with operators of its own."""

    def __mul__(self, other):
        LOG.append("mul")
        return float.__mul__(self, other)

    __rmul__ = __mul__

    def __float__(self):
        LOG.append("float")
        return float.__float__(self)


class Text(str):
    def __eq__(self, other):
        LOG.append("eq")
        return str.__eq__(self, other)

    __hash__ = str.__hash__


class Tables(dict):
    def __getitem__(self, key):
        LOG.append("item")
        return dict.__getitem__(self, key)


class Parameters(list):
    def __iter__(self):
        LOG.append("iter")
        return list.__iter__(self)


class Parameter(framework.EagerParamBase):
    @property
    def name(self):
        LOG.append("name")
        return super().name


class Clip(nn.ClipGradByGlobalNorm):
    def __call__(self, pairs):
        LOG.append("clip")
        return super().__call__(pairs)


class Inverse(optimizer.lr.LRScheduler):
    def get_lr(self):
        return 0.1 / (1 + self.last_epoch)


class Called(Inverse):
    def __call__(self):
        LOG.append("rate")
        return super().__call__()


def first_states(updates):
    for table in updates._accumulators.values():
        for name in list(table)[:1]:
            yield table, name


def replace_states(updates, net):
    for table, name in first_states(updates):
        table[name] = paddle.full_like(table[name], 0.01)


def set_states(updates, net):
    for table, name in first_states(updates):
        table[name].set_value(paddle.full_like(table[name], 0.01))


def replace_tables(updates, net):
    for name, table in list(updates._accumulators.items()):
        updates._accumulators[name] = Tables(table)


def replace_created(updates, net):
    created = updates._already_create_accumulator
    for name in list(created)[:1]:
        created.discard(name)
        created.add(Text(name))


def replace_parameters(updates, net):
    updates._parameter_list = updates._param_groups = Parameters(updates._parameter_list)


def own_class(name):
    def change(updates, net):
        def method(self, *given):
            LOG.append(name)
            return getattr(super(type(self), self), name)(*given)

        updates.__class__ = type("Own", (type(updates),), {name: method})

    return change


def own_method(name):
    def change(updates, net):
        known = getattr(type(updates), name)
        setattr(updates, name, lambda *given: (LOG.append(name), known(updates, *given)))

    return change


CHANGES = {
    "nothing": lambda updates, net: None,
    "a number": lambda updates, net: setattr(updates, "_epsilon", 1e-3),
    "a number of another class": lambda updates, net: setattr(updates, "_beta1", Number(0.8)),
    "a dictionary in its place": lambda updates, net: setattr(
        updates, "__dict__", dict(updates.__dict__, _beta1=Number(0.8))
    ),
    "a clip": lambda updates, net: setattr(updates, "_grad_clip", nn.ClipGradByGlobalNorm(0.01)),
    "the norm of a clip": lambda updates, net: setattr(updates._grad_clip, "clip_norm", 0.02),
    "a clip of another class": lambda updates, net: setattr(updates._grad_clip, "__class__", Clip),
    "a rate of a parameter": lambda updates, net: net[0].weight.optimize_attr.update(learning_rate=0.1),
    "a rate of another class": lambda updates, net: net[0].weight.optimize_attr.update(learning_rate=Number(0.1)),
    "a regularizer": lambda updates, net: setattr(net[0].weight, "regularizer", paddle.regularizer.L2Decay(0.1)),
    "a parameter that stops": lambda updates, net: setattr(net[0].weight, "stop_gradient", True),
    "a parameter of another class": lambda updates, net: setattr(net[0].weight, "__class__", Parameter),
    "a parameter less": lambda updates, net: updates._parameter_list.pop(),
    "another order": lambda updates, net: updates._parameter_list.reverse(),
    "a list of another class": replace_parameters,
    "numbers of states": set_states,
    "other states": replace_states,
    "states that are loaded": lambda updates, net: updates.set_state_dict(copy.deepcopy(updates.state_dict())),
    "tables of another class": replace_tables,
    "what makes a table": lambda updates, net: setattr(
        updates._accumulators, "default_factory", lambda: LOG.append("table") or {}
    ),
    "names of another class": replace_created,
    "a rate of the scheduler": lambda updates, net: setattr(updates._learning_rate, "last_lr", Number(0.2)),
    "a scheduler of another class": lambda updates, net: setattr(updates._learning_rate, "__class__", Called),
    "a class with a step": own_class("step"),
    "a class that clears": own_class("clear_grad"),
    "a step of its own": own_method("step"),
    "a clear of its own": own_method("clear_grad"),
}


def trained(kind, function_of, change):
    LOG.clear()
    paddle.seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    updates = kind(Inverse(0.1), parameters=net.parameters(), grad_clip=nn.ClipGradByGlobalNorm(0.1))

    def step(x, y):
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        updates.step()
        updates.clear_grad()
        return loss

    function, seen = function_of(step), []
    for number in range(7):
        paddle.seed(number)
        x, y = paddle.randn([3, 4]), paddle.randn([3, 2])
        if number == 4:
            change(updates, net)
        loss = function(x, y)
        gradients = [each.grad if each.grad is None else each.grad.tolist() for each in net.parameters()]
        seen.append((loss.item(), [each.tolist() for each in net.parameters()], gradients, list(LOG)))
        updates._learning_rate.step()
    return seen


@pytest.mark.parametrize("kind", [optimizer.AdamW, optimizer.Momentum])
@pytest.mark.parametrize("what", CHANGES)
def test_changes(what, kind):
    expected = trained(kind, lambda step: step, CHANGES[what])
    assert trained(kind, lambda step: translate(step, min_graph_size=0), CHANGES[what]) == expected


def test_nothing_is_kept_of_an_optimizer_that_is_gone():
    def step(net, updates, x):
        loss = net(x).mean()
        loss.backward()
        updates.step()
        updates.clear_grad()
        return loss

    translated = translate(step, min_graph_size=0)
    weak = []
    for _ in range(3):
        net = nn.Linear(2, 2)
        updates = optimizer.AdamW(0.1, parameters=net.parameters())
        for _ in range(4):
            translated(net, updates, paddle.ones([1, 2]))
        weak += [weakref.ref(updates), weakref.ref(net.weight)]
        del net, updates
        gc.collect()
    sot.reset()
    gc.collect()
    assert [each() for each in weak] == [None] * len(weak)


def test_another_default_program():
    """Each has a tensor of its own for the rate."""

    def trained(function_of):
        paddle.seed(0)
        net = nn.Linear(4, 2)
        updates = optimizer.AdamW(0.1, parameters=net.parameters())

        def step(x):
            loss = net(x).square().mean()
            loss.backward()
            updates.step()
            updates.clear_grad()
            return loss

        function, seen = function_of(step), []
        for number in range(8):
            around = framework.Program() if number == 5 else framework.default_main_program()
            with framework.program_guard(around):
                loss = function(paddle.full([3, 4], number, "float32"))
            seen.append((loss.item(), len(updates._learning_rate_map), [each.tolist() for each in net.parameters()]))
        return seen

    expected = trained(lambda step: step)
    assert [programs for _, programs, _ in expected] == [1, 1, 1, 1, 1, 2, 2, 2]
    assert trained(lambda step: translate(step, min_graph_size=0)) == expected
