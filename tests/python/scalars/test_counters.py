"""Integers that differ between calls: one more translation, not one for each value."""

import math

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, tensor
from paddle import nn

X = tensor(3)


def translations(function, calls, **settings):
    translated = sot.to_static(function, min_graph_size=0, **settings)
    for args in calls:
        translated(*args)
    return sot.stats(translated).translations


class Counting(nn.Layer):
    def __init__(self):
        super().__init__()
        self.step = 0
        self.history = []

    def forward(self, x):
        self.step += 1
        self.twice = self.step * 2 - 1
        self.history.append(self.step)
        return x * 2


def test_a_counter_of_a_layer():
    eager, net = Counting(), sot.to_static(Counting(), min_graph_size=0)
    for _ in range(10):
        assert eager(X).numpy().tolist() == net(X).numpy().tolist()
    for name in ("step", "twice", "history"):
        assert getattr(eager, name) == getattr(net, name)
        assert type(getattr(net, name)) is type(getattr(eager, name))
    assert [type(item) for item in net.history] == [int] * 10


def test_it_is_translated_twice():
    class Only(nn.Layer):
        def __init__(self):
            super().__init__()
            self.step = 0

        def forward(self, x):
            self.step += 1
            return x * 2

    net = sot.to_static(Only(), min_graph_size=0)
    for _ in range(40):
        net(X)
    assert net.step == 40
    assert sot.stats(net).translations == 2 and not sot.stats(net).fallbacks


def loop(x):
    steps = 0
    while x.abs().sum() < 1e6:
        x = x * 2
        steps += 1
    return x, steps


def test_a_loop_that_counts():
    record = check(loop, X, repeat=3, fallbacks=0)
    assert record.translations <= 8, record


def test_large_and_negative_numbers():
    def function(x, n):
        return x + 1, n * 3 - 1, n

    check(function, X, 1, calls=[(X, 2), (X, -(2**70)), (X, 2**63 - 1), (X, 0)], fallbacks=0)


def test_other_types_are_other_translations():
    def function(x, n):
        return x + 1, n + 1, type(n)

    check(function, X, 1, calls=[(X, 2), (X, 3), (X, True), (X, 2.5), (X, False), (X, 4)], fallbacks=0)


