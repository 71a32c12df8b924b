"""`sys.exception()` and `sys.exc_info()`: the exception that a frame of the function handles, or its caller."""

import contextlib
import sys

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, translate


def parts(x):
    try:
        raise ValueError("a")
    except ValueError as error:
        kind, value, traceback = sys.exc_info()
        y = x * 2 if value is error and kind is ValueError and traceback is not None else x
    return y, sys.exc_info()


def in_a_callee(x):
    def doubled(y):
        return y * 2 if isinstance(sys.exception(), KeyError) else y

    try:
        return {}[1]
    except KeyError:
        return doubled(x)


def nested(x):
    try:
        raise ValueError
    except ValueError:
        try:
            raise TypeError
        except TypeError:
            x = x * 2 if type(sys.exception()) is TypeError else x
        return x * 3 if type(sys.exception()) is ValueError else x


def in_a_generator(x):
    def kinds():
        yield sys.exc_info()[0]
        try:
            raise KeyError
        except KeyError:
            yield sys.exc_info()[0]
        yield sys.exc_info()[0]

    try:
        raise ValueError
    except ValueError:
        found = list(kinds())
    return x * len(found), found


def after_finally(x):
    try:
        try:
            raise ValueError("a")
        finally:
            x = x * 2 if sys.exception() is not None else x
    except ValueError:
        x = x + 1
    return x, sys.exception()


def behind_an_exit_stack(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(ValueError))
        return x * 2


@pytest.mark.parametrize("function", [parts, in_a_callee, nested, in_a_generator, after_finally])
def test_of_the_function(function):
    check(function, paddle.ones([2, 3]), graphs=1, breaks=0)


def test_the_exit_of_a_stack_asks():
    check(behind_an_exit_stack, paddle.ones([2, 3]))


def asks(x):
    return x * 2 if sys.exception() is None else x * 3


def test_of_the_caller():
    translated, x = translate(asks), paddle.ones([2])
    for _ in range(2):
        assert translated(x).tolist() == [2, 2]
        try:
            raise ValueError
        except ValueError:
            assert translated(x).tolist() == asks(x).tolist() == [3, 3]
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (2, [])


def hands_out(x):
    try:
        raise ValueError("a")
    except ValueError:
        found = sys.exc_info()
    return x * 2, found[0], str(found[1]), found[2].tb_lineno


def test_a_traceback_that_is_read():
    function, x = translate(hands_out), paddle.ones([2])
    for _ in range(3):
        expected, actual = hands_out(x), function(x)
        assert expected[1:] == actual[1:]
        assert expected[0].tolist() == actual[0].tolist()


def leaves(x):
    try:
        raise ValueError("a")
    except ValueError:
        found = sys.exc_info()
    return x * 2, found


def test_parts_that_leave():
    function, x = translate(leaves), paddle.ones([2])
    for _ in range(3):
        kind, value, traceback = function(x)[1]
        assert kind is ValueError
        assert value.args == ("a",)
        assert value.__traceback__ is traceback
        assert traceback.tb_lineno == leaves.__code__.co_firstlineno + 2
