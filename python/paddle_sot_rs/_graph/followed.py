"""What works in place, or shows something, in the form that translated code follows.

What is done in place no graph has; what comes of it, it has.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import paddle
from paddle import _C_ops, framework

_SHOWN = ("always", "all", "default", "ignore", "module", "once")


def shows_warning(message: str, category: type, names: dict[str, Any], line: int) -> tuple[int, bool]:
    """Whether `warnings.warn(message, category)` in this line shows it or passes over it: some filters raise.

    With it the number of filters in front of the one that says so, as many as there are where none does.
    """
    module = _module_of(names)
    for count, (action, text, kind, where, at) in enumerate(warnings.filters):
        if (
            (text is None or text.match(message))
            and issubclass(category, kind)
            and (where is None or where.match(module))
            and at in (0, line)
        ):
            return count, action in _SHOWN
    return len(warnings.filters), warnings.defaultaction in _SHOWN  # type: ignore[attr-defined]


def show_warning(message: str, file: str, line: int, category: type, names: dict[str, Any]) -> None:
    """What `warnings.warn(message, category)` does in this line."""
    registry = names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, file, line, _module_of(names), registry)


def _module_of(names: dict[str, Any]) -> str:
    module = names.get("__name__")
    return module if isinstance(module, str) else "<string>"


fill_diagonal_tensor = paddle.tensor.manipulation.fill_diagonal_tensor


def fill_diagonal(x: Any, value: float, offset: int = 0, wrap: bool = False, name: Any = None) -> Any:
    """`x.fill_diagonal_(...)` without the side effect."""
    return _C_ops.fill_diagonal(x, value, offset, wrap or len(x.shape) != 2)


def fill(x: Any, value: float) -> Any:
    """`x.fill_(value)` without the side effect; its gradient is zeros."""
    return _C_ops.fill(x, value)


# Operations that fill a tensor with what they draw: the same numbers, from the same generator, as a
# new tensor.


def uniform_like(x: Any, min: float = 0, max: float = 1.0, seed: int = 0, name: Any = None) -> Any:
    """`x.uniform_(...)` without the side effect."""
    return _C_ops.uniform_inplace(x, min, max, seed, 0, 0, 1.0)


def gaussian_like(x: Any, mean: float = 0.0, std: float = 1.0, seed: int = 0, name: Any = None) -> Any:
    """`gaussian_(x, ...)` without the side effect."""
    return _C_ops.gaussian_inplace(x, float(mean), float(std), int(seed))


def normal_like(x: Any, mean: float = 0.0, std: float = 1.0, name: Any = None) -> Any:
    """`x.normal_(...)` without the side effect."""
    return gaussian_like(x, mean, std)


def log_normal_like(x: Any, mean: float = 1.0, std: float = 2.0, name: Any = None) -> Any:
    """`x.log_normal_(...)` without the side effect."""
    return paddle.exp(normal_like(x, mean, std))


def exponential_like(x: Any, lam: float = 1.0, name: Any = None) -> Any:
    """`x.exponential_(...)` without the side effect: there is no operation but the one in place."""
    return _C_ops.exponential_(paddle.zeros_like(x), lam)


def bernoulli_like(x: Any, p: Any = 0.5, name: Any = None) -> Any:
    """`x.bernoulli_(...)` without the side effect."""
    drawn = uniform_like(x, 0.0, 1.0)
    ones, zeros = drawn < p, drawn > p
    return paddle.masked_fill(paddle.masked_fill(drawn, ones, 1.0), zeros, 0.0)


def cauchy_like(x: Any, loc: Any = 0, scale: Any = 1, name: Any = None) -> Any:
    """`x.cauchy_(...)` without the side effect."""
    drawn = normal_like(x)
    loc, half = _as_tensor(loc, x), _as_tensor(0.5, x)
    drawn = paddle.scale(paddle.subtract(drawn, half), np.pi)
    return paddle.add(paddle.scale(paddle.tan(drawn), scale), loc)


def geometric_like(x: Any, probs: Any, name: Any = None) -> Any:
    """`x.geometric_(...)` without the side effect."""
    tiny = {paddle.float32: np.finfo(np.float32), paddle.float64: np.finfo(np.float64)}[x.dtype].tiny
    probs = _as_tensor(probs, x)
    return paddle.divide(paddle.log(uniform_like(x, min=float(tiny), max=1.0)), paddle.log1p(-probs))


def _as_tensor(value: Any, like: Any) -> Any:
    return paddle.full([], value, like.dtype) if isinstance(value, int | float) else value.astype(like.dtype)


def without_gradients(method: Any, *args: Any) -> Any:
    """A method of tensors, as it is called where no gradients are recorded: `no_grad` costs more than most."""
    tracer = framework._dygraph_tracer()
    before = tracer._has_grad
    tracer._has_grad = False
    try:
        return method(*args)
    finally:
        tracer._has_grad = before
