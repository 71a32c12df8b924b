"""What has a polyfill is captured: `functools.cmp_to_key`, `functools.singledispatch`, `itertools.groupby`.

Where something of them leaves the graph, it is what C code makes: type, text and attributes are those of plain Python.
"""

from __future__ import annotations

import collections
import functools
import itertools

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, tensor

LOG: list = []


def by_distance(a, b):
    LOG.append((a, b))
    return abs(a - 4) - abs(b - 4)


def captured(function, *args, graphs=1, **settings):
    """One graph, no break: results and the order of all calls are those of plain Python."""
    LOG.clear()
    check(function, *args, graphs=graphs, breaks=0, **settings)


NUMBERS = [7, 1, 4, 4, 9, -2, 3, 5, 5, 12]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 40, 100])
def test_a_sort_compares_what_cpython_compares(count, reverse):
    numbers = [number * 7 % 31 for number in range(count)]

    def function(x):
        LOG.clear()
        ordered = sorted(numbers, key=functools.cmp_to_key(by_distance), reverse=reverse)
        return x + sum(ordered[:3]), ordered, list(LOG)

    captured(function, paddle.ones([2]))


def test_a_comparison_that_says_nothing_consistent():
    def function(x):
        turns = itertools.cycle([1, -1, 0, 1])
        ordered = sorted(NUMBERS, key=functools.cmp_to_key(lambda a, b: next(turns)))
        return x * ordered[0], ordered

    captured(function, paddle.ones([2]))


def test_keys_compare_in_all_six_ways():
    def function(x):
        key = functools.cmp_to_key(mycmp=lambda a, b: a - b)
        one, two = key(1), key(obj=2)
        ways = (one < two, one <= two, one == two, one != two, one > two, one >= two)
        return x + key(two.obj).obj, ways, max(NUMBERS, key=key), min(NUMBERS, key=key), callable(key)

    captured(function, paddle.ones([2]))


def test_a_list_is_sorted_in_place_by_tensors_of_no_dims():
    def function(x):
        items = [3, 1, 2]
        items.sort(key=functools.cmp_to_key(lambda a, b: b - a))
        return sum((x * item for item in items), x), items

    captured(function, paddle.ones([2]))


class Version:
    """Objects that compare themselves, and note it."""

    def __init__(self, number):
        self.number = number

    def __lt__(self, other):
        LOG.append((self.number, other.number))
        return self.number < other.number


@pytest.mark.parametrize("reverse", [False, True])
def test_objects_that_compare_themselves_are_sorted(reverse):
    def function(x):
        LOG.clear()
        versions = sorted((Version(number) for number in NUMBERS), reverse=reverse)
        return x + versions[0].number, [version.number for version in versions], list(LOG)

    captured(function, paddle.ones([2]))


def test_a_sort_of_more_objects_breaks():
    def function(x):
        versions = sorted([Version(number * 7 % 131) for number in range(120)])
        return x + versions[0].number

    check(function, paddle.ones([2]), breaks=1)


def test_an_exception_of_a_comparison_leaves_the_sort():
    def refuse(a, b):
        raise ValueError(f"{a} and {b}")

    def function(x):
        try:
            return x + sorted(NUMBERS, key=functools.cmp_to_key(refuse))[0]
        except ValueError as error:
            return x - 1, str(error)

    captured(function, paddle.ones([2]))


@functools.singledispatch
def weight(value, x):
    return x


@weight.register
def _(value: int, x):
    return x * value


@weight.register(str)
def _(value, x):
    return x + len(value)


@weight.register(paddle.Tensor)
def _(value, x):
    return x + value


@weight.register(Version)
def _(value, x):
    return x - value.number


class Mixed(dict, Version):
    """The first of its bases that is registered counts."""


def test_single_dispatch_finds_the_class_or_a_base_of_it():
    def function(x):
        return weight(3, x), weight("ab", x), weight(True, x), weight([1], x), weight(None, x), weight(x, x)

    captured(function, paddle.ones([2]))


def test_single_dispatch_on_a_class_of_the_user_s():
    class Newer(Version):
        pass

    newer, mixed = Newer(3), Mixed(a=1)
    mixed.number = 5

    def function(x):
        return weight(newer, x) + weight(Version(1), x) + weight(mixed, x)

    captured(function, paddle.ones([2]))


def test_what_is_registered_later_is_seen():
    @functools.singledispatch
    def size(value):
        return 1

    def function(x):
        return x * size(2.5)

    one = paddle.ones([2])
    ours = sot.to_static(function, min_graph_size=0)
    assert float(ours(one)[0]) == 1.0
    size.register(float, lambda value: 5)
    assert float(ours(one)[0]) == 5.0
    assert sot.stats(ours).graph_breaks == []


def test_an_abstract_class_is_left_to_python():
    @functools.singledispatch
    def size(value):
        return 1

    @size.register(collections.abc.Sequence)
    def _(value):
        return 2

    def function(x):
        return (x + 1) * size([1]) + size({})

    check(function, paddle.ones([2]))


def pairs(groups):
    return [(key, list(group)) for key, group in groups]


