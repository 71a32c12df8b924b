"""`a < b < c` as the test of loops and branches."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec
from support import eager_deletion

DATA = ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.1, 0.2, 0.3], [-30.0, 1.0, 2.0], [0.5, -0.25, 0.125])


def of_a_loop(x):
    while -20 < x.sum() < 3:
        x = x * 1.5 + 0.1
    return x


def with_something_behind(x):
    rounds = 0
    while -20 < x.sum() <= 4 and rounds < 5:
        x = x * 1.5 + 0.1
        rounds += 1
    y = x * 2
    return y, rounds


def negated(x):
    while not (-3 < x.sum() < 3):
        x = x / 2
    return x


def behind_another_test(x):
    rounds = 0
    while x.sum() < -20 or -3 < x.max() < 9:
        x = x * 1.5 + 0.7
        rounds += 1
    return x, rounds


def with_a_break(x):
    while -20 < x.sum() < 30:
        x = x * 1.5 + 0.1
        if -2 < x.max() < 1:
            break
    return x


def with_a_return(x):
    while -20 < x.sum() < 30:
        x = x * 1.5 + 0.1
        if x.max() > 9:
            return x, 1
        if x.min() < -9:
            return x
    return x


def of_branches(x):
    i = paddle.to_tensor(0)
    while i < 4:
        if -5 < x.sum() < 5:
            x = x * 2
        elif -10 <= x.sum() <= 10:
            x = x + 1
        i = i + 1
    return x * 3 if 0 < x.mean() < 2 else x


def in_a_for(x):
    total = x * 0
    for row in x:
        if -1 < row < 2:
            continue
        total = total + row
    for at in range(paddle.to_tensor(5)):
        if 1 <= at <= 2:
            continue
        if 0 < total.sum() < 9:
            break
        total = total + at
    return total


FUNCTIONS = [
    of_a_loop,
    with_something_behind,
    behind_another_test,
    negated,
    with_a_break,
    of_branches,
    in_a_for,
]


def observe(function, numbers):
    x = paddle.to_tensor(numbers, stop_gradient=False)
    result = function(x)
    first, *rest = result if isinstance(result, tuple) else (result,)
    (first * first).sum().backward()
    return first.numpy(), rest, x.grad.numpy()


@pytest.mark.parametrize("backend", ["paddle", "eager"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_one_graph(function, backend):
    static = sot.to_static(function, full_graph=True, min_graph_size=0, backend=backend)
    for numbers in (*DATA, *DATA):
        got, want = observe(static, numbers), observe(function, numbers)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
        np.testing.assert_allclose(got[2], want[2], rtol=1e-5)
        assert got[1] == want[1]
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_export(function, tmp_path):
    path = str(tmp_path / "saved")
    sot.save(function, path, input_spec=[InputSpec([3], "float32", "x")])
    loaded = paddle.jit.load(path)
    for numbers in DATA:
        with eager_deletion():
            found = paddle.utils.flatten(loaded(paddle.to_tensor(numbers)))
        np.testing.assert_allclose(found[0].numpy(), observe(function, numbers)[0], rtol=1e-5)


def test_what_returns_differently_breaks():
    with pytest.raises(sot.GraphBreakError, match="on one way"):
        sot.to_static(with_a_return, full_graph=True)(paddle.to_tensor(DATA[0]))
    static = sot.to_static(with_a_return, capture_control_flow=True, min_graph_size=0)
    for numbers in DATA:
        got, want = observe(static, numbers), observe(with_a_return, numbers)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
        assert got[1] == want[1]
