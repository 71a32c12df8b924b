"""Texts of objects: `str`, `repr` and `format` call their methods, in plain Python's order and with its messages."""

import dataclasses
import enum
import reprlib
from typing import Any

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

LOG: list[Any] = []


class Shown:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        LOG.append("repr")
        return f"Shown({self.value!r})"


class Named(Shown):
    def __str__(self):
        LOG.append("str")
        return f"named {self.value}"


class Formatted(Named):
    def __format__(self, spec):
        LOG.append(("format", spec))
        return f"<{spec}{self.value}>"


class Text(str):
    pass


class OfAnotherClass:
    def __str__(self):
        return Text("text")

    __repr__ = __str__


class Wrong:
    def __str__(self):
        return 5

    def __repr__(self):
        return None

    def __format__(self, spec):
        return 3


class Items(list):
    def __str__(self):
        return "items " + str(len(self))


class Failed(Exception):
    def __str__(self):
        return "failed: " + str(self.args[0])


class Raising:
    def __repr__(self):
        raise ValueError("no text")


class Way(enum.Enum):
    LEFT = "left"
    RIGHT = "right"

    def __str__(self):
        return self.value.upper()


class Kind(str, enum.Enum):  # noqa: UP042
    LARGE = "large"

    def __str__(self):
        return "kind " + self.value


@dataclasses.dataclass
class Options:
    size: int = 1
    inner: Any = None
    hidden: int = dataclasses.field(default=2, repr=False)


class Within:
    @reprlib.recursive_repr()
    def __repr__(self):
        return f"Within({self!r})"


def within_itself():
    options = Options(3)
    options.inner = options
    return options


OBJECTS = {
    "repr": lambda: Shown(1),
    "str": lambda: Named("x"),
    "format": lambda: Formatted(2.5),
    "nested": lambda: Shown(Named(Shown(1))),
    "another class": OfAnotherClass,
    "wrong": Wrong,
    "a list": lambda: Items([1, 2]),
    "an exception": lambda: Failed("m"),
    "raises": Raising,
    "a member": lambda: Way.LEFT,
    "a text as a member": lambda: Kind.LARGE,
    "options": lambda: Options(2, Options()),
    "options in a list": lambda: Options(2, [Shown(1), Options()]),
    "within itself": within_itself,
    "recursive": Within,
}

SHOW = {
    "str": str,
    "repr": lambda it: repr(it),
    "format": lambda it: format(it),
    "an empty format": lambda it: format(it, ""),
    "a format": lambda it: format(it, ">12"),
    "an f-string": lambda it: f"{it}|{it!s}|{it!r:>9}",
    "a format in an f-string": lambda it: f"{it:>12}",
    "percent": lambda it: "%s and %r" % (it, it),  # noqa: UP031
    "a method": lambda it: "{} {!r}".format(it, it),  # noqa: UP032
    "joined": lambda it: "-".join([str(it), repr(it)]),
    "a key": lambda it: {str(it): 1},
    "compared": lambda it: str(it) == "named x",
    "mapped": lambda it: list(map(str, [it, 1])),
}


def observed(function, made):
    LOG.clear()
    try:
        text = function(paddle.ones([2]), made)
    except (TypeError, ValueError) as error:
        text = type(error), str(error)
    return text, list(LOG)


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("how", SHOW)
def test_they_are_what_they_are_in_plain_python(how, kind):
    show = SHOW[how]
    plain = lambda x, it: (x.shape, show(it))  # noqa: E731
    translated = translate(plain)
    for _ in range(3):
        assert observed(translated, OBJECTS[kind]()) == observed(plain, OBJECTS[kind]())


@pytest.mark.parametrize("kind", ["repr", "str", "format", "nested", "a member", "a text as a member", "options"])
@pytest.mark.parametrize("how", ["str", "repr", "format", "an f-string", "joined", "a key"])
def test_they_are_captured(how, kind):
    show = SHOW[how]
    translated = translate(lambda x, it: (x * 2, show(it)))
    for _ in range(2):
        translated(paddle.ones([2]), OBJECTS[kind]())
    record = sot.stats(translated)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], []), record


def test_methods_that_change_between_calls():
    class Changing:
        def __repr__(self):
            return "repr"

    show = lambda x, it: (str(it), f"{it}", f"{it!r}", x * 1)  # noqa: E731
    translated = translate(show)

    def both():
        it = Changing()
        assert translated(paddle.ones([2]), it)[:3] == show(paddle.ones([2]), it)[:3]

    both()
    Changing.__str__ = lambda self: "str"
    both()
    Changing.__format__ = lambda self, spec: "format"
    both()
    del Changing.__str__
    both()
    Changing.__repr__ = lambda self: "another"
    both()
    del Changing.__format__
    both()
