"""Normalization by running statistics inside of branches and loops."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


def in_a_branch(norm, x):
    if x.sum() > 0:
        return norm(x)
    return norm(x * 2) + 1


def in_a_loop(norm, x):
    i = paddle.to_tensor(0)
    while i < 3:
        x = norm(x) * 1.1
        i += 1
    return x


def in_a_branch_of_a_loop(norm, x):
    for i in range(paddle.to_tensor(3)):
        if x.sum() > 0:
            x = norm(x) - i
    return x


def made():
    paddle.seed(3)
    norm = nn.BatchNorm1D(3)
    norm(paddle.randn([16, 3]))
    norm.eval()
    return norm


@pytest.mark.parametrize("function", [in_a_branch, in_a_loop, in_a_branch_of_a_loop], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["paddle", "eager"])
def test_statistics_that_are_only_read(function, backend):
    plain, other = made(), made()
    static = sot.to_static(lambda x: function(other, x), full_graph=True, min_graph_size=0, backend=backend)
    before = [tensor.numpy() for tensor in other.buffers()]
    for seed in range(6):
        outcomes = []
        for run, norm in ((lambda x: function(plain, x), plain), (static, other)):
            paddle.seed(seed)
            x = paddle.randn([4, 3]) * (1 if seed % 2 else -1)
            x.stop_gradient = False
            y = run(x)
            (y * y).sum().backward()
            leaves = [x, *norm.parameters()]
            outcomes.append([y.numpy(), *(leaf.grad if leaf.grad is None else leaf.grad.numpy() for leaf in leaves)])
            norm.clear_gradients(set_to_zero=False)
        for one, other_one in zip(*outcomes, strict=True):
            assert (one is None) == (other_one is None)
            if one is not None:
                np.testing.assert_allclose(other_one, one, rtol=1e-5, atol=1e-6)
    for tensor, value in zip(other.buffers(), before, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), value)
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])
