"""`minify`: a script of few lines that shows what a translated function does wrong, or why its graph breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any

from .. import _core
from . import checking, reducing, writing_down
from .oracle import Oracle, sort
from .writing_down import CannotBeWrittenDown

_CHANGES = (
    reducing.runs,
    reducing.statements,
    reducing.arguments,
    reducing.expressions,
    reducing.names,
    reducing.numbers,
)
# How often the call is made: it is translated, then found, and after that it may be settled.
_CALLS = (1, 2, 3)
# Seconds that a call may take to be written down.
_PATIENCE = 20


@dataclass(frozen=True)
class Minified:
    """A script of few lines.

    Attributes:
        script: its text; it stands alone.
        found: what it shows: the first difference, the reason of the break, or the signal.
        runs: how many programs were tried.
    """

    script: str
    found: str
    runs: int

    def __str__(self) -> str:
        comment = "\n".join(f"# {line}" for line in self.found.splitlines()[:5])
        return f"{self.script}{comment}\n"


def met(stats: Any, reason: str) -> str | None:
    """The message of the first break or fallback with this id."""
    for it in [*stats.graph_breaks, *stats.fallbacks]:
        if it.id == reason:
            return f"{it.id}: {it.message}"
    return f"{reason}: {stats.recompiles[0]}" if reason == "PSR0801" and stats.recompiles else None


def _check_reason(reason: str | None) -> None:
    known = [row[0] for row in _core.break_table()]
    if reason is not None and reason not in known:
        raise ValueError(f"break_id: expected an id such as {known[0]!r}, got {reason!r}")


def _reduced(text: str, oracle: Oracle, checks: bool, found: str) -> str:
    wanted = sort(found)

    def same(other: str) -> bool:
        answer = oracle.ask(other, checks)
        return answer is not None and sort(answer) == wanted

    text = reducing.straightened(text)
    return reducing.reduce(text, same, _CHANGES)


def _first(texts: list[str], oracle: Oracle, checks: bool = False) -> tuple[str, str] | None:
    for text in texts:
        if found := oracle.ask(text, checks):
            return text, found
    return None


def _written(static: Any, args: Any, kwargs: Any, wanted: str) -> list[str]:
    """Scripts that may show it, the simplest first."""
    texts = []
    for exact in (False, True):
        for calls in _CALLS:
            text = writing_down.script(static, args, kwargs, exact, calls, wanted == "differs")
            if text not in texts:
                texts.append(text)
    return texts


def minify(
    fn: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, *, break_id: str | None = None
) -> Minified:
    """A script of few lines in which a translated function differs from plain Python, dies, or breaks its graph.

    The function and everything that it uses are written down with these arguments. Statements, operators, layers and
    sizes are taken away as long as it stays so. Each attempt runs in a process of its own; this one runs nothing.

    Args:
        fn: what `to_static` returned, or a function for it.
        args: arguments of a call that goes wrong.
        kwargs: those by name.
        break_id: such as `"PSR0101"`: reduce to this reason of a break, and not to a difference or a crash.

    Raises:
        TypeError: `fn` cannot be translated.
        ValueError: there is no such reason, nothing goes wrong, or something in the call has no source.
    """
    from ..api import to_static
    from ..report import static_function

    _check_reason(break_id)
    try:
        static = static_function(fn)
    except TypeError:
        translated = to_static(fn.forward if hasattr(fn, "forward") else fn)
        static = static_function(translated)
    last = "nothing goes wrong in this call: it does what plain Python does, and lives"
    for wanted in ("breaks",) if break_id else ("differs", "dies"):
        write = lambda wanted=wanted: json.dumps(_written(static, tuple(args), dict(kwargs or {}), wanted))  # noqa: E731
        try:
            texts = json.loads(writing_down.in_child(write))
        except CannotBeWrittenDown as error:
            raise ValueError(
                f"minify: no script makes {error}; give the script: python -m paddle_sot_rs minify"
            ) from None
        with tempfile.TemporaryDirectory() as folder:
            oracle = Oracle(wanted, break_id or "", folder)
            try:
                if shown := _first(texts, oracle):
                    return _of(*shown, oracle, False)
            finally:
                oracle.end()
    raise ValueError(f"minify: {'the graph does not break so in this call' if break_id else last}")


def _of(text: str, found: str, oracle: Oracle, checks: bool) -> Minified:
    text = _reduced(text, oracle, checks, found)
    return Minified(text, oracle.ask(text, checks) or found, oracle.runs)


def minify_script(arguments: list[str], break_id: str | None) -> Minified:
    """The same for a script with its arguments: the first call of it that goes wrong.

    Raises:
        ValueError: there is no such reason, or nothing goes wrong.
    """
    _check_reason(break_id)
    script = os.path.abspath(arguments[0])
    with open(script, encoding="utf-8") as file:
        whole = file.read()
    with tempfile.TemporaryDirectory() as folder:
        seen = _watched(arguments, break_id, folder)
        if seen is None:
            what = f"no graph breaks for {break_id}" if break_id else "nothing goes wrong"
            raise ValueError(f"minify: {what} in {arguments[0]}")
        wanted, texts = seen
        oracle = Oracle(wanted, break_id or "", os.path.dirname(script))
        try:
            if shown := _first(texts, oracle):
                return _of(*shown, oracle, False)
            # It depends on earlier calls, or has no source: the script itself is reduced.
            whole = _patched(whole)
            if shown := _first([whole], oracle, wanted == "differs"):
                return _of(*shown, oracle, wanted == "differs")
        finally:
            oracle.end()
    raise ValueError(f"minify: {arguments[0]} goes wrong, and no part of it alone does")


def _patched(script: str) -> str:
    """With this engine in the place of Paddle's, as `run` does."""
    return f"import paddle_sot_rs\npaddle_sot_rs.patch_paddle()\n{script}" if "jit.to_static" in script else script


