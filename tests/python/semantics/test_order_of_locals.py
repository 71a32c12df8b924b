"""Locals of a frame behind a break: they are shown, and die with it, in the order of plain Python."""

import gc

import pytest
from harness import Programs, check, tensor

program = Programs()
X = tensor(2, 3)
LOG = []


class Token:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        if LOG is not None:  # None when the interpreter ends
            LOG.append(f"{self.name} is gone")


class Plain:
    pass


# What has no value at the break stands in front of what has.
@program(X, graphs=0, breaks=1)
def one_that_comes_later(x):
    first = None  # noqa: F841
    table = {}
    first = Token("first")  # noqa: F841
    table["a"] = Token("second")
    return x * 2


@program(X, graphs=0, breaks=1)
def one_in_a_tuple(x):
    first = None  # noqa: F841
    plain = Plain()
    plain.token = Token("second")
    first = (Token("first"), 1)  # noqa: F841
    print(end="")
    return x * 2


@program(X, graphs=0, breaks=None)
def one_of_a_handler(x):
    first = None  # noqa: F841
    table = {}
    try:
        print(end="")
        raise ValueError
    except ValueError:
        first = Token("first")  # noqa: F841
        table.setdefault("a", Token("second"))
    return x * 2


# A container that is not read again lives to the end of the frame, with what a break puts in.
@program(X, graphs=0, breaks=1)
def a_list_that_is_filled_last(x):
    first = None  # noqa: F841
    tokens = []
    tokens.append(Token("second"))
    first = Token("first")  # noqa: F841
    LOG.append("end")
    return x * 2


@program(X, graphs=0, breaks=1)
def a_dict_that_is_filled_last(x):
    table = {}
    table.setdefault("a", Token("only"))
    LOG.append("end")
    return x * 2


@program(X, graphs=0, breaks=1)
def a_list_in_a_dict_that_is_filled_last(x):
    tokens = []
    table = {"a": tokens}
    table["a"].append(Token("only"))
    LOG.append("end")
    return x * 2


def filled(tokens):
    tokens.append(Token("only"))
    print(end="")


@program(X, graphs=None, breaks=None)
def a_list_that_a_callee_fills(x):
    tokens = []
    filled(tokens)
    LOG.append("end")
    return x * 2


@program(X, graphs=0, breaks=1)
def a_list_of_a_closure(x):
    tokens = []
    add = lambda token: tokens.append(token)  # noqa: E731, PLW0108
    add(Token("only"))
    LOG.append("end")
    return x * 2


@program(X, graphs=1, breaks=1)
def names_that_are_shown(x, early=None):
    if early is not None:
        late = 1
    y = x * 2
    print(end="")
    late = 2  # noqa: F841
    last = 3  # noqa: F841
    return list(locals()), dir(), list(vars()), y


@program(X, graphs=1, breaks=1)
def an_argument_that_went(x, early=0, other=1):
    del early
    y = x * 2
    print(end="")
    early = 5  # noqa: F841
    return list(locals()), y, other


@program(X, graphs=1, breaks=1)
def cells_among_them(x, other=1):
    y = x * 2
    print(end="")
    late = 2
    cell = lambda: (other, y, late)  # noqa: E731
    return list(locals()), cell()


# Guards on what has moved hold, and what it is bound to again is another value.
@program(X, calls=[(tensor(2, 3, seed=1),), (tensor(4, 3),)], graphs=None, breaks=None)
def rounds(x):
    total = 0
    for number in range(3):
        y = x * number
        print(end="")
        late = y + total
        total = late * 2
        print(end="")
        early = total
    return early


@program(X, graphs=None, breaks=None)
def frames_of_callees(x):
    def callee(x):
        if x is None:
            early = Token("never")
        tokens = []
        print(end="")
        early = Token("first")  # noqa: F841
        tokens.append(Token("second"))
        return x * 2

    return callee(x) + 1


# What several values of a frame hold together is held by nobody else.
def shared_list():
    print(end="")
    tokens = [Token("only")]
    return tokens, {"a": tokens}


def shared_object():
    print(end="")
    plain, other = Plain(), Plain()
    plain.token, other.plain = Token("only"), plain
    return plain, other


def appends_first(tokens):
    tokens.append(Token("only"))
    yield 1
    yield 2


@program(X, graphs=0, breaks=None)
def a_list_under_two_names(x):
    tokens, table = shared_list()  # noqa: RUF059
    y = x * 2
    LOG.append("end")
    return y


@program(X, graphs=0, breaks=None)
def a_pair_that_goes(x):
    pair = shared_list()
    y = x * 2
    LOG.append("before")
    pair = None  # noqa: F841
    LOG.append("end")
    return y


@program(X, graphs=None, breaks=None)
def an_object_under_two_names(x):
    plain, other = shared_object()  # noqa: RUF059
    total = x.sum().item()
    LOG.append("end")
    return x * total


@program(X, graphs=0, breaks=None)
def a_list_of_a_generator_too(x):
    tokens = []
    generator = appends_first(tokens)
    next(generator)
    y = x * 2
    LOG.append("end")
    return y


@program(X, graphs=0, breaks=None)
def lists_in_arguments(x):
    def callee(x, *args, **kwargs):
        args[0].append(Token("first"))
        kwargs["tokens"].append(Token("second"))
        LOG.append("end")
        return x * 2

    y = callee(x, [], tokens=[])
    LOG.append("after")
    return y


HOLDER = Plain()


def held_twice():
    tokens = [Token("only")]
    HOLDER.held = (tokens, {"a": tokens}, Plain())


def an_attribute_with_a_list_in_two_places(x):
    y = x * 2
    HOLDER.held = None
    LOG.append("end")
    return y


def test_what_an_attribute_lets_go():
    def reset():
        held_twice()
        LOG.clear()

    check(an_attribute_with_a_list_in_two_places, X, watch=lambda: list(LOG), reset=reset, graphs=None, fallbacks=None)


@pytest.mark.parametrize(("function", "args", "expected"), program)
def test_equals_eager(function, args, expected):
    gc.collect()
    check(function, *args, watch=lambda: list(LOG), reset=LOG.clear, repeat=3, fallbacks=None, **expected)
