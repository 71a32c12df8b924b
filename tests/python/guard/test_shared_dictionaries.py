"""Objects that share their dictionaries, and come to share them: what one is told the other knows."""

import types

import paddle
import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, tensor, translate
from paddle import nn

X = tensor(3)


class Thing:
    def __init__(self, v=1):
        self.v = v


class Shared(Thing):
    everything = {}

    def __init__(self, v=1):
        self.__dict__ = self.everything
        super().__init__(v)


def written_and_read(a, b, x):
    a.v = a.v + 1
    return x * b.v


def read_and_written(a, b, x):
    before = b.v
    a.v = a.v + 1
    return x * b.v + before


def behind_a_break(a, b, x):
    a.v = a.v + 1
    sot.graph_break()
    b.v = b.v * 2
    return x * a.v


def added(a, b, x):
    a.w = x + 1
    return b.w * 2 if hasattr(b, "w") else x


def deleted(a, b, x):
    del a.v
    return x * getattr(b, "v", 7)


PROGRAMS = [written_and_read, read_and_written, behind_a_break, added, deleted]


def run(function, make):
    """Apart, together, apart again."""
    found = []
    for together in (False, True, False):
        for _ in range(2):
            a, b = make(), make()
            if together:
                b.__dict__ = a.__dict__
            result = function(a, b, X).tolist()
            found.append((result, getattr(a, "v", None), getattr(b, "v", None), a.__dict__ is b.__dict__))
    return found


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda it: it.__name__)
@pytest.mark.parametrize("make", [Thing, Shared, types.SimpleNamespace], ids=lambda it: it.__name__)
def test_objects(function, make):
    if make is types.SimpleNamespace:
        # Its dictionary cannot be another one.
        a = types.SimpleNamespace(v=1)
        again = types.SimpleNamespace(v=1)
        assert translate(function)(a, a, X).tolist() == function(again, again, X).tolist()
        assert vars(a).keys() == vars(again).keys()
        return
    assert run(translate(function), make) == run(function, make)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.v = 1
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        self.v = self.v + 1
        return x * self.v


def test_layers():
    results = []
    for wrap in (lambda function: function, translate):
        a, b = Net(), Net()
        b.__dict__ = a.__dict__

        def function(x, a=a, b=b):
            return a(x) + b(x) * b.v

        wrapped = wrap(function)
        results.append([wrapped(X).tolist() for _ in range(3)])
    assert results[0] == results[1]


def test_parameters_of_layers():
    def function(x, a, b):
        a.scale = paddle.create_parameter([1], "float32", default_initializer=nn.initializer.Constant(3.0))
        return x * b.scale

    results = []
    for wrap in (lambda function: function, translate):
        a, b = nn.Layer(), nn.Layer()
        a.scale = paddle.create_parameter([1], "float32", default_initializer=nn.initializer.Constant(2.0))
        b._parameters = a._parameters
        wrapped = wrap(function)
        results.append([wrapped(X, a, b).tolist() for _ in range(2)])
    assert results[0] == results[1]


def test_objects_apart_are_one_graph():
    static = translate(written_and_read)
    for v in (1, 1):
        a, b = Thing(v), Thing(5)
        assert static(a, b, X).tolist() == (X * 5).tolist() and a.v == 2
    if not IDENTITY:
        assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])


COUNT = 5
MODULE = types.ModuleType("counted")
MODULE.__dict__.update(COUNT=5)


def global_is_written(a, x):
    global COUNT
    COUNT += 1
    return x * a.COUNT


def global_is_read(a, x):
    a.COUNT = a.COUNT + 1
    return x * COUNT


def global_of_a_module_is_read(a, x):
    a.COUNT = a.COUNT + 1
    return x * MODULE.COUNT


def global_is_written_after_the_attribute(a, x):
    global COUNT
    before = a.COUNT
    COUNT = 7
    return x * a.COUNT + before


def is_written_by_its_module(a, x):
    MODULE.COUNT = MODULE.COUNT + 1
    return x * a.COUNT


def new_object(a, x):
    b = Thing()
    b.__dict__ = a.__dict__
    b.COUNT = 9
    return x * COUNT + MODULE.COUNT


OF_MODULES = [
    global_is_written,
    global_is_read,
    global_of_a_module_is_read,
    global_is_written_after_the_attribute,
    is_written_by_its_module,
    new_object,
]


@pytest.mark.parametrize("function", OF_MODULES, ids=lambda it: it.__name__)
@pytest.mark.parametrize("module", [globals(), vars(MODULE)], ids=["globals", "module"])
@pytest.mark.parametrize("together", [(False, True, False), (True, True, False)], ids=["later", "first"])
def test_objects_and_modules(function, module, together):
    def run(function):
        found = []
        for shares in together:
            globals()["COUNT"] = MODULE.COUNT = 5
            a = Thing()
            if shares:
                a.__dict__ = module
            else:
                a.COUNT = 5
            result = function(a, X).tolist()
            found.append((result, a.COUNT, COUNT, MODULE.COUNT))
        return found

    assert run(translate(function)) == run(function)


def test_globals_and_objects_apart_are_one_graph():
    static = translate(global_is_written)
    for _ in range(3):
        globals()["COUNT"] = 5
        a = Thing()
        a.COUNT = 5
        assert static(a, X).tolist() == (X * 5).tolist() and COUNT == 6
    if not IDENTITY:
        assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])
