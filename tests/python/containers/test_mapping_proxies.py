"""`types.MappingProxyType`: what one shows is read in the graph, and guarded."""

import collections
import types

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, translate

NUMBERS = {"a": 2, "b": 3}
SHOWN = types.MappingProxyType(NUMBERS)


class Held:
    def __init__(self):
        self.own = {"scale": 2.0, "bias": 1.0}
        self.shown = types.MappingProxyType(self.own)

    def __deepcopy__(self, memo):
        return Held()


def reads(x):
    y = x * SHOWN["a"] + SHOWN.get("c", 4) + len(SHOWN)
    for name, value in SHOWN.items():
        y = y + value if name in SHOWN else y
    return y, list(SHOWN), list(SHOWN.values()), bool(SHOWN)


def test_is_read():
    check(reads, paddle.ones([2]), graphs=1, breaks=0)


def of_an_object(held, x):
    return x * held.shown["scale"] + held.shown["bias"]


def test_changes_of_the_dict_are_seen():
    translated, held, x = translate(of_an_object), Held(), paddle.ones([2])
    for value in (2.0, 5.0, 5.0, 2.0):
        held.own["scale"] = value
        assert translated(held, x).tolist() == of_an_object(held, x).tolist()
    held.own["extra"] = 1
    assert translated(held, x).tolist() == of_an_object(held, x).tolist()
    held.shown = types.MappingProxyType({"scale": 9.0, "bias": 0.0})
    assert translated(held, x).tolist() == [9, 9]
    assert sot.stats(translated).graph_breaks == []


def writes_to_the_dict(held, x):
    held.own["scale"] = held.shown["scale"] + 1
    return x * held.shown["scale"]


def reads_first(held, x):
    before = held.shown["scale"]
    held.own["scale"] = before + 1
    del held.own["bias"]
    return x * held.shown["scale"] * before, len(held.shown), "bias" in held.shown


@pytest.mark.parametrize("function", [writes_to_the_dict, reads_first])
def test_shows_what_the_function_writes(function):
    check(function, Held(), paddle.ones([2]), graphs=1, breaks=0)


def missing(x):
    try:
        return x * SHOWN["none"]
    except KeyError:
        return x * 2


def test_missing_keys():
    check(missing, paddle.ones([2]), graphs=1, breaks=0)


def views(x):
    return x * 2, SHOWN.items(), SHOWN.keys()


def test_views_are_those_of_the_dict():
    result = translate(views)(paddle.ones([2]))
    NUMBERS["c"] = 1
    try:
        assert result[1] == NUMBERS.items()
        assert result[2] == NUMBERS.keys()
    finally:
        del NUMBERS["c"]


class Keeps(dict):
    def __getitem__(self, key):
        return 7


@pytest.mark.parametrize(
    "shown", [Keeps(a=1), collections.defaultdict(lambda: 5), collections.ChainMap({"a": 3}), type("C", (), {"a": 4})]
)
def test_of_other_mappings(shown):
    proxy = shown.__dict__ if isinstance(shown, type) else types.MappingProxyType(shown)

    def function(x):
        return x * proxy["a"], len(proxy)

    check(function, paddle.ones([2]))


def test_the_namespace_of_a_class():
    class Changed:
        a = 1

    space = Changed.__dict__

    def function(x):
        return x * space["a"]

    translated, x = translate(function), paddle.ones([2])
    for value in (1, 2, 2, 3):
        Changed.a = value
        assert translated(x).tolist() == [value, value]
        assert Changed().a == value
