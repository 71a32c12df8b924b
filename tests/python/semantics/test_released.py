"""When things end that objects, containers, cells and modules outside of the frame held: `__del__`, weak references
that are told, the `finally` of generators, among the other things that the program does."""

import weakref

import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, tensor, translate

USES = []
X = tensor(2, 3)
LOG = []
GLOBAL = None


class Token:
    def __del__(self):
        if LOG is not None:  # None when the interpreter ends
            LOG.append("gone")


class Plain:
    pass


class Holder:
    __slots__ = ("__dict__", "slot")

    def __init__(self, make):
        self.token = make()
        self.slot = make()
        self.tokens = [make()]
        self.table = {"a": make()}


def holding(function):
    USES.append(function)
    return function


@holding
def an_attribute(x, holder):
    LOG.append(1)
    holder.token = None
    LOG.append(2)
    return x * len(LOG)


@holding
def a_deleted_attribute(x, holder):
    LOG.append(1)
    del holder.token
    LOG.append(2)
    return x + 1


@holding
def a_slot(x, holder):
    LOG.append(1)
    holder.slot = None
    LOG.append(2)
    return x + 1


@holding
def a_list_that_held_one(x, holder):
    LOG.append(1)
    holder.tokens = []
    LOG.append(2)
    return x + 1


@holding
def a_dict_that_held_one(x, holder):
    LOG.append(1)
    holder.table = None
    LOG.append(2)
    return x + 1


@holding
def a_global(x, holder):
    global GLOBAL
    GLOBAL = holder.token
    del holder.token
    LOG.append(1)
    GLOBAL = None
    LOG.append(2)
    return x + 1


@holding
def a_list_times_nothing(x, holder):
    holder.tokens *= 0
    return x * len(LOG)


@holding
def a_value_that_is_taken(x, holder):
    LOG.append(1)
    token = holder.table.pop("a")
    LOG.append(2)
    token = None  # noqa: F841
    LOG.append(3)
    return x + 1


def takes(tokens):
    token = tokens.pop()  # noqa: F841
    LOG.append("inside")


@holding
def an_item_that_a_callee_takes(x, holder):
    takes(holder.tokens)
    return x * len(LOG)


class Owner:
    def __init__(self, token):
        self.token = token


@holding
def an_item_that_a_new_object_holds(x, holder):
    owner = Owner(holder.tokens.pop())
    LOG.append(1)
    owner = None  # noqa: F841
    LOG.append(2)
    return x + 1


WATCHERS = []


def watched():
    plain = Plain()
    plain.reference = weakref.ref(plain, lambda _: LOG.append("told"))
    WATCHERS.append(plain.reference)
    return plain


def finalized():
    plain = Plain()
    weakref.finalize(plain, LOG.append, "finalized")
    return plain


def suspended():
    def generator():
        try:
            yield 1
            yield 2
        finally:
            LOG.append("closed")

    made = generator()
    next(made)
    return made


def agree(function, translated, make):
    """Calls both on holders of their own; what these held to the end goes after the comparison."""
    answers = []
    for run in (function, translated):
        holder = Holder(make)
        LOG.clear()
        value = run(X, holder)
        answers.append((value.numpy().tolist(), list(LOG), sorted(vars(holder))))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("make", [Token, watched, finalized, suspended])
@pytest.mark.parametrize("use", USES)
def test_equals_eager(use, make):
    if make is suspended and use in (an_item_that_a_callee_takes, an_item_that_a_new_object_holds):
        pytest.skip("a generator that only a frame holds ends where the frame is left, see differences.md")
    translated = translate(use)
    for _ in range(3):
        agree(use, translated, make)
    if not IDENTITY:
        assert sot.stats(translated).graph_breaks


@pytest.mark.parametrize("use", [an_attribute, a_slot, a_list_that_held_one, a_dict_that_held_one])
def test_an_end_that_comes_with_a_later_call(use):
    """What goes has no destructor when the function is translated: all of it is captured."""
    translated = translate(use)
    for make in (Plain, Plain):
        agree(use, translated, make)
    if not IDENTITY:
        assert not sot.stats(translated).graph_breaks
    for make in (Token, Plain, Token):
        agree(use, translated, make)
    if not IDENTITY:
        assert sum(it.count for it in sot.stats(translated).graph_breaks) == 1


def test_what_goes_may_be_there_or_not():
    """A counter, a cache or a result that a call leaves behind: nothing is translated again for it."""

    def function(x, holder):
        holder.last = x * 2
        holder.calls = {"x": 1}
        return x + 1

    translated = translate(function)
    plain = Plain()
    for last in (None, 1, "text", [1, 2], tensor(2, 2)):
        plain.last = last
        assert (translated(X, plain) == X + 1).all()
        assert (plain.last == X * 2).all()
    if not IDENTITY:
        assert sot.stats(translated).translations == 1
