"""What hooks of a layer are given, what they leave in it and answer with, and hooks that come and go during a call."""

import collections

import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, difference, pictured, tensor, translate
from paddle import nn

X = tensor(2, 3)
CASES = []
Pair = collections.namedtuple("Pair", "a b")


class Scale(nn.Layer):
    def forward(self, x, k=1.0):
        return x * k


def case(graphs, breaks, calls=lambda net: lambda x: net(x, k=2.0)):
    """A layer with hooks, what is called, and what that takes."""

    def add(make):
        CASES.append(pytest.param(make, calls, graphs, breaks, id=make.__name__))
        return make

    return add


def alone(net):
    return lambda x: net(x)


@case(1, 0)
def keyword_arguments_that_a_hook_changes():
    net = Scale()
    net.register_forward_pre_hook(lambda layer, inputs, named: named.update(k=named["k"] + 1), with_kwargs=True)
    net.register_forward_pre_hook(lambda layer, inputs, named: named.update(k=named["k"] * 5), with_kwargs=True)
    net.register_forward_post_hook(
        lambda layer, inputs, named, out: named.setdefault("more", out * 2), with_kwargs=True
    )
    net.register_forward_post_hook(lambda layer, inputs, named, out: out + named["more"], with_kwargs=True)
    return net


@case(1, 0)
def other_keyword_arguments():
    net = Scale()
    other, same = {"k": 7.0}, [None]
    net.register_forward_pre_hook(lambda layer, inputs, named: (inputs, other), with_kwargs=True)
    net.register_forward_pre_hook(lambda layer, inputs, named: same.__setitem__(0, named is other), with_kwargs=True)
    net.register_forward_post_hook(lambda layer, inputs, named, out: (out, same[0], named is other), with_kwargs=True)
    return net


@case(1, 0)
def all_hooks_get_the_same_objects():
    net = Scale()
    seen = [None, None]
    net.register_forward_pre_hook(lambda layer, inputs: seen.__setitem__(0, inputs))
    net.register_forward_pre_hook(lambda layer, inputs, named: seen.__setitem__(1, named), with_kwargs=True)
    net.register_forward_post_hook(
        lambda layer, inputs, named, out: (out, inputs is seen[0], named is seen[1]), with_kwargs=True
    )
    net.register_forward_post_hook(lambda layer, inputs, out: (*out, inputs is seen[0]))
    return net


@case(1, 0, alone)
def a_named_tuple_instead_of_the_arguments():
    net = Scale()
    net.register_forward_pre_hook(lambda layer, inputs: Pair(inputs[0] * 2, 3.0))
    net.register_forward_post_hook(lambda layer, inputs, out: (out, type(inputs) is Pair))
    return net


class Own(tuple):
    pass


OWN = Own([X, 4.0])


@case(1, 0, alone)
def a_tuple_of_another_class_instead_of_the_arguments():
    net = Scale()
    net.register_forward_pre_hook(lambda layer, inputs: OWN)
    net.register_forward_post_hook(lambda layer, inputs, out: (out, inputs is OWN))
    return net


@case(1, 0, alone)
def a_list_is_one_argument():
    net = nn.LayerList()
    net.forward = lambda x: x[0] * x[1]
    net.register_forward_pre_hook(lambda layer, inputs: [inputs[0], 2.0])
    return net


@case(1, 0)
def a_list_of_arguments():
    net = Scale()
    net.register_forward_pre_hook(lambda layer, inputs, named: ([inputs[0] * 2], named), with_kwargs=True)
    net.register_forward_post_hook(lambda layer, inputs, out: (out, type(inputs)))
    return net


def once(layer, act):
    """Does this in the first call only: the others do not raise then."""
    if not layer.done:
        layer.done.append(1)
        act()


class Acting(nn.Layer):
    """Does something to itself in `forward`, in a hook before it and in one behind it."""

    def __init__(self, where, act):
        super().__init__()
        self.done, self.where, self.act = [], where, act
        self.register_forward_pre_hook(lambda layer, inputs: layer.at("before"))
        self.first = self.register_forward_post_hook(lambda layer, inputs, out: layer.at("behind") or out * 10)._hook_id
        self.register_forward_post_hook(lambda layer, inputs, out: out + 100)

    def at(self, where):
        if where == self.where:
            once(self, lambda: self.act(self))

    def forward(self, x):
        self.at("in")
        return x * 2


