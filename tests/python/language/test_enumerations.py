"""What classes of enumerations do through their metaclass, and what members and flags do, in the graph and guarded."""

import enum
import sys
import types

import paddle
import paddle_sot_rs as sot
import pytest


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    ALIAS = 1

    def shout(self):
        return self.name + "!"

    @property
    def low(self):
        return self.name.lower()

    @classmethod
    def first(cls):
        return cls.RED


class Mode(enum.Flag):
    A = 1
    B = 2
    C = 4


class Level(enum.IntEnum):
    ZERO = 0
    TWO = 2


class Name(enum.StrEnum):
    U = "u"
    EMPTY = ""


class Said(enum.Enum):
    YES = 1
    NO = 0

    def __bool__(self):
        return self.value == 1


class Table(type):
    def __len__(cls):
        return len(cls.items)

    def __iter__(cls):
        return iter(cls.items)

    def __contains__(cls, item):
        return item in cls.items or item == "any"

    def __getitem__(cls, key):
        return cls.items[key] * 2

    def __reversed__(cls):
        return iter([*cls.items][::-1])

    @property
    def first(cls):
        return cls.items[0]


class Numbers(metaclass=Table):
    items = [3, 4, 5]


def seen(value):
    if isinstance(value, (list, tuple)):
        return type(value), [seen(item) for item in value]
    if isinstance(value, (dict, types.MappingProxyType)):
        return type(value), [(seen(key), seen(item)) for key, item in value.items()]
    return value if isinstance(value, enum.Enum) else (type(value), value)


def outcome(function, *args):
    try:
        y, result = function(paddle.ones([2]), *args)
    except Exception as error:
        return type(error), str(error)
    return y.tolist(), seen(result)


def agree(body, *calls, breaks=0, translations=None):
    lines = [
        "def f(x, a=None):",
        "    y = x + 1",
        *(f"    {line}" for line in body.splitlines()),
        "    return x * y, r",
    ]
    names = {}
    exec("\n".join(lines), globals(), names)
    static = sot.to_static(names["f"], min_graph_size=0)
    for args in calls or [(), ()]:
        assert outcome(names["f"], *args) == outcome(static, *args)
    record = sot.stats(static)
    assert len(record.graph_breaks) == breaks and not record.fallbacks, record.graph_breaks
    assert translations is None or record.translations == translations
    return record


BODIES = [
    "r = [m.name for m in Color], list(Color), tuple(Mode), [*Level], dict(enumerate(Name))",
    "r = len(Color), len(Mode), [m.value for m in reversed(Color)], list(zip(Color, Mode))",
    "r = Color.RED in Color, Color.ALIAS in Color, Color.RED in Level",
    "r = Color['RED'], Color['ALIAS'] is Color.RED, Level['TWO'] + 1, Mode['A'] | Mode.B",
    "r = Color.__members__['RED'].value, list(Color.__members__), 'NO' in Color.__members__, len(Color.__members__)",
    "r = [(k, v.value) for k, v in Color.__members__.items()], Color.__members__.get('NO')",
    "r = Color.__members__",
    "r = max(Level), min(Level), sorted(Level, reverse=True), sum(Level), {m: m.value for m in Color}",
    "r = Color(1), Color(2).name, Color.RED is Color.ALIAS, Color.RED == Color.GREEN, Color.RED != 1",
    "r = Color.RED.shout(), Color.GREEN.low, Color.first(), isinstance(Color.RED, Color), type(Color.RED) is Color",
    "r = (Mode.A | Mode.B).value, Mode.A in (Mode.A | Mode.C), Mode.A & Mode.B, ~Mode.A, Mode.A ^ Mode.B",
    "r = bool(Mode.A & Mode.B), bool(Mode.A), bool(Level.ZERO), bool(Level.TWO), bool(Name.EMPTY), not Color.RED",
    "r = Name.U.upper(), Name.U + 'x', Name.U.startswith('u'), Name.U == 'u', Level.TWO.bit_length()",
    "r = 0\nfor m in Color:\n    y = y * m.value\n    r += m.value",
    "r = 3 if Mode.A & (Mode.A | Mode.B) else 4",
    "r = len(Numbers), list(Numbers), 4 in Numbers, 'any' in Numbers, Numbers[1]",
    "r = list(reversed(Numbers)), Numbers.first, [*Numbers], [0, *Numbers]",
    "p = types.MappingProxyType({'a': 1})\nr = p, p['a'], 'a' in p, len(p), list(p.items())",
    "d = {'a': 1}\np = types.MappingProxyType(d)\nd['b'] = 2\nr = p, d, p['b'], len(p)",
]


