"""Keys and elements that are numbers or texts of another class: members of `IntEnum`, `x.size` of a tensor."""

import abc
import copy
import enum

import paddle
import paddle_sot_rs as sot
import pytest


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Name(enum.StrEnum):
    FIRST = "a"


class Near(int):
    def __eq__(self, other):
        return abs(int(self) - int(other)) < 2

    def __hash__(self):
        return 1


TABLE = {Level.HIGH: 4, Name.FIRST: 5}
ODD = {Near(5): 6}


def of_a_size(x):
    n = x.size
    return (
        n in {6, 7},
        6 in {n},
        {6: 1}.get(n),
        {n: 2}.get(6),
        len({n, 6}),
        n in frozenset([6]),
        type(next(iter({n: 1}))),
    )


def of_members(x):
    return (
        Level.LOW in {1},
        1 in {Level.LOW},
        {1: 3}.get(Level.LOW),
        {Level.HIGH: 4}[2],
        len({Level.LOW, 1}),
        1.0 in {Level.LOW},
    )


def of_texts(x):
    return Name.FIRST in {"a"}, {"a": 1}.get(Name.FIRST), {Name.FIRST: 2}.get("a")


def of_a_table(x):
    return (
        TABLE.get(2),
        TABLE[2],
        2 in TABLE,
        TABLE[Level.HIGH],
        TABLE.get("a"),
        TABLE.get(1),
        next(iter(TABLE)) is Level.HIGH,
    )


def of_its_own_equality(x):
    return ODD.get(Near(5)), Near(4) == 5, len(ODD)


class Registry(type):
    """A metaclass that says nothing of equality."""


class Anything(type):
    def __eq__(cls, other):
        return isinstance(other, type)

    def __hash__(cls):
        return 1


class Registered(metaclass=Registry):
    pass


class Abstract(abc.ABC):  # noqa: B024 - its metaclass is what matters
    pass


class Equal(metaclass=Anything):
    pass


COPIED = copy.deepcopy(paddle.float32)
BY_DTYPE = {COPIED: 1}
BY_CLASS = {Registered: 1, Abstract: 2, int: 3}
BY_PLACE = {paddle.CPUPlace(): 1}


def of_dtypes(x):
    return COPIED in {x.dtype}, x.dtype in {COPIED}, BY_DTYPE.get(x.dtype), {paddle.float32: 2}[COPIED]


def of_classes(x):
    return BY_CLASS[Registered], BY_CLASS.get(Abstract), BY_CLASS.get(float), Registered in {Registered: 1}


def of_places(x):
    return paddle.CPUPlace() in {paddle.CPUPlace()}, BY_PLACE.get(paddle.CPUPlace()), x.place in {paddle.CPUPlace()}


def of_equal_classes(x):
    return Equal in {Equal}, {Equal: 1}.get(Equal), Equal == Registered


IN_ONE_GRAPH = [of_a_size, of_members, of_texts, of_a_table, of_dtypes, of_classes]
# What has an equality of its own may break the graph.
OTHERS = [of_its_own_equality, of_places, of_equal_classes]


@pytest.mark.parametrize("ask", IN_ONE_GRAPH + OTHERS, ids=lambda it: it.__name__)
def test_keys_are_compared_as_in_plain_python(ask):
    def function(x):
        return ask(x), x * 2

    static = sot.to_static(function, min_graph_size=0)
    x = paddle.ones([2, 3])
    for _ in range(2):
        assert static(x)[0] == function(x)[0]
    if ask in IN_ONE_GRAPH:
        assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])