def _watched(arguments: list[str], break_id: str | None, folder: str) -> tuple[str, list[str]] | None:
    """Runs the script once: what goes wrong in it, and scripts of that call."""
    command = [sys.executable, "-m", "paddle_sot_rs._reproduce.minify", folder, break_id or "", *arguments]
    environment = {**os.environ, "PADDLE_SOT_CHECK": "1"}
    status = subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode
    seen = os.path.join(folder, "seen")
    # What dies leaves a child behind that writes the call down.
    end = time.monotonic() + (_PATIENCE if status < 0 else 0)
    while not os.path.exists(seen) and time.monotonic() < end:
        time.sleep(0.1)
    if os.path.exists(seen):
        with open(seen, encoding="utf-8") as file:
            wanted, texts = json.load(file)
        return wanted, texts
    return ("dies", []) if status < 0 and not break_id else None


def _watch(folder: str, break_id: str, arguments: list[str]) -> int:
    """In the process that runs the script: looks at each call, and ends at the first that goes wrong."""
    from .. import patch_paddle
    from .._process.script import run_script
    from ..report import stats

    seen = os.path.join(folder, "seen")

    def keep(wanted: str, texts: list[str]) -> None:
        with open(seen + ".new", "w", encoding="utf-8") as file:
            json.dump([wanted, texts], file)
        os.replace(seen + ".new", seen)

    def observe(static: Any, args: Any, kwargs: Any) -> Any:
        def written(wanted: str) -> list[str]:
            try:
                return _written(static, args, kwargs, wanted)
            except CannotBeWrittenDown:
                return []

        wanted = "breaks" if break_id else "differs"
        child = checking.Child(lambda: written(wanted), True, lambda: keep("dies", written("dies")), files=True)
        try:
            if break_id:
                outcome = checking.run(lambda: static.call_unchecked(*args, **kwargs))
                different = met(stats(static), break_id)
            else:
                outcome, different = checking.compared(static, args, kwargs)
            if different:
                keep(wanted, child.ask() or [])
                os._exit(0)
        finally:
            child.end()
        return checking.ended(outcome)

    checking.observers.append(observe)
    patch_paddle()
    sys.argv = arguments
    return run_script(arguments[0])


if __name__ == "__main__":
    # The module that others know, and not this one under another name.
    from paddle_sot_rs._reproduce.minify import _watch as watch

    sys.exit(watch(sys.argv[1], sys.argv[2], sys.argv[3:]))
