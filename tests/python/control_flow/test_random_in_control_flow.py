"""Random numbers in captured control flow: the gradient computes branches and rounds again, and would draw others."""

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

MEMORY = paddle.nn.LSTM(4, 4, num_layers=2, dropout=0.5)

OPERATIONS = {
    "dropout": (F.dropout, [3, 4]),
    "rand": (lambda x: x * paddle.rand([4]), [3, 4]),
    "rrelu": (F.rrelu, [3, 4]),
    "bernoulli": (lambda x: x * paddle.bernoulli(F.sigmoid(x)), [3, 4]),
    "fractional_max_pool2d": (lambda x: F.fractional_max_pool2d(x, 3), [2, 3, 16, 16]),
    "fractional_max_pool3d": (lambda x: F.fractional_max_pool3d(x, 3), [1, 2, 8, 8, 8]),
    "between the layers of a network": (lambda x: MEMORY(x)[0], [2, 3, 4]),
}


def in_a_branch(operation):
    def function(x, n):
        if n > 1:
            total = operation(x).sum()
        else:
            total = x.sum()
        return total

    return function


def in_a_branch_of_a_branch(operation):
    """No gradient flows through the inner one: only the outer one computes it again."""

    def function(x, n):
        if n > 1:
            if n > 2:
                scale = operation(x).detach()
            else:
                scale = x.detach()
            total = (x * scale.mean()).sum()
        else:
            total = x.sum()
        return total

    return function


def in_a_loop(operation):
    def function(x, n):
        i, total = paddle.zeros([], "int64"), x.sum()
        while i < n:
            total = total + operation(x).sum()
            i = i + 1
        return total

    return function


def in_a_branch_of_a_loop(operation):
    def function(x, n):
        i, total = paddle.zeros([], "int64"), x.sum()
        while i < n:
            if i > 1:
                scale = operation(x).detach()
            else:
                scale = x.detach()
            total = total + (x * scale.mean()).sum()
            i = i + 1
        return total

    return function


@pytest.mark.parametrize("place", [in_a_branch, in_a_branch_of_a_branch, in_a_loop, in_a_branch_of_a_loop])
@pytest.mark.parametrize("name", OPERATIONS)
def test_gradients(name, place):
    operation, shape = OPERATIONS[name]
    function = place(operation)
    static = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    value = np.random.RandomState(0).randn(*shape).astype("float32")
    for n in (3, 3, 2, 0, 4):
        seen = []
        for run in (function, static):
            paddle.seed(7)
            x = paddle.to_tensor(value, stop_gradient=False)
            total = run(x, paddle.to_tensor(n))
            total.backward()
            seen.append((total.numpy(), x.grad.numpy()))
        for want, got in zip(*seen, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("place", [in_a_branch, in_a_branch_of_a_branch, in_a_loop, in_a_branch_of_a_loop])
def test_is_captured_without_gradients(place):
    function = place(F.dropout)
    static = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    for n in (3, 3, 2, 0, 4):
        seen = []
        for run in (function, static):
            paddle.seed(7)
            seen.append(run(paddle.ones([3, 4]), paddle.to_tensor(n)).numpy())
        np.testing.assert_allclose(*seen, rtol=1e-6)
    stats = sot.stats(static)
    assert (stats.graphs, sum(it.count for it in stats.graph_breaks), len(stats.fallbacks)) == (1, 0, 0)


@pytest.mark.parametrize("place", [in_a_branch, in_a_branch_of_a_branch, in_a_loop, in_a_branch_of_a_loop])
@pytest.mark.parametrize("operation", [F.dropout, F.rrelu])
def test_nothing_is_drawn_in_inference(operation, place):
    function = place(lambda x: operation(x, training=False))
    static = sot.to_static(function, min_graph_size=0, full_graph=True)
    for n in (3, 3, 2, 0, 4):
        seen = []
        for run in (function, static):
            x = paddle.linspace(-1, 1, 12).reshape([3, 4])
            x.stop_gradient = False
            total = run(x, paddle.to_tensor(n))
            total.backward()
            seen.append((total.numpy(), x.grad.numpy()))
        for want, got in zip(*seen, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("rate", [(), (0.3,)])
def test_results_that_nobody_uses(rate):
    def function(x, n):
        if n > 1:
            y = F.dropout(x, *rate)
        else:
            y = x * 1
        y = x * 2
        return y.sum()

    static = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    for n in (3, 3, 0, 3):
        seen = []
        for run in (function, static):
            paddle.seed(7)
            seen.append((run(paddle.ones([3, 4]), paddle.to_tensor(n)).item(), paddle.rand([1]).item()))
        assert seen[0] == seen[1]


def test_numbers_are_drawn_in_order():
    """Of results that gradients flow to from several sides, each is a program of its own."""

    def function(x, y):
        a, b = F.dropout(x, 0.3), F.dropout(y, 0.4)
        c = F.dropout(x * 2, 0.2) + a
        return c.sum(), F.dropout(b, 0.1), b, a

    static = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        seen = []
        for run in (function, static):
            paddle.seed(7)
            x, y = paddle.ones([3, 4]), paddle.ones([3, 4])
            x.stop_gradient = y.stop_gradient = False
            results = run(x, y)
            sum(result.sum() for result in results).backward()
            seen.append([it.numpy() for it in (*results, x.grad, y.grad, paddle.rand([1]))])
        for want, got in zip(*seen, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)
