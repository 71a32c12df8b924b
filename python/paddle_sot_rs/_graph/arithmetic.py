"""Python's functions of numbers, on tensors without dims: `int64` for whole numbers, `float64` for floats."""

from __future__ import annotations

import math
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
    goes_up = _goes_up(x - low, 0.5, _is_odd(low))
    return low.astype("int64") + goes_up.astype("int64")


def _is_odd(whole: Any) -> Any:
    """Of a whole number that is a float."""
    return (whole - 2 * paddle.floor(whole / 2)) == 1


def _goes_up(rest: Any, half: Any, if_half: Any) -> Any:
    """Whether a number is rounded up of which this is left."""
    return paddle.logical_or(rest > half, paddle.logical_and(rest >= half, if_half))


def _double(value: float) -> Any:
    """A tensor of the number: beside a tensor it would lose half of its digits."""
    return paddle.full([], value, "float64")


def _function(name: str, made: Any, fits: Any = None) -> Any:
    """`math.name(x)`, which raises where the number does not fit."""

    def call(x: Any) -> Any:
        if fits is not None:
            check(fits(x))
        return made(x)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`math.{name}(x)`"
    return call


def _imaginary(x: Any) -> Any:
    return paddle.complex(paddle.zeros([], "float64"), x)


# Paddle's own `sin` and `cos` have other digits than C's, their complex forms have those.
sin = _function("sin", lambda x: paddle.sinh(_imaginary(x)).imag(), paddle.isfinite)
cos = _function("cos", lambda x: paddle.cosh(_imaginary(x)).real(), paddle.isfinite)
tan = _function("tan", paddle.tan, paddle.isfinite)
asin = _function("asin", paddle.asin, lambda x: paddle.abs(x) <= 1)
acos = _function("acos", paddle.acos, lambda x: paddle.abs(x) <= 1)
atan = _function("atan", paddle.atan)
# Python raises where the result is too large.
sinh = _function("sinh", paddle.sinh, lambda x: paddle.abs(x) < 709)
cosh = _function("cosh", paddle.cosh, lambda x: paddle.abs(x) < 709)
tanh = _function("tanh", paddle.tanh)
asinh = _function("asinh", paddle.asinh)
acosh = _function("acosh", paddle.acosh, lambda x: x >= 1)
atanh = _function("atanh", paddle.atanh, lambda x: paddle.abs(x) < 1)
erf = _function("erf", paddle.erf)
expm1 = _function("expm1", paddle.expm1, lambda x: x < 709)
log1p = _function("log1p", paddle.log1p, lambda x: x > -1)
degrees = _function("degrees", lambda x: x * _double(180.0 / math.pi))
radians = _function("radians", lambda x: x * _double(math.pi / 180.0))
fabs = _function("fabs", paddle.abs)


def gcd(x: Any, y: Any) -> Any:
    """`math.gcd(x, y)`"""
    return paddle.gcd(paddle.abs(x), paddle.abs(y))


def lcm(x: Any, y: Any) -> Any:
    """`math.lcm(x, y)`"""
    # Without a zero among them, which has none.
    common = paddle.maximum(gcd(x, y), paddle.ones([], "int64"))
    return paddle.abs(paddle.floor_divide(x, common) * y)


def _halves(x: Any) -> tuple[Any, Any]:
    """Two numbers of half the digits whose sum this is."""
    large = x * _double(134217729.0)
    high = large - (large - x)
    return high, x - high


def round_to(x: Any, digits: int) -> Any:
    """`round(x, digits)`: the double next to the decimal number next to it."""
    scale = _double(10.0**digits)
    product = x * scale
    check(paddle.abs(product) < 2.0**52)
    # What the product has lost, so that a half is one.
    (a, b), (high, low) = _halves(x), _halves(scale)
    lost = b * low - (((product - a * high) - b * high) - a * low)
    whole = paddle.floor(product)
    more = _goes_up(lost, 0, _is_odd(whole))
    goes_up = _goes_up(product - whole, 0.5, more)
    found = (whole + goes_up.astype("float64")) / scale
    # A zero has the sign of the number.
    return paddle.copysign(found, x)


def round_whole(x: Any, digits: int) -> Any:
    """`round(x, -digits)` of a whole number"""
    scale = 10**digits
    low = paddle.floor_divide(x, paddle.full([], scale, "int64"))
    is_odd = low - 2 * paddle.floor_divide(low, paddle.full([], 2, "int64")) == 1
    goes_up = _goes_up(x - low * scale, scale // 2, is_odd)
    return (low + goes_up.astype("int64")) * scale


def chosen(condition: Any, x: Any, y: Any) -> Any:
    """`x if condition else y`"""
    return paddle.where(condition, x, y)


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


def equals(x: Any, y: Any) -> Any:
    """`x == y` of floats: Paddle takes those for equal that differ by less than 1e-8."""
    return paddle.logical_and(x <= y, x >= y)


def differs(x: Any, y: Any) -> Any:
    """`x != y` of floats"""
    return paddle.logical_not(equals(x, y))


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
