"""Classes of layers, enumerations, named tuples, and what nobody looks at. See `changes.py`."""

# ruff: noqa: B008, B018, E721, UP042

import collections
import collections.abc
import enum
import types
import typing

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from changes import X, cases, ns, run_case
from paddle import nn

CASES, case = cases()
FACTOR = [1]


@case
def class_of_a_layer_inside_of_a_layer_of_paddle():
    class Double(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    net = nn.TransformerEncoderLayer(3, 1, 4, dropout=0.0)
    net.eval()
    yield lambda x: net(x.unsqueeze(0))
    net.linear1.__class__ = Double
    yield
    net.linear1.__class__ = nn.Linear
    yield


@case
def class_of_a_part_of_an_argument():
    class A:
        def m(self):
            return 2

    class B:
        def m(self):
            return 5

    box = ns(part=A(), name="a")

    def f(x, box=box):
        return x * box.part.m(), box.name

    yield f
    box.part.__class__ = B
    yield
    box.part.__class__ = A
    yield


@case
def class_of_self_in_a_method():
    class A:
        def m(self):
            return 2

    class B:
        def m(self):
            return 5

    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.part = A()
            self.inner = nn.Linear(3, 3)

        def forward(self, x):
            return self.inner(x) * self.part.m()

    net = Net()
    yield lambda x, net=net: net(x)
    net.part.__class__ = B
    yield


@case
def value_that_nobody_looks_at():
    class A:
        k = 2

    a = A()
    a.j = 1
    a.t = X

    def f(x):
        try:
            a.j
            a.t
            a.k
            flag = 1
        except AttributeError:
            flag = 5
        return x * flag

    yield f
    del a.j
    yield
    a.j = 2
    yield
    del a.t
    yield
    a.t = None
    yield
    del A.k
    yield


@case
def global_that_nobody_looks_at():
    names = {"__builtins__": __builtins__, "scale": 1}
    exec("def f(x):\n    try:\n        scale\n    except NameError:\n        return x - 1\n    return x * 2", names)
    yield names["f"]
    del names["scale"]
    yield
    names["scale"] = X
    yield


@case
def module_attribute_that_nobody_looks_at():
    module = types.ModuleType("absent_module")
    module.k = X
    yield lambda x: x * 2 if hasattr(module, "k") else x * 3
    del module.k
    yield
    module.k = 3
    yield
    module.k = 4
    yield


@case
def present_attribute_that_goes():
    thing = ns(a=X, b=3, c=[1], d=ns())
    yield lambda x: (x * 2, [hasattr(thing, n) for n in "abcde"])
    for name in "abcd":
        delattr(thing, name)
        yield


@case
def contiguous_copy_of_a_tensor():
    yield lambda x: (x.contiguous() is x, x.contiguous() * 2)
    yield (paddle.ones([3, 2]).T,)
    yield (paddle.ones([3, 2]).T.contiguous(),)


@case
def hasattr_of_parameter_class():
    p = paddle.create_parameter([3], "float32")
    yield lambda x, t=p: (x * 2, hasattr(t, "trainable"), hasattr(t, "absent"))
    yield (X, X + 1)


@case
def method_of_tensor_is_patched_away():
    yield lambda x: (x * 2, hasattr(x, "tanh"))
    original = paddle.Tensor.tanh
    del paddle.Tensor.tanh
    try:
        yield
    finally:
        paddle.Tensor.tanh = original
    yield


@case
def dunder_that_is_none():
    class A:
        __len__ = None
        __eq__ = None
        __iter__ = None
        __contains__ = None
        __hash__ = None

        def __getitem__(self, k):
            return [1, 2][k]

    a = A()

    def attempt(what):
        try:
            return what()
        except TypeError:
            return "TypeError"

    yield lambda x: (x * 2, attempt(lambda: len(a)), attempt(lambda: 1 if a else 2))
    A.__bool__ = lambda self: True
    yield
    yield
    A.__len__ = lambda self: 3
    yield


@case
def operators_of_an_enumeration():
    class Mode(enum.Enum):
        A = 1
        B = 2

        def __lt__(self, other):
            return self.value < other.value * FACTOR[0]

        def __add__(self, other):
            return self.value + other.value + FACTOR[0]

    class Flag(enum.IntFlag):
        A = 1
        B = 2

    yield lambda x: (x * 2, Mode.A < Mode.B, Mode.A + Mode.B, Flag.A | Flag.B, bool(Flag.A & Flag.B), Flag.B in Flag.A)
    FACTOR[0] = -1
    yield
    FACTOR[0] = 1
    yield


@case
def attributes_of_enumerations():
    class Mode(enum.Enum):
        A = (1, "one")
        B = (2, "two")

        def __init__(self, number, text):
            self.number, self.text = number, text

        @property
        def double(self):
            return self.number * FACTOR[0]

        def times(self, x):
            return x * self.number

        @classmethod
        def first(cls):
            return cls.A

        @staticmethod
        def fixed():
            return 4

        def __str__(self):
            return self.text

    class Kind(str, enum.Enum):
        RELU = "relu"
        TANH = "tanh"

        @property
        def title(self):
            return self.value + "!"

    class Level(enum.IntEnum):
        LOW = 1

        def next(self):
            return Level.LOW + 1

    def f(x, mode=Mode.A, kind=Kind.RELU):
        return (
            mode.times(x), mode.number, mode.double, mode.name, mode.value, mode.first() is mode, mode.fixed(),
            hasattr(mode, "absent"), getattr(mode, "absent", 3), kind.value, kind.title, kind == "relu", kind.upper(),
            Level.LOW.next(), Level.LOW.real, Level.LOW.value, Level.LOW.bit_length(), mode.__class__ is Mode,
            kind in ("relu", "x"), {"relu": 1}.get(kind.value), isinstance(kind, str), mode in Mode, len(Mode),
            [m.name for m in Mode], Mode["B"] is mode, mode.text,
        )  # fmt: skip

    yield f
    yield (X, Mode.B, Kind.TANH)
    FACTOR[0] = 3
    yield (X, Mode.B, Kind.TANH)
    FACTOR[0] = 1
    yield (X, Mode.A, Kind.RELU)
    Mode.A.number = 9
    yield (X, Mode.A, Kind.RELU)
    Mode.absent = 1
    yield (X, Mode.A, Kind.RELU)
    Mode.times = lambda self, x: x - 1
    yield (X, Mode.A, Kind.RELU)


@case
def union_that_is_made_anew():
    yield lambda x, kinds=int | str: (x * 2, isinstance(1, kinds))
    for _ in range(3):
        yield (X, str | bytes)


@case
def order_of_bases():
    class A:
        def k(self):
            return 1

    class B:
        def k(self):
            return 2

    class C(A, B):
        def k(self):
            return super().k() + 1

    c = C()
    yield lambda x: x * c.k()
    C.__bases__ = (B, A)
    yield
    C.__bases__ = (A, B)
    yield


@case
def scalar_of_numpy_that_is_nan():
    items = [np.float64("nan")]
    yield lambda x: (x * 2, items[0] in items, items.count(items[0]), items == [items[0]])


@case
def registered_with_a_collection_by_another():
    class Unrelated:
        pass

    yield lambda x, k=3: (x * 2, isinstance(k, collections.abc.Iterable), isinstance([], collections.abc.Sequence))
    collections.abc.Sequence.register(Unrelated)
    yield
    collections.abc.Sequence.register(type("Another", (), {}))
    yield


@case
def attribute_written_by_the_frame_is_asked_for():
    class A:
        pass

    a = A()

    def f(x):
        had = hasattr(a, "k")
        a.k = 3
        has = hasattr(a, "k")
        del a.k
        return x * 2, had, has, hasattr(a, "k")

    yield f
    A.k = 1
    yield


@case
def property_added_over_a_slot():
    class A:
        __slots__ = ("k",)

    class B(A):
        pass

    b = B()
    b.k = 2
    yield lambda x: x * b.k
    B.k = property(lambda self: 6)
    yield


@case
def named_tuple_given_as_argument():
    P = collections.namedtuple("P", "a b")
    p = P(1, 2)
    yield lambda x, p=p: (x * p.a, p == (1, 2), len(p), p[1], tuple(p), p._fields, isinstance(p, tuple))
    yield (X, P(1, 3))
    P.a = property(lambda self: 7)
    yield (X, p)
    P.__len__ = lambda self: 9
    yield (X, p)


@case
def typed_named_tuple_with_method():
    class P(typing.NamedTuple):
        a: int
        b: int = 3

        def total(self):
            return self.a + self.b

    yield lambda x: (x * P(1).total(), P(2, 4).b, P(a=1).b)
    P.total = lambda self: 100
    yield
    P.__new__.__defaults__ = (30,)
    yield
    P.__new__.__defaults__ = ("a",)
    yield


def _operator_of_a_member(name, body):
    """An operation of a member of an enumeration that its class gets later."""

    def steps():
        class Level(enum.IntEnum):
            A = 3

        space = {"A": Level.A}
        exec(f"def function(x):\n    return x * 2, {body}\n", space)
        yield space["function"]
        setattr(Level, name, lambda self, other: "changed")
        yield
        delattr(Level, name)
        yield

    steps.__name__ = f"operator_{name}_of_a_member"
    return case(steps)


for _name, _body in {
    "__ge__": "5 <= A",
    "__le__": "5 >= A",
    "__gt__": "5 < A",
    "__lt__": "5 > A",
    "__ne__": "5 != A",
    "__rdivmod__": "divmod(7, A)",
    "__divmod__": "divmod(A, 2)",
    "__rpow__": "pow(2, A)",
    "__pow__": "pow(A, 2)",
    "__rsub__": "7 - A",
}.items():
    _operator_of_a_member(_name, _body)


@case
def how_values_of_members_are_shown():
    class E(enum.Enum):
        A = 10

    yield lambda x: (repr(E.A), x * 2)
    E._value_repr_ = hex
    yield
    E._value_repr_ = lambda value: f"<{value}>"
    yield
    del E._value_repr_
    yield


@pytest.mark.parametrize("steps", CASES)
def test_change(steps):
    run_case(steps)


def test_a_member_that_is_its_own_value():
    """It has no text: the interpreter finds out."""
    E = enum.Enum("E", "A")
    E.A._value_ = E.A
    translated = sot.to_static(lambda x: (repr(E.A), x))
    with pytest.raises(RecursionError):
        translated(X)
