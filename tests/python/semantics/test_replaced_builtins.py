"""What a program puts in the place of something of Python's is not taken for it, nor called by the engine itself."""

import builtins
import contextlib
import functools
import os
import subprocess
import sys

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest

NUMBERS = [3, 1, 2]


def total(x):
    return sum(NUMBERS), sum(n for n in NUMBERS), x * 2


def shown(x):
    return f"{NUMBERS[0]}", f"{NUMBERS[0]!r}", f"{1.5:.2f}", x * 2


def lacking(x):
    try:
        return {}["k"], x
    except KeyError:
        return "caught", x * 2
    except LookupError:
        return "another", x * 3


def asserted(x):
    try:
        assert not NUMBERS
    except AssertionError:
        return "caught", x * 2
    except Exception as error:
        return type(error).__name__, x * 3


def absolute(x):
    return abs(-3), x * 2


def ordered(x):
    return sorted(NUMBERS), len(NUMBERS), x * 2


def more(function):
    return lambda *args, **kwargs: (function(*args, **kwargs), "more")


class Other(Exception):
    pass


# Function, name, what stands in its place.
REPLACED = [
    (total, "sum", more(sum)),
    (shown, "format", more(format)),
    (shown, "repr", more(repr)),
    (lacking, "KeyError", Other),
    (asserted, "AssertionError", Other),
    (absolute, "abs", more(abs)),
    (ordered, "sorted", more(sorted)),
    (ordered, "len", lambda of: 99 if of is NUMBERS else ORIGINAL["len"](of)),
]
ORIGINAL = dict(vars(builtins))


def plainly(function):
    return str(function(paddle.ones([2])))


@pytest.mark.parametrize(("function", "name", "other"), REPLACED)
@pytest.mark.parametrize("before", [False, True])
def test_builtins_that_are_replaced(monkeypatch, function, name, other, before):
    translated = sot.to_static(function, min_graph_size=0)
    if not before:
        assert plainly(translated) == plainly(function)
    with monkeypatch.context() as patch:
        patch.setattr(builtins, name, other)
        expected = function(paddle.ones([2]))
        found = [translated(paddle.ones([2])) for _ in range(2)]
    assert [str(each) for each in found] == [str(expected)] * 2
    assert plainly(translated) == plainly(function)


# Before anything is translated, and so in a process of its own.
EARLY = """
import builtins, contextlib, functools, paddle, typing
import paddle_sot_rs as sot

log, NUMBERS = [], [3, 1, 2]

def more(function):
    @functools.wraps(function)
    def other(*args, **kwargs):
        log.append(function.__name__)
        return function(*args, **kwargs)
    return other

builtins.{name} = {value}
{also}

def f(x):
    with paddle.no_grad():
        y = x * 2
    with contextlib.nullcontext(3) as three:
        cast = typing.cast(int, "a")
    return sorted(NUMBERS), len(NUMBERS), sum(NUMBERS), three, cast, functools.partial(max, 4)(2), y.stop_gradient

def outcome(function):
    answer = str(function(paddle.ones([2])))
    seen = list(log)
    log.clear()
    return answer, seen

# Paddle calls some of them, too, when it does something for the first time.
outcome(f)
expected = outcome(f)
translated = sot.to_static(f, min_graph_size=0)
outcome(translated)
assert [outcome(translated) for _ in range(2)] == [expected] * 2, expected
"""


@pytest.mark.parametrize(
    ("name", "value", "also"),
    [
        ("sorted", "more(sorted)", ""),
        ("sum", "more(sum)", ""),
        ("unused", "0", "typing.cast = more(typing.cast)"),
        ("unused", "0", "paddle.no_grad = more(paddle.no_grad)"),
        ("unused", "0", "contextlib.nullcontext = more(contextlib.nullcontext)"),
    ],
)
def test_what_is_replaced_before_anything_is_translated(name, value, also):
    program = EARLY.format(name=name, value=value, also=also)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def importing(x):
    import math
    from operator import add

    return math.floor(2.5), add(1, 2), x * 2


@pytest.mark.parametrize("before", [False, True])
def test_another_import(monkeypatch, before):
    log = []

    def other(name, *args, original=builtins.__import__):
        if name in ("math", "operator") and args[0] is globals():
            log.append((name, args[2:]))
        return original(name, *args)

    translated = sot.to_static(importing, min_graph_size=0)
    if not before:
        assert plainly(translated) == plainly(importing)
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", other)
        expected, seen = plainly(importing), list(log)
        for _ in range(2):
            log.clear()
            assert plainly(translated) == expected
            assert log == seen
    log.clear()
    assert plainly(translated) == expected
    assert len(seen) == 2 and not log


