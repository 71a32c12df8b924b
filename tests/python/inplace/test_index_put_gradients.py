"""`x[indices] = v` with a gradient of `v`: in the graph, by eager mode's kernel, which has one of both where a place is
given twice."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import Programs, check, tensor

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

programs = Programs()
X, V = tensor(4, 3, grad=True), tensor(2, 3, seed=1, grad=True)
WEIGHT = paddle.arange(1.0, 13.0).reshape([4, 3])
AT, TWICE = paddle.to_tensor([0, 2]), paddle.to_tensor([1, 1])


@programs(X, AT, V, graphs=1, breaks=0)
@programs(X, TWICE, V, graphs=1, breaks=0)
@programs(X, AT.astype("int32"), V, graphs=1, breaks=0)
def rows(x, i, v):
    y = x * 2
    y[i] = v
    return y * WEIGHT


@programs(X, AT, V, graphs=1, breaks=0)
@programs(X, TWICE, V, graphs=1, breaks=0)
def of_a_buffer(x, i, v):
    y = paddle.zeros([4, 3])
    y[i] = v * 3
    return y * WEIGHT + x


@programs(X, AT, V, graphs=1, breaks=0)
@programs(X, TWICE, V, graphs=1, breaks=0)
def one_number(x, i, v):
    y, z = x * 2, x * 3
    y[i] = v[0, 0]
    z[i] = v[1, :1]
    return y * WEIGHT, z * WEIGHT


@programs(X, AT, V, graphs=1, breaks=0)
@programs(X, TWICE, V, graphs=1, breaks=0)
def pairs(x, i, v):
    y = x * 2
    y[i, i] = v[0, :2]
    return y * WEIGHT


@programs(X, paddle.to_tensor([[0, 1], [1, 3]]), V, graphs=1, breaks=0)
def places_of_two_dims(x, i, v):
    y = x * 2
    y[i] = paddle.stack([v, v + 1])
    return y * WEIGHT


@programs(X, AT, V, graphs=1, breaks=0)
def twice_in_turn(x, i, v):
    y = x * 2
    y[i] = v
    y[i + 1] = v * y[i]
    return y * WEIGHT


@programs(X, AT, V, graphs=1, breaks=0)
def without_recording(x, i, v):
    with paddle.no_grad():
        y = x * 2
        y[i] = v.detach()
    return y + x


@programs(X.astype("float64").detach(), AT, V.astype("float64").detach(), graphs=1, breaks=0, backward=False)
def doubles_without_gradients(x, i, v):
    y = x * 2
    y[i] = v
    return y


@programs(X, AT, V, breaks=1)
def a_mask(x, i, v):
    y = x * 2
    y[y > 0] = v[0, 0]
    return y


@pytest.mark.parametrize("backend", ["paddle", "cinn", "eager"])
@pytest.mark.parametrize("function, args, takes", programs)
def test_indices(function, args, takes, backend):
    # Paddle does not decompose some slices.
    check(function, *args, backend=backend, fallbacks=None if backend == "cinn" else 0, **takes)


@pytest.mark.parametrize("dtype, refused", [("int64", True), ("int32", False)])
def test_indices_that_change_before_backward_are_refused_as_in_eager_mode(dtype, refused):
    def function(x, i, v):
        y = x * 2
        y[i] = v
        return y * WEIGHT

    for run in (function, sot.to_static(function, min_graph_size=0)):
        at, v = paddle.to_tensor([0, 2], dtype=dtype), V.detach().clone()
        v.stop_gradient = False
        y = run(X, at, v)
        at.fill_(1)
        if refused:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()
        else:
            y.sum().backward()
            np.testing.assert_array_equal(v.grad, WEIGHT[::2])
