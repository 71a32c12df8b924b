"""Empty tensors that leave captured control flow, `recompute` and PyLayers: Paddle's executor hands none on."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute


class Double(PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        return dy * (5 if not dy.stop_gradient else 7)


def branch(x):
    if x.sum() >= 0:
        y = x * 2
    else:
        y = x * 3
    return y


def branch_of_more(x):
    if x.sum() >= 0:
        y = paddle.concat([x, paddle.ones([1, 4])]) * 2
    else:
        y = paddle.concat([x, paddle.ones([1, 4])])
    return y


def custom(x):
    return Double.apply(x)


def again(x):
    return recompute(lambda value: value * 2 + 1, x)


@pytest.mark.parametrize("backend", ["paddle", "cinn", "pylayer", "eager"])
@pytest.mark.parametrize("function", [branch, branch_of_more, custom, again])
def test_empty_tensors(function, backend):
    static = sot.to_static(function, backend=backend, min_graph_size=0, capture_control_flow=True)
    # Empty first, and after others.
    for size in (0, 3, 0, 2, 0):
        seen = []
        for run in (function, static):
            x = paddle.ones([size, 4])
            x.stop_gradient = False
            y = run(x)
            (y * y).sum().backward()
            seen.append((y.shape, y.numpy(), x.grad.shape, x.grad.numpy()))
        for want, got in zip(*seen, strict=True):
            np.testing.assert_allclose(want, got, rtol=1e-6)
