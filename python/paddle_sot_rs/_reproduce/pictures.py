"""Pictures of values that can be compared: what is in them, which objects are there twice, and gradients."""

from __future__ import annotations

import collections
import types
from typing import Any

import numpy as np
import paddle


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


class Picture:
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


def tensors(value: Any, inside: tuple[int, ...] = ()) -> list[paddle.Tensor]:
    """The tensors in containers, in order."""
    if isinstance(value, paddle.Tensor):
        return [value]
    if id(value) in inside:
        return []
    inside = (*inside, id(value))
    # A derived class may answer to these with what it likes.
    if isinstance(value, dict):
        value = list(dict.values(value))
    kinds: list[Any] = [list, tuple, set]
    for kind in kinds:
        if isinstance(value, kind):
            return [tensor for item in kind.__iter__(value) for tensor in tensors(item, inside)]
    return []
