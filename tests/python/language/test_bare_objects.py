"""`object()`: a new object that is nothing but itself."""

import heapq

import paddle
import pytest
from harness import check, translate


def default(x, settings):
    none = object()
    found = settings.get("scale", none)
    return x * 2 if found is none else x * found


def compared(x):
    a, b = object(), object()
    same = [a is a, a is b, a == a, a == b, a != b, bool(a), isinstance(a, object), type(a) is object]
    return x * 2, same, a in [b, a], [b, a].index(a), callable(a), hasattr(a, "own")


def refuses(x):
    a = object()
    try:
        a.own = 1
    except AttributeError:
        return x * 3
    return x


def largest(x):
    return x * 2, heapq.nlargest(1, [3, 5, 4]), heapq.nsmallest(1, [3, 5, 4])


def as_keys(x):
    a, b = object(), object()
    found = {a: 1, b: 2}
    return x * found[b], len({a, b, a})


def handed_out(x):
    a = object()
    return x * 2, [a, a, object()]


def test_defaults():
    check(default, paddle.ones([2]), {}, calls=[(paddle.ones([2]), {"scale": 5})], graphs=2, breaks=0)


@pytest.mark.parametrize("function", [compared, largest])
def test_in_the_graph(function):
    check(function, paddle.ones([2]), graphs=1, breaks=0)


@pytest.mark.parametrize("function", [as_keys, refuses, handed_out])
def test_is_right(function):
    check(function, paddle.ones([2]))


def test_a_new_one_each_time():
    translated = translate(handed_out)
    first, second = (translated(paddle.ones([2]))[1] for _ in range(2))
    for a, b, c in (first, second):
        assert a is b is not c
        assert type(a) is type(c) is object
    assert first[0] is not second[0]
