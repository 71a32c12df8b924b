"""Python's functions of numbers, on tensors without dims: `int64` for whole numbers, `float64` for floats."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import takewhile
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


def _square(x: Any) -> tuple[Any, Any]:
    """A square, and what it has lost."""
    made, (high, low) = x * x, _halves(x)
    return made, ((high * high - made) + _double(2.0) * high * low) + low * low


def hypot(*numbers: Any) -> Any:
    """`math.hypot(*numbers)`: `vector_norm` of CPython's `Modules/mathmodule.c`, operation by operation"""
    sizes = [paddle.abs(number) for number in numbers]
    largest = sizes[0]
    for size in sizes[1:]:
        largest = paddle.maximum(largest, size)
    # So that no scale is a denormal.
    check(
        paddle.logical_and(largest < _double(2.0**500), paddle.logical_or(largest > _double(2.0**-500), largest <= 0))
    )
    if len(sizes) == 1:
        return largest
    one, half, two = _double(1.0), _double(0.5), _double(2.0)
    some = paddle.where(largest > 0, largest, one)
    # The largest becomes 0.5 or more, and less than 1.
    scale = _pow(two, -one - paddle.floor(paddle.log2(some)))
    scale = paddle.where(some * scale >= one, scale * half, scale)
    scale = paddle.where(some * scale < half, scale * two, scale)
    total, lost, rounded = one, paddle.zeros([], "float64"), paddle.zeros([], "float64")
    root = None
    for size in [*sizes, None]:
        if size is None:
            root = paddle.sqrt(total - one + (lost + rounded))
            made, rest = (-part for part in _square(root))
        else:
            made, rest = _square(size * scale)
        more = total + made
        lost, rounded, total = lost + rest, rounded + ((total - more) + made), more
    root = root + (total - one + (lost + rounded)) / (two * root)
    return paddle.where(largest > 0, root / scale, largest)


def _exact(value: int) -> Any:
    """A whole number as a tensor of one: `full` takes a double."""
    high, low = divmod(value, 2**31)
    made = paddle.full([1], low, "int64")
    return made + paddle.full([1], high, "int64") * paddle.full([1], 2**31, "int64") if high else made


def _of_table(values: list[int], at: Any) -> Any:
    """One of the numbers; the graph fails where there is none there."""
    check(paddle.logical_and(at >= 0, at < len(values)))
    table = paddle.concat([_exact(value) for value in values])
    return paddle.gather(table, at.reshape([1])).reshape([])


def _of_int64(values: Iterable[int]) -> list[int]:
    """Those in front of the first that a number of the graph may not be."""
    return list(takewhile(lambda value: value < 2**62, values))


def factorial(x: Any) -> Any:
    """`math.factorial(x)`"""
    return _of_table(_of_int64(math.factorial(n) for n in range(30)), x)


def perm(x: Any, k: int) -> Any:
    """`math.perm(x, k)`"""
    return _falling(x, k, [1] * k)


def comb(x: Any, k: int) -> Any:
    """`math.comb(x, k)`"""
    return _falling(x, k, range(1, k + 1))


def _falling(x: Any, k: int, divisors: Iterable[int]) -> Any:
    """`x * (x - 1) / 2 * (x - 2) / 3 ...`: each division leaves nothing over."""
    made = paddle.ones([], "int64")
    # The products grow from a factor of two on.
    fits = [x >= 0]
    for at, divisor in zip(range(k), divisors, strict=True):
        about = paddle.abs(made.astype("float64") * (x - at).astype("float64"))
        fits.append(about < _double(2.0**62))
        made = made * (x - at)
        if divisor > 1:
            made = paddle.floor_divide(made, paddle.full([], divisor, "int64"))
    check(paddle.stack(fits).all())
    return made


def comb_of(k: Any, n: int) -> Any:
    """`math.comb(n, k)`"""
    values = _of_int64(math.comb(n, at) for at in range(n + 1))
    if len(values) <= n:
        return _of_table(values, k)
    return _of_table([*values, 0], least(k, paddle.full([], n + 1, "int64")))


def _reached(x: Any, limits: Iterable[int]) -> Any:
    """How many of the numbers this one is not below."""
    reached = [(x >= paddle.full([], limit, "int64")).astype("int64") for limit in limits]
    return paddle.add_n(reached)


def bit_length(x: Any) -> Any:
    """`x.bit_length()`"""
    return _reached(paddle.abs(x), (2**bit for bit in range(63)))


def bit_count(x: Any) -> Any:
    """`x.bit_count()`"""
    size, two = paddle.abs(x), paddle.full([], 2, "int64")
    bits = []
    for _ in range(63):
        half = paddle.floor_divide(size, two)
        bits.append(size - half * two)
        size = half
    return paddle.add_n(bits)


def is_integer(x: Any) -> Any:
    """`x.is_integer()` of a float"""
    return paddle.logical_and(paddle.isfinite(x), equals(paddle.floor(x), x))


def text_length(x: Any) -> Any:
    """`len(str(x))` of a whole number"""
    return _reached(paddle.abs(x), (10**digits for digits in range(1, 19))) + 1 + (x < 0).astype("int64")


def copysign(x: Any, y: Any) -> Any:
    """`math.copysign(x, y)`"""
    return paddle.copysign(x, y)


def fmod(x: Any, y: Any) -> Any:
    """`math.fmod(x, y)`: with the sign of the first"""
    check(paddle.logical_and(paddle.isfinite(x), differs(y, paddle.zeros([], "float64"))))
    return paddle.copysign(paddle.remainder(paddle.abs(x), paddle.abs(y)), x)


def atan2(x: Any, y: Any) -> Any:
    """`math.atan2(x, y)`"""
    return paddle.atan2(x, y)


def isfinite(x: Any) -> Any:
    """`math.isfinite(x)`"""
    return paddle.isfinite(x)


def isinf(x: Any) -> Any:
    """`math.isinf(x)`"""
    return paddle.isinf(x)


def isnan(x: Any) -> Any:
    """`math.isnan(x)`"""
    return paddle.isnan(x)


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
