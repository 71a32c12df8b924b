"""Programs on instances of subclasses of `dict`, `OrderedDict` and `list`, which they make or are given."""

from __future__ import annotations

import random
import textwrap
import types
from typing import Any

import numpy as np
import paddle
from family import Family

PRELUDE = """\
import collections
import copy
import dataclasses
import functools
import itertools
import json
import operator
import typing
import weakref
import paddle


class Config(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Ordered(collections.OrderedDict):
    pass


class Noted(dict):
    def __init__(self, *args, **kwargs):
        self.log = []
        super().__init__(*args, **kwargs)

    def __setitem__(self, key, value):
        self.log.append(key)
        super().__setitem__(key, value)

    def __delitem__(self, key):
        self.log.append(("del", key))
        super().__delitem__(key)

    def __iter__(self):
        self.log.append("iter")
        return super().__iter__()

    def keys(self):
        self.log.append("keys")
        return super().keys()

    def __getitem__(self, key):
        self.log.append(("get", key))
        return super().__getitem__(key)

    def __len__(self):
        return super().__len__() + 100

    def __bool__(self):
        return False

    def __contains__(self, key):
        self.log.append(("in", key))
        return super().__contains__(key)


class NotedInOrder(collections.OrderedDict):
    def __init__(self, *args, **kwargs):
        self.log = []
        super().__init__(*args, **kwargs)

    def __setitem__(self, key, value):
        self.log.append(key)
        super().__setitem__(key, value)

    def __delitem__(self, key):
        self.log.append(("del", key))
        super().__delitem__(key)

    def __iter__(self):
        self.log.append("iter")
        return super().__iter__()

    def __getitem__(self, key):
        self.log.append(("get", key))
        return super().__getitem__(key)

    def __missing__(self, key):
        return ("missing", key)


class Generic(dict, typing.Generic[typing.TypeVar("T")]):
    __slots__ = ("a",)


class Alike(dict):
    __slots__ = ()

    def __eq__(self, other):
        return "alike"

    def __hash__(self):
        return 5


class Output(collections.OrderedDict):
    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __delitem__(self, *args, **kwargs):
        raise Exception(f"no __delitem__ on a {self.__class__.__name__}")

    def __getitem__(self, key):
        if isinstance(key, str):
            return dict(self.items())[key]
        return self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[key] for key in self.keys())


@dataclasses.dataclass
class Sample(Output):
    a: typing.Any = None
    b: typing.Any = None
    c: typing.Any = None


class Loud(dict):
    def __setitem__(self, key, value):
        show("set", key)
        super().__setitem__(key, value)
        show("done", len(self))

    def __getitem__(self, key):
        found = super().__getitem__(key)
        show("get", key)
        return found

    def items(self):
        show("items")
        return super().items()


class LoudInOrder(collections.OrderedDict):
    def __init__(self, *args, **kwargs):
        show("before")
        super().__init__(*args, **kwargs)
        show("behind")

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.last = key
        show("set", key, self.last)

    def __iter__(self):
        show("iter")
        return super().__iter__()


class LoudList(list):
    def append(self, value):
        super().append(value)
        show("append", len(self))

    def __getitem__(self, at):
        show("get")
        return super().__getitem__(at)

    def __len__(self):
        show("len")
        return super().__len__()


class Stack(list):
    def __init__(self, *args):
        super().__init__(*args)
        self.n = 0

    def top(self):
        return self[-1]


class NotedList(list):
    def __init__(self, *args):
        self.log = []
        list.__init__(self, *args)

    def append(self, value):
        self.log.append("append")
        super().append(value)

    def __getitem__(self, at):
        self.log.append("get")
        return super().__getitem__(at)

    def __setitem__(self, at, value):
        self.log.append("set")
        super().__setitem__(at, value)

    def __iter__(self):
        self.log.append("iter")
        return super().__iter__()

    def __len__(self):
        return super().__len__() + 1


class Bare(list):
    __slots__ = ()


def show(*values):
    print(*values)


"""

DICTS = {
    "Config": 3,
    "Ordered": 2,
    "Noted": 2,
    "NotedInOrder": 2,
    "Generic": 1,
    "Alike": 1,
    "Loud": 2,
    "LoudInOrder": 2,
    "Sample": 3,
    "collections.OrderedDict": 1,
    "collections.Counter": 1,
}
LISTS = {"Stack": 2, "NotedList": 2, "Bare": 1, "LoudList": 2}
ITEMS = ["a=1", "a=1, b=x", "a=x * 2, c=0", "b=2", ""]
PAIRS = ["{'a': x * 1, 'b': 2}", "[('a', 1), ('b', x)], k=3", "[('b', x), ('a', 1)]", *ITEMS]
VALUES = ["[1, 2]", "[1, 2, 3]", "(x, 1, 2)", "[1, x * 2]", "(y for y in [2, 1])", ""]

