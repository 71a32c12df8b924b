"""NumPy's functions of numbers and arrays, on tensors of the dtype that NumPy answers with."""

from __future__ import annotations

from typing import Any

import paddle

from .arithmetic import differs, equals  # noqa: F401
from .control import check


def whole(x: Any, dtype: str) -> Any:
    """`x.astype(dtype)` of floats; those that it does not hold have no answer that is the same everywhere."""
    check(paddle.all(paddle.abs(x) < (2.0**62 if dtype.endswith("64") else 2.0**31)))
    return x.astype(dtype)


def absolute(x: Any) -> Any:
    """`np.abs(x)`"""
    return paddle.abs(x)


def _rounds(x: Any, function: Any) -> Any:
    return x if x.dtype in (paddle.int32, paddle.int64) else function(x)


def ceil(x: Any) -> Any:
    """`np.ceil(x)`"""
    return _rounds(x, paddle.ceil)


def floor(x: Any) -> Any:
    """`np.floor(x)`"""
    return _rounds(x, paddle.floor)


def trunc(x: Any) -> Any:
    """`np.trunc(x)`"""
    return _rounds(x, paddle.trunc)


def rint(x: Any) -> Any:
    """`np.rint(x)`: a half becomes the even number next to it."""
    low = paddle.floor(x)
    rest = x - low
    is_odd = (low - 2 * paddle.floor(low / 2)) == 1
    goes_up = paddle.logical_or(rest > 0.5, paddle.logical_and(rest == 0.5, is_odd))
    return low + goes_up.astype(x.dtype)


def exp(x: Any) -> Any:
    """`np.exp(x)`"""
    # NumPy warns of what is too large.
    check(paddle.all(x < (709 if x.dtype == paddle.float64 else 88)))
    return paddle.exp(x)


def log(x: Any) -> Any:
    """`np.log(x)`; NumPy warns of numbers that have none."""
    check(paddle.all(x > 0))
    return paddle.log(x)


def log2(x: Any) -> Any:
    """`np.log2(x)`"""
    check(paddle.all(x > 0))
    return paddle.log2(x)


def log10(x: Any) -> Any:
    """`np.log10(x)`"""
    check(paddle.all(x > 0))
    return paddle.log10(x)


def sqrt(x: Any) -> Any:
    """`np.sqrt(x)`"""
    check(paddle.all(x >= 0))
    return paddle.sqrt(x)


def square(x: Any) -> Any:
    """`np.square(x)`"""
    return x * x


def negative(x: Any) -> Any:
    """`-x`"""
    return -x


def add(x: Any, y: Any) -> Any:
    """`x + y`"""
    return x + y


def subtract(x: Any, y: Any) -> Any:
    """`x - y`"""
    return x - y


def multiply(x: Any, y: Any) -> Any:
    """`x * y`"""
    return x * y


def _check_divisor(y: Any) -> None:
    # NumPy warns.
    check(paddle.all(y != 0))


def divide(x: Any, y: Any) -> Any:
    """`x / y`"""
    _check_divisor(y)
    return x / y


def floor_divide(x: Any, y: Any) -> Any:
    """`x // y` of whole numbers"""
    _check_divisor(y)
    return paddle.floor_divide(x, y)


def remainder(x: Any, y: Any) -> Any:
    """`x % y` of whole numbers"""
    _check_divisor(y)
    return paddle.remainder(x, y)


def maximum(x: Any, y: Any) -> Any:
    """`np.maximum(x, y)`"""
    return paddle.maximum(x, y)


def minimum(x: Any, y: Any) -> Any:
    """`np.minimum(x, y)`"""
    return paddle.minimum(x, y)


def array(items: list[Any], dims: list[int]) -> Any:
    """`np.array(...)` of numbers, which are given in their order"""
    made = paddle.stack(items)
    return made if len(dims) == 1 else made.reshape(dims)


def arange(start: Any, stop: Any, step: int) -> Any:
    """`np.arange(start, stop, step)` of whole numbers"""
    # Paddle refuses to count away from the end.
    stop = paddle.maximum(start, stop) if step > 0 else paddle.minimum(start, stop)
    return paddle.arange(start, stop, step, paddle.int64)


def concatenate(items: list[Any]) -> Any:
    """`np.concatenate(items)`"""
    return paddle.concat(items)


def prod(x: Any) -> Any:
    """`np.prod(x)`"""
    return paddle.prod(x)


def sum(x: Any) -> Any:  # noqa: A001
    """`np.sum(x)`"""
    return paddle.sum(x)


def max(x: Any) -> Any:  # noqa: A001
    """`np.max(x)`"""
    return paddle.max(x)


def min(x: Any) -> Any:  # noqa: A001
    """`np.min(x)`"""
    return paddle.min(x)


amax, amin = max, min
