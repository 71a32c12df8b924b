"""What networks of public projects do that once broke the graph or was wrong, each reduced to its core."""

import collections
import typing

import paddle
import pytest
from harness import Programs, check, tensor, translate
from paddle import nn
from paddle.base import unique_name

case = cases = Programs()

X = tensor(2, 3, grad=True)


class Pair(typing.NamedTuple):
    scale: int
    shift: float


class Settings(collections.namedtuple("Settings", "scale shift")):
    def __new__(cls, scale, shift=2):
        return super().__new__(cls, scale, shift)

    def total(self):
        return self.scale + self.shift


class Slots(Pair):
    __slots__ = ()


class Stack(nn.Layer):
    def __init__(self):
        super().__init__()
        paddle.seed(3)
        self.blocks = nn.LayerList([nn.Linear(3, 3) for _ in range(4)])
        self.body = nn.Sequential(*[nn.Linear(3, 3) for _ in range(4)])
        self.settings = [Pair(1, 2.0), Settings(3), Slots(2, 0.5)]


STACK = Stack()


@case(X, graphs=1, breaks=0)
def part_of_a_list_of_layers(x):
    for block in STACK.blocks[1:]:
        x = block(x)
    for at, block in enumerate(STACK.blocks[:2]):
        x = block(x) + at
    return x


@case(X, graphs=1, breaks=0)
def part_of_a_part_of_layers(x):
    for block in STACK.blocks[::-1][1:3]:
        x = block(x)
    last = STACK.blocks[1:][-1]
    return last(x) + len(STACK.blocks[:3]) if STACK.blocks[:1] else x


@case(X, graphs=1, breaks=0)
def part_of_a_sequence_is_called(x):
    part = STACK.body[1:3]
    return part(x) * 2 if isinstance(part, nn.Sequential) else x


@case(X, graphs=1, breaks=0)
def empty_part_of_layers(x):
    for block in STACK.blocks[4:]:
        x = block(x)
    return x + 1 if STACK.blocks[4:] else x - 1


@case(X, graphs=1, breaks=0)
def fields_of_derived_named_tuples(x):
    for settings in STACK.settings:
        x = x * settings.scale + settings.shift
    return x + STACK.settings[1].total()


@pytest.mark.parametrize(("function", "args", "expectations"), cases)
def test_in_one_graph(function, args, expectations):
    check(function, *args, **expectations)


def test_a_part_that_stays_is_a_real_layer():
    def forward(x):
        part = STACK.blocks[1:]
        for block in part:
            x = block(x)
        return x, part

    function = translate(forward)
    for _ in range(3):
        (x, part), (y, other) = forward(X), function(X)
        assert (x == y).all()
        assert type(other) is nn.LayerList
        assert [id(block) for block in part] == [id(block) for block in other]


def test_parts_take_names_of_layers():
    def forward(x):
        for block in STACK.blocks[1:]:
            x = block(x)
        return STACK.body[2:](x)

    taken = []
    for function in (forward, translate(forward)):
        with unique_name.guard():
            function(X)
            function(X)
            taken.append((nn.LayerList().full_name(), nn.Sequential().full_name()))
    assert taken[0] == taken[1] == ("layer_list_2", "sequential_2")