@pytest.mark.parametrize(
    "use",
    [
        lambda x, n: x * n,
        lambda x, n: x + 1 if n > 2 else x - 1,
        lambda x, n: sum([x] * n, x),
        lambda x, n: x + len(range(n)),
        lambda x, n: (x, f"{n}", {n: 1}, [1, 2, 3, 4, 5][n % 5]),
        lambda x, n: (x, n is None, n == 3, bool(n), -n, n // 2, n**2, n / 2),
        lambda x, n: (x, min(n, 3), abs(n), str(n), isinstance(n, int), hash(n)),
        lambda x, n: x.reshape([n % 1 + 1, -1]),
        lambda x, n: (x, n is n, [n][0] is n),
        lambda x, n: (x, n + 0 is n),
    ],
)
def test_where_the_value_matters(use):
    check(use, X, 1, calls=[(X, n) for n in (2, 3, 4, 3, 1)], fallbacks=None)


def test_one_number_under_two_names():
    def function(x, n, m):
        return x + 1, n is m, n + m

    check(function, X, 1, 1, calls=[(X, 2, 2), (X, 300, 300), (X, 4, 5)], fallbacks=None)


def test_tensors_of_other_shapes_and_counters_together():
    def function(x, n):
        return x * 2, n + 1

    check(function, tensor(3), 1, calls=[(tensor(size), size) for size in (4, 5, 6, 7)], fallbacks=0)
    assert translations(function, [(tensor(size), size) for size in range(3, 12)]) <= 3


def test_dynamic_false_keeps_each_value():
    def function(x, n):
        return x * 2, n + 1

    assert translations(function, [(X, n) for n in range(5)], dynamic=False) == 5
    assert translations(function, [(paddle.ones([2]), n) for n in range(5)]) == 2


def test_a_rate_that_is_converted_and_stored():
    class Optimizer:
        rate, steps = 0.0, 0

    def function(optimizer, x, rate, step):
        optimizer.rate = float(rate)
        optimizer.steps = int(step)
        y = (x * 2 + 1).tanh()
        sot.graph_break()
        return y * optimizer.rate

    ours = sot.to_static(function, min_graph_size=0)
    x = paddle.ones([2])
    for step in range(12):
        rate = 0.1 + step * 0.01
        plain, other = Optimizer(), Optimizer()
        expected = function(plain, x, rate, step)
        np.testing.assert_array_equal(ours(other, x, rate, step).numpy(), expected.numpy())
        assert (other.rate, other.steps) == (plain.rate, plain.steps)
        assert other.rate is rate
    assert sot.stats(ours).translations <= 6


class Schedule:
    def __init__(self):
        self.step = 0


def of_functions(schedule, x, n):
    schedule.step += 1
    rate = 0.5 * (1 + math.cos(math.pi * schedule.step / 100))
    whole = int(n * 0.3), round(n / 7), math.floor(n / 3), math.isqrt(n), n >> 1, n & 3, 2**n, ~n, abs(3 - n), int(n)
    parts = 0.99**schedule.step, n % 2.5, n // 0.5, float(n), round(n / 7, 2), math.exp(-n / 10), math.pow(n, 2)
    return x * rate / math.sqrt(n) + whole[0] * parts[0], whole, parts


def test_functions_of_numbers():
    ours, theirs = Schedule(), Schedule()
    function = sot.to_static(of_functions, min_graph_size=0)
    for n in range(1, 40):
        check_equal(function(ours, X, n), of_functions(theirs, X, n))
    assert ours.step == theirs.step
    assert sot.stats(function).translations == 2 and not sot.stats(function).fallbacks


def check_equal(ours, theirs):
    assert ours[0].numpy().tolist() == theirs[0].numpy().tolist()
    assert ours[1:] == theirs[1:]
    assert [type(part) for parts in ours[1:] for part in parts] == [
        type(part) for parts in theirs[1:] for part in parts
    ]


def answers(function, *args):
    try:
        return repr(function(X, *args))
    except Exception as error:  # noqa: BLE001 - compared
        return repr(error)


@pytest.mark.parametrize(
    ("function", "numbers"),
    [
        (lambda x, n: x * math.log(n), [1, 2, 3, 0, 4, -1, 5]),
        (lambda x, n: x * n**0.5, [1.0, 2.0, 3.0, -1.0, 4.0]),
        (lambda x, n: (x * 2, 2**n), [1, 2, 3, -1, 62, 63, 64, 5]),
        (lambda x, n: (x + 1, 1 << n), [1, 2, 3, -1, 70, 4]),
        (lambda x, n: x * 10.0**n, [1, 2, 3, 400, 4]),
        (lambda x, n: x + int(n), [1.5, 2.5, math.nan, math.inf, 1e30, 3.5]),
        (lambda x, n: x * math.factorial(n), [1, 2, 3, 25, -1, 4]),
        (lambda x, n: x * math.fabs(n) if math.copysign(1, n) > 0 else x, [1.0, 2.0, 0.0, -0.0, -3.0, 4.0]),
        (lambda x, n: x * (n % -3) + n // -2, [1, 2, 3, -4, 5]),
        (lambda x, n: x * abs(n) if round(n) > 2 else x, [1.0, 2.0, 2.5, 3.5, math.nan, 4.0]),
        (lambda x, n: (x + 1, isinstance(2**n, int)), [1, 2, 3, -1, 4]),
        (lambda x, n: (x + 1, str(n), math.modf(n), divmod(n, 2)), [1.0, 2.0, 3.5]),
    ],
)
def test_functions_of_numbers_that_raise_or_answer_with_another_type(function, numbers):
    expected = [answers(function, n) for n in numbers]
    assert [answers(sot.to_static(function, min_graph_size=0), n) for n in numbers] == expected
    translated = sot.to_static(function, min_graph_size=0)
    assert [answers(translated, n) for n in numbers] == expected


def test_a_function_that_is_replaced(monkeypatch):
    function = sot.to_static(lambda x, n: x * math.cos(n), min_graph_size=0)
    for n in range(4):
        assert function(X, n).tolist() == (X * math.cos(n)).tolist()
    monkeypatch.setattr(math, "cos", math.sin)
    for n in range(4):
        assert function(X, n).tolist() == (X * math.sin(n)).tolist()


def test_guards_name_functions():
    function = sot.to_static(lambda x, n: x + 1 if math.sqrt(n) < 2 else x, min_graph_size=0)
    for n in range(6):
        function(X, n)
    assert "math.sqrt(n)" in str(sot.stats(function).recompiles[-1])
