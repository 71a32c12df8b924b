"""The first read of a `functools.cached_property` is captured: the function runs once, the object keeps the answer."""

import functools

import paddle
import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, translate
from paddle import nn

LOG = []


class Holder:
    def __init__(self, value=1):
        self.value = value

    @functools.cached_property
    def scale(self):
        LOG.append(self.value)
        return self.value * 2

    @functools.cached_property
    def table(self):
        return paddle.arange(2.0) * self.value

    @functools.cached_property
    def fails(self):
        raise ValueError("no")


class Derived(Holder):
    @functools.cached_property
    def scale(self):
        return super().scale + 1


class Guarded(Holder):
    def __setattr__(self, name, value):
        LOG.append(name)
        super().__setattr__(name, value)


class Slots:
    __slots__ = ("value",)

    @functools.cached_property
    def scale(self):
        return 2


def observed(function, make):
    LOG.clear()
    holder = make()
    found = []
    for _ in range(3):
        try:
            found.append(function(paddle.ones([2]), holder).tolist())
        except (ValueError, TypeError) as error:
            found.append(type(error))
    state = {name: str(value) for name, value in getattr(holder, "__dict__", {}).items()}
    return found, list(LOG), list(state.items())


FUNCTIONS = {
    "one read": lambda x, holder: x * holder.scale,
    "two reads": lambda x, holder: x * holder.scale + holder.scale,
    "a tensor": lambda x, holder: x + holder.table,
    "one that raises": lambda x, holder: x * holder.fails,
    "written before": lambda x, holder: (setattr(holder, "scale", 7), x * holder.scale)[1],
}


@pytest.mark.parametrize("make", [Holder, lambda: Holder(3), Derived, Guarded])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_what_it_is_in_eager_mode(name, make):
    function = FUNCTIONS[name]
    translated = translate(lambda x, holder: function(x, holder))
    for _ in range(2):
        assert observed(translated, make) == observed(function, make)


def test_an_object_without_a_dict_raises():
    function = FUNCTIONS["one read"]
    assert observed(translate(function), Slots) == observed(function, Slots)


def test_it_is_captured():
    translated = translate(FUNCTIONS["two reads"])
    for value in (1, 1, 2):
        holder = Holder(value)
        for _ in range(2):
            assert translated(paddle.ones([2]), holder).tolist() == [4.0 * value] * 2
    assert sot.stats(translated).graph_breaks == []


def test_of_an_object_that_the_function_makes():
    translated = translate(lambda x: x * Holder(5).scale)
    assert translated(paddle.ones([2])).tolist() == [10.0, 10.0]
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear, self.factor = nn.Linear(2, 2), 2.0
        self.linear.weight.set_value(paddle.ones([2, 2]))

    @functools.cached_property
    def scale(self):
        LOG.append("scale")
        return self.factor * 2

    @functools.cached_property
    def sum(self):
        LOG.append("sum")
        return self.linear.weight.sum() * self.factor

    def forward(self, x):
        return self.linear(x) * self.scale + self.sum


def test_of_a_layer():
    changes = [
        lambda net: None,
        lambda net: None,
        lambda net: delattr(net, "scale"),
        lambda net: setattr(net, "scale", 100.0),
        lambda net: (net.__dict__.pop("sum"), setattr(net, "factor", 3.0)),
    ]
    seen = []
    for wrap in (lambda function: function, translate):
        LOG.clear()
        net = Net()
        function = wrap(lambda x, net=net: net(x))
        found = []
        for change in changes:
            change(net)
            found.append((function(paddle.ones([2])).tolist(), list(LOG), list(net.state_dict()), sorted(vars(net))))
        seen.append(found)
    assert seen[0] == seen[1]
    assert IDENTITY or sot.stats(function).graph_breaks == []


class Lacks(nn.Layer):
    """`Layer.__getattr__` asks once more for what a property says is missing."""

    @property
    def always(self):
        LOG.append("always")
        raise AttributeError("always")

    @functools.cached_property
    def at_first(self):
        LOG.append("at first")
        if len(LOG) % 4:
            raise AttributeError("at first")
        return 3.0

    def __getattribute__(self, name):
        if name == "hidden":
            raise AttributeError(name)
        return super().__getattribute__(name)


def lacks(x, net):
    return x * 2, hasattr(net, "always"), getattr(net, "at_first", None), hasattr(net, "hidden"), hasattr(net, "none")


def test_of_a_layer_that_lacks_one():
    seen = []
    for wrap in (lambda function: function, translate):
        LOG.clear()
        net = Lacks()
        net.hidden = 1
        function = wrap(lacks)
        found = []
        for _ in range(4):
            product, *answers = function(paddle.ones([2]), net)
            found.append((product.tolist(), answers, list(LOG), "at_first" in vars(net)))
            net.__dict__.pop("at_first", None)
        seen.append(found)
    assert seen[0] == seen[1]
