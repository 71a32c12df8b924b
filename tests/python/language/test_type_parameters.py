"""The type syntax of Python 3.12 and 3.13 inside of a translated function."""

from __future__ import annotations

import sys
import textwrap
import typing

import paddle
import paddle_sot_rs as sot
import pytest

PROGRAMS = {
    "alias": """
        def function(x):
            y = x * 2
            type Alias[T] = list[T]
            SEEN.append((Alias.__name__, Alias.__module__, Alias.__type_params__[0].__name__, Alias.__value__))
            return y * 3
        """,
    "generic_function": """
        def function(x):
            y = x * 2
            def double[T](a: T) -> T:
                return a * 2
            SEEN.append([(p.__name__, p.__module__, type(p)) for p in double.__type_params__])
            SEEN.append((double.__annotations__["a"] is double.__type_params__[0], double.__qualname__))
            return double(y) + 1
        """,
    "unused": """
        def function(x):
            y = x * 2
            def double[T](a: T) -> T:
                return a * 2
            return double(y) + 1
        """,
    "bounds_and_constraints": """
        def function(x):
            y = x * 2
            def double[T: int, U: (int, str), *Ts, **P](a: T) -> U:
                return a * 2
            SEEN.append([(p.__name__, type(p)) for p in double.__type_params__])
            SEEN.append((double.__type_params__[0].__bound__, double.__type_params__[1].__constraints__))
            return double(y) + 1
        """,
    "generic_class": """
        def function(x):
            y = x * 2
            class Adds[T: int]:
                factor: T = 3
                def add[U](self, v: U) -> T:
                    return v + self.factor
            SEEN.append((Adds.__type_params__, Adds.__orig_bases__, Adds.__annotations__, Adds.__module__))
            SEEN.append([(p.__name__, p.__bound__) for p in Adds.__type_params__])
            return Adds().add(y) + 1
        """,
    "in_a_callee": """
        def makes(y):
            def double[T](a: T) -> T:
                return a * 2
            return double(y)
        def function(x):
            return makes(x * 2) + makes(x)
        """,
    "in_a_class_body": """
        def function(x):
            y = x * 2
            bound = float
            class Holds:
                kind = int
                type Alias = kind
                type Outer = bound
                def method[T: kind](self, v: T = kind(3)) -> T:
                    return v * 2
            SEEN.append((Holds.Alias.__value__, Holds.Outer.__value__))
            SEEN.append([p.__bound__ for p in Holds.method.__type_params__])
            return Holds().method(y) + Holds().method()
        """,
}
if sys.version_info >= (3, 13):
    PROGRAMS["defaults"] = """
        def function(x):
            y = x * 2
            def double[T = int](a: T) -> T:
                return a * 2
            SEEN.append([(p.__name__, p.__default__) for p in double.__type_params__])
            return double(y) + 1
        """


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is newer")
@pytest.mark.parametrize(("name", "source"), PROGRAMS.items(), ids=PROGRAMS.keys())
def test_equals_eager(name, source):
    seen: list = []
    namespace: dict = {"SEEN": seen, "__name__": "some_module"}
    exec(textwrap.dedent(source), namespace)
    function = namespace["function"]
    static = sot.to_static(function, min_graph_size=0)
    for value in (1.0, -1.0, 2.0):
        outcomes = []
        for run in (function, static):
            seen.clear()
            result = run(paddle.to_tensor([value, value]))
            outcomes.append((result.numpy().tolist(), str(seen)))
        assert outcomes[0] == outcomes[1]
    stats = sot.stats(static)
    assert stats.graphs >= 1
    # Nobody looks at the parameters: they are never made.
    assert name not in ("unused", "in_a_callee") or (stats.graphs, stats.graph_breaks) == (1, [])
    assert [fallback for fallback in stats.fallbacks if fallback.file == "<string>"] == []


def test_a_class_statement():
    def function(x):
        y = x * 2

        class Scales:
            factor: int = 3
            names: typing.ClassVar = ["a"]

            def __init__(self, more):
                self.more = more

            def __call__(self, v):
                return v * self.factor + self.more

            @property
            def doubled(self):
                return self.more * 2

        scales = Scales(y)
        return scales(y) + scales.doubled, Scales.__qualname__, Scales.__annotations__, Scales.__module__

    static = sot.to_static(function, min_graph_size=0)
    for value in (1.0, -1.0, 2.0):
        expected, got = (run(paddle.to_tensor([value, value])) for run in (function, static))
        assert expected[0].numpy().tolist() == got[0].numpy().tolist()
        assert expected[1:] == got[1:]
    stats = sot.stats(static)
    assert stats.graphs >= 2
    assert stats.graph_breaks[0].message == "call of __build_class__"
    # Another class in each call: nothing is translated for this one alone.
    assert stats.recompiles == stats.fallbacks == []
