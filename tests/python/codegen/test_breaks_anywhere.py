"""Breaks while a generator is suspended, and in exception handlers: what was captured before is kept."""

import contextlib

import paddle
import paddle_sot_rs as sot
import pytest

EVENTS = []


def tensor(value):
    return paddle.to_tensor([value, value])


def steps(x):
    for factor in range(3):
        EVENTS.append(factor)
        yield x * factor
    EVENTS.append("end")


def over_a_generator(x):
    total = x * 2
    for value in steps(x):
        total = total + value
        if total.sum() > 3:
            total = total - 1
    return total


def over_an_expression(x):
    total = x * 2
    for value in (x * factor for factor in (1, 2, 3)):
        if total.sum() > 3:
            total = total - 1
        total = total + value
    return total


def two_generators(x):
    first, second = steps(x), steps(x + 1)
    total = next(first) + next(second)
    if total.sum() > 3:
        total = total * 2
    for a, b in zip(first, second, strict=True):
        total = total + a * b
    return total


def returns_a_generator(x):
    y = x * 2
    return (y * factor for factor in (1, 2))


def stored(x):
    kept = {"rest": steps(x)}
    y = x + next(kept["rest"])
    if y.sum() > 1:
        y = y * 3
    return y + next(kept["rest"])


def in_a_handler(x):
    y = x * 2
    try:
        y = y + 1
        if x.shape[0] == 2:
            raise ValueError("two")
    except ValueError as error:
        EVENTS.append(str(error))
        if y.sum() > 5:
            y = y * 2
    return y - 1


def raised_by_a_callee(x):
    def check(y):
        if y.shape[0] == 2:
            raise KeyError("a")
        return y

    y = x * 3
    try:
        y = check(y)
    except KeyError:
        EVENTS.append(float(y.sum()))
    else:
        EVENTS.append("else")
    finally:
        EVENTS.append("finally")
    return y + 1


def raises_again(x):
    y = x * 3
    try:
        try:
            EVENTS.append("try")
            raise ValueError("first")
        except ValueError as error:
            if y.sum() > 0:
                raise KeyError("second") from error
            EVENTS.append("kept")
    except KeyError as error:
        EVENTS.append((str(error), str(error.__cause__), str(error.__context__)))
    return y + 1


@contextlib.contextmanager
def noted():
    EVENTS.append("enter")
    try:
        yield
    except ValueError as error:
        EVENTS.append(str(error))
    finally:
        EVENTS.append("leave")


def swallowed(x):
    y = x * 3
    with noted():
        y = y + 1
        if y.sum() > 0:
            raise ValueError("positive")
        y = y + 2
    return y * 2


def group(x):
    y = x * 3
    try:
        raise ExceptionGroup("all", [ValueError("v"), KeyError("k")])
    except* ValueError as found:
        if y.sum() > 0:
            y = y * len(found.exceptions)
    except* KeyError:
        EVENTS.append("key")
    return y


def in_a_finally(x):
    y = x * 3
    try:
        try:
            raise ValueError("x")
        finally:
            EVENTS.append(float(y.sum()))
    except ValueError:
        y = y * 2
    return y


FUNCTIONS = [
    *(over_a_generator, over_an_expression, two_generators, stored, in_a_handler, raised_by_a_callee),
    *(raises_again, swallowed, group, in_a_finally),
]


def run(function, value):
    EVENTS.clear()
    result = function(tensor(value))
    return result.numpy().tolist(), list(EVENTS)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_equal_and_partly_captured(function):
    static = sot.to_static(function, min_graph_size=0)
    for value in (1.0, -1.0, 2.0, 0.5, 0.0, 1.0):
        assert run(function, value) == run(static, value)
    stats = sot.stats(static)
    assert stats.graphs >= 1
    assert stats.graph_breaks


def test_a_returned_generator():
    static = sot.to_static(returns_a_generator, min_graph_size=0)
    for value in (1.0, 2.0):
        got = static(tensor(value))
        assert [part.numpy().tolist() for part in got] == [[value * 2] * 2, [value * 4] * 2]
    stats = sot.stats(static)
    assert (stats.graphs, stats.fallbacks) == (1, [])


def test_an_exception_of_a_handler_has_its_context():
    def function(x):
        y = x * 2
        try:
            raise ValueError("first")
        except ValueError:
            if y.sum() > 0:
                raise KeyError("second")  # noqa: B904
        return y

    static = sot.to_static(function, min_graph_size=0)
    for run in (function, static):
        with pytest.raises(KeyError) as caught:
            run(tensor(1.0))
        assert str(caught.value.__context__) == "first"
        assert caught.value.__cause__ is None
        lines = [entry.lineno for entry in caught.traceback if "test_breaks_anywhere" in str(entry.path)]
        assert lines[-1] == function.__code__.co_firstlineno + 5
    assert static(tensor(-1.0)).numpy().tolist() == [-2.0, -2.0]