ON_DICTS = """\
c["b"] = x * 2
c["a"] = c.get("a", 1)
del c["a"]
c.pop("a")
c.pop("z", 5)
c.popitem()
c.setdefault("z", x)
c.setdefault("a")
c.update(q=1, r=x)
c.update({"a": 5}, s=1)
c.update([("a", 3), ("u", 4)])
c.update(c)
c.clear()
r = c["zz"]
r = c["a"]
r = c.a, c.b
r = c.get("a"), c.get("zz"), c.get("zz", 3)
r = list(c), tuple(c.items()), list(c.keys()), list(c.values())
r = len(c), bool(c), "a" in c, "zz" in c, 5 in c
r = {**c}, dict(c), list({**c})
r = (lambda **k: k)(**c)
r = c == {"a": 1}, {"a": 1} == c, c != c, c is c
r = c | {"n": 1}
c |= {"n": 1}
r = c.copy(); r["new"] = 1
r = copy.copy(c)
r = type(c).fromkeys(["a", "b"], 1)
r = list(reversed(c))
r = sorted(c), max(c), [k for k in c]
r = [(i, k) for i, k in enumerate(c)], list(zip(c, c.values())), list(map(str, c))
for k in list(c): c[k] = 3
for k in c: r = k; c["grow"] = 1
r = isinstance(c, dict), isinstance(c, collections.OrderedDict), isinstance(c, collections.abc.Mapping)
r = type(c)(c); r["w"] = 2
r = type(c)(a=x)
r = f"{list(c.items())[0][0]}", type(c).__name__
match c:\\n    case {"a": v, **rest}: r = v, rest\\n    case _: r = "no"
match c:\\n    case dict(): r = 1\\n    case _: r = 0
r = json.dumps({k: 1 for k in c})
c.attr = 5; r = c.attr; del c.attr
setattr(c, "b", x + 2); r = getattr(c, "b"), getattr(c, "nope", 1), hasattr(c, "zzz")
dict.__setitem__(c, "low", x)
r = dict.__getitem__(c, "a"), dict.keys(c), dict.__len__(c), dict.get(c, "a")
f = c.get; r = f("a"); g = c.__setitem__; g("gg", 2)
it = iter(c); r = next(it); r = (r, list(it))
v = c.items(); c["late"] = 1; r = list(v), len(v)
k = c.keys(); r = "a" in k, k & {"a"}
r = weakref.ref(c)() is c
r = c.__class__, getattr(c, "__dict__", 0)
r = functools.reduce(lambda a, b: a + str(b), c, ""), operator.itemgetter("a")(c)
r = c.__contains__("a"), c.__len__(), next(c.__iter__())
r = list(itertools.chain(c, c.values()))
h = [c, c]; h[0]["h"] = 1; r = h
def inner():\\n    c["n"] = x\\n    return c\\nr = inner() is c
def gen():\\n    yield from c\\nr = list(gen())
try: c[[1]] = 2\\nexcept TypeError: r = "unhashable"
c[1] = 2; c[1.0] = 3; c[True] = 4; c[None] = 1; c[(1, 2)] = x
a, *b = c; r = a, b
r = any(c), all(c.values()) if "zz" in c else 0
c["self"] = c; r = c["self"] is c
c["sample"] = Sample(x, b=c); r = c["sample"].b is c
if x.sum() > 0: c["t"] = x\\nelse: c["f"] = x
for i in range(3): c[i] = x * i
with paddle.no_grad(): c["ng"] = x * 3
r = c.move_to_end("a") if hasattr(c, "move_to_end") else 0
r = c.to_tuple() if isinstance(c, Sample) else 0, c[0]
r = str(type(c.items()))
assert "a" in c
show(len(c), list(c))"""

