"""Constants, staticmethods and classmethods of classes, which a descriptor or another class may replace."""

import collections
from unittest import mock

import paddle
import paddle_sot_rs as sot
import pytest


class Base:
    number = 1
    name = "base"
    nothing = None

    @classmethod
    def made(cls):
        return "Base", cls.__name__

    @staticmethod
    def fixed():
        return "Base.fixed"

    @property
    def shown(self):
        return "shown"


class Left(Base):
    @classmethod
    def made(cls):
        return "Left", super().made()

    def of_super(self):
        return super().fixed(), super().number, super().name

    @property
    def shown(self):
        return "Left", super().shown


class Right(Base):
    pass


class Both(Left, Right):
    pass


BOTH = Both()


def read(x):
    return x + 1, BOTH.number, BOTH.nothing, getattr(BOTH, "name", 3)


def read_of_class(x):
    return x + 1, Both.number, Both.nothing


def handed_on(x):
    kept = [BOTH.number, {"name": Both.name}]
    x.numpy()
    return kept, x + 2


def called(x):
    return x + 1, Both.made(), BOTH.made()


def through_super(x):
    return x + 1, BOTH.of_super()


def property_of_super(x):
    return x + 1, BOTH.shown


Pair = collections.namedtuple("Pair", "a b")
GIVEN = Pair(1, 2)


def fields(x):
    return x + 1, Pair(5, 6).a, GIVEN.a, GIVEN.b


class Asked:
    def __get__(self, obj, owner):
        return "asked", obj is None


CONSTANTS = [
    (Base, "number", property(lambda self: 9)),
    (Base, "number", Asked()),
    (Base, "number", 1.5),
    (Base, "number", lambda *args: 4),
    (Right, "number", 7),
    (Right, "number", Asked()),
    (Base, "name", property(lambda self: "asked")),
    (Base, "nothing", Asked()),
    (Base, "nothing", 5),
]
METHODS = [
    (Both, "made", lambda *args: "Both"),
    (Base, "made", lambda cls=5: ("plain", str(cls))),
    (Base, "made", staticmethod(lambda: "static")),
    (Base, "made", classmethod(lambda cls: "new")),
    (Right, "made", classmethod(lambda cls: ("Right", cls.__name__))),
    (Right, "made", staticmethod(lambda: "Right")),
]
OF_SUPER = [
    (Right, "fixed", staticmethod(lambda: "Right.fixed")),
    (Right, "fixed", classmethod(lambda cls: cls.__name__)),
    (Right, "number", 2),
    (Right, "number", property(lambda self: 3)),
    (Right, "name", "right"),
    (Base, "name", Asked()),
]
PROPERTIES = [
    (Base, "shown", 5),
    (Base, "shown", property(None, lambda self, value: None)),
    (Base, "shown", property(lambda self: "other")),
    (Right, "shown", "right"),
    (Right, "shown", property(lambda self: "right")),
]
FIELDS = [
    (Pair, "a", Pair.b),
    (Pair, "b", property(lambda self: self[0])),
]
CASES = [
    (fields, FIELDS),
    *((function, CONSTANTS) for function in (read, read_of_class, handed_on)),
    (called, METHODS),
    (through_super, OF_SUPER),
    (property_of_super, PROPERTIES),
]


def answer(function, x):
    try:
        return repr(function(x))
    except (AttributeError, TypeError) as error:
        return repr(error)


@pytest.mark.parametrize(("function", "changes"), CASES, ids=[function.__name__ for function, _ in CASES])
def test_what_replaces_an_attribute_is_seen(function, changes):
    translated = sot.to_static(function, min_graph_size=0)
    x = paddle.ones([2])
    # Whatever was there before, and again behind the others.
    for _ in range(2):
        for change in changes:
            assert answer(translated, x) == answer(function, x)
            with mock.patch.object(*change):
                assert answer(translated, x) == answer(function, x), change
                for other in changes:
                    with mock.patch.object(*other):
                        assert answer(translated, x) == answer(function, x), (change, other)
            assert answer(translated, x) == answer(function, x), change
