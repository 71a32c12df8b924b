"""Generators that the function makes: `yield from`, `send`, `throw`, `close`, and context managers made of them."""

from __future__ import annotations

import contextlib
import itertools

import paddle
import pytest
from harness import Programs, check

EVENTS: list = []


def x(value=1.0):
    return paddle.to_tensor([value, value], stop_gradient=False)


def answers(x):
    first = yield x * 2
    EVENTS.append(first)
    second = yield x * 3
    return (first, second)


def delegates(x):
    result = yield from answers(x)
    EVENTS.append(result)
    yield x
    return 7


def sums(x):
    total = x * 0
    while True:
        value = yield total
        if value is None:
            return total
        total = total + value


def catching(x):
    try:
        yield x
    except ValueError as error:
        EVENTS.append(str(error))
        yield x * 7
    finally:
        EVENTS.append("finally")


def delegates_and_catches(x):
    try:
        yield from catching(x)
    except KeyError as error:
        EVENTS.append(repr(error))
        yield x * 100


program = Programs()


@program(graphs=1, breaks=0)
def a_loop_over_a_delegation(x):
    total = x
    for value in delegates(x):
        total = total + value
    return total


@program(graphs=1, breaks=0)
def values_are_sent_through(x):
    generator = delegates(x)
    y = next(generator) + generator.send(3) + generator.send(4)
    try:
        generator.send(None)
    except StopIteration as stop:
        EVENTS.append((stop.value, stop.args))
    return y


@program(graphs=1, breaks=0)
def tensors_are_sent(x):
    generator = sums(x)
    next(generator)
    for i in range(3):
        total = generator.send(x * i)
    try:
        generator.send(None)
    except StopIteration as stop:
        total = total + stop.value
    return total


@program(fallbacks=None)
def a_value_is_sent_too_early(x):
    generator = sums(x)
    try:
        generator.send(1)
    except TypeError as error:
        EVENTS.append(str(error))
    return x * 2


@program(graphs=1, breaks=0)
def an_exception_is_thrown(x):
    generator = catching(x)
    y = next(generator) + generator.throw(ValueError("thrown"))
    try:
        next(generator)
    except StopIteration:
        EVENTS.append("stop")
    return y


@program(graphs=1, breaks=0)
def thrown_through_a_delegation(x):
    generator = delegates_and_catches(x)
    y = next(generator) + generator.throw(ValueError("thrown"))
    return y, list(generator)


# Before 3.12 the position of the exception is the one behind the delegation.
@program(fallbacks=None)
def thrown_out_of_a_delegation(x):
    generator = delegates_and_catches(x)
    y = next(generator) + generator.throw(KeyError("thrown"))
    return y, list(generator)


@program(graphs=1, breaks=0)
def thrown_out(x):
    generator, fresh = catching(x), catching(x)
    y = next(generator)
    for each in (generator, fresh, fresh):
        try:
            each.throw(KeyError)
        except KeyError as error:
            EVENTS.append(error.args)
    return y * 2, list(generator), list(fresh)


@program(graphs=1, breaks=0)
def closed(x):
    generator, fresh, delegating = catching(x), catching(x), delegates_and_catches(x)
    y = next(generator) + next(delegating)
    for each in (generator, generator, fresh, delegating):
        EVENTS.append(each.close())
    return y * 2, list(fresh)


def stops(x):
    yield x
    raise StopIteration(5)


@program(fallbacks=None)
def a_stop_iteration_becomes_a_runtime_error(x):
    y = x * 2
    try:
        for value in stops(x):
            y = y + value
    except RuntimeError as error:
        EVENTS.append((str(error), repr(error.__cause__)))
    return y


def raises(x):
    yield x
    raise ValueError("raised")


@program(graphs=1, breaks=0)
def an_exception_leaves_a_generator(x):
    y = x * 2
    try:
        for value in raises(x):
            y = y + value
    except ValueError as error:
        y = y * len(str(error))
    return y


class Counts:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration("counted")
        return self.n


def over_other_iterators(x):
    EVENTS.append((yield from Counts(3)))
    EVENTS.append((yield from [1, 2]))
    EVENTS.append((yield from (x * i for i in range(2))))


@program(graphs=1, breaks=0)
def a_delegation_to_other_iterators(x):
    total = x
    for value in over_other_iterators(x):
        total = total + value
    return total


def tree(depth, x):
    if depth == 0:
        yield x
    else:
        yield from tree(depth - 1, x * 2)
        yield from tree(depth - 1, x + 1)


@program(graphs=1, breaks=0)
def recursive(x):
    return sum(tree(4, x))


@program(graphs=1, breaks=0)
def left_in_the_middle(x):
    generator = tree(2, x)
    return next(generator) + 1


@program(fallbacks=None)
def left_inside_of_a_try(x):
    generator = delegates_and_catches(x)
    y = next(generator) + 1
    del generator
    EVENTS.append("behind")
    return y


@program()
def runs_itself(x):
    def looks_ahead():
        yield x
        try:
            next(generator)
        except ValueError as error:
            EVENTS.append(type(error))
        yield x * 2

    generator = looks_ahead()
    return next(generator) + next(generator)


@program()
def alive_at_a_break(x):
    generator = delegates(x)
    y = next(generator)
    if y.sum() > 0:
        y = y + 1
    return y + sum(generator)


