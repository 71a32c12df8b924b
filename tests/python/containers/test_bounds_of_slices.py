"""Slices of lists and tuples whose bounds fail, or whose steps are near 64 bits."""

import sys

import paddle
import paddle_sot_rs as sot
import pytest

X = paddle.ones([2])


def taken(x, items, at):
    return (x * 2, items[1::at])


def from_place(x, items, at):
    return (x * 2, items[at:])


def deleted(x, items, at):
    items = list(items)
    y = x * 2
    del items[1::at]
    return y, items


def assigned(x, items, at):
    items = list(items)
    y = x * 2
    items[at:] = "ab"
    return y, items


def outcome(function, *args):
    try:
        y, items = function(X, *args)
    except (TypeError, ValueError) as error:
        return type(error), error.args
    return y.tolist(), items


@pytest.mark.parametrize("function", [taken, from_place, deleted, assigned])
@pytest.mark.parametrize("step", [0, 1.5, "a", sys.maxsize, -sys.maxsize - 1, 2**70, -(2**70), True])
@pytest.mark.parametrize("items", [[1, 2, 3], (1, 2)])
def test_slices(function, step, items):
    static = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        assert outcome(static, items, step) == outcome(function, items, step)
    record = sot.stats(static)
    assert record.graphs == 1
    assert not [reason for reason in record.graph_breaks + record.fallbacks if reason.id == "PSR0701"]
    assert not record.fallbacks


def test_a_handler_takes_what_a_slice_raises():
    def thinned(x, items, step):
        try:
            y = x + len(items[::step])
        except ValueError:
            y = x - 1
        return y * 2

    static = sot.to_static(thinned, min_graph_size=0)
    for step in (1, 0, 2, 0):
        assert static(X, [1, 2, 3], step).tolist() == thinned(X, [1, 2, 3], step).tolist()
    record = sot.stats(static)
    assert not record.graph_breaks and not record.fallbacks, record


def test_bounds_fail_before_values_are_taken():
    def replaced(x, items, at):
        taken = []
        values = (taken.append(value) or value for value in "abc")
        try:
            items[at:] = values
        except TypeError as error:
            taken.append(error.args)
        return x * 2, [*items, *taken, *values]

    static = sot.to_static(replaced, min_graph_size=0)
    for at in ("a", 1.5, 1, None):
        given, other = [1, 2, 3], [1, 2, 3]
        assert outcome(static, given, at) == outcome(replaced, other, at)
        assert given == other
    assert not sot.stats(static).fallbacks


def test_bounds_fail_before_what_is_given_is_looked_at():
    def assigned_a_number(x, items, at):
        items[at:] = 5
        return x * 2, items

    static = sot.to_static(assigned_a_number, min_graph_size=0)
    assert outcome(static, [1, 2], "a") == outcome(assigned_a_number, [1, 2], "a")
    assert outcome(static, [1, 2], 1) == outcome(assigned_a_number, [1, 2], 1)
