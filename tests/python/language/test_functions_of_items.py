"""Python's functions of numbers that come out of tensors are part of the graph."""

import math

import paddle
import paddle_sot_rs as sot
import pytest

pytestmark = pytest.mark.default_python


def extremes(x):
    n, m = int(x.sum()), int(x.max())
    return x + min(n, m, 3) + 10 * max(n, 2) + abs(n)


def roundings(x):
    a = float(x.mean())
    return x + math.ceil(a) + math.floor(a) * 10 + round(a) * 100 + round(a * 2) * 1000 + math.trunc(a)


def roots(x):
    n = abs(int(x.sum()))
    return x + math.isqrt(n) + int(math.sqrt(n) * 3)


def divisions(x):
    n, m = int(x.sum()), int(x.max())
    q, r = divmod(n, m)
    return x + n // m + (n % m) * 10 + q * 100 + r + n // 2


def bits(x):
    n = int(x.sum())
    return x + (n & 3) + (n >> 1) + n**2


def comparisons_of_many(x):
    n = int(x.sum())
    return x + (1 if n in (3, 6) else 2) + (10 if (n, n + 1) == (6, 7) else 20)


FUNCTIONS = [extremes, roundings, roots, divisions, bits, comparisons_of_many]
NUMBERS = ([1.0, 2.0, 3.0], [-4.0, -3.5, 2.5], [0.5, 1.5, 1.0], [7.0, -9.0, 1.0], [2.5, 2.5, 2.5])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_one_graph_and_the_numbers_of_python(function):
    static = sot.to_static(function, full_graph=True)
    for numbers in NUMBERS:
        x = paddle.to_tensor(numbers)
        assert static(x).tolist() == function(x).tolist()
    assert len(static.graphs()) == 1


@pytest.mark.parametrize(
    ("function", "error"),
    [(divisions, ZeroDivisionError), (lambda x: x + math.sqrt(float(x.sum())), ValueError)],
)
def test_errors_are_those_of_python(function, error):
    static = sot.to_static(function, full_graph=True)
    static(paddle.to_tensor([1.0, 2.0, 3.0]))
    with pytest.raises(error):
        static(paddle.to_tensor([0.0, -1.0, 0.0]))
