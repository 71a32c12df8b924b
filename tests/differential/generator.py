"""Writes random programs: one seed, one program, the same on every Python version.

Variables have a kind (T: a matrix, R: a tensor of one number, I, F, B, S: Python scalars, L: a list of integers, M: a list of
tensors, D: a dict of numbers, O: an object of the program's class, P: a tuple), so that most programs run to their end;
the exceptions that remain are part of the game.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator

import statements
from expressions import Expressions

PRELUDE = """\
import contextlib
import functools
import paddle
import paddle.nn.functional as F

COUNT = 0
LOG = []
TABLE = {"a": 1, "b": 2}
WEIGHT = paddle.arange(9, dtype="float32").reshape([3, 3]) * 0.1 - 0.3
WEIGHT.stop_gradient = False


class Box:
    kind = 3

    def __init__(self, value, number=0):
        self.value = value
        self.number = number
        self.items = []

    @property
    def double(self):
        return self.number * 2

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


def numbers(limit):
    for at in range(limit):
        yield at * 2


def tensors(first, limit):
    for at in range(limit):
        first = first * 0.5 + at
        yield first


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


def loud(value):
    print("loud", value)
    return value * 2


def risky(number):
    if number % 3 == 0:
        raise ValueError(f"risky {number}")
    return number + 1


def memo(value, cache=[]):
    cache.append(1)
    return value * len(cache)


def doubled(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return inner


@doubled
def soft(value, shift=0.5):
    return F.softmax(value + shift, axis=-1)
"""

ARGUMENTS = [("x", "T"), ("y", "T"), ("n", "I"), ("flag", "B"), ("items", "L"), ("table", "D"), ("box", "O")]


class Generator(Expressions):
    """The state of one program being written: lines, indentation and the variables in scope."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.indent = 0
        self.scope: dict[str, str] = {}
        self.fresh = 0
        self.depth = 0
        self.budget = 0
        self.loops = 0
        self.locked: set[str] = set()
        self.helpers: list[str] = []
        self.in_helper = False

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def name(self, kind: str) -> str:
        self.fresh += 1
        return f"{kind.lower()}{self.fresh}"

    def define(self, kind: str) -> str:
        """A variable to assign to: a new one or one that holds a value of the kind already."""
        old = [name for name, has in self.scope.items() if has == kind and name not in self.locked]
        if old and self.random.random() < 0.45:
            return self.random.choice(old)
        return self.name(kind)

    def assign(self, kind: str, text: str) -> None:
        target = self.define(kind)
        self.line(f"{target} = {text}")
        self.scope[target] = kind

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Writes `head`, then an indented block whose new variables end with it."""
        self.line(head)
        scope, locked = dict(self.scope), set(self.locked)
        self.indent += 1
        self.depth += 1
        start = len(self.lines)
        yield
        if len(self.lines) == start:
            self.line("pass")
        self.indent -= 1
        self.depth -= 1
        # One in thirty keeps a name that may be unbound.
        if self.random.random() > 0.03:
            self.scope = scope
        self.locked = locked

    def body(self, most: int = 3) -> None:
        for _ in range(self.random.randint(1, most)):
            self.statement()

    def statement(self) -> None:
        self.budget -= 1
        simple = self.depth > 3 or self.budget < 0
        table = statements.SIMPLE if simple or self.random.random() < 0.62 else statements.COMPOUND
        writers: list[Callable[[Generator], None]] = [writer for writer, _ in table]
        weights = [weight for _, weight in table]
        self.random.choices(writers, weights)[0](self)

    def function(self, head: str, arguments: list[tuple[str, str]], size: int, result: str) -> None:
        self.scope = dict(arguments)
        self.budget = size
        with self.block(head):
            for _ in range(size // 2 + 1):
                self.statement()
            self.line(f"return {result}" if result else self.result())

    def result(self) -> str:
        parts = [self.any(self.pick("TTTRIFBSLMDOP")) for _ in range(self.random.randint(1, 4))]
        if self.random.random() < 0.2:
            return f"return {self.t()}"
        if self.random.random() < 0.2:
            return "return {" + ", ".join(f'"{at}": {part}' for at, part in enumerate(parts)) + "}"
        return f"return [{', '.join(parts)}]" if self.random.random() < 0.4 else f"return ({', '.join(parts)},)"

    def program(self) -> str:
        self.lines = [PRELUDE]
        for at in range(self.random.randint(0, 2)):
            kind = self.pick("TTI")
            arguments = [("v", "T"), ("k", "I"), ("box", "O")]
            self.in_helper = True
            self.line("")
            self.function(
                f"def helper{at}(v, k, box):", arguments, self.random.randint(2, 6), "v" if kind == "T" else "k"
            )
            self.in_helper = False
            self.helpers.append(f"helper{at}:{kind}")
        self.line("")
        self.function(
            f"def main({', '.join(name for name, _ in ARGUMENTS)}):", ARGUMENTS, self.random.randint(4, 18), ""
        )
        return "\n".join(self.lines) + "\n"


def program(seed: int) -> str:
    """The source text of program number `seed`."""
    return Generator(seed).program()
