"""Division, floats and signs of whole numbers that the graph counts: Python's doubles, to the last bit."""

import paddle
import paddle_sot_rs as sot
import pytest

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

DATA = ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [-7.0, 1.0, 2.0], [20.0, 1.0, 1.0])


def counted(x):
    n, k = 0, 7
    while x.sum() < 10:
        x = x + 1
        n += 1
        k = k * 3 - n
    return x, n, k


def quotients(x):
    x, n, k = counted(x)
    return k / 3, n / k, 1 / (n + 1), (n + 1) / 7, -n / 11


def next_to_floats(x):
    x, n, k = counted(x)
    return n * 0.1, 0.5 - n, k + 0.3, n * -0.5, k / 0.7, 2.5 / (n + 1)


def in_a_loop(x):
    rate, n = 1.0, 0
    while x.sum() < 10:
        n += 1
        rate = rate / (n + 1) + 1 / n
        x = x + rate + 1 / (n + 2)
    return x, rate, -n


def next_to_tensors(x):
    x, n, k = counted(x)
    return x / n if n > 0 else x, x * (k / 2), (x.sum() + 1 / k) * (-n)


def of_large_numbers(x):
    """Above 2 ** 53 the graph fails, and the interpreter divides."""
    n = 1
    while x.sum() < 10:
        x = x + 0.1
        n = n * 3 + 1
    return n / 7, x


def of_tensors(x):
    whole = x.astype("float32") + 1.5
    return x + 1.0 / float(whole.sum()), float(whole.max()) / int(whole.abs().sum()), 2 / float(whole.sum())


FUNCTIONS = [of_tensors, quotients, next_to_floats, in_a_loop, next_to_tensors, of_large_numbers]


def observe(function, numbers):
    result = function(paddle.to_tensor(numbers))
    return [one.numpy().tolist() if isinstance(one, paddle.Tensor) else repr(one) for one in result]


@pytest.mark.parametrize("backend", ["paddle", "eager"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_same_numbers(function, backend):
    static = sot.to_static(function, full_graph=True, min_graph_size=0, backend=backend)
    for numbers in (*DATA, *DATA):
        assert observe(static, numbers) == observe(function, numbers)
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks) == (1, [])
    assert bool(stats.fallbacks) == (function is of_large_numbers)


def test_division_by_zero_raises():
    def function(x):
        n = 0
        while x.sum() < 10:
            x = x + 1
            n += 1
        return x, 3 / n

    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    for numbers in DATA:
        x = paddle.to_tensor(numbers)
        if numbers[0] == 20.0:
            with pytest.raises(ZeroDivisionError, match="division by zero"):
                static(x)
        else:
            assert repr(static(x)[1]) == repr(function(x)[1])


LARGE = 2**53 + 2**29 + 1
OPERATORS = {
    "x + n": lambda x, n: x + n,
    "n - x": lambda x, n: n - x,
    "x * n": lambda x, n: x * n,
    "x / n": lambda x, n: x / n,
    "n / x": lambda x, n: n / x,
    "x < n": lambda x, n: x < n,
}


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("name", OPERATORS)
def test_numbers_that_the_dtype_of_the_tensor_may_not_hold(name, dtype):
    """Eager mode makes a double of the number for most operators, before it becomes one of the tensor's dtype."""

    def function(x, t):
        return OPERATORS[name](x, int(t))

    x = paddle.to_tensor([1, 2, 3, 100]).astype(dtype)
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for number in (2, 4, 100, 300, 2**33, LARGE):
        found, expected = (run(x, paddle.to_tensor(number)) for run in (static, function))
        assert found.dtype == expected.dtype
        assert found.numpy().tobytes() == expected.numpy().tobytes()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_division_of_whole_numbers_is_one_graph(dtype):
    x = paddle.to_tensor([1, 2, 3, 100]).astype(dtype)
    static = sot.to_static(lambda x, t: (x / int(t), int(t) / x), full_graph=True, min_graph_size=0)
    for number in (2, 300, 2**33):
        t = paddle.to_tensor(number)
        assert [part.tolist() for part in static(x, t)] == [(x / number).tolist(), (number / x).tolist()]
    assert sot.stats(static).graphs == 1


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize(
    "power", [lambda x, n: x**n, lambda x, n: n**x, lambda x, n: paddle.pow(x, n), lambda x, n: x.pow(n)]
)
def test_powers_of_numbers_of_the_graph(power, dtype):
    x = (paddle.arange(19) + 1).astype(dtype)
    static = sot.to_static(lambda x, t: power(x, int(t)), capture_control_flow=True, min_graph_size=0)
    for number in (3, 5, 17, 19):
        assert static(x, paddle.to_tensor(number)).numpy().tobytes() == power(x, number).numpy().tobytes()
    assert sum(it.count for it in sot.stats(static).graph_breaks) == 1
