"""`stats` and `explain`: what was captured, what was not, and why."""

from __future__ import annotations

import dis
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import _core, blas
from ._reports import excerpt
from .api import to_static


@dataclass(frozen=True)
class GraphBreak:
    """A place where the graph broke.

    Attributes:
        code: DDCF, UNSPS, CDBL or UNIMP.
        message: what was met.
        file: the user's file.
        line: the line, 1-based.
        hint: what to do about it.
        id: such as `PSR0101`: `docs/user/breaks.md` explains each.
        title: what the id stands for, in a few words.
        link: the place on that page.
        count: how often it was met.
        source: the line, and carets below the expression where it is a part of it.
    """

    code: str
    message: str
    file: str
    line: int
    hint: str
    id: str = ""
    title: str = ""
    link: str = ""
    count: int = 1
    source: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seconds:
    """What translations took, by phase.

    Attributes:
        trace: byte code is simulated, code and guards are made.
        infer: Paddle says what calls return.
        backend: graphs are compiled.
    """

    trace: float = 0.0
    infer: float = 0.0
    backend: float = 0.0


@dataclass(frozen=True)
class Stats:
    """Counters of one translated function and its resume functions, or of all together.

    Attributes:
        graphs: graphs compiled.
        ops: statements in those graphs.
        translations: translations attempted, failed ones too.
        cache_hits: calls that a translation was ready for.
        cache_misses: calls that none was ready for.
        whole_steps: calls whose program did the step of the optimizer as well.
        graph_breaks: breaks met while translating, oldest first; each once, with a count.
        recompiles: the guard that failed at each miss of a function that had translations.
        fallbacks: why calls ran natively as a whole; each once, with a count.
        seconds: what translations took, by phase.
        own_steps: why steps of optimizers in whole train steps ran Paddle's own code, and how often. The first
            step of each does, since it makes the states.
    """

    graphs: int = 0
    ops: int = 0
    translations: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    whole_steps: int = 0
    graph_breaks: list[GraphBreak] = field(default_factory=list)
    recompiles: list[str] = field(default_factory=list)
    fallbacks: list[GraphBreak] = field(default_factory=list)
    seconds: Seconds = field(default_factory=Seconds)
    own_steps: dict[str, int] = field(default_factory=dict)


def _break(record: Any) -> GraphBreak:
    return GraphBreak(
        record.code,
        record.message,
        record.file,
        record.line,
        record.hint,
        record.id,
        record.title,
        record.link,
        record.count,
        tuple(excerpt.of(record.file, record.line, record.end_line, *record.columns)),
    )


def static_function(fn: Any) -> Any:
    """The `StaticFunction` behind a translated function, method or Layer.

    Raises:
        TypeError: `fn` was not translated.
    """
    for candidate in (
        fn,
        getattr(fn, "forward", None),
        getattr(getattr(fn, "forward", None), "__func__", None),
        getattr(fn, "func", None),
        getattr(fn, "__func__", None),
    ):
        if isinstance(candidate, _core.StaticFunction):
            return candidate
    raise TypeError(f"fn: expected something that to_static returned, got {type(fn).__name__}")


def stats(fn: Any = None) -> Stats:
    """Counters since the function was translated or `reset`: a snapshot.

    Args:
        fn: what `to_static` returned. Without it: the sum over all translated functions of the process, those
            that are gone included (of these, each list keeps the newest 1000 entries).

    Raises:
        TypeError: `fn` was not translated.
    """
    record = _core.total_stats() if fn is None else static_function(fn).stats()
    return Stats(
        record.graphs,
        record.ops,
        record.translations,
        record.cache_hits,
        record.cache_misses,
        record.whole_steps,
        [_break(item) for item in record.graph_breaks],
        list(record.recompiles),
        [_break(item) for item in record.fallbacks],
        Seconds(*record.seconds),
        dict(record.own_steps),
    )


def reset(fn: Any = None) -> None:
    """Forgets the translations and counters of a function; without one, those of all functions of the process.

    Settings stay: backends, black lists, `disable`, `allow_in_graph`. Calls in flight finish.

    Raises:
        TypeError: `fn` was not translated.
    """
    if fn is None:
        _core.reset_all()
    else:
        static_function(fn).reset()


@dataclass(frozen=True)
class Explanation:
    """What one call was turned into. `print()` of it is a report."""

    result: Any
    graphs: list[Any]
    graph_breaks: list[GraphBreak]
    fallbacks: list[GraphBreak]
    code: str

    def __str__(self) -> str:
        out = io.StringIO()
        print(f"{len(self.graphs)} graphs, {len(self.graph_breaks)} graph breaks", file=out)
        for reason in [*self.graph_breaks, *self.fallbacks]:
            times = f" ({reason.count} times)" if reason.count > 1 else ""
            print(f"  {reason.id} {reason.code} {reason.file}:{reason.line}: {reason.message}{times}", file=out)
            for line in reason.source:
                print(f"      {line}", file=out)
            print(f"      hint: {reason.hint}", file=out)
            print(f"      see {reason.link}", file=out)
        for number, graph in enumerate(self.graphs):
            print(f"graph {number} ({graph.backend}), {len(graph.guards)} guards", file=out)
            print("\n".join(f"  {line}" for line in graph.ir.splitlines()), file=out)
            for line in graph.report:
                print(f"  {line}", file=out)
            for guard in graph.guards:
                print(f"  guard: {guard}", file=out)
        if advice := blas.advice():
            print(advice, file=out)
        return out.getvalue()


@contextmanager
def at_once() -> Iterator[None]:
    """In it, graphs become programs at their first call: whoever looks at them does not call twice."""
    before = _core.compile_at_once(True)
    try:
        yield
    finally:
        _core.compile_at_once(before)


def explain(fn: Any, **settings: Any) -> Callable[..., Explanation]:
    """`explain(fn)(*args, **kwargs)` runs once, from an empty cache, and reports."""

    def run(*args: Any, **kwargs: Any) -> Explanation:
        try:
            static = static_function(fn)
        except TypeError:
            static = static_function(to_static(fn.forward if hasattr(fn, "forward") else fn, **settings))
        static.reset()
        with at_once():
            result = static(*args, **kwargs)
        record = stats(static)
        graphs = static.graphs()
        code = io.StringIO()
        for graph in graphs:
            if graph.code is not None:
                dis.dis(graph.code, file=code)
        return Explanation(result, graphs, record.graph_breaks, record.fallbacks, code.getvalue())

    return run
