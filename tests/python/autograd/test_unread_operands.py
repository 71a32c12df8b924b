"""Operands that a gradient does not read, and that another operand of the same operation is."""

import paddle
import paddle_sot_rs as sot
import pytest
from paddle.nn import functional as F

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

FLAG = "FLAGS_eager_delete_tensor_gb"


@pytest.fixture(autouse=True)
def executors_that_free_at_once():
    before = paddle.get_flags(FLAG)
    paddle.set_flags({FLAG: 1e-9})
    yield
    paddle.set_flags(before)


def of_both(x, scale):
    return F.layer_norm(x, 4, scale, x[0]) + F.layer_norm(x, 4, scale, scale)


def made_here(x, scale):
    scale = scale * 2
    return F.layer_norm(x, 4, scale, x[0]) + F.layer_norm(x, 4, scale, scale)


def divergence(x, scale):
    return F.kl_div(x, x) * scale + (x * x).tanh()


def slope(x, scale):
    (gradient,) = paddle.grad(of_both(x, scale).exp().sum(), x, create_graph=False)
    return gradient * scale


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [of_both, made_here, divergence, slope])
def test_gradients(function, dynamic):
    static = sot.to_static(function, min_graph_size=0, dynamic=dynamic)
    paddle.seed(4)
    x, scale = paddle.rand([4, 4]), paddle.rand([4])
    for _ in range(3):
        found = []
        for call in (function, static):
            given = x.detach(), scale.detach()
            for tensor in given:
                tensor.stop_gradient = False
            result = call(*given)
            result.sum().backward()
            grads = [tensor.grad for tensor in given]
            found.append([None if it is None else it.numpy().tobytes() for it in (result, *grads)])
        assert found[0] == found[1]
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])
