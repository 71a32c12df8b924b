"""Named tuples that are given to a function are tuples with names: items, fields, methods of theirs, identity."""

import collections
import typing

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

Pair = collections.namedtuple("Pair", "a b")


class Described(typing.NamedTuple):
    a: object
    b: int = 3

    def total(self):
        return self.a * self.b

    @property
    def doubled(self):
        return self.a * 2


class WithAttributes(Pair):
    """Its instances have a `__dict__`."""


class Reversed(Pair):
    __slots__ = ()

    def __getitem__(self, at):
        return super().__getitem__(1 - at)


def unpacked(p):
    a, b = p
    return a - b


X = paddle.to_tensor([1.0, 2.0])

FUNCTIONS = {
    "fields": (lambda p: p.a + p.b, Pair(X, X * 2)),
    "items": (lambda p: p[0] + p[-1], Pair(X, 2)),
    "slices": (lambda p: p[:1][0] + len(p), Pair(X, 2)),
    "unpacked": (unpacked, Pair(X, X * 2)),
    "gone over": (lambda p: sum(x * 2 for x in p), Pair(X, X * 2)),
    "replaced": (lambda p: p._replace(a=p.b * 2), Pair(X, X * 2)),
    "as a dict": (lambda p: p._asdict()["a"] + 1, Pair(X, 2)),
    "names of fields": (lambda p: (p.a + 1, p._fields), Pair(X, 2)),
    "a method": (lambda p: p.total() + p.b, Described(X)),
    "a property": (lambda p: p.doubled + 1, Described(X)),
    "classes": (lambda p: p.a + 1 if isinstance(p, tuple) and isinstance(p, Pair) else p.a, Pair(X, 2)),
    "compared": (lambda p: p.b + 1 if (p.b, 2) == (2, p.b) else p.a, Pair(X, 2)),
    "returned": (lambda p: (p, p.a + 1), Pair(X, 2)),
    "in a dict": (lambda d: d["k"].a + 1, {"k": Pair(X, 2)}),
    "in another": (lambda p: p.a.b + p.b, Pair(Pair(1, X), X)),
    "missing attributes": (lambda p: p.a + (1 if hasattr(p, "c") else 2), Pair(X, 2)),
    "found by flatten": (lambda p: paddle.utils.flatten(p)[0] + 1, Pair(X, 2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_captured(name):
    function, given = FUNCTIONS[name]
    translated = translate(lambda p: function(p))
    for _ in range(2):
        expected, found = function(given), translated(given)
        assert str(found) == str(expected) and type(found) is type(expected)
    assert sot.stats(translated).graph_breaks == []


def test_the_same_object_is_returned():
    given = Pair(X, 2)
    translated = translate(lambda p: (p, p.a + 1))
    assert translated(given)[0] is given


def test_other_items_and_other_classes_are_seen():
    translated = translate(lambda p: p.a * 2 if p.b == 2 else p.a)
    other = collections.namedtuple("Other", "b a")
    for given in (Pair(X, 2), Pair(X, 3), Pair(X + 1, 2), other(2, X), Described(X, 2), WithAttributes(X, 2)):
        expected = given.a * 2 if given.b == 2 else given.a
        assert translated(given).tolist() == expected.tolist()


@pytest.mark.parametrize("kind", [WithAttributes, Reversed])
def test_those_that_do_more_are_not_taken_for_tuples(kind):
    given = kind(X, X * 3)
    given_more = kind(X, X * 3)
    if kind is WithAttributes:
        given_more.extra = 5
    translated = translate(lambda p: p[0] + getattr(p, "extra", 1))
    for value in (given, given_more, given):
        assert translated(value).tolist() == (value[0] + getattr(value, "extra", 1)).tolist()


def test_a_changed_field_is_seen():
    translated = translate(lambda p: p.total() + 1)
    given = Described(X)
    assert translated(given).tolist() == (given.total() + 1).tolist()
    total = Described.total
    try:
        Described.total = lambda self: self.a - 1
        assert translated(given).tolist() == X.tolist()
    finally:
        Described.total = total


def test_attributes_that_builtin_containers_lack():
    def probe(x, items):
        return x + sum(hasattr(items, name) for name in ("_fields", "append", "keys", "count", "shape"))

    translated = translate(probe)
    for items in ((1, 2), [1, 2], {"a": 1}):
        assert translated(X, items).tolist() == probe(X, items).tolist()
    assert sot.stats(translated).graph_breaks == []
