"""What takes items of an iterator takes one after the other: what the iterator does, and what is done with the items,
see each other and happen in turns; behind an item that raises, nothing is asked for."""

import collections
import functools
import itertools

import paddle
import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, translate

LOG = []


def given(*items):
    for item in items:
        LOG.append(("given", item))
        yield item
    LOG.append("end")


def seen(first, second=None):
    LOG.append(("seen", first))
    return first if second is None else second


class Number:
    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        LOG.append("added")
        return Number(self.value + getattr(other, "value", other))

    __radd__ = __add__

    def __repr__(self):
        return f"Number({self.value})"

    def __gt__(self, other):
        LOG.append("compared")
        return self.value > other.value


class Noted:
    """An iterator that notes what it is asked."""

    def __init__(self, *items):
        self.items = list(items)

    def __iter__(self):
        LOG.append("iter")
        return self

    def __len__(self):
        LOG.append("len")
        return 2

    def __next__(self):
        LOG.append("next")
        if not self.items:
            raise StopIteration
        return self.items.pop(0)


PROGRAMS = """
r = list(Noted(1, 2)), tuple(Noted(1, 2)), [*Noted(1, 2)], sorted(Noted(1, 2)), set(Noted(1, 2))
r = sum(Noted(1, 2)), max(Noted(1, 2)), dict(Noted((1, 2))), functools.reduce(seen, Noted(1, 2))
r = dict.fromkeys(Noted(1)), ",".join(Noted("a", "b")), dict([Noted(1, 2)])
items = []; items.extend(Noted(1, 2)); items += Noted(3); items[1:] = Noted(4, 5); a, b = Noted(1, 2); r = items, a, b
s = {1, 2}; r = s.issubset(given(5, 1, 2, 3)), s.intersection(given(2, 1, 5)), s.union(given(3))
r = functools.reduce(seen, given(1, 2, 3))
r = functools.reduce(seen, given(1, 2, 3), 0)
r = max(given(1, 2, 3), key=seen)
r = min(given(3, 2, 1), key=seen)
r = max(given(1, "a", 2))
r = max(given(Number(1), Number(3), Number(2))).value
r = sum(given(1, "a", 2))
r = sum(given(1, [1], 3))
r = sum(given(1, 2.5, True))
r = sum(given(1), "")
r = sum(given(Number(1), Number(2))).value
r = sum(given(1.5, x, 3)).tolist()
r = dict.fromkeys(given(1, [], 2))
r = dict(given((1, 2), (3,), (4, 5)))
r = dict(given((1, 2), 3, (4, 5)))
d = {0: 0}; d.update((k, len(d)) for k in given(1, 2, 3)); r = d
items = [0]; items.extend(len(items) for _ in given(1, 2, 3)); r = items
items = [0]; items += (len(items) for _ in given(1, 2, 3)); r = items
items = [0]; items[1:] = (len(items) for _ in given(1, 2, 3)); r = items
items = [0]; r = items.extend(1 // (2 - v) for v in given(0, 1, 2, 3))
s = {0}; s.update(len(s) + 5 for _ in given(1, 2, 3)); r = sorted(s)
s = {0}; s.update((len(s) + 5 for _ in given(1, 2, 3)), [9], (len(s) for _ in given(1))); r = sorted(s)
s = {1}; r = s.issuperset(given(1, 2, 3))
q = collections.deque([0]); q.extend(len(q) for _ in given(1, 2, 3)); r = list(q)
a, b = given(1, 2, 3, 4)
a, b = given(1)
a, b = given(1, 2)
a, b = itertools.count()
a, b = itertools.repeat(1)
r = dict(itertools.count())
r = max(itertools.count(), key=lambda v: 1 / (2 - v))
r = sum(map(str, itertools.count()))
r = functools.reduce(lambda a, b: 1 / (3 - b), itertools.count())
items = [1, 2, 3]; r = functools.reduce(lambda a, b: (items.append(9) if len(items) < 5 else 0, a + b)[1], items)
items = [1, 2, 3]; r = max(items, key=lambda v: (items.append(9) if len(items) < 5 else 0, v)[1])
items = [0]; other = items; items += x.shape; r = type(items).__name__, list(items), other
items = x.shape; other = items; items += [1]; r = type(items).__name__, list(items), other is items
e = ValueError(x.shape, 1); r = str(e), repr(e)
r = callable(paddle.nn.Sequential(ACT))
""".strip().splitlines()
# What is left in an iterator behind an exception.
PROGRAMS += [
    f"it = given(1, 'a', 3, 4)\ntry: {what}\nexcept (TypeError, ValueError) as e: r = str(e), list(it)"
    for what in ("sum(it)", "max(it)", "a, b = it", "dict(it)", "functools.reduce(lambda a, b: a + b, it)")
]
ACT = paddle.nn.ReLU()
MODULES = {"collections": collections, "functools": functools, "itertools": itertools}


@pytest.mark.parametrize("program", PROGRAMS)
def test_items_are_taken_one_after_the_other(program):
    body = "".join(f"  {line}\n" for line in program.splitlines())
    space = globals() | MODULES
    head = "def f(x):\n y = x * 2\n r = items = None\n try:\n"
    exec(f"{head}{body} except Exception as e:\n  r = r, items, type(e), str(e)\n return r, y.tolist()\n", space)

    def outcome(function):
        LOG.clear()
        return repr((function(paddle.ones([2, 3])), LOG))

    expected = outcome(space["f"])
    translated = translate(space["f"])
    for _ in range(2):
        assert outcome(translated) == expected
    if not IDENTITY:
        assert sot.stats(translated).graphs >= 1
