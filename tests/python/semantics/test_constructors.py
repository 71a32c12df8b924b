"""What a class makes, where it says itself what that is: named tuples of other fields, abstract classes, exceptions."""

import abc
import collections

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check
from paddle import nn

LOG = []


class Made(collections.namedtuple("Made", "a b")):
    __slots__ = ()

    @classmethod
    def _make(cls, items):
        LOG.append("made")
        return super()._make(items)


class Turned(collections.namedtuple("Turned", "a b")):
    __slots__ = ()
    _fields = ("b", "a")


class Usual(collections.namedtuple("Usual", "a b")):
    __slots__ = ()


class Refusing(UnicodeDecodeError):
    pass


class Whole(abc.ABC):  # noqa: B024
    def one(self):
        return 1


class Plain:
    def one(self):
        return 2


def replaced(x):
    return Made(1, 2)._replace(b=x * 2)


def turned(x):
    made = Turned(1, 2)
    return made.a, made._asdict(), made._replace(a=7), Turned(a=3, b=4), x * 2


def usual(x):
    made = Usual(1, 2)._replace(b=3)
    return made, made._asdict(), x * 2


def refused(x):
    answers = []
    for of in (UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError, Refusing, UnicodeError):
        try:
            raise of("text")
        except ValueError:
            answers.append("raised")
        except TypeError:
            answers.append("refused")
    return answers, x * 2


def whole(x):
    return Whole().one(), x * 2


def plain(x):
    return Plain().one(), x * 2


def outcome(function):
    LOG.clear()
    try:
        answer = str(function(paddle.ones([2])))
    except TypeError as error:
        answer = repr(error)
    return answer, list(LOG)


@pytest.mark.parametrize("function", [replaced, turned, usual, refused, whole, plain])
def test_constructors(function):
    translated = sot.to_static(function, min_graph_size=0)
    assert [outcome(translated) for _ in range(3)] == [outcome(function)] * 3


@pytest.mark.parametrize("function", [usual, whole, plain])
def test_graphs(function):
    translated = sot.to_static(function, min_graph_size=0)
    translated(paddle.ones([2]))
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


IMAGE, SIZES = paddle.ones([1, 1, 4, 4]), [2, 2]


def a_list_for_a_layer(x):
    size = [1, 1]
    size[0] = 2
    return nn.Pad2D([1, 1, 1, 1])(x), nn.MaxPool2D(size)(x), nn.AdaptiveAvgPool2D(x.shape[3:] * 2)(x)


def a_list_that_changes_behind_the_constructor(x):
    size = [2, 2]
    layer = nn.MaxPool2D(size)
    size[0] = size[1] = 1
    return layer(x).shape, size


def a_list_that_is_asked_for(x):
    size = [2, 2]
    layer = nn.AvgPool2D(size)
    return layer(x), layer.ksize is size, layer.ksize == size, bool(size)


def a_list_from_outside(x):
    layer = nn.AvgPool2D(SIZES)
    return layer(x), layer.ksize is SIZES


def lists_in_a_tuple(x):
    sizes = ([1, 1], SIZES)
    layer = nn.AvgPool2D(kernel_size=sizes[1], stride=sizes[0])
    return layer(x), layer.ksize is SIZES


@pytest.mark.parametrize(
    ("function", "graphs", "breaks"),
    [
        (a_list_for_a_layer, 1, 0),
        (a_list_that_changes_behind_the_constructor, 1, 1),
        (a_list_that_is_asked_for, 1, 1),
        (a_list_from_outside, 1, 1),
        (lists_in_a_tuple, 1, 1),
    ],
)
def test_lists_that_layers_keep(function, graphs, breaks):
    check(function, IMAGE, graphs=graphs, breaks=breaks)


def other_make(cls, items):
    LOG.append("other")
    return tuple.__new__(cls, items)


CHANGES = [
    (usual, Usual, "_make", classmethod(other_make)),
    (usual, Usual, "_fields", ("c", "d")),
    (whole, Whole, "__abstractmethods__", frozenset({"two"})),
    (plain, Plain, "__abstractmethods__", frozenset({"two"})),
]


@pytest.mark.parametrize(("function", "of", "name", "value"), CHANGES)
def test_classes_that_change(monkeypatch, function, of, name, value):
    translated = sot.to_static(function, min_graph_size=0)
    before = outcome(translated)
    with monkeypatch.context() as patch:
        # What is not there yet has to go again.
        patch.setattr(of, name, value, raising=False)
        expected = outcome(function)
        assert expected != before
        assert [outcome(translated) for _ in range(2)] == [expected] * 2
    assert outcome(translated) == outcome(function) == before
