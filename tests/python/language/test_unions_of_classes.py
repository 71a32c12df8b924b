"""`A | B` of classes, made in the function or found: a constant, as classes are."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate


class A:
    pass


class B(A):
    pass


class Meta(type):
    def __instancecheck__(cls, value):
        return value == 1


class Asked(metaclass=Meta):
    pass


FOUND = int | float

FUNCTIONS = {
    "of two": lambda x, v: x + 1 if isinstance(v, int | float) else x - 1,
    "of three": lambda x, v: x + 1 if isinstance(v, int | str | A) else x - 1,
    "found": lambda x, v: x + 1 if isinstance(v, FOUND) else x - 1,
    "found and another": lambda x, v: x + 1 if isinstance(v, FOUND | str) else x - 1,
    "with None": lambda x, v: x + 1 if isinstance(v, A | None) else x - 1,
    "of a class": lambda x, v: x + 1 if issubclass(type(v), A | int) else x - 1,
    "in a tuple": lambda x, v: x + 1 if isinstance(v, (int | str, float)) else x - 1,
    "returned": lambda x, v: (x + 1, int | None),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_captured(name):
    function = FUNCTIONS[name]
    translated = translate(lambda x, v: function(x, v))
    for value in (1, True, 2.5, "text", A(), B(), None):
        assert repr(translated(paddle.ones([2]), value)) == repr(function(paddle.ones([2]), value))
    assert sot.stats(translated).graph_breaks == []


def test_one_that_changes_is_seen():
    global FOUND
    translated = translate(lambda x, v: x + 1 if isinstance(v, FOUND) else x - 1)
    assert translated(paddle.zeros([1]), 1).item() == 1
    before, FOUND = FOUND, str | bytes
    try:
        assert translated(paddle.zeros([1]), 1).item() == -1
    finally:
        FOUND = before


def test_metaclasses_are_asked():
    translated = translate(lambda x, v: x + 1 if isinstance(v, Asked | str) else x - 1)
    for value in (1, 2, "text"):
        assert translated(paddle.zeros([1]), value).item() == (1 if value != 2 else -1)