def multiply(layer, inputs, out):
    return out * -3


ACTS = {
    "clear": lambda net: net._forward_post_hooks.clear(),
    "pop": lambda net: net._forward_post_hooks.pop(net.first) and None,
    "del": lambda net: net._forward_post_hooks.__delitem__(net.first),
    "update": lambda net: net._forward_post_hooks.update({10**6: multiply}),
    "setdefault": lambda net: net._forward_post_hooks.setdefault(10**6, multiply) and None,
    "before": lambda net: net._forward_pre_hooks.clear(),
    "flag": lambda net: net._forward_post_hooks_with_kwargs_flag.update({net.first: True}),
}


def results(make, calls, wrap):
    net = make()
    function = wrap(calls(net))
    found = []
    for _ in range(3):
        found.append(pictured(function, X))
    return found, list(net._forward_post_hooks.values()) != [], function


@pytest.mark.parametrize(("make", "calls", "graphs", "breaks"), CASES)
def test_what_hooks_are_given(make, calls, graphs, breaks):
    expected = results(make, calls, lambda function: function)
    actual = results(make, calls, translate)
    assert difference(expected[:2], actual[:2], close=False) is None
    if not IDENTITY:
        record = sot.stats(actual[2])
        assert (record.graphs, sum(it.count for it in record.graph_breaks)) == (graphs, breaks), record


@pytest.mark.parametrize("where", ["before", "in", "behind"])
@pytest.mark.parametrize("act", ACTS)
def test_hooks_that_change_during_a_call(act, where):
    def make():
        return Acting(where, ACTS[act])

    expected = results(make, alone, lambda function: function)
    actual = results(make, alone, translate)
    assert difference(expected[:2], actual[:2], close=False) is None


def test_hooks_that_forward_registers_where_there_were_none_wait_for_the_next_call():
    class Registering(nn.Layer):
        def forward(self, x):
            if not self._forward_post_hooks:
                self._forward_post_hooks[10**6] = multiply
            return x * 2

    expected = results(Registering, alone, lambda function: function)
    actual = results(Registering, alone, translate)
    assert difference(expected[:2], actual[:2], close=False) is None
    if not IDENTITY:
        assert sot.stats(actual[2]).graph_breaks == []


def test_whether_a_hook_takes_keyword_arguments_is_guarded():
    net = Scale()
    handle = net.register_forward_pre_hook(lambda layer, inputs, named=None: named and (inputs, {"k": 5.0}))

    def function(x):
        return net(x, k=2.0)

    translated = translate(function)
    for flag in (False, True, False):
        if flag:
            net._forward_pre_hooks_with_kwargs_flag[handle._hook_id] = True
        else:
            net._forward_pre_hooks_with_kwargs_flag.pop(handle._hook_id, None)
        for _ in range(2):
            assert (translated(X) == function(X)).all()
    if not IDENTITY:
        assert (sot.stats(translated).translations, sot.stats(translated).graph_breaks) == (2, [])


def test_a_class_that_calls_its_hooks_itself():
    class Net(Scale):
        def _dygraph_call_func(self, *inputs, **kwargs):
            return super()._dygraph_call_func(*inputs, **kwargs) * 10

    net = Net()
    net.register_forward_post_hook(lambda layer, inputs, result: result + 1)

    def function(x):
        return net(x)

    translated = translate(function)
    for _ in range(2):
        assert (translated(X) == function(X)).all()


def test_arguments_that_are_used_up():
    """Paddle goes over them once before they are given to `forward`."""
    results = []
    for wrap in (lambda function: function, translate):
        net = Scale()
        net.register_forward_pre_hook(lambda layer, inputs, named: ((it for it in inputs), named), with_kwargs=True)
        run = wrap(lambda x, net=net: net(x))
        for _ in range(2):
            try:
                results.append(run(X).tolist())
            except (TypeError, IndexError) as error:
                results.append(repr(error))
    assert results[:2] == results[2:]
