"""`except*`, and exceptions that pass `with` blocks: simulated, or left to the interpreter where it could be seen."""

from __future__ import annotations

import traceback

import paddle
import paddle_sot_rs as sot
import pytest
from harness import Programs, check

EVENTS: list = []


def x(value=1.0):
    return paddle.to_tensor([value, value], stop_gradient=False)


def raising(value):
    if value > 0:
        raise ValueError("positive")


program = Programs()


@program(graphs=1, breaks=0)
def without_an_exception(x):
    y = x * 2
    try:
        y = y + 1
    except* ValueError as found:
        EVENTS.append(found)
    else:
        y = y * 3
    finally:
        y = y - 1
    return y


@program(graphs=1, breaks=0)
def a_naked_exception_is_wrapped(x):
    y = x * 2
    try:
        y = y + 1
        raise ValueError("a")
    except* KeyError:
        y = y - 100
    except* ValueError as found:
        EVENTS.append((type(found), found.message, type(found.exceptions[0]), found.exceptions[0].args))
        y = y * len(found.exceptions)
    return y + 1


@program(graphs=1, breaks=0)
def several_arms_and_nested_groups(x):
    y = x * 2
    try:
        nested = ExceptionGroup("nested", [ValueError("c"), KeyError("d"), ExceptionGroup("deep", [KeyError("e")])])
        raise ExceptionGroup("all", [ValueError("a"), KeyError("b"), nested])
    except* ValueError as found:
        y = y * len(found.exceptions)
        EVENTS.append((found.message, [type(part) for part in found.exceptions], found.exceptions[1].message))
    except* KeyError as found:
        y = y - len(found.exceptions)
        EVENTS.append((found.message, [type(part) for part in found.exceptions]))
        EVENTS.append([type(part) for part in found.exceptions[1].exceptions])
    return y + 1


@program(graphs=1, breaks=0)
def the_rest_reaches_an_outer_handler(x):
    y = x * 2
    try:
        try:
            raise ExceptionGroup("all", [ValueError("a"), KeyError("b"), TypeError("c")])
        except* ValueError as found:
            y = y * len(found.exceptions)
    except* KeyError as found:
        y = y * 5
        EVENTS.append((found.message, found.exceptions[0].args))
    except* TypeError:
        y = y * 7
    finally:
        y = y + 1
    return y


@program(graphs=1, breaks=0)
def the_rest_reaches_a_plain_handler(x):
    y = x * 2
    try:
        try:
            raise KeyError("a")
        except* ValueError:
            y = y * 0
    except KeyError as found:
        y = y * len(found.args)
    return y


def raises_some(y):
    try:
        raise ExceptionGroup("all", [ValueError("a"), KeyError("b")])
    except* ValueError:
        y = y * 3
    return y


@program(graphs=1, breaks=0)
def the_rest_leaves_a_callee(x):
    y = x * 2
    try:
        y = raises_some(y)
    except* KeyError as found:
        y = y + len(found.exceptions)
    return y + 1


@program(graphs=1, breaks=0)
def in_a_loop(x):
    y = x
    for i in range(4):
        try:
            if i % 2:
                raise KeyError(i)
            y = y + i
        except* KeyError as found:
            y = y * (1 + found.exceptions[0].args[0])
        else:
            y = y - 1
    return y


@program(graphs=1, breaks=0)
def tuples_of_classes(x):
    y = x
    try:
        raise TypeError("z")
    except* (ValueError, TypeError):
        y = y + 2
    try:
        raise ExceptionGroup("q", [TypeError("z"), OSError("a")])
    except* (ValueError, TypeError):
        y = y + 2
    except* Exception as found:
        y = y * 7 + len(found.exceptions)
    return y


@program(graphs=1, breaks=0)
def a_leaf_that_was_not_raised_is_kept(x):
    try:
        raise ExceptionGroup("all", [ValueError("a"), KeyError("b")])
    except* ValueError as found:
        leaf = found.exceptions[0]
    except* KeyError:
        pass
    return x * 2, leaf


@program(graphs=1, breaks=0)
def a_group_is_made_and_returned(x):
    leaves = [ValueError("a")]
    group = BaseExceptionGroup("all", leaves)
    return x * 2, group, type(group), group.exceptions[0] is leaves[0], isinstance(group, Exception)


