"""Compares calls of translated functions with plain Python, without a trace in the program.

Plain Python runs in a child that is forked in front of the call: arguments, parameters, buffers, containers and random
state are copies there. A second child asks for gradients behind the call. The program goes on with what the translated
call did.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import pickle
import random
import resource
import select
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle

from .. import _core
from ..report import at_once
from .pictures import Picture, TooLarge, difference, tensors

# Seconds that a child may take: a lock that another thread held stays closed in it.
PATIENCE = 120

# Backends that compute each operation as eager mode does; of others the last digits may differ.
_EXACT = ("paddle", "eager")

# Who makes the calls instead: `minify` watches them.
observers: list[Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = []
# Not empty in a child: calls in it are not compared again.
_inside: list[bool] = []


class DifferenceWarning(UserWarning):
    """A translated function did something else than plain Python."""


class Child:
    """A process that answers with one object.

    Args:
        answer: what it does.
        waits: only when it is asked.
        orphaned: what it does where this process dies before.
        files: it may write to files.
    """

    def __init__(
        self,
        answer: Callable[[], Any],
        waits: bool = False,
        orphaned: Callable[[], None] | None = None,
        files: bool = False,
    ) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        self._answers, theirs = os.pipe()
        mine, self._wishes = os.pipe()
        # Python seeds its generators anew in a child.
        drawn = random.getstate(), np.random.get_state()
        with warnings.catch_warnings():
            # Of processes with threads: the child is given up where it waits.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process: int | None = os.fork()
        if self._process == 0:
            random.setstate(drawn[0])
            np.random.set_state(drawn[1])
            _answer(answer, theirs, mine if waits else None, (self._answers, self._wishes), orphaned, files)
        os.close(theirs)
        os.close(mine)

    def ask(self) -> Any:
        """The answer; None where there is none."""
        with contextlib.suppress(OSError):
            os.write(self._wishes, b"!")
        parts = []
        while select.select([self._answers], [], [], PATIENCE)[0]:
            part = os.read(self._answers, 1 << 20)
            if not part:
                break
            parts.append(part)
        self.end()
        try:
            return pickle.loads(b"".join(parts))
        except Exception:  # noqa: BLE001 - half an answer is none
            return None

    def end(self) -> None:
        """Ends it, whatever it does."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            os.kill(self._process, signal.SIGKILL)
        for end in (self._answers, self._wishes):
            with contextlib.suppress(OSError):
                os.close(end)
        with contextlib.suppress(OSError):
            os.waitpid(self._process, 0)
        self._process = None


def _answer(
    answer: Callable[[], Any],
    to: int,
    wish: int | None,
    others: tuple[int, ...],
    orphaned: Callable[[], None] | None,
    files: bool,
) -> None:
    """What a child does. It never returns."""
    try:
        for end in others:
            os.close(end)
        if not files:
            # Files of the program stay as they are: what writes to one raises.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        if wish is not None and not os.read(wish, 1):
            if orphaned is not None:
                orphaned()
            os._exit(0)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        os.set_blocking(to, True)
        data = pickle.dumps(answer())
        while data:
            data = data[os.write(to, data) :]
    finally:
        os._exit(0)


def _portable(picture: Any) -> Any:
    """A picture that another process can read: classes by their names."""
    if isinstance(picture, type):
        return f"{picture.__module__}.{picture.__qualname__}"
    if isinstance(picture, list | tuple):
        made = [_portable(part) for part in picture]
        return made if isinstance(picture, list) else tuple(made)
    if isinstance(picture, np.ndarray) and picture.dtype.hasobject:
        return repr(picture)
    return picture if isinstance(picture, np.ndarray | str | int | float | bool | type(None)) else repr(picture)


def _names_of(function: Any) -> list[str]:
    code = getattr(function, "__code__", None)
    return [] if code is None else [*code.co_names]


def _seen_by(static: Any) -> list[Any]:
    """What the function reaches besides its arguments: its object, its cells, and globals that it names."""
    function = static.dygraph_function
    cells = getattr(function, "__closure__", None) or ()
    reached = [getattr(function, "__self__", None)]
    for cell in cells:
        with contextlib.suppress(ValueError):
            reached.append(cell.cell_contents)
    names = getattr(function, "__globals__", {})
    reached += [names[name] for name in _names_of(function) if name in names]
    kept = []
    for value in reached:
        if not inspect.ismodule(value) and not inspect.isroutine(value) and not isinstance(value, type):
            kept.append(value)
    return kept


def _random() -> str:
    """What is drawn next: for a child, since it is drawn."""
    drawn = paddle.rand([]).item()
    return repr((drawn, random.random(), np.random.random()))


def _picture(static: Any, args: Any, kwargs: Any, outcome: tuple[str, Any]) -> Any:
    try:
        picture = Picture().of([outcome[1], args, kwargs, _seen_by(static)])
    except TooLarge:
        return None
    result, *rest = picture[1] if isinstance(picture, tuple) and len(picture) > 1 else (picture,)
    named = [("result", result)]
    named += zip(("arguments", "keywords", "state"), rest, strict=False)
    return _portable(named)


