"""Members of enumerations whose values are numbers, texts or containers too, and instances of subclasses of those."""

import datetime
import decimal
import enum

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest


class Number(float, enum.Enum):
    HALF = 0.5
    TWO = 2.0


class Pair(tuple, enum.Enum):
    FIRST = ((1, 2),)


class Items(list, enum.Enum):
    FIRST = [1, 2]


class Names(dict, enum.Enum):
    FIRST = {"a": 1}


class Raw(bytes, enum.Enum):
    FIRST = b"ab"


class Wave(complex, enum.Enum):
    FIRST = 1 + 2j


class Day(datetime.date, enum.Enum):
    FIRST = (2020, 1, 1)


class Amount(decimal.Decimal, enum.Enum):
    FIRST = "1.5"


class Level(enum.IntEnum):
    TWO = 2


class Name(enum.StrEnum):
    A = "a"


class Mode(enum.Flag):
    ON = 1


class OwnComplex(complex):
    pass


class OwnFloat(float):
    pass


MEMBERS = {
    "half": Number.HALF,
    "two": Number.TWO,
    "pair": Pair.FIRST,
    "items": Items.FIRST,
    "names": Names.FIRST,
    "raw": Raw.FIRST,
    "wave": Wave.FIRST,
    "day": Day.FIRST,
    "amount": Amount.FIRST,
    "level": Level.TWO,
    "name": Name.A,
    "mode": Mode.ON,
    "own_complex": OwnComplex(3 + 4j),
    "own_float": OwnFloat(2.5),
    "numpy": np.float32(2.5),
}

PATTERNS = """
match m:
    case 2: r = 1
    case 0.5: r = 2
    case "a": r = 3
    case (1, 2): r = 4
    case {"a": v}: r = 5, v
    case b"ab": r = 6
    case [*parts]: r = 7, parts
    case _: r = 0
"""
CHANGED = """
before = list(m)
r = m
r += r
r = before, list(m)
"""
ITEMS = """
table = {1: 1}
table[m] = 5
table.setdefault(m, 6)
r = table, list(table)
"""
BODIES = [
    "r = m in {2, 0.5, 'a', (1, 2), b'ab', 1 + 2j}",
    "r = {2: 1, 0.5: 2, 'a': 3, (1, 2): 4, b'ab': 5}.get(m)",
    "r = 2 in {m}, 0.5 in {m}, 'a' in {m}, (1, 2) in {m}, b'ab' in {m}",
    "r = {m: 1}.get(2), {m: 1}.get((1, 2)), {m: 1}[m]",
    "r = len({m, 2, (1, 2), 'a', b'ab', 0.5})",
    "r = m == 2, m == 0.5, m == 'a', m == b'ab', m == 1 + 2j",
    "r = m == (1, 2), (1, 2) == m, m != (1, 2), m == [1, 2], [1, 2] == m, m == {'a': 1}, {'a': 1} != m",
    "r = m in (2, 0.5, 'a', (1, 2), [1, 2], {'a': 1})",
    "r = [(1, 2), [1, 2], {'a': 1}, 2, 0.5, 'a'].index(m)",
    "r = [m].count(2), [m].count((1, 2))",
    "r = m.real, m.imag",
    "r = m.name, m.value",
    "r = len(m), list(m), m[0]",
    "r = m + 1",
    "r = m * 2, m * x",
    "r = x + m",
    "r = x**m",
    "r = m < 3, max(m, 1)",
    "r = f'{m}', str(m), repr(m)",
    "r = bool(m), not m",
    "r = type(m), isinstance(m, (int, float, tuple, list))",
    "a, b = m\nr = a, b",
    PATTERNS,
    CHANGED,
    ITEMS,
]


def made(body, name):
    lines = "\n    ".join(body.strip().split("\n"))
    namespace = {"m": MEMBERS[name]}
    exec(f"def function(x):\n    {lines}\n    return r, x * 2\n", namespace)
    return namespace["function"]


def answer(function):
    Items.FIRST[:] = [1, 2]
    x = paddle.linspace(0.1, 9.0, 64)
    try:
        result, doubled = function(x)
    except Exception as error:
        return type(error), str(error)
    return shown(result), doubled.tolist()


def shown(value):
    if isinstance(value, paddle.Tensor):
        return str(value.dtype), value.numpy().tobytes()
    if isinstance(value, dict) and type(value) is dict:
        return [(shown(key), shown(item)) for key, item in value.items()]
    if isinstance(value, (tuple, list)):
        return type(value), [shown(item) for item in value]
    return type(value), repr(value)


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("body", BODIES)
def test_members_are_what_they_are_in_plain_python(body, name):
    function = made(body, name)
    expected = answer(function)
    static = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        assert answer(static) == expected
