"""`Enumeration(value)`: the member that has the value, as a constant."""

import enum

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate


class Mode(enum.Enum):
    FAST = 1
    SLOW = "slow"
    BOTH = (1, 2)

    def factor(self):
        return 3 if self is Mode.FAST else 5


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Found(enum.Enum):
    KNOWN = 1

    @classmethod
    def _missing_(cls, value):
        return cls.KNOWN


class Access(enum.Flag):
    READ = 1
    WRITE = 2


FUNCTIONS = {
    "a method": lambda x: x * Mode(1).factor(),
    "a text": lambda x: x * Mode("slow").factor(),
    "a tuple": lambda x: (x * 2, Mode((1, 2))),
    "a number": lambda x: x * Level(2),
    "compared": lambda x: x + 1 if Mode(1) is Mode.FAST else x - 1,
    "a flag": lambda x: (x + 1, Access(1)),
    "a member": lambda x: x * Mode(Mode.FAST).factor(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_found(name):
    function = FUNCTIONS[name]
    translated = translate(lambda x: function(x))
    x = paddle.ones([2])
    for _ in range(2):
        assert str(translated(x)) == str(function(x))
    assert sot.stats(translated).graphs == 1
    if name not in ("a tuple", "a member"):
        assert sot.stats(translated).graph_breaks == []


def test_values_that_no_member_has_are_left_to_the_class():
    translated = translate(lambda x, value: x * Found(value).value)
    for value in (1, 2, "other"):
        assert translated(paddle.ones([1]), value).item() == 1.0


def test_values_that_are_refused_raise():
    translated = translate(lambda x: x * Mode(7).factor())
    with pytest.raises(ValueError, match="7 is not a valid Mode"):
        translated(paddle.ones([1]))


def test_a_value_that_another_member_gets():
    class Kind(enum.Enum):
        ONE = 1
        TWO = 2
        HALF = 0.5

    def function(x, value):
        try:
            return x * Kind(value).value
        except ValueError as error:
            return str(error)

    def results(function):
        found = [str(function(x, value)) for value in (1, 2, 3, 0.5, True) * 2]
        Kind._value2member_map_[3] = Kind.ONE
        Kind._value2member_map_[1] = Kind.TWO
        found += [str(function(x, value)) for value in (1, 2, 3, 0.5, True) * 2]
        Kind._value2member_map_.update({1: Kind.ONE, 2: Kind.TWO})
        del Kind._value2member_map_[3]
        return found

    x = paddle.ones([2])
    assert results(translate(function)) == results(function)


def test_another_way_to_members():
    class Kind(enum.Enum):
        ONE = 1
        TWO = 2

    translated = translate(lambda x: x * Kind(1).value)
    x = paddle.ones([1])
    assert [translated(x).item() for _ in range(2)] == [1.0, 1.0]
    Kind.__new__ = lambda kind, value: Kind.TWO
    assert [translated(x).item() for _ in range(2)] == [2.0, 2.0]