def run(function: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "returned", function()
    except Exception as error:  # noqa: BLE001 - both sides have to raise the same
        return "raised", error


def _gradients(static: Any, args: Any, kwargs: Any, value: Any) -> Any:
    """Gradients of what the call returned, at everything that it has seen; None where there are none."""
    roots = [tensor for tensor in tensors(value) if not tensor.stop_gradient]
    if not roots:
        return None
    try:
        sum((root.astype("float32") ** 2).sum() for root in roots).backward()
        return _portable(Picture().of([args, kwargs, _seen_by(static)]))
    except TooLarge:
        return None
    except Exception as error:  # noqa: BLE001 - compared
        return f"{type(error).__name__}: {error}"


def _behind(static: Any, args: Any, kwargs: Any, outcome: tuple[str, Any]) -> Any:
    """In a child: what random numbers and gradients follow the call."""
    _inside.append(True)
    drawn = _random()
    with contextlib.redirect_stdout(io.StringIO()):
        return drawn, _gradients(static, args, kwargs, outcome[1]) if outcome[0] == "returned" else None


def _plain(static: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In a child: what plain Python does."""
    with contextlib.redirect_stdout(io.StringIO()):
        _inside.append(True)
        _core.switch_off(True)
        outcome = run(lambda: static.dygraph_function(*args, **kwargs))
        is_file = isinstance(outcome[1], OSError) and outcome[1].errno == 27
        if is_file:
            return None
        picture = _picture(static, args, kwargs, outcome)
    return outcome[0], picture, _behind(static, args, kwargs, outcome)


def _first(expected: Any, found: Any, close: bool) -> str | None:
    """The first difference of two pictures of calls."""
    if expected[0] != found[0]:
        kinds = [
            f"{kind} {picture[0][1][0]}" if kind == "raised" and picture else kind
            for kind, picture, *_ in (expected, found)
        ]
        return f"plain Python {kinds[0]}, the translated function {kinds[1]}"
    if expected[1] is None or found[1] is None:
        return None
    for (name, known), (_, now) in zip(expected[1], found[1], strict=True):
        if different := difference(known, now, close):
            return f"{name}{different}"
    return None


def compared_call(static: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """A call that is compared: its result, or its exception, is that of the translated function."""
    named = dict(kwargs or {})
    if _inside:
        return static.call_unchecked(*args, **named)
    if observers:
        return observers[-1](static, args, named)
    outcome, different = compared(static, args, named)
    if different:
        _warn(static, different)
    return ended(outcome)


def ended(outcome: tuple[str, Any]) -> Any:
    """Returns or raises what a call did."""
    kind, value = outcome
    if kind == "raised":
        raise value
    return value


def compared(static: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[str, Any], str | None]:
    """What a call of the translated function does, and where plain Python does something else."""
    # Paddle's generator gets its seed when it is asked first: here, and not in each child.
    paddle.get_rng_state()
    children = [Child(lambda: _plain(static, args, kwargs), waits) for waits in (False, True)]
    try:
        with at_once():
            outcome = run(lambda: static.call_unchecked(*args, **kwargs))
        expected, different = children[0].ask(), None
        if expected is not None:
            different = _compared(static, (args, kwargs), outcome, expected)
        if different and (again := children[1].ask()) is not None and _differ(expected, again):
            # It is not the same twice in plain Python.
            different = None
        return outcome, different
    finally:
        for child in children:
            child.end()


def _differ(one: Any, other: Any) -> bool:
    return bool(_first(one, other, False) or difference(one[2], other[2], False))


def _is_exact(static: Any) -> bool:
    return all(graph.backend in _EXACT for graph in static.graphs())


def _compared(static: Any, given: tuple[Any, Any], outcome: tuple[str, Any], expected: Any) -> str | None:
    found = outcome[0], _picture(static, *given, outcome)
    if different := _first(expected, found, not _is_exact(static)):
        return different
    behind = Child(lambda: _behind(static, *given, outcome)).ask()
    if behind is None or expected[2] is None:
        return None
    for name, known, now in zip(("random numbers", "gradients"), expected[2], behind, strict=True):
        if now is not None and known is not None and (different := difference(known, now, True)):
            return f"{name}{different}"
    return None


def _warn(static: Any, different: str) -> None:
    function = getattr(static.dygraph_function, "__func__", static.dygraph_function)
    code = function.__code__
    script = getattr(sys.modules.get("__main__"), "__file__", None) or "script.py"
    message = (
        f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) differs from plain Python: {different[:500]}\n"
        f"    for a program of few lines: python -m paddle_sot_rs minify {script}"
    )
    warnings.warn_explicit(message, DifferenceWarning, code.co_filename, code.co_firstlineno)