@program(fallbacks=None)
def at_its_end_at_a_break(x):
    generator = answers(x)
    y = sum(generator)
    if y.sum() > 0:
        y = y + 1
    try:
        generator.send(None)
    except StopIteration as stop:
        EVENTS.append(stop.value)
    return y, type(generator).__name__


@contextlib.contextmanager
def noted():
    EVENTS.append("enter")
    try:
        yield 3
    except ValueError as error:
        EVENTS.append(f"{error} {error!r}")
    finally:
        EVENTS.append("leave")


@program(graphs=1, breaks=0)
def a_context_manager_swallows(x):
    y = x * 3
    with noted() as factor:
        y = y * factor
        raise ValueError("swallowed")
    return y * 2


@program(graphs=1, breaks=0)
def a_context_manager_lets_pass(x):
    y = x * 3
    try:
        with noted() as factor:
            y = y * factor
            raise KeyError("passes")
    except KeyError:
        y = y - 1
    return y * 2


@program(graphs=1, breaks=0)
def suppressed(x):
    y = x * 3
    with contextlib.suppress(KeyError, ValueError):
        y = y + 1
        raise KeyError("suppressed")
    return y * 2


@program(graphs=1, breaks=0)
def the_value_at_the_end(x):
    for value in (None, 1, (2,), "text"):

        def ends(value=value):
            yield x
            return value

        generator = ends()
        y = next(generator)
        for _ in range(2):
            try:
                next(generator)
            except StopIteration as stop:
                EVENTS.append((repr(stop), str(stop), f"{stop}", stop.args, stop.value))
    try:
        next(Counts(0))
    except StopIteration as stop:
        EVENTS.append(repr(stop))
    EVENTS.append((next(Counts(0), "default"), next(ends(), None) is x))
    return y + 1


@program(fallbacks=None)
def the_end_of_an_iterator_in_another_one(x):
    y = x * 2
    ends = answers(x)
    for iterator in (zip([1], Counts(0), strict=False), map(len, ends), enumerate(Counts(0))):
        try:
            while True:
                y = y + 1
                next(iterator)
        except StopIteration as stop:
            EVENTS.append(repr(stop))
        except TypeError:
            EVENTS.append("no length")
    return y


class OwnStop(StopIteration):
    value = 5


class CountsOtherwise(Counts):
    def __next__(self):
        raise OwnStop("counted")


def returns(value):
    yield 1
    return value


def ends_a_map(_):
    raise StopIteration("of the function")


def keeps(to):
    EVENTS.append((yield from to))


def all_of(x, to):
    for _ in keeps(to):
        x = x + 1
    return x * 2


@program(fallbacks=None)
def the_value_of_an_end(x):
    return all_of(x, Counts(0))


@program(fallbacks=None)
def the_value_of_an_end_with_another_one(x):
    return all_of(x, CountsOtherwise(0))


@program(fallbacks=None)
def the_value_of_an_end_in_a_zip(x):
    return all_of(x, zip(Counts(0), [1], strict=False))


@program(fallbacks=None)
def the_value_of_an_end_in_a_slice(x):
    return all_of(x, itertools.islice(Counts(0), 4))


@program(fallbacks=None)
def the_value_of_an_end_in_two(x):
    return all_of(x, map(str, zip(returns("y"), strict=True)))


@program(fallbacks=None)
def the_value_of_a_generator_that_is_counted(x):
    return all_of(x, enumerate(returns(3)))


@program(fallbacks=None)
def the_value_of_an_end_by_a_function(x):
    return all_of(x, map(ends_a_map, [1, 2]))


@program(graphs=1, breaks=0)
def delegation_to_what_ends_without_a_value(x):
    def delegates():
        first = yield from zip([1, 2], (n for n in (3, 4)), strict=True)
        second = yield from enumerate(map(abs, [x, x * 2]))
        EVENTS.append((first, second))

    y = x
    for one, two in delegates():
        y = y + one + two
    return y


def left_in(kind):
    if kind == "finally":
        try:
            yield from [1, 2, 3]
        finally:
            EVENTS.append("finally")
    elif kind == "of a generator":
        try:
            yield from returns(2)
        finally:
            EVENTS.append("of a generator")
    elif kind == "with":
        with Entered():
            yield from [1, 2, 3]
    elif kind == "closed":
        try:
            yield from [1, 2, 3]
        except GeneratorExit:
            EVENTS.append("closed")


class Entered:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        EVENTS.append("exit")


@program(fallbacks=None)
def generators_left_where_they_delegate(x):
    for kind in ("finally", "of a generator", "with", "closed"):
        next(left_in(kind))
        for _ in left_in(kind):
            break
        EVENTS.append(any(left_in(kind)))
    return x * 2


@program(graphs=1, breaks=0)
def one_left_where_it_delegates_and_nothing_waits(x):
    def delegates():
        yield from [x, x * 2]

    return next(delegates()) + 1


@pytest.mark.parametrize(("function", "args", "expected"), program)
def test_equals_eager(function, args, expected):
    calls = [(x(-1.0),), (x(2.0),), (x(-2.0),)]
    check(function, x(), calls=calls, watch=lambda: list(EVENTS), reset=EVENTS.clear, **expected)
