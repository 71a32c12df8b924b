"""Attributes of functions, read and written: `f.calls += 1` is in the code of a graph, guarded by what it has."""

import paddle_sot_rs as sot
from harness import check, tensor, translate

X = tensor(3, grad=True)


def helper(x):
    return x


def reset():
    helper.__dict__.clear()
    helper.calls, helper.scale = 0, 2.0


def state():
    return sorted((name, str(value)) for name, value in helper.__dict__.items())


def compared(function, graphs, breaks, **takes):
    check(function, X, graphs=graphs, breaks=breaks, watch=state, reset=reset, **takes)


def test_counted_calls():
    def function(x):
        helper.calls += 1
        helper.calls += 1
        return helper(x) * helper.calls

    compared(function, 1, 0)


def test_new_attributes():
    def function(x):
        known = hasattr(helper, "last")
        helper.last = x * 2
        setattr(helper, "names", ["a"])  # noqa: B010
        helper.names.append("b")
        return helper.last + known + len(helper.names) + getattr(helper, "missing", 3)

    compared(function, 1, 0)


def test_a_write_in_front_of_a_break():
    def function(x):
        helper.calls += 1
        y = x * helper.calls
        helper.scale = float(y.sum())
        helper.calls += 1
        return y * helper.scale, helper.calls

    compared(function, 2, 1)


def test_a_write_in_front_of_an_exception():
    def function(x):
        helper.calls += 1
        raise ValueError(helper.calls)

    compared(function, None, None)


def test_the_dictionary_itself():
    def function(x):
        names = helper.__dict__
        helper.calls += 1
        names["calls"] += 10
        return x * helper.calls

    compared(function, None, None)


def test_what_a_function_runs_is_no_such_attribute():
    def function(x):
        helper.__doc__ = "text"
        helper.__defaults__ = None
        return helper(x)

    compared(function, None, None)


def test_functions_of_the_frame():
    def function(x):
        def inner(y):
            inner.calls = getattr(inner, "calls", 0) + 1
            return y * inner.calls

        return inner(x) + inner(x), inner.calls

    compared(function, 1, 0)


def test_changes_from_outside_are_seen():
    def function(x):
        helper.calls += 1
        return x * helper.scale + helper.calls

    translated = translate(function)
    reset()
    for at in range(6):
        helper.scale, helper.calls = float(at), 10 * at
        expected = X * float(at) + 10 * at + 1
        assert bool((translated(X) == expected).all())
        assert helper.calls == 10 * at + 1
    assert sot.stats(translated).graph_breaks == []


def test_another_function_and_another_dictionary():
    def made(calls):
        def other(x):
            return x

        other.calls = calls
        return other

    def function(x, counted):
        counted.calls += 1
        return x * counted.calls

    translated = translate(function)
    first, second = made(1), made(5)
    for counted, calls in ((first, 2), (second, 6), (first, 3), (second, 7)):
        assert bool((translated(X, counted) == X * calls).all())
        assert counted.calls == calls
    first.__dict__ = {"calls": 40}
    assert bool((translated(X, first) == X * 41).all())
    assert (first.calls, second.calls) == (41, 7)


def test_two_functions_with_one_dictionary():
    def one(x):
        return x

    def two(x):
        return x

    one.__dict__ = two.__dict__ = {"calls": 0}

    def function(x):
        one.calls += 1
        two.calls += 1
        return x * one.calls

    translated = translate(function)
    for calls in (2, 4, 6):
        assert bool((translated(X) == X * calls).all())
        assert one.calls == calls


def test_a_function_that_counts_its_own_calls():
    def counted(x):
        counted.calls += 1
        return x * counted.calls

    counted.calls = 0
    translated = translate(counted)
    for calls in range(1, 6):
        assert bool((translated(X) == X * calls).all())
        assert counted.calls == calls
    assert sot.stats(translated).graph_breaks == []
    # The number of calls is one of the graph from the second translation on.
    assert sot.stats(translated).translations == 2
