"""Powers of open dims are part of an exported program, with Python's types and bits; calls compute them in Python."""

import math
import operator

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

SPEC = [InputSpec([None, 2], "float64", "x")]
SIZES = (3, 5, 0, 1, 2, 4, 7, 12)


def in_place(n):
    n **= 2
    return n


def in_loop(n):
    k = 1
    for i in range(n):
        k = k + (n + i) ** 2 + 2**i
    return k


POWERS = {
    "whole": lambda n: (n**2, n**1, n**5, (n - 4) ** 3),
    "many factors": lambda n: n**13 + (n - 1) ** 17,
    "more factors than an int64 has": lambda n: ((n % 2) ** 63, (n % 3 - 1) ** 101),
    "of nothing": lambda n: (n**0, (n - n) ** 0, type(n**0) is int),
    "in place": in_place,
    "in a loop": in_loop,
    "of two": lambda n: (2**n, 2 ** (n * 5), 2 ** (n // 2) - 1),
    "of a constant": lambda n: (3**n, 0**n, (-2) ** n, 10 ** (n % 7)),
    "of itself": lambda n: n**n,
    "shifts": lambda n: (1 << n) + (n << n),
    "roots": lambda n: (n**0.5, n ** (1 / 3), (n * 1000003) ** 0.5, n**1.5, n**2.0, n**0.0),
    "reciprocals": lambda n: ((n + 1) ** -1, (n + 1) ** -2, (n + 1) ** -0.5, (n - 20) ** -3),
    "of floats": lambda n: ((n / 3) ** 2, (n / 3) ** 0.3, (n / 3) ** n, ((n - 5) / 3) ** 3),
    "by dims": lambda n: (1.5**n, 10000 ** (n / 7), 10000.0 ** (-2 * n / 12), 2.0**n),
    "pow": lambda n: (pow(n, 2), pow(2, n), pow(n, 0.5), operator.pow(n, 3), operator.pow(n, 0.25)),
    "math.pow": lambda n: (math.pow(n, 2), math.pow(2, n), math.pow(n, 0.3)),
    "types": lambda n: [type(power) is float for power in (n**2, n**2.0, n**0, math.pow(n, 2), 2**n)],
    "powers of powers": lambda n: (n**2) ** 0.5 + 2 ** (n**2 % 9) + int(n**0.5) + max(n**2, 10),
}
# Of calls: one for all sizes from 2 on, and those of 0 and 1. Python computes large powers for each
# size, and a branch has its sides.
TRANSLATIONS = {"more factors than an int64 has": len(SIZES), "powers of powers": 4}


def function_of(power):
    def function(x):
        found = power(x.shape[0])
        found = found if isinstance(found, tuple | list) else (found,)
        return [x * one + one for one in found]

    return function


@pytest.mark.parametrize("name", POWERS)
def test_exports(name, tmp_path):
    function = function_of(POWERS[name])
    sot.save(function, tmp_path / "net", SPEC)
    loaded = paddle.jit.load(str(tmp_path / "net"))
    for size in SIZES:
        x = paddle.full([size, 2], 0.3, "float64")
        found = loaded(x)
        found = found if isinstance(found, list | tuple) else [found]
        for one, other in zip(found, function(x), strict=True):
            assert one.shape == other.shape and one.dtype == other.dtype
            np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("name", sorted(POWERS.keys() - {"in a loop"}))
def test_calls(name):
    function = function_of(POWERS[name])
    static = sot.to_static(function, full_graph=True, input_spec=SPEC)
    for size in SIZES:
        x = paddle.full([size, 2], 0.3, "float64")
        for one, other in zip(static(x), function(x), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
    stats = sot.stats(static)
    count = TRANSLATIONS.get(name, 3)
    assert (stats.graphs, stats.translations, stats.graph_breaks) == (count, count, [])


@pytest.mark.parametrize(
    ("power", "size"),
    [
        (lambda n: n**21, 12),  # More than an int64 holds.
        (lambda n: (n * 20) ** 9, 12),
        (lambda n: 2 ** (n * 7), 12),
        (lambda n: 3 ** (n * 5), 12),
        (lambda n: 2 ** (9 - n), 12),  # A float of two whole numbers.
        (lambda n: (9 - n) ** 0.5, 12),  # A complex number.
        (lambda n: (12 - n) ** -1, 12),  # Python raises.
        (lambda n: 1e30 ** (n / 1), 12),
        (lambda n: math.pow(9 - n, 0.5), 12),
        (lambda n: 1 << (9 - n), 12),
    ],
)
def test_numbers_that_a_program_has_not_fail_in_it(power, size, tmp_path):
    sot.save(lambda x: x * power(x.shape[0]), tmp_path / "net", SPEC)
    loaded = paddle.jit.load(str(tmp_path / "net"))
    x = paddle.ones([3, 2], "float64")
    assert (loaded(x) == x * power(3)).all()
    with pytest.raises(ValueError, match=r"[Aa]ssert"):
        loaded(paddle.ones([size, 2], "float64"))


@pytest.mark.parametrize(
    ("power", "message"),
    [(lambda n: (n % 2) ** 2000, "such a power"), (lambda n: pow(n, 2, 5), r"pow\(\)")],
)
def test_refused(power, message, tmp_path):
    with pytest.raises(sot.GraphBreakError, match=message) as raised:
        sot.save(lambda x: x * power(x.shape[0]), tmp_path / "net", SPEC)
    assert "test_powers_of_dims.py" in str(raised.value)
