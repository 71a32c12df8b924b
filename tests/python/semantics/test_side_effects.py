"""Changes to objects that existed before: exact content, order, identity, and exactly once."""

import collections

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from support import check

X = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3))
SETTING = 1


def translate(function):
    return sot.to_static(function, min_graph_size=0)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1


class Plain:
    def __init__(self):
        self.first = 1
        self.second = 2


class Counted:
    log = []

    @property
    def level(self):
        return self._level

    @level.setter
    def level(self, value):
        self._level = value + 1


def reorders(x, table):
    value = table.pop("a")
    table["a"] = value
    table["n"] = x + 1
    return x


def replaces_one(x, table):
    table["b"] = x * 2
    return x


def empties(x, table, items):
    table.clear()
    items.clear()
    return x + 1


def replaces_all(x, items):
    items[:] = [x + 1, *items[::-1]]
    del items[-1]
    return x


def list_gets_itself(x, items):
    items.append(items)
    return x + 1


def swaps(x, a, b):
    a.append(b)
    b.append(a)
    return x


def moves_attributes(x, thing):
    del thing.first
    thing.third = x + 1
    thing.first = 9
    thing.second = thing.third
    return x


def writes_slots(x, thing):
    thing.b = thing.a + 1
    thing.a = x + 1
    return x


def through_a_property(x, thing):
    thing.level = 3
    return x + thing.level


def before_an_exception(x, items):
    items.append(1)
    items.append(float(x.sum()))
    raise ValueError("after two")


def before_a_bad_graph(x, items):
    items.append(1)
    return x + paddle.ones([7, 7])


def nested_containers(x, table):
    table["list"].append(x + 1)
    table["inner"]["deep"].append(len(table["list"]))
    table["again"] = table["list"]
    return x


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (reorders, [{"a": 1, "b": 2}]),
        (replaces_one, [{"a": 1, "b": 2, "c": 3}]),
        (replaces_one, [collections.OrderedDict(b=1, a=2)]),
        (empties, [{"a": 1}, [1, 2]]),
        (replaces_all, [[1, 2, 3]]),
        (moves_attributes, [Plain()]),
        (through_a_property, [Counted()]),
        (before_an_exception, [[]]),
        (before_a_bad_graph, [[]]),
        (nested_containers, [{"list": [], "inner": {"deep": [1]}}]),
    ],
)
def test_equals_eager(function, args):
    check(function, X, *args, fallbacks=None)


def test_slots_are_written():
    function = translate(writes_slots)
    for _ in range(2):
        thing = Slotted()
        function(X, thing)
        assert thing.b == 2
        assert np.array_equal(thing.a.numpy(), X.numpy() + 1)


def test_a_list_can_be_put_into_itself():
    items = [1]
    translate(list_gets_itself)(X, items)
    assert items[1] is items
    assert len(items) == 2


def test_two_lists_can_be_put_into_each_other():
    a, b = [], []
    translate(swaps)(X, a, b)
    assert a[0] is b
    assert b[0] is a


def test_changed_objects_keep_their_identity():
    table = {"list": [], "inner": {"deep": []}}
    items = table["list"]
    translate(nested_containers)(X, table)
    assert table["list"] is items
    assert table["again"] is items


def test_a_dict_that_the_caller_iterates_goes_on():
    function = translate(replaces_one)
    table = {"a": 1, "b": 2, "c": 3}
    del table["a"]
    seen = []
    for key in table:
        seen.append(key)
        function(X, table)
    assert seen == ["b", "c"]


def counter():
    count = 0

    def bump(x):
        nonlocal count
        count += 1
        print(float(x.sum()))
        count += 1
        return x + count

    return bump, lambda: count


def test_a_nonlocal_is_written_through_the_real_cell():
    bump, read = counter()
    function = translate(bump)
    for step in range(1, 4):
        assert np.array_equal(function(X).numpy(), X.numpy() + 2 * step)
        assert read() == 2 * step


def deletes_a_global(x):
    global SETTING
    value = SETTING
    del SETTING
    SETTING = value + 1
    return x + SETTING


def test_a_global_is_deleted_and_made_again():
    global SETTING
    SETTING = 1
    function = translate(deletes_a_global)
    assert np.array_equal(function(X).numpy(), X.numpy() + 2)
    assert SETTING == 2


def test_effects_happen_once_per_call():
    items = []

    def append(x):
        items.append(x + 1)
        print(float(x.sum()))
        items.append(2)
        return x

    function = translate(append)
    for calls in range(1, 5):
        function(X)
        assert len(items) == 2 * calls
