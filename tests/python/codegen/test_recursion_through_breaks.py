"""Functions that call themselves, and break the graph at each call."""

import inspect
import sys

import paddle
import paddle_sot_rs as sot
import pytest


def translate(function):
    return sot.to_static(function, min_graph_size=0)


def down(x, n):
    print(end="")
    if n == 0:
        return x
    return down(x, n - 1) + 1


@pytest.mark.parametrize("limit", [1000, 20000])
def test_recursion_through_breaks_goes_as_deep_as_in_plain_python(limit):
    def function(x, n):
        print(end="")
        return down(x, n) * 2

    x = paddle.ones([2])
    before = sys.getrecursionlimit()
    translated, alone = translate(function), translate(down)
    try:
        sys.setrecursionlimit(limit + len(inspect.stack(0)))
        for depth in (3, 50, 300, 500, 850, *([5000] if limit > 5000 else [])):
            assert translated(x, depth).tolist() == function(x, depth).tolist()
            assert alone(x, depth).tolist() == down(x, depth).tolist()
        with pytest.raises(RecursionError):
            alone(x, 10 * limit)
        assert alone(x, 3).tolist() == down(x, 3).tolist()
    finally:
        sys.setrecursionlimit(before)
    assert "nest too deep" in str(sot.stats(alone).fallbacks)


@pytest.mark.parametrize("levels", [40, 120])
def test_the_limit_of_recursion_holds_for_functions_that_break(levels):
    seen = []

    def inner(x):
        seen.append(len(seen))
        print(end="")
        return inner(x + 1)

    def function(x):
        return inner(x) * 2

    def depth(call):
        seen.clear()
        with pytest.raises(RecursionError):
            call(paddle.ones([2]))
        return len(seen)

    before = sys.getrecursionlimit()
    translated, alone = translate(function), translate(inner)
    try:
        sys.setrecursionlimit(levels + len(inspect.stack(0)))
        plain = depth(function)
        for call in (translated, alone) * 2:
            # Not all calls that are counted on the way to the limit are levels.
            assert abs(depth(call) - plain) < 20
    finally:
        sys.setrecursionlimit(before)
