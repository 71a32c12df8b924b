"""`popitem()` of dicts that exist: the keys, the result and what iterators of others find are as in plain Python."""

import collections

import paddle
import paddle_sot_rs as sot
import pytest

X = paddle.ones([2])


class Derived(dict):
    pass


class Own(dict):
    def popitem(self):
        return "own"


def run(function, make):
    """The result, and what is left of the dict for itself and for two iterators on it that others have."""
    given = make()
    fresh, worn = iter(given), iter(given)
    for _ in range(len(given)):
        next(worn)
    try:
        y, result = function(X, given)
        result = y.tolist(), result
    except KeyError as error:
        result = KeyError, error.args
    added = []
    if "add" in given:
        given["added"] = 1
    for iterator in (fresh, worn):
        try:
            added.append(list(iterator))
        except RuntimeError as error:
            added.append(str(error))
    return result, type(given), list(given.items()), added


def agree(function, makers, breaks=0):
    static = sot.to_static(function, min_graph_size=0)
    for make in makers:
        assert run(function, make) == run(static, make)
    record = sot.stats(static)
    assert len(record.graph_breaks) == breaks and not record.fallbacks, record.graph_breaks
    return record


def some():
    return {"add": 0, "a": 1, "b": 2, "c": 3}


def ordered():
    return collections.OrderedDict(some())


def once(x, d):
    return x + 1, d.popitem()


def twice_and_more(x, d):
    pair = d.popitem(), d.popitem()
    d["new"] = pair
    d["add"] = 5
    return x + 1, (pair, len(d), "c" in d)


def all_of_it(x, d):
    taken = []
    while d:
        taken.append(d.popitem())
    return x + len(taken), taken


def handled(x, d):
    try:
        key, value = d.popitem()
    except KeyError as error:
        return x - 1, str(error)
    return x * value, key


@pytest.mark.parametrize("function", [once, twice_and_more, all_of_it, handled])
@pytest.mark.parametrize("make", [some, lambda: collections.defaultdict(list, some()), lambda: Derived(some())])
def test_of_a_dict(function, make):
    agree(function, [make, make, make])


@pytest.mark.parametrize("function", [once, all_of_it, handled])
def test_of_an_ordered_dict(function):
    agree(function, [ordered, ordered])


def test_of_the_first_of_an_ordered_dict():
    def named(x, d):
        return x + 1, (d.popitem(last=False), d.popitem(last=True), d.popitem(False), d.popitem(True))

    agree(named, [ordered, ordered])


def test_of_an_empty_one():
    agree(once, [dict, dict], breaks=1)
    agree(handled, [dict, dict])
    agree(handled, [collections.OrderedDict, collections.OrderedDict])
    agree(handled, [some, dict, lambda: {"b": 1}, some])


def test_behind_another_change():
    """Deleting a key and taking an item off lay out the table differently: their order is not replayed."""

    def deleted(x, d):
        del d["a"]
        return x + 1, d.popitem()

    def added(x, d):
        d["z"] = 1
        return x + 1, (d.popitem(), d.popitem())

    agree(deleted, [some, some], breaks=1)
    agree(added, [some, some], breaks=1)


def test_of_a_class_with_its_own():
    def plain(x, d):
        return x + 1, d.popitem()

    agree(plain, [lambda: Own(some()), lambda: Own(some())])


def test_of_values_that_are_tensors():
    def last(x, d):
        key, value = d.popitem()
        return x + value, key

    agree(last, [lambda: {"a": 1, "t": paddle.full([2], 3.0)}] * 3)
