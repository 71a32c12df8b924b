"""`operator.itemgetter` and `operator.attrgetter`, new and existing: what they take is read in the graph."""

import collections
import operator
import types

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, translate

SECOND = operator.itemgetter(1)
ENDS = operator.itemgetter(0, -1)
SIZE = operator.attrgetter("shape", "inner.size")


class Inner:
    def __init__(self, size):
        self.size = size


class Part:
    def __init__(self, size):
        self.shape = [1, 2]
        self.inner = Inner(size)


def sorts(x):
    pairs = sorted({"a": 3, "b": 1, "c": 2}.items(), key=operator.itemgetter(1))
    counted = collections.Counter("abracadabra").most_common()
    return x * pairs[0][1], pairs, counted


def takes(x):
    return SECOND([x, x * 2]) + ENDS((x, 1, x * 3))[1], ENDS("abc"), list(map(SECOND, ["ab", "cd"]))


def slices(x):
    rows = operator.itemgetter(slice(1, None))([x, x * 2, x * 3])
    return rows[0] + rows[1]


def attributes(x):
    part = Part(4)
    return x * SIZE(part)[1], SIZE(part), operator.attrgetter("inner.size")(part)


def missing(x):
    try:
        return operator.itemgetter("none")({"a": 1})
    except KeyError:
        x = x * 2
    try:
        return operator.attrgetter("shape.none")(Part(1))
    except AttributeError:
        return x * 3


def asks(x):
    class Asked:
        def __getitem__(self, key):
            return key * 2

        def __getattr__(self, name):
            return len(name)

    return x * operator.itemgetter(3)(Asked()) + operator.attrgetter("four")(Asked())


@pytest.mark.parametrize("function", [sorts, takes, attributes, missing])
def test_in_the_graph(function):
    check(function, paddle.ones([2]), graphs=1, breaks=0)


@pytest.mark.parametrize("function", [slices, asks])
def test_is_right(function):
    check(function, paddle.ones([2]))


def leaves(x):
    return x * 2, operator.itemgetter(1)


def test_a_new_one_each_time():
    translated, x = translate(leaves), paddle.ones([2])
    first, second = translated(x)[1], translated(x)[1]
    assert first is not second
    assert type(first) is operator.itemgetter
    assert first([1, 2]) == 2


def test_another_one_of_the_same_name():
    held = types.SimpleNamespace(take=operator.itemgetter(0))

    def function(x):
        return held.take([x, x * 2, x * 3]) + 1

    translated, x = translate(function), paddle.ones([2])
    for at in (0, 1, 1, 2, 0):
        held.take = operator.itemgetter(at)
        assert translated(x).tolist() == function(x).tolist()
    assert sot.stats(translated).graph_breaks == []
