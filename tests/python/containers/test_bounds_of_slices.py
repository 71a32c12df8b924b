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