@program(breaks=2)
def a_group_whose_list_grew_is_returned(x):
    leaves = [ValueError("a")]
    group = ExceptionGroup("all", leaves)
    leaves.append(KeyError("b"))
    return x * 2, len(group.exceptions), repr(group.exceptions)


@program(fallbacks=None)
def bare_raise_in_an_arm(x):
    y = x * 2
    try:
        try:
            raise ExceptionGroup("all", [ValueError("a"), KeyError("b")])
        except* ValueError:
            y = y * 3
            raise
    except ExceptionGroup as found:
        EVENTS.append((repr(found), len(found.exceptions)))
    return y


@program(fallbacks=None)
def another_exception_is_raised_in_an_arm(x):
    y = x * 2
    try:
        try:
            raise ValueError("a")
        except* ValueError as found:
            y = y * 2
            raise KeyError("new") from found
    except* KeyError as found:
        new = found.exceptions[0]
        EVENTS.append((repr(new.__cause__), repr(new.__context__), repr(found)))
    return y


@program(fallbacks=None)
def the_group_outlives_its_handler(x):
    y = x * 2
    try:
        raise ValueError("a")
    except* ValueError as found:
        kept = found
    leaf = kept.exceptions[0]
    EVENTS.append((repr(kept), leaf.__traceback__.tb_lineno, repr(leaf.__context__)))
    return y * 2


@program(fallbacks=None)
def a_break_in_an_arm(x):
    y = x * 2
    try:
        raise ExceptionGroup("all", [ValueError("a"), KeyError("b")])
    except* ValueError as found:
        EVENTS.append((float(y.sum()), repr(found)))
        y = y * 3
    except* KeyError as found:
        EVENTS.append((repr(found), found.__traceback__.tb_lineno))
    return y


@program(graphs=4, breaks=1)
def raised_natively(x):
    y = x * 2
    try:
        raising(float(y.sum()))
        y = y + 1
    except* ValueError as found:
        y = y * len(found.exceptions)
    else:
        y = y + 7
    finally:
        y = y * 2
    return y


@program(graphs=4, breaks=1)
def a_group_is_raised_natively(x):
    y = x * 2
    try:
        if float(y.sum()) > 0:
            raise ExceptionGroup("all", [ValueError("a"), KeyError("b")])
        y = y + 1
    except* ValueError as found:
        EVENTS.append(found.message)
        y = y * len(found.exceptions) + 2
    except* KeyError:
        y = y - 1
    return y


@program(fallbacks=None)
def classes_that_cannot_be_caught(x):
    y = x * 2
    for caught in (ExceptionGroup, 3, (KeyError, "s")):
        try:
            try:
                raise TypeError("z")
            except* caught:
                y = y + 2
        except TypeError as error:
            EVENTS.append((str(error), repr(error.__context__)))
    return y


class Own(ExceptionGroup):
    def derive(self, excs):
        EVENTS.append("derive")
        return Own(self.message, excs)


@program(fallbacks=None)
def a_group_with_its_own_derive(x):
    y = x * 2
    try:
        raise Own("m", [ValueError("a"), KeyError(1)])
    except* ValueError as found:
        y = y * 3
        EVENTS.append(type(found))
    except* KeyError as found:
        EVENTS.append(type(found))
    return y


@program(fallbacks=None)
def notes_are_copied(x):
    y = x * 2
    try:
        group = ExceptionGroup("m", [ValueError("a"), KeyError(1)])
        group.add_note("n")
        raise group
    except* ValueError as found:
        found.add_note("of this part")
        EVENTS.append(found.__notes__)
    except* KeyError as found:
        EVENTS.append(found.__notes__)
    return y


@program(fallbacks=None)
def groups_that_cannot_be_made(x):
    y = x * 2
    for args in (("m", []), ("m", [1]), (1, [ValueError()]), ("m",), ("m", [KeyboardInterrupt()])):
        try:
            ExceptionGroup(*args)
        except (ValueError, TypeError) as error:
            EVENTS.append(repr(error))
    return y


@program(graphs=1, breaks=0)
def a_base_group_of_exceptions_is_a_group(x):
    try:
        raise BaseExceptionGroup("m", [ValueError()])
    except ExceptionGroup:
        return x * 2


