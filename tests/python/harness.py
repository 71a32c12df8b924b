"""Runs a program twice, in plain Python and translated, and compares everything that can be seen.

`SOT_TEST_WRAP=identity` replaces the translation by nothing: a test that fails then is wrong itself.
"""

from __future__ import annotations

import collections
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

IDENTITY = os.environ.get("SOT_TEST_WRAP") == "identity"


def translate(target: Any, **settings: Any) -> Any:
    if IDENTITY:
        return target
    settings.setdefault("min_graph_size", 0)
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


class Gradient(np.ndarray):
    """Numbers that may differ in the last digits: the order of a sum of gradients is not fixed."""


# What a difference of gradients begins with.
GRADIENT = "gradient "


# What stands for a gradient that was refused.
REFUSED = "refused"


def is_close(found: Any, expected: Any) -> bool:
    """Whether two gradients are equal, or both refused."""
    if found is REFUSED or expected is REFUSED:
        return found is expected
    return np.allclose(found, expected, rtol=1e-6)


class TooLarge(Exception):
    """Of tuples that hold the same tuples many times, again and again, there is no picture."""


class _Picture:
    """A comparable picture of values; an object met again is written as a reference to its number.

    `new_tensors`: each tensor may be another one of the same value.
    """

    def __init__(self, new_tensors: bool = False) -> None:
        self.new_tensors = new_tensors
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []
        self.left = 1_000_000

    def of(self, value: Any) -> Any:
        if isinstance(value, bool | int | float | complex | str | bytes | type(None) | type | types.ModuleType):
            return (type(value), repr(value))
        self.left -= 1
        if self.left < 0:
            raise TooLarge
        if isinstance(value, types.FunctionType | types.BuiltinFunctionType | paddle.dtype):
            return ("named", getattr(value, "__name__", str(value)))
        if self.new_tensors and isinstance(value, paddle.Tensor):
            return ("tensor", type(value), (value.shape, str(value.dtype), value.stop_gradient), value.numpy())
        if id(value) in self.seen:
            return ("again", self.seen[id(value)])
        if not isinstance(value, tuple | frozenset):
            self.seen[id(value)] = len(self.seen)
        self.alive.append(value)
        if isinstance(value, paddle.Tensor):
            grad = None if value.grad is None else value.grad.numpy().view(Gradient)
            meta = (value.shape, str(value.dtype), value.stop_gradient, value.is_leaf)
            return ("tensor", type(value), meta, value.numpy(), grad)
        if isinstance(value, np.ndarray | np.generic):
            return ("array", type(value), str(value.dtype), np.asarray(value))
        if isinstance(value, BaseException):
            return (type(value), self.of(value.args), str(value))
        if isinstance(value, dict):
            items = [(self.of(key), self.of(item)) for key, item in value.items()]
            return (type(value), items, self.state(value))
        if isinstance(value, set | frozenset):
            return (type(value), [self.of(item) for item in sorted(value, key=repr)])
        if isinstance(value, list | tuple | collections.deque):
            return (type(value), [self.of(item) for item in value], self.state(value))
        return (type(value).__qualname__, self.state(value))

    def state(self, value: Any) -> Any:
        if isinstance(value, paddle.nn.Layer):
            state = {**value.state_dict(), **{k: v for k, v in vars(value).items() if not k.startswith("_")}}
            state.pop("forward", None)
            return [(key, self.of(item)) for key, item in state.items()]
        state = getattr(value, "__dict__", {})
        slots = getattr(type(value), "__slots__", ())
        if not isinstance(value, tuple) and isinstance(slots, tuple):
            state = {**state, **{name: getattr(value, name) for name in slots if hasattr(value, name)}}
        return [(key, self.of(item)) for key, item in state.items()]


def difference(a: Any, b: Any, close: bool, path: str = "") -> str | None:
    """The first place where two pictures differ, or None; `close` allows the last digits to differ."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{path}: {a.dtype}{a.shape} and {b.dtype}{b.shape}"
        if close or isinstance(a, Gradient):
            # Sums of large parts may be small: what is lost is a share of the parts.
            parts = np.abs(b[np.isfinite(b)]).max(initial=0.0) if b.dtype.kind in "fc" else 0.0
            same = np.allclose(a, b, 1e-5, 1e-6 + 1e-5 * float(parts), equal_nan=True)
        else:
            same = np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") and _same_signs(a, b)
        kind = GRADIENT if isinstance(a, Gradient) else ""
        return None if same else f"{path}: {kind}{a} and {b}"
    if type(a) is type(b) and isinstance(a, list | tuple) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return next((found for at, (x, y) in pairs if (found := difference(x, y, close, f"{path}[{at}]"))), None)
    return None if type(a) is type(b) and a == b else f"{path}: {a} and {b}"


def _same_signs(a: np.ndarray, b: np.ndarray) -> bool:
    """Zeros have signs, too; those of what is no number differ between runs of one kernel."""
    if a.dtype.kind == "c":
        return _same_signs(a.real, b.real) and _same_signs(a.imag, b.imag)
    return a.dtype.kind != "f" or bool((np.isnan(a) | (np.signbit(a) == np.signbit(b))).all())


def _tensors(value: Any, inside: tuple[int, ...] = ()) -> list[paddle.Tensor]:
    if isinstance(value, paddle.Tensor):
        return [value]
    if id(value) in inside:
        return []
    inside = (*inside, id(value))
    # A derived class may answer to these with what it likes.
    if isinstance(value, dict):
        value = list(dict.values(value))
    for kind in (list, tuple, set):
        if isinstance(value, kind):
            return [tensor for item in kind.__iter__(value) for tensor in _tensors(item, inside)]
    return []


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
        roots = [t for t in _tensors(value) if not t.stop_gradient]
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
