"""Guards do not keep classes and modules that are found nowhere (`type()`, `namedtuple()`)."""

import collections
import enum
import gc
import sys
import types
import weakref

import paddle
import paddle_sot_rs as sot
import pytest

X = paddle.ones([2])


def attribute(x, given):
    return x * 2 if hasattr(given, "missing") else x * 3


def kind(x, given):
    return x * 2 if isinstance(given, (list, tuple)) else x * 3


def identity(x, given):
    return x * 2 if given is None else x * 3


def value(x, given):
    return x * given.value


def instance(x, given):
    return x * given().value


def with_value(made):
    made.value = 3.0
    return made


MAKERS = {
    "type": lambda: with_value(type("Made", (), {})),
    "namedtuple": lambda: with_value(collections.namedtuple("Made", [])),
    "metaclass": lambda: with_value(type("Made", (type("Meta", (type,), {}),), {})("Of", (), {})),
    "module": lambda: with_value(types.ModuleType("made")),
    "module of its own class": lambda: with_value(type("Made", (types.ModuleType,), {})("made")),
}
CALLS = [attribute, kind, identity, value]


def left(function, make):
    """What is left of objects that nothing but a guard can hold."""
    static = sot.to_static(function, min_graph_size=0)
    left = []
    for _ in range(4):
        made = make()
        assert static(X, made).tolist() == function(X, made).tolist()
        left.append(weakref.ref(made))
        del made
        gc.collect()
    assert sot.stats(static).graphs, function
    return [reference() for reference in left]


@pytest.mark.parametrize("function", CALLS)
@pytest.mark.parametrize("name", MAKERS)
def test_gone(function, name):
    assert left(function, MAKERS[name]) == [None] * 4


@pytest.mark.parametrize("function", [attribute, kind, identity])
def test_enumerations_go(function):
    assert left(function, lambda: enum.Enum("Made", "A B")) == [None] * 4


def test_classes_of_instances_go():
    assert left(instance, MAKERS["type"]) == [None] * 4


@pytest.mark.parametrize("make", MAKERS.values())
def test_what_stays_is_seen(make):
    """Another one is another one, and the same one needs no other translation."""

    def function(x, given):
        return x * given.value, given is first

    static = sot.to_static(function, min_graph_size=0)
    first, second = make(), make()
    second.value = 5.0
    for given in (first, first, second, first, second):
        (y, same), (expected, is_first) = static(X, given), function(X, given)
        assert y.tolist() == expected.tolist() and same is is_first
    assert sot.stats(static).translations == 2


def test_a_module_that_is_imported_again():
    """A module that `sys.modules` has no longer: the name means another one."""

    def function(x):
        return x * sys.modules["made_for_this_test"].value

    static = sot.to_static(function, min_graph_size=0)
    for number in (2.0, 3.0, 2.0):
        sys.modules["made_for_this_test"] = made = types.ModuleType("made_for_this_test")
        made.value = number
        assert static(X).tolist() == (X * number).tolist()
    del sys.modules["made_for_this_test"]
