"""`match` statements with mapping and class patterns."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Sequence

import paddle
import paddle_sot_rs as sot
import pytest
from harness import Programs, check

EVENTS: list = []


def x(value=1.0):
    return paddle.to_tensor([value, value], stop_gradient=False)


class Pair:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a = a
        self.b = b


class Odd(Pair):
    @property
    def c(self):
        raise AttributeError("no c")

    @property
    def d(self):
        EVENTS.append("d")
        return self.a


class Wrong:
    __match_args__ = ["a"]

    a = 1


class Twice(Pair):
    __match_args__ = ("a", "a")


program = Programs()


@program(graphs=1, breaks=0)
def mappings(x):
    out = x
    for subject in (
        {"a": 1},
        {"a": 1, "b": x},
        OrderedDict(b=2),
        defaultdict(int),
        {},
        {"k": {"z": [1, x]}},
        {1: "int", None: "none"},
    ):
        match subject:
            case {"b": v}:
                out = out + v * 1
            case {"k": {"z": [n, t]}}:
                out = out + n * t
            case {"a": int(v), **rest}:
                out = out + v + len(rest)
            case {1.0: v, None: w, **rest}:
                EVENTS.append((v, w, rest))
            case {}:
                out = out + 100
                EVENTS.append(len(subject))
    return out


@program(graphs=1, breaks=0)
def neither_mapping_nor_sequence(x):
    out = x
    for subject in ([1], x, 3, "s", (1, x), None, b"b"):
        match subject:
            case {}:
                out = out + 1000
            case [n]:
                out = out + n
            case (n, t):
                out = out + n * t
            case str() as s:
                out = out + len(s)
            case paddle.Tensor(shape=[n]):
                out = out * n
            case int(n) | bytes(n):
                out = out + (n if n == 3 else 7)
            case None:
                out = out - 1
    return out


class Registered:
    pass


@program(graphs=2, breaks=1)
def an_object_that_may_be_a_collection(x):
    y = x * 2
    match Registered():
        case []:
            y = y + 1
        case Registered():
            y = y + 2
    return y * 3


@program(graphs=1, breaks=0)
def classes(x):
    out = x
    for subject in (Pair(1, x), Odd(2, x), Pair(4, 3), None, True, 1.5, "text"):
        match subject:
            case Odd(c=c):
                out = out + 1000 * c
            case Odd(a, b, d=2):
                out = out + a * b
            case Pair(1, t):
                out = out + t
            case Pair(t, b=3):
                out = out * t
            case bool(q):
                out = out + 5 * q
            case float(q):
                out = out * q
            case None:
                out = out - 1
            case object() as rest:
                EVENTS.append(rest)
    return out


@program(graphs=1, breaks=0)
def attributes_of_arguments(x, pair):
    match pair:
        case Pair(a=int(a), b=[first, *rest]):
            return x * a + first + len(rest)
        case Pair(a, None):
            return x + a
    return x


@program(fallbacks=None)
def patterns_that_raise(x):
    y = x * 2
    for number in range(4):
        try:
            match number, Pair(1, 2), Wrong(), Twice(1, 2):
                case 0, Pair(a, b, c), _, _:
                    y = y + a + b + c
                case 1, _, Wrong(a), _:
                    y = y + a
                case 2, _, _, Twice(a, b):
                    y = y + a + b
                case 3, int(a, b), _, _:
                    y = y + a
        except TypeError as error:
            EVENTS.append(repr(error))
    return y


@program(fallbacks=None)
def a_break_in_a_pattern(x):
    match {"a": x, "n": float(x.sum())}:
        case {"a": t, "n": n, **rest} if n > 0:
            return t * n + len(rest)
        case {"n": n}:
            EVENTS.append(n)
    return x - 1


@pytest.mark.parametrize(("function", "args", "expected"), program)
def test_equals_eager(function, args, expected):
    first, second = (x(),), (x(2.0),)
    if function is attributes_of_arguments:
        first, second = (x(), Pair(2, [x(), 1])), (x(2.0), Pair(2, [x(3.0), 1]))
    check(function, *first, calls=[second, first], watch=lambda: list(EVENTS), reset=EVENTS.clear, **expected)


def test_other_subjects_are_noticed():
    subjects = [Pair(2, [1.0]), Pair(2, None), Pair(2.5, [1]), Odd(3, None), {"a": 2}, None, Pair(2, [1.0, 2])]
    calls = [(x(), subject) for subject in subjects]
    check(attributes_of_arguments, *calls[0], calls=[*calls, *calls], breaks=0)


def test_a_class_is_registered_later():
    class Late:
        def __len__(self):
            return 0

    def function(x, subject):
        match subject:
            case []:
                return x + 1
            case {}:
                return x + 2
        return x

    static = sot.to_static(function, min_graph_size=0)
    for base, expected in ((None, [1.0, 1.0]), (None, [1.0, 1.0]), (Sequence, [2.0, 2.0])):
        if base:
            base.register(Late)
        assert function(x(), Late()).tolist() == static(x(), Late()).tolist() == expected