@program(fallbacks=None)
def an_exception_of_another_class_than_was_called(x):
    try:
        raise OSError(2, "no")
    except FileNotFoundError as error:
        return x * error.errno


@program(graphs=1, breaks=0)
def the_value_of_a_stop_iteration(x):
    try:
        raise StopIteration(3)
    except StopIteration as error:
        return x * error.value


class Locked:
    @property
    def value(self):
        return 1


def fails(number, x):
    if number == 0:
        return [1, 2][5]
    if number == 1:
        return (1, 2)[-3]
    if number == 2:
        return {"a": 1}["b"]
    if number == 3:
        return len(5)
    if number == 4:
        return min([])
    if number == 5:
        return [].pop()
    if number == 6:
        return [1].pop(3)
    if number == 7:
        return [1].remove(2)
    if number == 8:
        return [].missing
    if number == 9:
        Locked().value = 3
    if number == 10:
        return Locked().missing
    if number == 11:
        return 1 // 0
    if number == 12:
        return int("x")
    if number == 13:
        return "a" + 1
    if number == 14:
        return {}.pop((1, 2))
    return x


@program(fallbacks=None)
def the_texts_of_what_python_raises(x):
    y = x * 2
    for number in range(16):
        try:
            y = y + 1
            fails(number, x)
        except Exception as error:
            EVENTS.append((type(error).__name__, str(error), repr(error), f"{error!r:>20}", error.args))
    return y


class Quiet(Exception):
    pass


class Loud(Exception):
    def __str__(self):
        EVENTS.append("__str__")
        return f"loud {self.args}"


@program(graphs=1, breaks=0)
def the_texts_of_what_the_function_raises(x):
    y = x * 2
    raised = (
        Quiet(), Quiet("a"), Quiet("a", 1), KeyError("k"), ValueError("v", [1, (2, None)]), OSError("o"),
        ExceptionGroup("g", [Quiet("q"), KeyError("k")]), StopIteration(3), AssertionError(),
    )  # fmt: skip
    for each in raised:
        try:
            raise each
        except Exception as error:
            y = y + 1
            EVENTS.append((str(error), repr(error), f"{error}", f"{error!r}", f"{error!s:>20}"))
    return y


@program(fallbacks=None)
def the_text_is_code(x):
    y = x * 2
    try:
        raise Loud(1)
    except Loud as error:
        y = y + len(str(error)) + len(f"{error}") + len(repr(error))
    return y


@program(graphs=1, breaks=0)
def the_message_is_not_looked_at(x):
    y = x * 2
    try:
        y = y + [1, 2][y.shape[0] + 3]
    except IndexError as error:
        y = y - len(error.args)
    return y


class Swallows:
    def __init__(self, *classes):
        self.classes = classes

    def __enter__(self):
        EVENTS.append("enter")
        return self

    def __exit__(self, kind, value, where):
        EVENTS.append(("exit", kind, None if value is None else value.args, where is None))
        return kind in self.classes


@program(graphs=1, breaks=0)
def an_exception_passes_with_blocks(x):
    y = x * 2
    with Swallows(ValueError) as outer, Swallows():
        y = y + len(outer.classes)
        raise ValueError("a")
    return y * 3


@program(graphs=1, breaks=0)
def an_exception_passes_no_grad(x):
    y = x * 2
    try:
        with paddle.no_grad():
            z = y + 1
            raise ValueError("a")
    except ValueError:
        y = y * 3
    return y, z


@program(fallbacks=None)
def with_blocks_around_a_break(x):
    y = x * 2
    with Swallows(ValueError):
        y = y + 1
        raising(float(y.sum()))
        EVENTS.append("not raised")
    try:
        with paddle.no_grad():
            z = y * 2
            raising(float(y.sum()))
    except ValueError:
        y = y - 1
    return y, z


@program(fallbacks=None)
def groups_without_a_traceback_pass_with_blocks(x):
    y = x * 2
    for number in range(4):
        try:
            with Swallows(ExceptionGroup):
                y = y + 1
                try:
                    if number % 2:
                        raise ExceptionGroup("all", [ValueError("a"), KeyError("b")])
                    raise ValueError("a")
                except* ValueError:
                    if number < 2:
                        raise
                    raise IndexError("new") from None
        except IndexError as error:
            EVENTS.append(repr(error))
    return y


