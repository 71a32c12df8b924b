"""Runs a program twice, in plain Python and translated, and compares everything that can be seen.

`SOT_TEST_WRAP=identity` replaces the translation by nothing: a test that fails then is wrong itself.
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle_sot_rs._reproduce.pictures import (  # noqa: F401 - tests take these from here
    GRADIENT,
    REFUSED,
    Gradient,
    TooLarge,
    difference,
    is_close,
    tensors,
)
from paddle_sot_rs._reproduce.pictures import (
    Picture as _Picture,
)

IDENTITY = os.environ.get("SOT_TEST_WRAP") == "identity"


def translate(target: Any, **settings: Any) -> Any:
    if IDENTITY:
        return target
    if settings.setdefault("min_graph_size", 0) == 0:
        # Of sizes that come once, too.
        settings.setdefault("compile_at_call", 1)
    return sot.to_static(apart(target), **settings)


def apart(target: Any) -> Any:
    """The same function as another object: what is known of one that was translated before does not count."""
    if not isinstance(target, types.FunctionType):
        return target
    twin = types.FunctionType(target.__code__, target.__globals__, target.__name__, closure=target.__closure__)
    # The same objects: what is written to one of them is seen through the other.
    twin.__defaults__, twin.__kwdefaults__ = target.__defaults__, target.__kwdefaults__
    for name in ("__qualname__", "__module__", "__doc__", "__annotations__", "__type_params__"):
        if hasattr(target, name):
            setattr(twin, name, getattr(target, name))
    twin.__dict__.update(target.__dict__)
    return twin


def _user_lines(error: BaseException, file: str) -> list[tuple[str, int | None]]:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [(frame.name, frame.lineno) for frame in frames if frame.filename == file]
    # A frame that broke the graph shows the line of the break too.
    return lines[-1:]


@dataclass
class Outcome:
    """What one call did, as far as anyone can see."""

    kind: str
    value: Any
    printed: str
    lines: list[Any]
    world: Any
    random: float


def _world() -> Any:
    tracer = paddle.base.framework._dygraph_tracer()
    return (
        paddle.is_grad_enabled(),
        paddle.get_default_dtype(),
        paddle.in_dynamic_mode(),
        str(tracer._amp_level),
        str(tracer._amp_dtype),
    )


def outcome(
    function: Callable[..., Any],
    file: str,
    args: Any,
    kwargs: Any,
    watch: Any,
    backward: bool,
    new_tensors: bool = False,
) -> Outcome:
    """Calls the function. `new_tensors`: captured control flow, whose results are never tensors from outside."""
    out, lines = io.StringIO(), []
    paddle.seed(11)
    kind = "returned"
    with contextlib.redirect_stdout(out):
        try:
            value: Any = function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the comparison is about which one it is
            kind, value, lines = "raised", error, _user_lines(error, file)
    if kind == "returned" and backward:
        roots = [t for t in tensors(value) if not t.stop_gradient]
        if roots:
            sum((t.astype("float32") ** 2).sum() for t in roots).backward()
    picture = _Picture().of([args, kwargs, None if new_tensors else value, watch() if watch else None])
    if new_tensors:
        picture = (picture, _Picture(new_tensors).of(value))
    return Outcome(kind, picture, out.getvalue(), lines, _world(), paddle.rand([]).item())


def check(
    function: Callable[..., Any],
    *args: Any,
    calls: list[tuple[Any, ...]] | None = None,
    kwargs: dict[str, Any] | None = None,
    graphs: int | None = None,
    breaks: int | None = None,
    translations: int | None = None,
    fallbacks: int | None = 0,
    repeat: int = 2,
    close: bool = False,
    backward: bool = True,
    watch: Callable[[], Any] | None = None,
    reset: Callable[[], None] | None = None,
    **settings: Any,
) -> Any:
    """Calls `function` eager and translated on equal arguments and compares the outcomes.

    Args:
        args: arguments of every call, copied (with their aliasing) for each.
        calls: more calls, with other arguments, after the first ones.
        graphs, breaks, translations, fallbacks: what the translation must take; None: do not care.
        watch: reads state outside of the arguments that is part of the outcome.
        reset: puts that state back before each call.
    """
    file = function.__code__.co_filename if hasattr(function, "__code__") else __file__
    translated = translate(function, **settings)
    for number, inputs in enumerate([args] * repeat + list(calls or [])):
        results = []
        for run in (function, translated):
            if reset:
                reset()
            copied_args, copied_kwargs = copy.deepcopy((inputs, kwargs or {}))
            results.append(outcome(run, file, copied_args, copied_kwargs, watch, backward))
        expected, actual = results
        for name in ("kind", "printed", "lines", "world", "random", "value"):
            a, b = getattr(expected, name), getattr(actual, name)
            assert (found := difference(a, b, close)) is None, f"call {number}, eager and translated: {name}{found}"
    if IDENTITY:
        return None
    record = sot.stats(translated)
    wanted = {"graphs": graphs, "graph_breaks": breaks, "fallbacks": fallbacks, "translations": translations}
    for name, number in wanted.items():
        value = getattr(record, name)
        if name == "graph_breaks":
            value = sum(it.count for it in value)
        found = value if isinstance(value, int) else len(value)
        assert number is None or found == number, f"{name}: expected {number}, found {found}: {record}"
    return record


def pictured(function: Callable[..., Any], *args: Any) -> Any:
    """What a call answers with or raises, to be compared with that of another function."""
    try:
        return _Picture().of(function(*args))
    except Exception as error:  # noqa: BLE001 - the same one is expected
        return type(error), str(error)


class Programs(list):
    """Collects small functions with the arguments they are run on and what they must take.

    `bug="..."` marks a known wrong outcome: the test must fail, and the mark goes with the fix.
    """

    def __call__(self, *args: Any, **expectations: Any) -> Callable[[Any], Any]:
        bug = expectations.pop("bug", None)
        marks = [pytest.mark.xfail(reason=bug, strict=not IDENTITY)] if bug and not IDENTITY else []

        def add(function: Any) -> Any:
            self.append(pytest.param(function, args, expectations, id=function.__name__, marks=marks))
            return function

        return add


def tensor(*shape: int, seed: int = 0, grad: bool = False, dtype: str = "float32") -> paddle.Tensor:
    """A tensor of reproducible normal numbers."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return paddle.to_tensor(values, stop_gradient=not grad)
