"""Paddle keeps the executors of all programs in one table: each program has to find its own."""

import ctypes
import itertools
import sys

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.base import core


def address(scope):
    """Of the C++ object, which pybind keeps behind the header."""
    return ctypes.c_void_p.from_address(id(scope) + 16).value


def translated(function):
    return sot.to_static(function, min_graph_size=0)


def programs():
    translated(lambda x: x + 1)(paddle.ones([1]))
    return sys.modules["paddle_sot_rs._paddle.runnable"]


def test_programs_in_neighbouring_scopes_do_not_meet(monkeypatch):
    """The table is sorted by 65 times the program's id plus a quarter of the scope's address, and by nothing else."""
    loaded = programs()
    scopes = sorted((core.Scope() for _ in range(3000)), key=address)
    apart = 4 * 65
    by_rest = sorted(scopes, key=lambda it: address(it) % apart)
    same = (list(them) for _, them in itertools.groupby(by_rest, lambda it: address(it) % apart))
    # The nearest: scopes may lie in areas that are far apart.
    pairs = (pair for them in same for pair in itertools.pairwise(them))
    low, high = min(pairs, key=lambda pair: address(pair[1]) - address(pair[0]))

    def plus(x):
        return x + 5

    def minus(x):
        return x - 3

    x = paddle.ones([3])
    monkeypatch.setattr(core, "Scope", lambda: high)
    first = translated(plus)
    np.testing.assert_array_equal(first(x).numpy(), [6, 6, 6])
    for _ in range((address(high) - address(low)) // apart - 1):
        loaded._new_program_id()
    monkeypatch.setattr(core, "Scope", lambda: low)
    second = translated(minus)
    np.testing.assert_array_equal(second(x).numpy(), [-2, -2, -2])
    np.testing.assert_array_equal(first(x).numpy(), [6, 6, 6])
    for static in (first, second):
        assert (sot.stats(static).graphs, sot.stats(static).fallbacks) == (1, [])


def test_ids_are_too_far_apart_for_any_scopes():
    new = programs()._new_program_id
    ids = [new() for _ in range(500)]
    assert all(-(1 << 63) <= number < 1 << 63 for number in ids)
    furthest = 1 << 45  # A quarter of the largest address of a process.
    for one, other in itertools.combinations(ids, 2):
        apart = 65 * (one - other) % (1 << 64)
        assert furthest < apart < (1 << 64) - furthest


def test_ids_of_late_programs_work():
    """They are negative."""
    loaded = programs()
    before = loaded._program_numbers
    loaded._program_numbers = itertools.count((1 << 17) + 5)
    try:
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        static = translated(lambda x: (x * x).exp().sum())
        static(x).backward()
        want = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        (want * want).exp().sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), want.grad.numpy())
        assert sot.stats(static).fallbacks == []
    finally:
        loaded._program_numbers = before


def test_a_graph_that_fails_alone_is_counted(monkeypatch):
    def fails(*args):
        raise RuntimeError("no executor today")

    monkeypatch.setattr(sys.modules["paddle_sot_rs._paddle.foreign_programs"], "run_program", fails)
    static = translated(lambda x: x * 2 + 1)
    np.testing.assert_array_equal(static(paddle.ones([2])).numpy(), [3, 3])
    [fallback] = sot.stats(static).fallbacks
    assert fallback.code == "UNIMP"
    assert "only the graph raised" in fallback.message and "no executor today" in fallback.message


def test_an_exception_of_both_is_the_users():
    def embedded(at, table):
        return paddle.nn.functional.embedding(at, table) + 1

    static = translated(embedded)
    table = paddle.ones([3, 2])
    static(paddle.to_tensor([0]), table)
    messages = []
    for call in (static, embedded):
        with pytest.raises(ValueError, match="expected >= 0 and < 3, but got 7") as raised:
            call(paddle.to_tensor([7]), table)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    assert sot.stats(static).fallbacks == []