class Looks(Swallows):
    def __exit__(self, kind, value, where):
        EVENTS.append((kind, repr(value), where.tb_lineno if where else None))
        return True


@program(fallbacks=None)
def the_traceback_is_looked_at(x):
    y = x * 2
    with Looks():
        y = y + 1
        raise ValueError("a")
    return y


@program(fallbacks=None)
def the_traceback_is_kept(x):
    y = x * 2
    with KEPT:
        y = y + 1
        raise ValueError("a")
    return y


class Keeps:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, where):
        self.seen = (kind, value, where)
        return True


KEPT = Keeps()


@pytest.mark.parametrize(("function", "args", "expected"), program)
def test_equals_eager(function, args, expected):
    def watch():
        seen = getattr(KEPT, "seen", (None, None, None))
        line = None if seen[2] is None else seen[2].tb_lineno
        return [list(EVENTS), seen[0], repr(seen[1]), line]

    def reset():
        EVENTS.clear()
        vars(KEPT).clear()

    calls = [(x(-1.0),), (x(2.0),), (x(-2.0),)]
    check(function, x(), calls=calls, watch=watch, reset=reset, **expected)


def leaves_partly(x):
    y = x * 2
    try:
        y = y + 1
        raise ExceptionGroup("all", [ValueError("a"), ExceptionGroup("in", [KeyError("b"), ValueError("c")])])
    except* KeyError as found:
        EVENTS.append(len(found.exceptions))
    return y


def leaves_as_it_was(x):
    y = x * 2
    try:
        raising(float(y.sum()))
    except* KeyError:
        y = y * 3
    return y


def leaves_two(x):
    y = x * 2
    try:
        raise ExceptionGroup("all", [ValueError("a"), KeyError("b"), OSError("c")])
    except* ValueError:
        y = y + 1
        raise TypeError("in an arm")  # noqa: B904
    except* KeyError as found:
        raise IndexError("in another arm") from found
    return y


def leaves_a_plain_handler(x):
    y = x * 2
    try:
        raising(y.shape[0])
    except KeyError:
        y = y + 1
    return y


def leaves_a_with_block(x):
    y = x * 2
    with Swallows():
        y = y + 1
        raise ValueError("a")
    return y


def leaves_a_finally(x):
    y = x * 2
    try:
        raise ExceptionGroup("all", [ValueError("a")])
    except* KeyError:
        y = y + 1
    finally:
        EVENTS.append("finally")
    return y


def picture(error, depth=0):
    """Everything of an exception: what it was made of, what it came from, and where."""
    if error is None or depth > 5:
        return None
    lines = [(e.name, e.lineno) for e in traceback.extract_tb(error.__traceback__) if e.filename == __file__]
    if depth == 0:
        # A frame that broke the graph shows the line of the break, and the caller is another
        # function.
        lines = lines[-1:]
    parts = [picture(part, depth + 1) for part in getattr(error, "exceptions", ())]
    context = picture(error.__context__, depth + 1)
    cause = picture(error.__cause__, depth + 1)
    return (type(error), str(error), parts, context, cause, error.__suppress_context__, lines)


LEAVING = [
    *(leaves_partly, leaves_as_it_was, leaves_two, leaves_a_plain_handler, leaves_a_with_block),
    leaves_a_finally,
]


@pytest.mark.parametrize("function", LEAVING, ids=lambda f: f.__name__)
def test_an_exception_that_leaves_is_the_same(function):
    static = sot.to_static(function, min_graph_size=0)
    for value in (1.0, 2.0, -1.0, 1.0):
        outcomes = []
        for run in (function, static):
            EVENTS.clear()
            try:
                outcomes.append((run(x(value)).numpy().tolist(), list(EVENTS)))
            except BaseExceptionGroup as error:
                outcomes.append((picture(error), list(EVENTS)))
            except Exception as error:  # noqa: BLE001 - compared
                outcomes.append((picture(error), list(EVENTS)))
        assert outcomes[0] == outcomes[1]
    assert sot.stats(static).graphs >= 1
