"""`int(x)`, `float(x)`, `bool(x)` and `x.item()` as numbers of the graph."""

import math

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from test_control_flow import DATA, check

ONES = ([0.5], [-0.5], [3.7], [-3.7], [0.1], [1e5 + 0.3], [-0.0])


def whole(x):
    n = int(x.sum())
    return x * n, n, n + 2, n * n, n // 3


def floating(x):
    f = float(x.sum())
    return x + f, x * f, f, f * 0.1 + 3, 2 - f, x / 3 - f, f / 7


def truth(x):
    return bool(x.sum() > 0), x * 2, bool(x.max())


def item(x):
    n = (x.sum() * 10).astype("int32").item()
    return x.mean().item(), x * n, n, (x.sum() > 1).item(), x + x.max().item()


def branch_on_numbers(x):
    if x.sum().item() > 0.5:
        y = x * float(x.max())
    elif int(x.min()) < -1:
        y = x * x
    else:
        y = x + 1
    return y


def whole_of_float_of_whole(x):
    f = float(x.sum())
    n = int(f)
    return float(n) + 0.25, int(x.sum() > 0) + n, bool(n), bool(f), x + 1


def range_of_int(x):
    y = x
    for i in range(int(abs(x.sum())) % 5):
        y = y + i * x
    return y


def sum_of_floats(x):
    s = 0.0
    k = 1.0
    for i in range(int(abs(x.sum())) % 7):
        s = s + float(i) * 0.1
        k = k * 1.7
    return x * s + k, s, k


def sides_of_floats(x):
    scale = 0.1 if x.sum() > 0 else 2.5
    return x * scale, x + scale, scale


def rates_of_a_loop(x):
    rate = 0.3
    while rate < 1.0:
        x = x * rate
        rate = rate * 1.3 if x.sum() > 0.2 else rate * 1.9
    return x, rate


def returned_from_a_loop(x):
    for i in range(int(x.sum()) % 4 + 2):
        if float(x.mean()) * i > 2.0:
            return 0.75, x * i
        x = x * 1.5
    return 0.5, x


def arguments(x):
    f = float(x.max())
    return (
        x.clip(max=f * 0.5),
        paddle.full([2], f),
        paddle.full_like(x, f),
        paddle.where(x > 0, x, f),
        paddle.scale(x, f),
    )


def doubles(x):
    y = x.astype("float64") * 0.1
    f = float(y.sum())
    return y * f, y + f, f, y - 0.3 * f, y > f


def comparisons(x):
    f, g = float(x.sum()), float(x.max())
    n = int(x.sum())
    kept = (f > g, f == f, f != 3, f <= 0.1, n == 3, n >= int(x.max()), g < 0)
    return [x * 2 if held else x + 1 for held in kept]


def changed_later(x):
    y = x * 2
    f, n = y.sum().item(), y.astype("int64").max()
    k = n.item()
    n.add_(paddle.to_tensor(5))
    return f, k, n


def helper(x, factor):
    return x * factor


def in_a_callee(x):
    return helper(x, float(x.mean())) + helper(x, x.min().item())


FUNCTIONS = [
    whole,
    floating,
    truth,
    item,
    branch_on_numbers,
    whole_of_float_of_whole,
    range_of_int,
    sum_of_floats,
    sides_of_floats,
    rates_of_a_loop,
    returned_from_a_loop,
    arguments,
    doubles,
    comparisons,
    changed_later,
    in_a_callee,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_numbers_of_the_graph(function):
    check(function, grad=False)


@pytest.mark.parametrize(
    "function",
    [whole, floating, branch_on_numbers, range_of_int, sides_of_floats, in_a_callee],
    ids=lambda function: function.__name__,
)
def test_gradients(function):
    check(function)


@pytest.mark.parametrize(
    "function", [whole, floating, item, whole_of_float_of_whole, comparisons], ids=lambda function: function.__name__
)
def test_one_number(function):
    check(function, data=ONES, grad=False)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [[], [1], [1, 1]])
