"""Dicts and sets that change while they are iterated over: what comes next is what they hold then."""

import collections

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check

MADE = {"a": 1, "b": 2}


def pairs(x, table):
    out = []
    for key, value in table.items():
        table["b"] = 7
        out.append((key, value))
    return x + 1, out


def values_in_loops(x, table):
    for value in table.values():
        for _ in range(value):
            table.update(b=3)
            x = x + 1
    return x, list(table.values())


def by_hand(x, table):
    it = iter(table.items())
    first = next(it)
    table["b"] = table["a"] = 5
    return x * 2, first, list(it)


def counted_and_zipped(x, table):
    out = []
    for (n, value), key in zip(enumerate(table.values()), table):
        table["b"] = n + 10
        out.append((n, value, key))
    return x * 2, out


def behind_a_break(x, table):
    out = []
    for key, value in table.items():
        sot.graph_break()
        table["b"] = 9
        out.append((key, value, x + value))
    return out


def handed_on(x, table):
    it = iter(table.values())
    next(it)
    table["b"] = 4
    return x + 1, it, next(it, "end")


def of_the_frame(x, table):
    own = dict(table, c=3)
    out = []
    for key, value in own.items():
        own["c"] = 8
        out.append((key, value))
    return x + 1, out, own


def of_a_module(x, table):
    out = [(key, value, MADE.update(b=MADE["b"] + 1)) for key, value in MADE.items()]
    return x + 1, out


def other_keys(x, table):
    out = []
    try:
        for key in table:
            table["z"] = table.pop("b", 0)
            out.append(key)
    except RuntimeError as error:
        out.append(str(error))
    return x + 1, out


def moved(x, table):
    own, out = collections.OrderedDict(table), []
    try:
        for key in own:
            own.move_to_end("a")
            out.append(key)
            if len(out) > 4:
                break
    except RuntimeError as error:
        out.append(str(error))
    return x + 1, out


def moved_before_the_first(x, table):
    own = collections.OrderedDict(table)
    it = iter(own)
    own.move_to_end("b")
    try:
        return x + 1, next(it)
    except RuntimeError as error:
        return x + 1, str(error)


def replaced_before_the_first(x, table):
    own, plain = collections.OrderedDict(table), dict(table)
    it, others = zip(own.items(), [1]), iter(plain)
    for changed in (own, plain):
        del changed["a"]
        changed["d"] = 4
    try:
        return x + 1, next(others), next(it)
    except RuntimeError as error:
        return x + 1, str(error)


def elements(x, table):
    own, out = {1, 2, 3}, []
    for element in own:
        own.discard(3)
        own.add(0)
        out.append(element)
        if len(out) > 8:
            break
    return x + 1, out


CASES = [pairs, values_in_loops, by_hand, counted_and_zipped, behind_a_break, handed_on]
CASES += [of_the_frame, of_a_module, other_keys, moved, moved_before_the_first, replaced_before_the_first, elements]


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
@pytest.mark.parametrize("size", [0, 6])
def test_what_comes_next(function, size):
    def world():
        return list(MADE.items())

    def reset():
        MADE.update(a=1, b=2)

    x = paddle.ones([2])
    tables = [{"a": 1, "b": 2}, {"b": 1, "a": 3}, {"a": 2, "b": 1, "c": 1}]
    calls = [(x, dict(table)) for table in tables[1:]]
    check(function, x, dict(tables[0]), calls=calls, watch=world, reset=reset, fallbacks=None, min_graph_size=size)
