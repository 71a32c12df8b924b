"""When objects end: `__del__` and callbacks of weak references among the other things that the program does."""

import contextlib
import weakref
from typing import NamedTuple

import pytest
from harness import Programs, check, tensor

program = Programs()
X = tensor(2, 3)
LOG = []


class Token:
    def __init__(self, name="token"):
        self.name = name

    def __del__(self):
        if LOG is not None:  # None when the interpreter ends
            LOG.append(f"{self.name} is gone")

    def doubles(self, x):
        LOG.append("called")
        return x * 2


class Plain:
    pass


def made():
    plain = Plain()
    plain.token = Token()
    return plain


def closure():
    token = Token()
    return lambda: token


@contextlib.contextmanager
def managed():
    token = Token()
    yield token
    LOG.append("left")


def guarded(x):
    token = Token()  # noqa: F841
    y = x * 2
    LOG.append("inside")
    return y


@program(X, graphs=1, breaks=1)
def at_the_end_of_a_callee(x):
    y = guarded(x)
    LOG.append("after")
    return y + 1


@program(X, graphs=0, breaks=1)
def a_temporary_value_whose_method_is_called(x):
    y = Token().doubles(x)
    LOG.append("after")
    return y


@program(X, graphs=0, breaks=1)
def a_list_of_them(x):
    tokens = [Token("first"), Token("second")]
    LOG.append("made")
    del tokens
    LOG.append("after")
    return x + 1


@program(X, graphs=0, breaks=1)
def a_list_behind_a_break(x):
    tokens = [Token()]
    print(x.sum().item())
    LOG.append("before")
    tokens = None  # noqa: F841
    LOG.append("after")
    return x + 1


@program(X, graphs=0, breaks=1)
def items_that_go(x):
    tokens = [Token(name) for name in "abcd"]
    tokens[0] = None
    LOG.append(1)
    del tokens[1]
    LOG.append(2)
    tokens.pop()
    LOG.append(3)
    tokens.clear()
    LOG.append(4)
    return x + 1


@program(X, graphs=0, breaks=1)
def values_that_go(x):
    table = {"a": Token("a")}
    table["a"] = None
    LOG.append(1)
    table["b"] = Token("b")
    LOG.append(2)
    table.clear()
    LOG.append(3)
    return x + 1


@program(X, graphs=0, breaks=None)
def an_attribute_that_goes(x):
    plain = made()
    print(x.sum().item())
    LOG.append(1)
    plain.token = None
    LOG.append(2)
    return x + 1


@program(X, graphs=0, breaks=None)
def the_holder_goes(x):
    plain = made()
    LOG.append(1)
    plain = None  # noqa: F841
    LOG.append(2)
    return x + 1


@program(X, graphs=0, breaks=None)
def a_closure_goes(x):
    function = closure()
    LOG.append(1)
    function = None  # noqa: F841
    LOG.append(2)
    return x + 1


@program(X, graphs=None, breaks=None)
def a_context_manager_holds_it(x):
    with managed() as token:
        y = x * 2
        LOG.append("body")
    LOG.append("after")
    token = None  # noqa: F841
    LOG.append("end")
    return y


@program(X, graphs=0, breaks=1)
def a_weak_reference_is_told(x):
    plain = Plain()
    reference = weakref.ref(plain, lambda _: LOG.append("told"))
    y = x + 1
    LOG.append(1)
    plain = None
    LOG.append(2)
    return y, reference() is None


@program(X, graphs=0, breaks=1)
def a_finalizer(x):
    plain = Plain()
    weakref.finalize(plain, LOG.append, "finalized")
    y = x + 1
    LOG.append(1)
    del plain
    LOG.append(2)
    return y


@program(X, graphs=0, breaks=None)
def an_argument_that_only_the_callee_holds(x):
    def drops(x, tokens):
        LOG.append(1)
        tokens.clear()
        LOG.append(2)
        return x + 1

    return drops(x, [Token()])


HELD = Token("held")


@program(X, graphs=1, breaks=0)
def somebody_else_holds_it(x):
    """Nothing can end here: all of it is captured."""
    tokens = [HELD, HELD]
    y = x * len(tokens)
    LOG.append(tokens[0].name)
    return y


class Failure(Exception):
    def __del__(self):
        if LOG is not None:
            LOG.append("failure is gone")


class Pair(NamedTuple):
    first: int


class Watched(Pair):
    def __del__(self):
        if LOG is not None:
            LOG.append("pair is gone")


@program(X, graphs=0, breaks=None)
def an_exception(x):
    failure = Failure(1)
    LOG.append("before")
    del failure
    LOG.append("after")
    return x * 2


@program(X, graphs=0, breaks=None)
def an_exception_that_is_caught(x):
    try:
        raise Failure(1)
    except Failure:
        LOG.append("caught")
    LOG.append("after")
    return x * 2


@program(X, graphs=0, breaks=None)
def a_named_tuple(x):
    pair = Watched(1)
    LOG.append("before")
    pair = None  # noqa: F841
    LOG.append("after")
    return x * 2


@pytest.mark.parametrize(("function", "args", "expected"), program)
def test_equals_eager(function, args, expected):
    check(function, *args, watch=lambda: list(LOG), reset=LOG.clear, repeat=3, fallbacks=None, **expected)