def test_dtypes(dtype, shape):
    def function(x):
        return (bool(x), x.item()) if x.shape else (int(x), float(x), bool(x), x.item())

    static = sot.to_static(function, full_graph=True)
    for value in (0, 1, 3.6, 100, 127, -1, -2.5):
        x = paddle.full(shape, value, "float64").astype(dtype)
        got, want = static(x), function(x)
        assert got == want
        assert [type(one) for one in got] == [type(one) for one in want]
    assert sot.stats(static).graphs == 1


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"])
def test_truth(dtype):
    """Paddle's tensors are true where they are positive, Python's numbers where they are not zero."""

    def function(x):
        n = x.item()
        return 1 if x else 2, 3 if n else 4, not x, not n, bool(x)

    static = sot.to_static(function, full_graph=True)
    for value in (0, 1, -1, -0.5, 0.5, -0.0, math.nan):
        if dtype.startswith("float") or value == value:
            x = paddle.to_tensor([value], "float64").astype(dtype)
            try:
                got = static(x)
            except sot.errors.GraphBreakError:
                assert dtype == "float16"
                continue
            for a, b in zip(got, function(x), strict=True):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_digits():
    """Floats have the digits of doubles, whole numbers all of theirs."""

    def function(x, n):
        f = x.item()
        k = n.item()
        return f * 0.1 + 0.7, f / 3, k + 1, float(n), f - k

    static = sot.to_static(function, full_graph=True)
    for value, whole in (
        (0.1, 2**53 + 1),
        (1 / 3, -(2**60) + 3),
        (1e300, 7),
        (-0.0, 0),
        (math.inf, 2**31),
        (5e-324, 1),
    ):
        x, n = paddle.to_tensor(value, "float64"), paddle.to_tensor(whole)
        got, want = static(x, n), function(x, n)
        assert [repr(one) for one in got] == [repr(one) for one in want]
    assert np.isnan(static(paddle.to_tensor(math.nan, "float64"), paddle.to_tensor(3))[0])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e30, -1e19, 4.7e18])
def test_no_such_int(value):
    """The interpreter answers, or raises."""

    def function(x, seen):
        y = x * 2
        n = int(x)
        return y, n

    static = sot.to_static(function, full_graph=True)
    assert static(paddle.to_tensor(3.5), [])[1] == 3
    x = paddle.to_tensor(value)
    try:
        want = function(x, [])
    except (ValueError, OverflowError) as error:
        with pytest.raises(type(error), match=str(error)):
            static(x, [])
    else:
        assert static(x, [])[1] == want[1]


def test_large_products():
    def function(x, n):
        k = int(n)
        total = 1
        while x.sum() < 40:
            total = total * k
            x = x + 1
        return total, x

    static = sot.to_static(function, full_graph=True)
    for factor in (2, 3, 9, -7, 10**6):
        x, n = paddle.zeros([1]), paddle.to_tensor(factor)
        assert static(x, n)[0] == function(x, n)[0] == factor**40


def test_large_sums():
    def function(n, x):
        total = n.item()
        while x.sum() < 70:
            total = total + total
            x = x + 1
        return total

    static = sot.to_static(function, full_graph=True)
    for first in (0, 1, 5):
        assert static(paddle.to_tensor(first), paddle.zeros([1])) == first * 2**70
    assert static(paddle.to_tensor(3), paddle.full([1], 60.0)) == 3 * 2**10


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + float(x.sum()) % 2,
        lambda x: (x, f"{float(x.sum())}"),
        lambda x: (x, {float(x.sum()): 1}),
    ],
)
def test_refused(function):
    static = sot.to_static(function, full_graph=True)
    with pytest.raises(sot.errors.GraphBreakError):
        static(paddle.to_tensor([1.0, 2.0]))
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for data in DATA[:1]:
        x = paddle.to_tensor(data)
        got, want = static(x), function(x)
        for a, b in zip(paddle.utils.flatten(got), paddle.utils.flatten(want), strict=True):
            assert np.asarray(a == b).all()