@pytest.mark.parametrize("body", BODIES)
def test_is_captured(body):
    record = agree(body, translations=1)
    assert record.graphs == 1


def test_members_that_are_given():
    agree("r = a.shout(), a.low, a.value, a is Color.RED, a in Color", *[(m,) for m in Color] * 2, translations=2)
    agree("r = Color[a], a in Color.__members__", ("RED",), ("GREEN",), ("RED",), translations=2)
    agree("r = (a | Mode.A), Mode.B in a, bool(a & Mode.C)", (Mode.B,), (Mode.C,), (Mode.B,), translations=2)


def test_what_raises():
    agree("r = Color['NO']", breaks=1)
    agree("r = Color(9)", breaks=1)
    agree("try:\n    r = Color['NO']\nexcept KeyError as e:\n    r = str(e)")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="raises there")
def test_values_that_members_have():
    agree("r = 1 in Color, 9 in Color, 'u' in Name, 2 in Level, None in Color")


def test_code_of_the_users_decides():
    agree("r = 1 if Said.YES else 2")
    agree("r = 1 if Said.NO else 2")


def test_a_metaclass_that_changes():
    body = "r = len(Numbers), 'any' in Numbers, Numbers.first"
    lines = f"def f(x):\n    {body}\n    return x + len(Numbers), r"
    names = {}
    exec(lines, globals(), names)
    static = sot.to_static(names["f"], min_graph_size=0)
    before = Table.__len__, Numbers.items, Table.first
    try:
        for change in (
            lambda: None,
            lambda: setattr(Table, "__len__", lambda cls: 7),
            lambda: setattr(Numbers, "items", [9]),
            lambda: Numbers.items.append(1),
            lambda: setattr(Table, "first", property(lambda cls: "other")),
        ):
            change()
            assert outcome(names["f"]) == outcome(static)
    finally:
        Table.__len__, Numbers.items, Table.first = before
    assert not sot.stats(static).graph_breaks


def test_an_enumeration_that_grows():
    class Open(enum.Enum):
        A = 1

    def count(x):
        return x + len(Open), [m.value for m in Open]

    static = sot.to_static(count, min_graph_size=0)
    assert outcome(count) == outcome(static)
    member = object.__new__(Open)
    member._name_, member._value_ = "B", 5
    Open._member_names_.append("B")
    Open._member_map_["B"] = member
    assert outcome(count) == outcome(static)
    assert sot.stats(static).translations == 2


def test_a_loop_that_breaks():
    agree("r = []\nfor m in Color:\n    print(end='')\n    r.append(m.name)\n    y = y * m.value", breaks=2)


class Backwards(enum.EnumMeta):
    def __iter__(cls):
        return reversed([*super().__iter__()])


class Own(enum.Enum, metaclass=Backwards):
    A = 1
    B = 2


class Empty(enum.Enum):
    pass


def test_loops_that_break_go_over_what_plain_python_goes_over():
    def loops(x, stop):
        seen = []
        for members in (Color, Mode, Own, Empty):
            for member in members:
                x = x + 1
                seen.append((member, float(x.sum())))
                if member is stop:
                    break
            else:
                seen.append("else")
        return x, seen

    static = sot.to_static(loops, min_graph_size=0)
    for stop in (None, Color.RED, Own.B, Mode.A, None):
        x = paddle.ones([2])
        (plain, told), (found, seen) = loops(x, stop), static(x, stop)
        assert (found.tolist(), seen) == (plain.tolist(), told)


def test_a_metaclass_that_goes_over_something_else(monkeypatch):
    def loop(x):
        for member in Color:
            x = x * member.value
            float(x.sum())
        return x

    static = sot.to_static(loop, min_graph_size=0)
    x = paddle.full([2], 3.0)
    assert static(x).tolist() == loop(x).tolist()
    with monkeypatch.context() as patch:
        patch.setattr(enum.EnumMeta, "__iter__", lambda cls: iter([cls.GREEN, cls.GREEN]))
        assert static(x).tolist() == loop(x).tolist() == [12.0, 12.0]
    assert static(x).tolist() == loop(x).tolist()
