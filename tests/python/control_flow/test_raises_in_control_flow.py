"""Exceptions that one side of a captured branch raises, and those that a handler may take."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import apart

DATA = ([1.0, 2.0], [-1.0, -2.0], [0.0, 0.0], [5.0, 5.0])


def outcome(function, numbers, seen):
    seen.clear()
    try:
        return function(paddle.to_tensor(numbers), seen).numpy().tolist()
    except Exception as error:
        return type(error), str(error)


def one_side_raises(x, seen):
    y = x * 2
    if y.sum() > 8:
        raise KeyError("large")
    return y + 1


def the_other_side_raises(x, seen):
    if x.sum() > -1:
        x = x * 3
    else:
        raise ValueError("small")
    return x + 1


def raises_in_a_loop(x, seen):
    i = paddle.zeros([])
    while i < 3:
        x = x * 1.5
        if x.max() > 6 or x.min() < -4:
            raise OverflowError("out of bounds")
        i = i + 1
    return x


def fails_far_below(x, seen):
    def callee(x):
        if x.sum() > 8:
            raise KeyError("far")
        return x - 1

    return callee(x) * callee(x / 2)


def raises_on_both_sides(x, seen):
    if x.sum() > 0:
        raise KeyError("a")
    raise ValueError("b")


ONE_GRAPH = [one_side_raises, the_other_side_raises, raises_in_a_loop, fails_far_below]


@pytest.mark.parametrize("function", ONE_GRAPH, ids=lambda function: function.__name__)
@pytest.mark.parametrize("mode", [{"full_graph": True}, {"capture_control_flow": True, "backend": "eager"}])
def test_one_graph(function, mode):
    for order in (DATA, DATA[::-1]):
        static = sot.to_static(apart(function), min_graph_size=0, **mode)
        for numbers in order:
            assert outcome(static, numbers, []) == outcome(function, numbers, [])
        stats = sot.stats(static)
        # A call that raises runs natively, and with it what it calls, which may be a graph of its
        # own.
        assert stats.graphs <= 2
        assert stats.graph_breaks == []


def taken_by_the_caller(x, seen):
    def callee(x):
        if x.sum() > 0:
            raise KeyError("k")
        return x + 1

    try:
        y = callee(x)
    except KeyError:
        y = x * 2
    return y


def taken_here(x, seen):
    try:
        if x.sum() > 0:
            raise KeyError("k")
        y = x + 1
    except KeyError:
        y = x * 2
    return y


def taken_natively(x, seen):
    seen.append(1)
    try:
        [1, 2].index(3)
    except ValueError:
        x = x + 1
    seen.append(2)
    return x


@pytest.mark.parametrize(
    "function", [*ONE_GRAPH, taken_by_the_caller, taken_here, taken_natively, raises_on_both_sides]
)
def test_with_breaks(function):
    for numbers in DATA:
        static = sot.to_static(apart(function), capture_control_flow=True, min_graph_size=0, compile_at_call=1)
        for again in (numbers, *DATA):
            got, want = [], []
            assert outcome(static, again, got) == outcome(function, again, want)
            assert got == want


@pytest.mark.parametrize("function", [taken_by_the_caller, taken_here, taken_natively])
def test_nothing_happens_before_a_refusal(function):
    for numbers in DATA:
        seen = []
        static = sot.to_static(apart(function), full_graph=True)
        try:
            got = static(paddle.to_tensor(numbers), seen)
        except sot.GraphBreakError:
            assert seen == []
        else:
            np.testing.assert_array_equal(got.numpy(), function(paddle.to_tensor(numbers), []).numpy())


def unused_in_a_side(x, other):
    y = x * 2
    if y.sum() > 0:
        paddle.where(other > 0, y, x)
    return y


def test_shapes_that_do_not_fit_where_nobody_uses_the_result():
    """Eager mode raises for them; dims are open from the second size on."""
    other = paddle.ones([2, 3])

    def said(function, size, sign):
        try:
            return function(paddle.ones([size, 3]) * sign, other).numpy().tolist()
        except ValueError as error:
            return str(error)

    static = sot.to_static(unused_in_a_side, capture_control_flow=True, min_graph_size=0, compile_at_call=1)
    for size in (2, 3, 4, 5, 2):
        for sign in (-1.0, 1.0):
            assert said(static, size, sign) == said(unused_in_a_side, size, sign)


class Steps:
    """An iterator that counts to a number of the graph."""

    def __init__(self, limit):
        self.at, self.limit = 0, limit

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= self.limit:
            raise StopIteration
        self.at += 1
        return self.at


def counted(x, limits):
    n = int(limits.argmax())
    for step in Steps(n % 4):
        x = x + step
    return x


def test_the_end_of_an_iterator_is_no_check():
    """As a check it would never come: the translation would not end."""
    static = sot.to_static(counted, capture_control_flow=True, min_graph_size=0)
    for at in (2, 0, 3, 2):
        limits = paddle.nn.functional.one_hot(paddle.to_tensor(at), 4)
        x = paddle.ones([2])
        assert static(x, limits).tolist() == counted(x, limits).tolist()
    assert any("an iterator ends inside" in one.message for one in sot.stats(static).graph_breaks)


def alone(x, y):
    if y.mean() > 0:
        x * 3 + y * 3
    return x + 1


def inside_of_another(x, y):
    if y.mean() > 0:
        if (x * 2).mean() < (y * 2).mean() + 1:
            (x * 3).sum() + x * 3 + y * 3
    return x + 1


@pytest.mark.parametrize("function", [alone, inside_of_another])
def test_what_nobody_uses_raises_where_shapes_do_not_fit(function):
    static = sot.to_static(function, min_graph_size=0, capture_control_flow=True, compile_at_call=1)
    for sizes in ((2, 2), (3, 3), (4, 4), (5, 6), (6, 5), (7, 7)):
        seen = []
        for run in (function, static):
            try:
                seen.append(run(*map(paddle.ones, ([size] for size in sizes))).tolist())
            except ValueError as error:
                seen.append(type(error))
        assert seen[0] == seen[1]
    assert sot.stats(static).graphs > 0
    assert not sot.stats(static).fallbacks


def negative(x):
    if x.mean() < 0:
        raise ValueError("negative")
    return x * 2


def taken_by_a_caller(x):
    try:
        return negative(x)
    except ValueError:
        return x - 1


def taken_by_its_own_handler(x):
    try:
        assert x.mean() > 0
        return x * 2
    except AssertionError:
        return x - 1


def unbound_name_is_taken_by_a_caller(x):
    def scaled():
        if x.mean() > 0:
            scale = x.max()
        return x * scale

    try:
        return scaled()
    except NameError:
        return x - 1


TAKEN = [taken_by_a_caller, taken_by_its_own_handler, unbound_name_is_taken_by_a_caller]


@pytest.mark.parametrize("function", TAKEN, ids=lambda it: it.__name__)
def test_what_a_handler_takes_is_in_no_file(function, tmp_path):
    """A file has no interpreter that goes there."""
    with pytest.raises(sot.GraphBreakError):
        sot.save(function, str(tmp_path / "f"), [paddle.static.InputSpec([None, 2])])
    static = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    for value in (1, -1, 2, -2):
        x = paddle.full([2, 2], value, "float32")
        assert static(x).tolist() == function(x).tolist()


def finally_behind_it(x):
    try:
        y = negative(x)
    finally:
        z = x + 1
    return y + z


def context_around_it(x):
    with paddle.no_grad():
        return negative(x)


@pytest.mark.parametrize("function", [finally_behind_it, context_around_it], ids=lambda it: it.__name__)
def test_what_is_raised_again_is_in_a_file(function, tmp_path):
    path = str(tmp_path / "f")
    sot.save(function, path, [paddle.static.InputSpec([None, 2])])
    loaded = paddle.jit.load(path)
    x = paddle.ones([3, 2])
    assert loaded(x).tolist() == function(x).tolist()
    with pytest.raises(ValueError, match="must be true"):
        loaded(-x)