ON_LISTS = """\
c.append(x * 2)
c.extend([1, x])
c.extend(c)
c += [5]
c.insert(0, 3)
c.insert(-1, 3)
c[0] = x * 3
c[-1] = 4
c[1:2] = [7, 8]
del c[0]
del c[:1]
c[9]
c[9] = 1
r = c.pop()
r = c.pop(0)
c.pop(9)
c.remove(1)
c.remove(77)
c.clear()
c.reverse()
c.sort(key=str)
r = c[0], c[-1], c[1:], c[::-1], type(c[:])
r = len(c), bool(c), 1 in c, 9 in c
r = list(c), tuple(c), [*c], {*[1]}
a, *b = c; r = a, b
a, b = c; r = a, b
r = c + [1], [1] + c, c * 2
r = c == [1, 2], [1, 2] == c, c < [3], c is c
r = c.copy(); r.append(1)
r = copy.copy(c)
r = list(reversed(c)), sorted(c, key=str), [y for y in c], list(enumerate(c)), list(zip(c, c))
r = isinstance(c, list), isinstance(c, collections.abc.Sequence), type(c).__name__
for y in c: r = y; c.append(9) if len(c) < 6 else 0
it = iter(c); next(it); c.append(4); r = list(it)
r = c.index(2), c.count(2)
c.attr = 5; r = c.attr
list.append(c, 5); r = list.__getitem__(c, 0), list.__len__(c)
f = c.append; f(7); r = c
r = (lambda *a: a)(*c)
r = type(c)(c)
r = type(c)(y for y in [1, 2])
r = sum([y for y in c if isinstance(y, int)])
match c:\\n    case [a, *rest]: r = a, rest\\n    case _: r = "no"
h = [c, c]; h[0].append(1); r = h
def inner():\\n    c.append(x)\\n    return c\\nr = inner() is c
c.append(c); r = c[-1] is c
c.append(Sample(x, b=c)); r = c[-1].b is c
if x.sum() > 0: c.append(x)\\nelse: c.append(1)
for i in range(3): c.append(x * i)
while len(c) < 8: c.append(1)
r = paddle.concat([y for y in c if not isinstance(y, int)] or [x])
r = "".join(type(c)("ab"))
r = list(itertools.islice(c, 1)), functools.reduce(lambda a, b: a, c)
r = c.__contains__(1), c.__len__(), next(c.__iter__())
c[:] = [1, x]
c[::2] = [5]
r = c[True], c[slice(0, 1)]
show(len(c), [y for y in c if isinstance(y, int)])"""


def _rows(text: str) -> list[str]:
    return [row.replace("\\n", "\n") for row in text.split("\n")]


DICT_ROWS, LIST_ROWS = _rows(ON_DICTS), _rows(ON_LISTS)


def _kind(seed: int) -> tuple[random.Random, str, list[str], list[str]]:
    """The class of program number `seed`, what its instances may be made of, and what is done with them."""
    draw = random.Random(seed)
    of_dicts = draw.random() < 0.7
    classes = DICTS if of_dicts else LISTS
    name = draw.choices(list(classes), list(classes.values()))[0]
    made_of = ITEMS if name in ("Sample", "collections.Counter") else PAIRS if of_dicts else VALUES
    return draw, name, made_of, DICT_ROWS if of_dicts else LIST_ROWS


def program(seed: int) -> str:
    """The source text of program number `seed`."""
    draw, name, made_of, rows = _kind(seed)
    body = [f"c = {name}({draw.choice(made_of)})"] if draw.random() < 0.6 else []
    breaks = draw.choice(["no", "no", "first", "last", "all"])
    for at in range(draw.choice([1, 1, 2, 3, 4, 5])):
        row = draw.choice(rows)
        if draw.random() < 0.3:
            row = f"try:\n{textwrap.indent(row, '    ')}\nexcept Exception as error:\n    r = type(error), error.args"
        body += ['show("break")'] * (breaks == "all" or breaks == "first" and not at) + [row]
    body += ['show("break")'] * (breaks == "last")
    text = textwrap.indent("\n".join(["r = None", *body, "return c, r, x * 2"]), "    ")
    return f"{PRELUDE}def main(c, x):\n{text}\n"


def calls(seed: int) -> list[dict[str, Any]]:
    """Containers that differ, in turns with equal ones."""
    _, name, made_of, _ = _kind(seed)
    draw = random.Random(seed * 31 + 5)
    shuffled = draw.sample(made_of, len(made_of))
    made = [shuffled[0], shuffled[0], *shuffled]
    return [{"made": f"{name}({it})", "values": at // 2, "grad": bool(seed % 2)} for at, it in enumerate(made)]


def arguments(module: types.ModuleType, call: dict[str, Any]) -> tuple[Any, ...]:
    """Fresh real arguments for one side."""
    numbers = np.random.default_rng(call["values"]).standard_normal((2, 3)).astype(paddle.get_default_dtype())
    x = paddle.to_tensor(numbers, stop_gradient=not call["grad"])
    return eval(call["made"], vars(module), {"x": x}), x


def state(module: types.ModuleType) -> Any:
    """They leave nothing behind."""


def settings(seed: int) -> dict[str, Any]:
    """How program number `seed` is translated."""
    backend = {"backend": "cinn"} if seed % 11 == 0 else {}
    return {"min_graph_size": 0, "capture_control_flow": seed % 5 == 0, **backend}


FAMILY = Family(PRELUDE, program, calls, arguments, state, settings)