class Base:
    def name(self, *args):
        return ("base", args)


class Derived(Base):
    def name(self):
        return super().name(1), super(Derived, self).name(2)  # noqa: UP008


def called(x):
    return DERIVED.name(), x * 2


DERIVED = Derived()


def test_another_super(monkeypatch):
    log = []

    def other(*args):
        log.append(len(args))
        return Base()

    translated = sot.to_static(called, min_graph_size=0)
    assert plainly(translated) == plainly(called)
    monkeypatch.setitem(globals(), "super", other)
    expected = plainly(called)
    seen = list(log)
    log.clear()
    assert plainly(translated) == expected
    assert log == seen == [0, 2]


class Asked:
    log = []

    def __get__(self, obj, owner):
        self.log.append("asked")
        return len


class Holder:
    __call__ = Asked()


def is_called(x):
    guard, nothing = paddle.no_grad(), contextlib.nullcontext(3)
    made = iter(NUMBERS), {}.keys(), functools.partial(len), NUMBERS.append, HOLDER, x
    return callable(guard), callable(nothing), [callable(each) for each in made], x * 2


HOLDER = Holder()


def test_callable():
    expected = plainly(is_called)
    translated = sot.to_static(is_called, min_graph_size=0)
    assert [plainly(translated) for _ in range(3)] == [expected] * 3
    assert Asked.log == []


# Before the engine is imported.
EARLIER = """
import builtins, paddle

def other(*args, **kwargs):
    log.append(args[0])
    return own(*args, **kwargs)

log, own = [], builtins.{name}
builtins.{name} = other
import paddle_sot_rs as sot

def f(x):
    y = x * 2
    import math
    z = y * math.pi
    return z, repr(3.5), f"{{math.pi:.2f}}"

def outcome(function):
    log.clear()
    answer = str(function(paddle.ones([2])))
    return answer, [each for each in log if each in ("math", 3.5)]

translated = sot.to_static(f, min_graph_size=0)
expected = outcome(f)
outcome(translated)
for _ in range(2):
    assert outcome(translated) == expected, (outcome(translated), expected)
stats = sot.stats(translated)
assert stats.graphs >= 1 and stats.fallbacks == [], stats
"""


@pytest.mark.parametrize("name", ["__import__", "repr", "format"])
def test_what_was_replaced_before_the_engine_was_imported(name):
    subprocess.run([sys.executable, "-c", EARLIER.format(name=name)], check=True)


def returning(x):
    for _ in range(paddle.full([], 3, "int64")):
        if x.sum() > 100:
            return x
        x = x * 2
    return x


def leaving(x):
    return x * 2, iter(range(3)), zip([1], [2], strict=True), dict(a=x + 1)


def cubed(x):
    return (x**3).sum()


# Called by the engine while a graph runs, or goes backward.
CALLED = [
    *((builtins, name) for name in ("abs", "all", "any", "getattr", "id", "isinstance", "iter", "len", "next")),
    *((paddle.Tensor, name) for name in ("astype", "detach", "item", "numpy")),
    *((np, name) for name in ("abs", "allclose", "isfinite")),
    *((paddle, name) for name in ("get_rng_state", "set_rng_state", "zeros_like")),
]


@pytest.mark.parametrize("function", [returning, leaving, cubed])
def test_what_the_engine_calls_itself(monkeypatch, function):
    package = os.path.dirname(sot.__file__)
    own = tuple(os.path.join(package, name) for name in ("_paddle", "_cinn", "_pylayer", "_codegen"))

    def other(original, log, name):
        def call(*args, **kwargs):
            frame = sys._getframe(1)
            # Paddle and NumPy call them, too.
            if frame.f_code.co_filename.startswith((__file__, *own)):
                log.append(name)
            return original(*args, **kwargs)

        return call

    def go(run):
        x = paddle.ones([2])
        x.stop_gradient = False
        made = run(x)
        result = made[0] if type(made) is tuple else made
        (first,) = paddle.grad(result, [x], create_graph=True)
        if not first.stop_gradient:
            first.backward()
        result.backward(retain_graph=True)
        result.backward()

    translated = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    go(translated)
    go(translated)
    for owner, name in CALLED:
        seen = []
        for run in (function, translated):
            log = []
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, other(getattr(owner, name), log, name))
                go(run)
            seen.append(log)
        assert seen[0] == seen[1], name
