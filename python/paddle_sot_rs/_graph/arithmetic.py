"""Python's functions of numbers, on tensors without dims: `int64` for whole numbers, `float64` for floats."""

from __future__ import annotations

from typing import Any

import paddle

from .control import check


def ceil(x: Any) -> Any:
    """`math.ceil(x)`"""
    return paddle.ceil(x).astype("int64")


def floor(x: Any) -> Any:
    """`math.floor(x)`"""
    return paddle.floor(x).astype("int64")


def trunc(x: Any) -> Any:
    """`math.trunc(x)`"""
    return x.astype("int64")


def round(x: Any) -> Any:  # noqa: A001
    """`round(x)`: a half becomes the even number next to it."""
    low = paddle.floor(x)
    rest = x - low
    is_odd = (low - 2 * paddle.floor(low / 2)) == 1
    goes_up = paddle.logical_or(rest > 0.5, paddle.logical_and(rest == 0.5, is_odd))
    return low.astype("int64") + goes_up.astype("int64")


def sqrt(x: Any) -> Any:
    """`math.sqrt(x)`"""
    check(x >= 0)
    return paddle.sqrt(x)


def isqrt(x: Any) -> Any:
    """`math.isqrt(x)`"""
    # The root of a number below is no whole number that the double of it is rounded to.
    check(paddle.logical_and(x >= 0, x < 2**52))
    return paddle.floor(paddle.sqrt(x.astype("float64"))).astype("int64")


def log(x: Any) -> Any:
    """`math.log(x)`"""
    check(x > 0)
    return paddle.log(x)


def log2(x: Any) -> Any:
    """`math.log2(x)`"""
    check(x > 0)
    return paddle.log2(x)


def log10(x: Any) -> Any:
    """`math.log10(x)`"""
    check(x > 0)
    return paddle.log10(x)


def exp(x: Any) -> Any:
    """`math.exp(x)`"""
    # Python raises where the result is too large.
    check(x < 709)
    return paddle.exp(x)


def abs(x: Any) -> Any:  # noqa: A001
    """`abs(x)`"""
    return paddle.abs(x)


def least(x: Any, y: Any) -> Any:
    """`min(x, y)`"""
    return paddle.minimum(x, y)


def greatest(x: Any, y: Any) -> Any:
    """`max(x, y)`"""
    return paddle.maximum(x, y)


def _pow(x: Any, y: Any) -> Any:
    # Operands of one shape would have other digits than C's function, which Python calls.
    return paddle.pow(x.reshape([1]), y).reshape([])


def power(x: Any, y: Any) -> Any:
    """`x ** y` of floats"""
    made = _pow(x, y)
    # Python raises, or makes a complex number.
    check(paddle.isfinite(made))
    return made


def whole_power(x: Any, y: Any) -> Any:
    """`x ** y` of whole numbers, given as doubles"""
    return _whole(x, y, 2.0**53)


def power_of_two(x: Any, y: Any) -> Any:
    """`2 ** y`, given as doubles"""
    return _whole(x, y, 2.0**62)


def _whole(x: Any, y: Any, limit: float) -> Any:
    made = _pow(x, y)
    # A negative power is a float in Python.
    check(paddle.logical_and(y >= 0, paddle.abs(made) < limit))
    return made.astype("int64")