GROUPS = {
    "numbers": lambda: pairs(itertools.groupby([1, 1, 2, 3, 3, 1])),
    "text": lambda: pairs(itertools.groupby("aabbbc")),
    "a_key": lambda: pairs(itertools.groupby(range(10), key=lambda number: number // 3)),
    "key_is_none": lambda: pairs(itertools.groupby([1, 1.0, True, 2], key=None)),
    "nothing": lambda: pairs(itertools.groupby([])),
    "only_keys": lambda: [key for key, _ in itertools.groupby("aabbbc")],
    "groups_are_left_half_way": lambda: [(key, next(group)) for key, group in itertools.groupby("aabbbc")],
    "a_group_is_empty_once_the_next_is_there": lambda: [list(g) for _, g in list(itertools.groupby("aabb"))],
    "of_a_generator": lambda: pairs(itertools.groupby(number * number % 3 for number in range(9))),
    "keywords": lambda: pairs(itertools.groupby(iterable=[1, 2, 2], key=lambda number: number > 1)),
    "nan_is_itself": lambda: [len(list(g)) for _, g in itertools.groupby([float("nan")] * 2)],
    "at_its_end_twice": lambda: (lambda it: (list(it), list(it), next(it, "none")))(itertools.groupby([])),
    "zip": lambda: [(a[0], b) for a, b in zip(itertools.groupby("aab"), "xyz", strict=False)],
}


@pytest.mark.parametrize("name", GROUPS)
def test_groups_are_captured(name):
    make = GROUPS[name]

    def function(x):
        return x + 1, make()

    captured(function, paddle.ones([2]))


def test_groups_of_tensors():
    def function(x):
        total = x
        for key, group in itertools.groupby([(1, x), (1, x + 1), (2, x * 2)], key=lambda pair: pair[0]):
            for _, part in group:
                total = total * key + part
        return total

    captured(function, paddle.ones([2]))


def test_the_order_of_keys_and_comparisons():
    class Key:
        def __init__(self, number):
            self.number = number

        def __eq__(self, other):
            return self.number == other.number

    def key_of(number):
        LOG.append(("key", number))
        return Key(number // 2)

    def function(x):
        LOG.clear()
        sizes = []
        for key, group in itertools.groupby(range(6), key_of):
            LOG.append(("group", key.number))
            sizes.append([key.number, next(group)])
        return x + len(sizes), sizes, list(LOG)

    captured(function, paddle.ones([2]))


def test_a_key_that_raises_once():
    def function(x):
        failed = []

        def key_of(number):
            if number == 2 and not failed:
                failed.append(number)
                raise ValueError(number)
            return number > 2

        groups = itertools.groupby(range(6), key_of)
        seen = []
        for _ in range(4):
            try:
                key, group = next(groups)
                seen.append((key, list(group)))
            except ValueError as error:
                seen.append(str(error))
            except StopIteration:
                seen.append("end")
        return x + 1, seen

    captured(function, paddle.ones([2]))


OUTSIDE = {
    "type_of_a_key": lambda: type(functools.cmp_to_key(by_distance)).__name__,
    "type_of_groups": lambda: type(itertools.groupby([])) is itertools.groupby,
    "isinstance": lambda: isinstance(itertools.groupby([]), itertools.groupby),
    "an_attribute_that_is_not_there": lambda: hasattr(itertools.groupby([]), "send"),
    "another_attribute": lambda: hasattr(functools.cmp_to_key(by_distance), "_compare"),
    "documentation": lambda: (itertools.groupby([]).__doc__ or "")[:20],
    "a_hash": lambda: isinstance(hash(itertools.groupby([])), int),
    "a_comparison_with_another": lambda: itertools.groupby([]) == 3,
    "no_iterable": lambda: itertools.groupby(3),
    "no_argument": lambda: functools.cmp_to_key(),
    "a_key_and_a_number": lambda: functools.cmp_to_key(by_distance)(1) < 3,
    "a_key_without_an_object": lambda: functools.cmp_to_key(by_distance).obj,
    "an_item_that_cannot_be_gone_over": lambda: list(itertools.groupby([1], 3)),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_seen_of_them_is_plain_python_s(name):
    make = OUTSIDE[name]

    def function(x):
        return x + 1, make()

    check(function, paddle.ones([2]))


def test_they_leave_the_function():
    def function(x):
        groups = itertools.groupby("aab")
        key, group = next(groups)
        return x + 1, groups, group, key, functools.cmp_to_key(by_distance)

    x = paddle.ones([2])
    ours = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        values = ours(x)
        assert [type(value) for value in values] == [type(value) for value in function(x)]
        _, groups, group, key, make = values
        assert (key, list(group)) == ("a", ["a", "a"])
        assert pairs(groups) == [("b", ["b"])]
        assert make(3) < make(0)
    assert sot.stats(ours).fallbacks == []


def test_a_break_in_each_group():
    def function(x):
        total = x
        for key, group in itertools.groupby([1, 1, 2]):
            print(key)
            total = total + sum(group)
        return total

    check(function, paddle.ones([2]))


def test_a_break_in_a_comparison():
    def shown(a, b):
        print(a, b)
        return a - b

    def function(x):
        ordered = sorted([3, 1, 2], key=functools.cmp_to_key(shown))
        return x + ordered[0], ordered

    check(function, paddle.ones([2]))


def test_gradients_through_what_they_order():
    def function(x, w):
        scales = sorted([3.0, 1.0, 2.0], key=functools.cmp_to_key(lambda a, b: (a > b) - (a < b)))
        total = x
        for _, group in itertools.groupby(scales, lambda scale: scale > 1):
            for scale in group:
                total = total * w + scale
        return total.sum()

    check(function, tensor(2, grad=True), tensor(2, grad=True, seed=1), graphs=1, breaks=0)
