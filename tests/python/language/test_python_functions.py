"""Assorted Python that people put in front of the engine, compared with plain Python.

The numbers of graphs and breaks are not fixed here: only that nothing differs.
"""

# ruff: noqa: E731, E741, B018, B020, B023, F841, UP028, UP030, UP031, UP032, B007, E711, E712
import collections
import copy
import enum
import functools
import inspect
import itertools
import operator
import threading
from typing import NamedTuple, TypeVar

import numpy as np
import paddle
import pytest
from support import check

X = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3))


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class C:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a
        self.b = 2


class D:
    def __init__(self):
        self.n = 0
        self.d = {}

    def __getattr__(self, name):
        if name == "magic":
            return 7
        raise AttributeError(name)

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return i * 2

    def __iter__(self):
        return iter([1, 2])

    def __eq__(self, o):
        return True

    def __contains__(self, x):
        return x == 5

    def __enter__(self):
        self.n += 1
        return self

    def __exit__(self, *a):
        self.n += 10
        return False

    @functools.cached_property
    def cp(self):
        return 5


def f1(x, d):
    return x + d.magic + len(d) + d[2] + sum(d) + (5 in d)


def f2(x, d):
    with d as e:
        y = x + e.n
    return y, d.n


def f3(x):
    return {Color.RED: x, Color.BLUE: x + 1}[Color.BLUE], Color.RED.name, Color(1).value


def f4(x):
    c = C(x)
    c.b = c.a + 1
    return c.b


def f5(x):
    return x + list(itertools.chain([1], [2]))[1]


def f6(x, l):
    l.sort()
    l.reverse()
    return x * l[0]


def f7(x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    return d["a"][0] + 1, dict(d)


def f8(x):
    d = collections.OrderedDict(a=1)
    d["b"] = x + 1
    return d


def f9(x, *args, **kw):
    return x + len(args) + len(kw), args, kw


def f10(x):
    def g(n):
        return 1 if n <= 1 else n * g(n - 1)

    return x * g(5)


def f11(x):
    return x.reshape([-1]).unsqueeze(0).astype("int64")


def f12(x, d):
    return x + d.cp


def f13(x):
    return [i for i in zip(*[[1, 2], [3, 4]])], x + 1


def f14(x):
    return functools.reduce(operator.add, [x, x, x])


def f15(x):
    try:
        raise KeyError("k")
    except KeyError as e:
        m = str(e)
    return x, m


def f16(x):
    return x if x.ndim > 1 else None, not x.shape, bool([0])


def f17(x):
    a = b = [x + 1]
    a.append(2)
    return a is b, len(b), b


def f18(x):
    return copy.copy([x]), x * 2


def f19(x):
    i = iter([x, x + 1])
    return next(i) + next(i), next(i, None)


def f20(x):
    s = {1, 2, 3}
    s.discard(2)
    return x + len(s), sorted(s)


def f21(x):
    return x.numpy().sum() + 1


def f22(x):
    return np.sqrt(4.0) * x


def f23(x):
    return x[x > 2]


def f24(x):
    return paddle.nonzero(x)


def f25(x):
    return max(x.shape), min(x.shape[0], 5) * x


def f26(x):
    return "%s %d" % ("a", x.shape[0]), f"{x.shape}"


def f27(x):
    return x.mean().item()


def f28(x):
    y = x.clone()
    y[0, 0] = 5.0
    return y


def f29(x):
    return paddle.to_tensor([1.0, 2.0, 3.0]) + x


def f30(x):
    return x.T, x.transpose([1, 0]), x.dtype


def f31(x):
    y = x.detach()
    y.stop_gradient = False
    return y * 2


def f32(x):
    return type(x).__name__, isinstance(x, (int, paddle.Tensor))


def f33(x):
    for r in x:
        if r.sum() > 4:
            return r
    return x


def f34(x):
    return (x > 0).all() and (x > -5).all()


def f35(x):
    return x if x.sum() > 0 else -x


def f37(x):
    del x
    return 3


def f38(x):
    global X
    return X is x


def f39(x):
    return x.foo


def f40(x):
    return x + "a"


def f41(x):
    return {}["zz"]


def f42(x):
    return [1, 2][5] + x


def f43(x):
    assert x.shape[0] == 5, "bad"
    return x


def f44(x):
    return x.sum(axis=1, keepdim=True) / 2 // 1 % 3**2


def f45(x):
    return -x, abs(x), ~(x > 1), +x if False else x


LOCAL = threading.local()
LOCAL.factor = 3


def f46(x):
    try:
        return x * LOCAL.factor
    except AttributeError:
        return x


def f47(x):
    LOCAL.seen = x
    return LOCAL.seen + 1, vars(LOCAL)["seen"].shape


def f48(x):
    # In dynamic mode the metaclass of this class takes tensors for instances.
    return isinstance(x, paddle.base.framework.Variable), issubclass(type(x), paddle.base.framework.Variable)


class Point(NamedTuple):
    a: object
    b: object = 1

    def total(self):
        return self.a + self.b

    @property
    def twice(self):
        return self.a * 2


def f49(x):
    point = Point(x)
    return point.total(), point.twice, point._replace(b=2), point._asdict(), type(point._asdict()), Point._make([x, x])


def f50(x):
    found = collections.defaultdict(list)
    found["a"].append(x)
    found["b"] += [x * 2]
    again = found.copy()
    again["c"]
    return found, again, found.get("z"), "c" in found, found | {"d": x}, type(found | again), found == again


def f51(x):
    counts = collections.defaultdict(lambda: x, {"k": x * 3}, q=1)
    counts["n"] += 1
    return dict(counts, z=x), [*counts], len(counts)


def f52(x):
    ordered = collections.OrderedDict(a=x, b=x + 1, c=2)
    ordered.move_to_end("a")
    ordered.move_to_end("c", last=False)
    return ordered, [*ordered], ordered.popitem()


def f53(x):
    try:
        collections.OrderedDict(a=x).move_to_end("b")
    except KeyError as error:
        return x, error.args


def f54(x):
    return dict.fromkeys(["a", "b"], x), dict.fromkeys("ab"), dict.fromkeys(range(2), [x])


def f55(x):
    try:
        from paddle import there_is_no_such_name
    except ImportError:
        return x + 1
    return there_is_no_such_name


def f56(x):
    ordered = collections.OrderedDict(a=x)
    return ordered | {"b": x}, type(ordered | {"b": x}), ordered == {"a": 1} if False else len(ordered)


def f57(x):
    try:
        return collections.defaultdict(3)["a"]
    except TypeError as error:
        return x, str(error)


class Summed(NamedTuple):
    a: int
    b: int = 2

    def __add__(self, other):
        return "added"

    def __len__(self):
        return 7


class Node:
    _fields = ("a",)

    def __init__(self, a):
        self.kept = a


def f58(x):
    summed = Summed(1)
    return x, summed + (3,), len(summed), summed.a, Summed(2, b=3)._replace(a=5).a


def f59(x):
    node = Node(a=x)
    return node.kept + 1, isinstance(node, tuple)


def f60(x):
    variable = TypeVar("variable", bound=int)
    return x + 1, variable.__module__, variable.__name__, variable.__bound__


CASES = [function for name, function in sorted(globals().items()) if name[0] == "f" and name[1:].isdigit()]


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_equals_eager(function):
    extra = {"d": lambda: [D()], "l": lambda: [[3, 1, 2]], "args": lambda: [1, 2]}
    args = [X]
    for name in inspect.signature(function).parameters:
        args += extra.get(name, list)()
    check(function, *args, fallbacks=None)
