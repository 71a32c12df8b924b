"""What every generated program may use: classes, functions and state of its module."""

PRELUDE = '''\
import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import typing
import numpy as np
import paddle
import paddle.nn.functional as F

COUNT = 0
LOG = []
MARK = object()
KEEP = [MARK, LOG]
TABLE = {"a": 1, "b": 2}
paddle.seed(5)
WEIGHT = paddle.arange(9, dtype="float32").reshape([3, 3]) * 0.1 - 0.3
WEIGHT.stop_gradient = False


class Kindly(abc.ABC):
    pass


class Box:
    kind = 3

    def __init__(self, value, number=0):
        self.value = value
        self.number = number
        self.items = []

    @property
    def double(self):
        return self.number * 2

    @double.setter
    def double(self, value):
        self.number = value // 2

    @property
    def counted(self):
        self.number += 1
        return self.number

    @staticmethod
    def shifted(value, by=1):
        return value + by

    @classmethod
    def make(cls, value):
        return cls(value, cls.kind)

    def push(self, item):
        self.items.append(item)
        return self

    def __len__(self):
        return len(self.items)

    def __call__(self, value):
        self.number += 1
        return value * self.value

    def __add__(self, other):
        return Box(self.value + (other.value if isinstance(other, Box) else other), self.number)

    def __iadd__(self, other):
        self.number += 1
        self.value = self.value + other
        return self

    def __getitem__(self, key):
        return self.items[key]

    def __contains__(self, item):
        return item in self.items

    def __iter__(self):
        yield self.number
        yield from self.items


class Small(Box):
    kind = 5

    def __init__(self, value, number=1):
        super().__init__(value, number)
        self.small = True

    def push(self, item):
        return super().push(item * 2)


class Vec:
    """Every operator goes through a method written in Python."""

    def __init__(self, value, tag=0):
        self.value = value
        self.tag = tag

    def __setattr__(self, name, value):
        if name == "extra":
            LOG.append("extra")
        object.__setattr__(self, name, value)

    def __getattr__(self, name):
        if name.startswith("auto"):
            return len(name)
        raise AttributeError(f"no {name}")

    def __delattr__(self, name):
        LOG.append(f"del {name}")
        object.__delattr__(self, name)

    def __add__(self, other):
        if isinstance(other, (list, str)):
            return NotImplemented
        return Vec(self.value + getattr(other, "value", other), self.tag + 1)

    def __radd__(self, other):
        return Vec(other + self.value, self.tag - 1)

    def __mul__(self, other):
        return Vec(self.value * getattr(other, "value", other), self.tag)

    __rmul__ = __mul__

    def __neg__(self):
        return Vec(-self.value, -self.tag)

    def __eq__(self, other):
        return isinstance(other, Vec) and self.tag == other.tag

    def __lt__(self, other):
        return self.tag < other.tag

    def __hash__(self):
        return hash(self.tag)

    def __bool__(self):
        return self.tag != 2

    def __int__(self):
        return self.tag

    __index__ = __int__

    def __float__(self):
        return self.tag / 2

    def __len__(self):
        return 3

    def __getitem__(self, key):
        return self.value[key]

    def __setitem__(self, key, value):
        LOG.append(key)
        self.tag = value

    def __delitem__(self, key):
        LOG.append(("del", key))

    def __contains__(self, item):
        return item == self.tag

    def __format__(self, spec):
        return f"Vec{spec}{self.tag}"

    def __repr__(self):
        return f"Vec({self.tag})"

    def __enter__(self):
        self.tag += 1
        return self

    def __exit__(self, *error):
        self.tag -= 1
        return error[0] is KeyError


class Steps:
    """An iterator written as a class."""

    def __init__(self, limit):
        self.at, self.limit = 0, limit

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= self.limit:
            raise StopIteration
        self.at += 1
        return self.at


class Sorted(list):
    def append(self, item):
        super().append(item)
        self.sort()


class Default(dict):
    def __missing__(self, key):
        self[key] = len(self)
        return self[key]


class Slotted:
    __slots__ = ("number", "value")

    def __init__(self, value, number):
        self.value = value
        self.number = number


class Checked:
    """A descriptor that counts."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        bump()
        return getattr(instance, self.name)

    def __set__(self, instance, value):
        if isinstance(value, int) and value > 9:
            raise ValueError(f"{value} is too large")
        setattr(instance, self.name, value)


class Holder:
    size = Checked()

    def __init__(self, size):
        self.size = size

    @functools.cached_property
    def twice(self):
        LOG.append("twice")
        return self.size * 2


@dataclasses.dataclass
class Point:
    x: typing.Any
    n: int = 0
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.tags.append(self.n)

    def moved(self, by):
        return dataclasses.replace(self, x=self.x + by, tags=list(self.tags))


@dataclasses.dataclass(frozen=True, order=True)
class Pair:
    a: int
    b: int = 2


@dataclasses.dataclass(slots=True)
class Thin:
    x: typing.Any
    n: int = 1


class Mode(enum.Enum):
    ADD = 1
    MUL = 2

    def apply(self, value):
        return value + 1 if self is Mode.ADD else value * 2


class Row(typing.NamedTuple):
    left: typing.Any
    right: int = 3


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(3, 3)
        self.norm = paddle.nn.LayerNorm(3)
        self.parts = paddle.nn.LayerList([paddle.nn.Tanh(), paddle.nn.Linear(3, 3)])
        self.row = paddle.nn.Sequential(("first", paddle.nn.Linear(3, 3)), ("soft", paddle.nn.Softsign()))
        self.register_buffer("seen", paddle.zeros([1]))
        self.calls = 0

    def forward(self, value, scale=1.0):
        self.calls += 1
        self.seen = self.seen + 1
        for part in self.parts:
            value = part(value)
        return self.norm(self.linear(value)) * scale


class Guarded:
    def __init__(self, log, swallow=False):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append("enter")
        return self.log

    def __exit__(self, kind, error, trace):
        self.log.append(kind.__name__ if kind else "exit")
        return self.swallow and kind is ValueError


@contextlib.contextmanager
def managed(log, value):
    log.append("start")
    try:
        yield value
    finally:
        log.append("stop")


@contextlib.contextmanager
def catching(log, *kinds):
    try:
        yield log
    except kinds as error:
        log.append(repr(error))


def numbers(limit):
    for at in range(limit):
        yield at * 2


def tensors(first, limit):
    for at in range(limit):
        first = first * 0.5 + at
        yield first


def echo(value):
    got = 0
    try:
        while True:
            sent = yield value * got
            got = got + 1 if sent is None else sent
    finally:
        LOG.append("closed")


def chained(*parts):
    total = 0
    for part in parts:
        total += yield from counted(part)
    return total


def counted(part):
    number = 0
    for item in part:
        number += 1
        yield item
    return number


def counter(start):
    number = start

    def up(by=1):
        nonlocal number
        number += by
        return number

    def get():
        return number

    return up, get


def bump(by=1):
    global COUNT
    COUNT += by
    return COUNT


def spread(first, *rest, scale=1.0, **named):
    for item in rest:
        first = first + item
    for name in named:
        first = first + named[name]
    return first * scale


def strict(first, /, second=2, *, third=3):
    return first * second + third


def halves(value, depth):
    return value if depth <= 0 else halves(value / 2, depth - 1) + depth


def loud(value):
    print("loud", value)
    return value * 2


def risky(number):
    if number % 3 == 0:
        raise ValueError(f"risky {number}")
    return number + 1


def fails_late(value, log):
    log.append("before")
    value = value * 2
    if len(log) % 2:
        raise RuntimeError(f"late {len(log)}")
    return value


def memo(value, cache=[]):
    cache.append(1)
    return value * len(cache)


@functools.lru_cache(maxsize=4)
def cached(number):
    LOG.append(number)
    return number * 2


@functools.singledispatch
def kind_of(value):
    return 0


@kind_of.register
def _(value: int):
    return 1


@kind_of.register(list)
def _(value):
    return 2 + len(value)


def doubled(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return inner


@doubled
def soft(value, shift=0.5):
    return F.softmax(value + shift, axis=-1)


class Noted:
    """Every special method notes that it was called, and most note with what."""

    def __init__(self, number=2, fails=None):
        self.number = number
        self.fails = fails

    def note(self, *what):
        LOG.append((what[0], self.number, *(part for part in what[1:] if isinstance(part, (int, str, tuple)))))
        if self.fails == what[0]:
            raise LookupError(what[0])
        return self.number

    def __eq__(self, other):
        return self.note("eq", other) == getattr(other, "number", other)

    def __lt__(self, other):
        return self.note("lt", other) < getattr(other, "number", other)

    def __ge__(self, other):
        return self.note("ge", other) >= getattr(other, "number", other)

    def __hash__(self):
        return hash(self.note("hash"))

    def __bool__(self):
        return self.note("bool") % 2 == 0

    def __len__(self):
        return abs(self.note("len")) % 4

    def __iter__(self):
        self.note("iter")
        for at in range(self.number % 4):
            LOG.append(("item", at))
            yield at
        self.note("end")

    def __reversed__(self):
        self.note("reversed")
        return Ticks(self.number % 3)

    def __contains__(self, item):
        return self.note("contains", item) == item

    def __getitem__(self, key):
        return self.note("get", str(key))

    def __setitem__(self, key, value):
        self.number = self.note("set", str(key)) + 1

    def __delitem__(self, key):
        self.note("del", str(key))

    def __call__(self, *args, **kwargs):
        return self.note("call", len(args), *kwargs) + len(args)

    def __add__(self, other):
        self.note("add", other)
        return NotImplemented if isinstance(other, (str, list)) else self.number + other

    def __radd__(self, other):
        return other + self.note("radd", other)

    def __iadd__(self, other):
        self.number = (self.note("iadd", other) + other) % 9 if isinstance(other, int) else self.number
        return self

    def __mul__(self, other):
        return self.note("mul", other) * other

    __rmul__ = __mul__

    def __matmul__(self, other):
        return other * self.note("matmul")

    def __divmod__(self, other):
        return divmod(self.note("divmod", other), other)

    def __neg__(self):
        return -self.note("neg")

    def __abs__(self):
        return abs(self.note("abs"))

    def __round__(self, digits=None):
        return round(self.note("round", digits), digits)

    def __index__(self):
        return self.note("index") % 3

    def __int__(self):
        return self.note("int")

    def __float__(self):
        return self.note("float") / 2

    def __str__(self):
        return f"str{self.note('str')}"

    def __repr__(self):
        return f"repr{self.note('repr')}"

    def __format__(self, spec):
        return f"{spec}{self.note('format', spec)}"

    def __getattr__(self, name):
        if name.startswith("__") or name in ("number", "fails"):
            raise AttributeError(name)
        return self.note("getattr", name)

    def __enter__(self):
        return self.note("enter")

    def __exit__(self, kind, *error):
        self.note("exit", kind.__name__ if kind else "")
        return kind is ZeroDivisionError


class Ticks:
    """An iterator that notes what is taken, with a hint about its length."""

    def __init__(self, limit=2):
        self.at, self.limit = 0, limit

    def __iter__(self):
        LOG.append(("iter of ticks", self.at))
        return self

    def __next__(self):
        LOG.append(("tick", self.at))
        if self.at >= self.limit:
            raise StopIteration(self.at)
        self.at += 1
        return self.at

    def __length_hint__(self):
        LOG.append("hint")
        return 1


class Keys:
    """A mapping for those who ask for `keys`."""

    def __init__(self, number=2):
        self.number = number

    def keys(self):
        LOG.append("keys")
        return noting(["a", "b", "c"][: self.number % 4])

    def __getitem__(self, key):
        LOG.append(("key", key))
        return self.number + ord(key) % 3


class OddList(list):
    def __iter__(self):
        LOG.append(("iter of list", len(self)))
        return noting(list.__getitem__(self, slice(None)))

    def __len__(self):
        LOG.append("len of list")
        return super().__len__()

    def __getitem__(self, key):
        LOG.append(("item of list", str(key)))
        return super().__getitem__(key)

    def __contains__(self, item):
        LOG.append("contains of list")
        return super().__contains__(item)


class OddDict(dict):
    def __getitem__(self, key):
        LOG.append(("item of dict", key))
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        LOG.append(("set of dict", key))
        super().__setitem__(key, value)

    def __iter__(self):
        LOG.append("iter of dict")
        return super().__iter__()

    def keys(self):
        LOG.append("keys of dict")
        return super().keys()

    def get(self, key, default=None):
        LOG.append(("get of dict", key))
        return super().get(key, default)

    def __missing__(self, key):
        LOG.append(("missing", key))
        return 7


class OddInt(int):
    def __add__(self, other):
        LOG.append("add of int")
        return OddInt(super().__add__(int(other)))

    def __radd__(self, other):
        LOG.append("radd of int")
        return other + int(self)

    def __eq__(self, other):
        LOG.append("eq of int")
        return super().__eq__(other)

    def __lt__(self, other):
        LOG.append("lt of int")
        return super().__lt__(other)

    def __hash__(self):
        LOG.append("hash of int")
        return super().__hash__()

    def __bool__(self):
        LOG.append("bool of int")
        return super().__bool__()

    def __index__(self):
        LOG.append("index of int")
        return super().__index__()


class OddStr(str):
    def __eq__(self, other):
        LOG.append("eq of str")
        return super().__eq__(other)

    def __hash__(self):
        LOG.append("hash of str")
        return super().__hash__()

    def __str__(self):
        LOG.append("str of str")
        return super().__str__() + "!"

    def __format__(self, spec):
        LOG.append(("format of str", spec))
        return super().__format__(spec)

    def __len__(self):
        LOG.append("len of str")
        return super().__len__()


def noting(items):
    for item in items:
        LOG.append(("takes", item if isinstance(item, (int, str)) else len(LOG)))
        yield item
    LOG.append("taken")


def tell(value):
    LOG.append(("tells", getattr(value, "number", value) if isinstance(value, (int, str, Noted)) else len(LOG)))
    return value


def told(first, second=1):
    return bool(tell(first)) + tell(second)


class Stream:
    """An iterator of tensors that notes what is taken."""

    def __init__(self, first, limit=2):
        self.first, self.left = first, limit

    def __iter__(self):
        return self

    def __next__(self):
        LOG.append(("stream", self.left))
        if not self.left:
            raise StopIteration
        self.left -= 1
        self.first = self.first * 0.5
        return self.first
'''
