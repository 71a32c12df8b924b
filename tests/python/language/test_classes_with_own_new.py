"""Instances of classes with a `__new__` of their own, or a metaclass: made as plain Python makes them."""

import abc
from typing import Any

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from support import same, snapshot

LOG: list[Any] = []


class Made:
    def __new__(cls, value, *rest):
        LOG.append(("new", cls.__name__))
        made = super().__new__(cls)
        made.made = True
        return made

    def __init__(self, value, *rest):
        LOG.append(("init", len(rest)))
        self.value = value


class Derived(Made):
    def __init__(self, value):
        super().__init__(value * 2, 1)


class OfObject:
    def __new__(cls, *args, **kwargs):
        return object.__new__(cls)

    def __init__(self, value, *, more=1):
        self.value = value + more


class WithoutInit:
    def __new__(cls, value):
        made = super().__new__(cls)
        made.value = value
        return made


class Slots:
    __slots__ = ("value",)

    def __new__(cls, value):
        made = super().__new__(cls)
        made.value = value
        return made


class Another:
    """Answers with what the number says."""

    def __new__(cls, value):
        if value > 1:
            return [value]
        if value < 0:
            return Below(5)
        return None if value == 0 else super().__new__(cls)

    def __init__(self, value):
        LOG.append(("init", type(self).__name__, value))
        self.value = value


class Below(Another):
    def __new__(cls, value):
        return object.__new__(cls)


class One:
    instance = None

    def __new__(cls):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
            cls.instance.count = 0
        return cls.instance

    def __init__(self):
        self.count += 1


class TooMany:
    def __new__(cls, value):
        return super().__new__(cls, value)


class Abstract(abc.ABC):
    def __new__(cls, value):
        return super().__new__(cls)

    @abc.abstractmethod
    def method(self):
        """Nobody has it."""


class Keys(dict):
    def __new__(cls, value):
        return object.__new__(cls)


class Number(int):
    def __new__(cls, value):
        return super().__new__(cls, int(value) + 1)


class Pair(tuple):
    def __new__(cls, value):
        return tuple.__new__(cls, (value, value))


class Failure(Exception):
    def __new__(cls, *args):
        return super().__new__(cls, *args)


class Ends:
    def __new__(cls, value):
        return super().__new__(cls)

    def __del__(self):
        LOG.append("end")


class Answers:
    def __new__(cls, value):
        return super().__new__(cls)

    def __init__(self, value):
        return 3  # noqa: PLE0101


class Registering(type):
    known: dict[str, Any] = {}

    def __new__(cls, name, bases, namespace):
        cls.known[name] = super().__new__(cls, name, bases, namespace)
        return cls.known[name]


class Registered(metaclass=Registering):
    def __init__(self, value):
        self.value = value


class OfAbstract(abc.ABCMeta):
    """One that says nothing about calls."""


class Concrete(metaclass=OfAbstract):
    def __init__(self, value):
        self.value = value


class Counting(type):
    def __call__(cls, *args):
        LOG.append("called")
        return super().__call__(*args)


class Counted(metaclass=Counting):
    def __init__(self, value):
        self.value = value


CAPTURED = [Made, Derived, OfObject, WithoutInit, Slots, Registered, Concrete]
REFUSED = [TooMany, Abstract, Keys, Number, Pair, Failure, Ends, Answers, Counted]


def make(x, made, value):
    it = made(value)
    return x * 2, it, type(it).__name__, getattr(it, "value", None)


def observed(function, *args):
    LOG.clear()
    try:
        answer = snapshot(function(paddle.ones([2]), *args))
    except TypeError as error:
        answer = type(error)
    return answer, list(LOG)


@pytest.mark.parametrize("made", [*CAPTURED, *REFUSED, Another])
def test_they_are_what_they_are_in_plain_python(made):
    translated = translate(make)
    for value in (1, 2, 0, -1, 1):
        assert same(observed(translated, made, value), observed(make, made, value))


@pytest.mark.parametrize("made", CAPTURED)
def test_they_are_captured(made):
    translated = translate(make)
    for _ in range(2):
        translated(paddle.ones([2]), made, 3)
    record = sot.stats(translated)
    assert (record.graphs, record.graph_breaks) == (1, []), record


def test_the_only_instance():
    function = lambda x: (x * One().count, One() is One())  # noqa: E731
    seen = []
    for each in (function, translate(function)):
        One.instance = None
        found = [snapshot(each(paddle.ones([2]))) for _ in range(3)]
        One.instance = None
        seen.append(found + [snapshot(each(paddle.ones([2]))), One.instance.count])
    assert same(*seen), seen


def test_an_instance_that_lives_on():
    held = []

    def function(x):
        it = Made(x * 2)
        held.append(it)
        sot.graph_break()
        it.value = it.value + 1
        return it, it.value

    translated = translate(function)
    for at in range(3):
        it, value = translated(paddle.ones([2]))
        assert it is held[at] and it.made and value is it.value and value.tolist() == [3.0, 3.0]


def test_classes_that_change_between_calls():
    class Changing:
        def __init__(self, value):
            self.value = value

    class Meta(type):
        pass

    class OfMeta(metaclass=Meta):
        def __init__(self, value):
            self.value = value

    function = lambda x, value: (Changing(value).value, OfMeta(value), x * 1)  # noqa: E731
    translated = translate(function)

    def new(cls, value):
        made = object.__new__(cls)
        made.made = value
        return made

    changes = [
        lambda: setattr(Changing, "__new__", new),
        lambda: setattr(Changing, "__new__", lambda cls, value: object.__new__(cls)),
        lambda: setattr(Meta, "__call__", lambda cls, value: value),
        lambda: delattr(Meta, "__call__"),
        lambda: setattr(OfMeta, "__new__", lambda cls, value: value),
    ]
    for change in [lambda: None, *changes]:
        change()
        assert same(observed(translated, 3), observed(function, 3))
