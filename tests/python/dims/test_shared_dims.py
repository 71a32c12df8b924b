"""Each open dim of a tensor is read once in a program, and each list of sizes made once."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn

pytestmark = pytest.mark.default_python

SIZES = [(2, 3, 8), (3, 5, 8), (4, 6, 8), (6, 4, 8)]


def last_program(translated):
    return sot.report.static_function(translated).graphs()[-1].program


def heads(x):
    total = x
    for scale in (1.0, 2.0, 3.0):
        y = (x * scale).reshape([x.shape[0], x.shape[1], 2, 4]).transpose([0, 2, 1, 3])
        y = nn.functional.softmax(y @ y.transpose([0, 1, 3, 2])) @ y
        total = total + y.transpose([0, 2, 1, 3]).reshape([x.shape[0], x.shape[1], 8])
    return total


def masked(x):
    total = x
    for fill in (0.5, 1.5, 2.5):
        rows, columns = x.shape[:2]
        total = total + paddle.full([rows, columns, 1], fill) * paddle.arange(columns, dtype="float32").unsqueeze(-1)
    return total


def scaled(x):
    return x / x.shape[1] + x.tanh() * x.shape[1] + x.exp() / (x.shape[1] * 2) - x / (x.shape[1] * 2)


# With how often a shape is read, and how many lists of sizes are made.
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize(
    ("function", "shapes", "lists"),
    [(heads, 1, 2), (masked, 1, 1), (scaled, 1, 0)],
    ids=["heads", "masked", "scaled"],
)
def test_of_one_tensor(function, shapes, lists, trains):
    translated = sot.to_static(function, min_graph_size=0)
    for size in SIZES:
        grads = []
        for call in (function, translated):
            paddle.seed(1)
            x = paddle.randn(size)
            x.stop_gradient = not trains
            result = call(x)
            if trains:
                result.sum().backward()
                grads.append(x.grad.numpy())
            grads.append(result.numpy())
        for one, other in zip(grads[: len(grads) // 2], grads[len(grads) // 2 :], strict=True):
            np.testing.assert_array_equal(one, other)
    record = sot.stats(translated)
    assert (record.translations, record.graph_breaks, record.fallbacks) == (2, [], [])
    program = last_program(translated)
    assert program.count('"pd_op.shape64"') == shapes
    assert program.count('"pd_op.stack"') == lists


def test_what_is_changed_in_place_is_read_again():
    def function(x):
        y = x * 2
        before = y.shape[0]
        y.unsqueeze_(0)
        return y.reshape([y.shape[1], y.shape[0], -1]) * before + y.shape[0]

    translated = sot.to_static(function, min_graph_size=0)
    for size in SIZES:
        x = paddle.randn(size)
        np.testing.assert_array_equal(translated(x).numpy(), function(x).numpy())
    assert not sot.stats(translated).graph_breaks


def test_results_that_are_one_dim_are_two_tensors():
    def function(x):
        shape = paddle.shape(x)
        return shape[0], shape[0], x * x.shape[0]

    translated = sot.to_static(function, min_graph_size=0)
    for size in SIZES:
        x = paddle.randn(size)
        one, other, product = translated(x)
        assert one is not other
        one += 1
        assert (int(one), int(other)) == (size[0] + 1, size[0])
        np.testing.assert_array_equal(product.numpy(), (x * size[0]).numpy())
    assert not sot.stats(translated).graph_breaks


def test_a_branch_reads_dims_of_its_own():
    def function(x):
        rows = x.shape[0]
        if x.sum() > 0:
            x = x.reshape([x.shape[1], rows, -1]) * x.shape[0]
        else:
            x = x.transpose([1, 0, 2]) - x.shape[0]
        return x + rows

    translated = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    for size in SIZES:
        for sign in (1.0, -1.0):
            x = paddle.ones(size) * sign
            np.testing.assert_array_equal(translated(x).numpy(), function(x).numpy())
    record = sot.stats(translated)
    assert (record.translations, record.graph_breaks) == (2, [])


def test_what_draws_from_dims_draws_again():
    def function(x):
        first = paddle.randint(0, x.shape[0] * 1000, [1])
        second = paddle.randint(0, x.shape[0] * 1000, [1])
        third = paddle.uniform([2], min=0.0, max=float(x.shape[0]))
        return first, second, third + paddle.uniform([2], min=0.0, max=float(x.shape[0])), x.shape[0] * x

    translated = sot.to_static(function, min_graph_size=0)
    for size in SIZES:
        x = paddle.randn(size)
        answers = []
        for call in (function, translated):
            paddle.seed(5)
            answers.append([one.numpy() for one in call(x)])
        for one, other in zip(*answers, strict=True):
            np.testing.assert_array_equal(one, other)


def test_branches_on_dims_are_not_one_another():
    def function(x, n):
        if n > 2:
            a = n * 2
        else:
            a = n * 3
        if n > 2:
            b = n * 5
        else:
            b = n * 7
        return x * a + b * x.shape[0] + x.shape[0]

    translated = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    for size in SIZES:
        for n in (1, 2, 3, 5):
            x, number = paddle.randn(size), paddle.to_tensor(n)
            np.testing.assert_array_equal(translated(x, number).numpy(), function(x, number).numpy())
    assert not sot.stats(translated).graph_breaks
