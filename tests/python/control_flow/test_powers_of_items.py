"""Powers of numbers that a graph reads out of tensors; what Python alone has is computed by the interpreter."""

import math

import paddle
import paddle_sot_rs as sot
import pytest

pytestmark = pytest.mark.default_python

POWERS = [
    lambda n, f: (n**2, n**0, n**-1, f**2, f**0.5, f**-1.5),
    lambda n, f: (2**n, 1 << abs(n), (-3) ** n, 1.5**f),
    lambda n, f: (pow(n, 3), pow(f, n), math.pow(n, f), n**n),
]
NUMBERS = [(3, 2.25), (1, 0.3), (0, 1.0), (60, 1e3), (-3, 0.7), (-1, -2.0), (5, -0.5), (400, 4.0), (2, 0.0)]


@pytest.mark.parametrize("power", POWERS)
def test_numbers(power):
    def function(whole, real):
        y = real * 2
        return y, power(int(whole), float(real))

    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    first = [paddle.to_tensor(3), paddle.to_tensor(2.25, "float64")]
    assert static(*first)[1] == function(*first)[1]
    stats = sot.stats(static)
    assert (stats.graphs, stats.translations, stats.graph_breaks) == (1, 1, [])
    # Programs fail where Python raises, and the interpreter does that.
    for whole, real in NUMBERS:
        given = paddle.to_tensor(whole), paddle.to_tensor(real, "float64")
        try:
            expected = function(*given)[1]
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            with pytest.raises(type(error)):
                static(*given)
            continue
        found = static(*given)[1]
        assert [repr(one) for one in found] == [repr(one) for one in expected]


def test_loops():
    def function(x):
        n = 1
        while x.sum() < 10:
            x = x + 1
            n = n + 1
        return x * 2**n, n**2

    static = sot.to_static(function, full_graph=True)
    for start in (9.0, 4.0, 1.0, 20.0):
        x = paddle.full([1], start)
        found, expected = static(x), function(x)
        assert (found[0] == expected[0]).all() and found[1] == expected[1]
    stats = sot.stats(static)
    assert (stats.graphs, stats.translations, stats.graph_breaks) == (1, 1, [])
