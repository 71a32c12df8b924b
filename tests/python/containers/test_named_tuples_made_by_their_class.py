"""Named tuples of derived classes: what `_make()`, `_replace()` and methods of the class make, and their class."""

import collections
from typing import NamedTuple

import paddle
import paddle_sot_rs as sot
import pytest


class Derived(collections.namedtuple("Derived", "x y")):
    def norm(self):
        return self.x * self.x + self.y

    @property
    def both(self):
        return self.x + self.y

    @classmethod
    def twice(cls, a):
        return cls._make([a, a])

    def other(self):
        return self.__class__(self.y, self.x), type(self).__name__


class Slots(Derived):
    __slots__ = ()


class Typed(NamedTuple):
    x: object
    y: int = 3

    def norm(self):
        return self.x * 2 + self.y

    @property
    def both(self):
        return self.x + self.y

    @classmethod
    def twice(cls, a):
        return cls._make([a, a])

    def other(self):
        return self.__class__(self.y, self.x), type(self).__name__


class Made(collections.namedtuple("Made", "x y")):
    @classmethod
    def _make(cls, items):
        return "made"


BODIES = [
    "p.norm(), p.both, p.x, len(p), p[1]",
    "p._replace(x=3), p._asdict(), p._fields",
    "p.twice(4), type(p).twice(5), C._make((1, 2)), C._make(iter([1, 2]))",
    "p.other(), p.__class__ is C, type(p) is C, p.__class__.__name__",
]


def seen(value):
    if isinstance(value, paddle.Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return type(value), [seen(item) for item in value]
    if isinstance(value, dict):
        return [(key, seen(item)) for key, item in value.items()]
    return value


def agree(body, given, *calls, breaks=0):
    space = {"C": given}
    exec(f"def f(x, p=None):\n    {body}\n    return x + 1, r", space)
    static = sot.to_static(space["f"], min_graph_size=0)
    for args in calls:
        x = paddle.ones([2])
        try:
            expected = seen(space["f"](x, *args))
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error)) as raised:
                static(x, *args)
            assert str(raised.value) == str(error)
        else:
            assert expected == seen(static(x, *args))
    record = sot.stats(static)
    assert len(record.graph_breaks) == breaks and not record.fallbacks, record.graph_breaks
    return record


@pytest.mark.parametrize("of", [Derived, Slots, Typed])
@pytest.mark.parametrize("body", BODIES)
def test_is_captured(of, body):
    agree(f"p = C(1, 2); r = {body}", of, (), ())
    agree(f"p = C(x, 2); r = {body}", of, (), ())
    agree(f"r = {body}", of, (of(1, 2),), (of(1, 2),), (of(3, 2),))


def test_of_another_length():
    agree("r = C._make([1])", Typed, (), (), breaks=1)
    agree("r = tuple.__new__(C, [1, 2]), tuple.__new__(C, (x, 2))", Typed, (), ())


def test_with_its_own_make():
    agree("r = p._replace(x=3)", Made, (Made(1, 2),), (Made(1, 2),), breaks=1)
    agree("r = C(1, 2)._replace(x=3)", Made, (), (), breaks=1)
