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
a, *b = Noted(1, 2, 3); r = a, b
a, *b, c = Noted(1, 2, 3); r = a, b, c
*b, c = Noted(1, 2, 3); r = b, c
a, b, *c = Noted(1)
a, *b, c = Noted(1)
a, b, *c, d = given(1, 2, 3, 4, 5); r = a, b, c, d
a, b, *c, d = given(1, 2)
a, b, *c, d = given(1)
a, b, *c = itertools.islice(Noted(1, 2, 3, 4), 3); r = c
a, b, *c, d = [1, 2]
a, b, c = given(1, 2, 3, 4)
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

# Iterators that a break of the graph lies between.
ITERATORS = """
enumerate(Noted(5, 6, 7), 3)
zip(Noted(5, 6, 7), Noted(1, 2, 3, 4))
zip(Noted(5, 6), Noted(1, 2), strict=True)
map(seen, Noted(5, 6, 7))
map(seen, Noted(5, 6, 7), Noted(1, 2, 3))
filter(seen, Noted(5, 6, 7))
filter(None, Noted(5, 6, 7))
enumerate(map(seen, Noted(5, 6, 7)))
itertools.chain(Noted(5, 6), Noted(1, 2))
itertools.chain.from_iterable(Noted(Noted(5, 6), Noted(1, 2)))
itertools.islice(Noted(5, 6, 7), 2)
itertools.cycle(Noted(5, 6))
itertools.starmap(seen, Noted((5, 6), (7, 8)))
itertools.takewhile(seen, Noted(5, 6, 7))
itertools.dropwhile(lambda v: v < 6, Noted(5, 6, 7))
itertools.filterfalse(lambda v: v < 6, Noted(5, 6, 7))
itertools.compress(Noted(5, 6, 7), Noted(1, 1, 0, 1))
itertools.accumulate(Noted(5, 6, 7))
itertools.accumulate(Noted(5, 6, 7), seen, initial=2)
itertools.pairwise(Noted(5, 6, 7))
itertools.zip_longest(Noted(5, 6, 7), Noted(1), fillvalue=0)
itertools.product(Noted(5, 6, 7), Noted(1))
itertools.permutations(Noted(5, 6, 7), 2)
itertools.tee(Noted(5, 6, 7))[1]
Noted(5, 6, 7)
(v for v in Noted(5, 6, 7))
list.__iter__(ThoseOfList([5, 6, 7]))
list.__reversed__(ThoseOfList([5, 6, 7]))
reversed(ThoseOfTuple((5, 6, 7)))
iter(ThoseOfTuple((5, 6, 7)))
tuple.__iter__(ThoseOfTuple((5, 6, 7)))
iter(dict.keys(ThoseOfDict(a=1, b=2, c=3)))
iter(dict.items(ThoseOfDict(a=1, b=2, c=3)))
dict.__iter__(ThoseOfDict(a=1, b=2, c=3))
iter(collections.OrderedDict.values(ThoseOfOrdered(a=1, b=2, c=3)))
set.__iter__(ThoseOfSet({5}))
frozenset.__iter__(ThoseOfFrozen({5}))
""".strip().splitlines()


def speaking(base, *names):
    """A class of containers that notes what it is asked."""

    def noting(name):
        def method(self, *args):
            LOG.append(name)
            return getattr(super(made, self), name)(*args)

        return method

    made = type(f"ThoseOf{base.__name__}", (base,), {name: noting(name) for name in names})
    return made


ThoseOfList = speaking(list, "__iter__", "__len__", "__reversed__", "__getitem__")
ThoseOfTuple = speaking(tuple, "__iter__", "__len__", "__getitem__")
ThoseOfDict = speaking(dict, "__iter__", "__len__", "__reversed__", "keys", "values", "items")
ThoseOfOrdered = speaking(collections.OrderedDict, "__iter__", "__len__", "keys", "values", "items")
ThoseOfSet = speaking(set, "__iter__", "__len__")
ThoseOfFrozen = speaking(frozenset, "__iter__", "__len__")
ACT = paddle.nn.ReLU()
MODULES = {"collections": collections, "functools": functools, "itertools": itertools}


def compare(source):
    """Runs the function `f` of this source plainly and translated: the same results, the same notes."""
    space = globals() | MODULES
    exec(source, space)

    def outcome(function):
        LOG.clear()
        return repr((function(paddle.ones([2, 3])), LOG))

    expected = outcome(space["f"])
    translated = translate(space["f"])
    for _ in range(2):
        assert outcome(translated) == expected
    return None if IDENTITY else sot.stats(translated)


@pytest.mark.parametrize("program", PROGRAMS)
def test_items_are_taken_one_after_the_other(program):
    body = "".join(f"  {line}\n" for line in program.splitlines())
    head = "def f(x):\n y = x * 2\n r = items = None\n try:\n"
    stats = compare(f"{head}{body} except Exception as e:\n  r = r, items, type(e), str(e)\n return r, y.tolist()\n")
    assert stats is None or stats.graphs >= 1


@pytest.mark.parametrize("first", ["", "r = next(it)", "for r in it: break"])
@pytest.mark.parametrize("iterator", ITERATORS)
def test_nothing_is_asked_again_behind_a_break(iterator, first):
    """An iterator that lives across a break is made again; what it goes through is not asked for its iterator again."""
    stats = compare(f"""
def f(x):
    y = x * 2
    r = None
    it = {iterator}
    {first or "pass"}
    if y.sum() > 0:
        y = y + 1
    LOG.append("behind")
    rest = list(itertools.islice(it, 5))
    z = x * 2
    return r, type(it), rest, y.tolist(), z.tolist()
""")
    # What cannot be made again runs natively.
    assert stats is None or stats.graphs >= 1 or stats.fallbacks
