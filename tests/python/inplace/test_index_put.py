"""`x[mask] = v` and `x[indices] = v` on tensors that a function made: part of the graph, with the bits and gradients of
eager mode; what eager mode refuses, and what only it can tell, breaks the graph."""

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from harness import Programs, check, tensor

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

programs = Programs()
X = tensor(3, 4, grad=True)
MASK = tensor(3, 4, seed=1) > 0
ROWS = paddle.to_tensor([True, False, True])
AT, TO = paddle.to_tensor([0, 2]), paddle.to_tensor([1, 3])


@programs(X, MASK, graphs=1, breaks=0)
def masked_scores(x, mask):
    scores = paddle.matmul(x, x, transpose_y=True)
    scores[paddle.eye(3) > 0] = float("-inf")
    y = F.softmax(scores, axis=-1) @ x
    y = y + 1
    y[mask] = 0
    return y


@programs(X, ROWS, graphs=1, breaks=0)
def masked_rows(x, rows):
    y = x * 2
    y[rows] = -1.5
    y[~rows] = paddle.ones([1])
    return y, y * y


@programs(X, AT, TO, graphs=1, breaks=0)
def indexed(x, i, j):
    y = x + 1
    y[i] = 5.0
    y[i, j] = 0
    weight = paddle.zeros([4, 4, 2])
    at = paddle.arange(4)
    weight[at, at] = paddle.ones([2]).expand([4, -1])
    return y, weight


@programs(tensor(3, 4).astype("int64"), AT, graphs=1, breaks=0)
def whole_numbers(x, i):
    y = x + 1
    y[y == 1] = -100
    y[i] = x[i] * 3
    return y


@programs(X, MASK, graphs=1, breaks=0)
def without_gradients(x, mask):
    with paddle.no_grad():
        y = x * 2
        y[mask] = 7
    return y + x


@programs(X, AT, X, breaks=1)
def with_a_value_that_has_gradients(x, i, v):
    y = x * 2
    y[i] = v[0, 0]
    return y


@programs(X, MASK, breaks=1, backward=False)
def kept_for_a_gradient(x, mask):
    y = F.softmax(x)
    y[mask] = 0
    return y


@programs(X, MASK, breaks=1)
def an_argument(x, mask):
    x = x.detach()
    x[mask] = 0
    return x * 2


@programs(X, AT, breaks=1)
def nothing_selected(x, i):
    y = x * 2
    try:
        y[i[:0]] = 0
    except ValueError:
        return y + 1
    return y


@programs(X, MASK[:, :2], breaks=None)
def a_mask_that_does_not_fit(x, mask):
    y = x * 2
    y[mask] = 0
    return y


@programs(X, MASK, breaks=1)
def a_view_that_lives_on(x, mask):
    y = x * 2
    row = y[0]
    y[mask] = 0
    return row + 1, y


@programs(X, paddle.to_tensor([1, 2]), breaks=1)
def rows_of_itself(x, i):
    y = x.detach() * 2
    y[i] = y[:2]
    return y * x


@programs(X, paddle.to_tensor([2, 1, 0]), breaks=1)
def itself(x, i):
    y = x.detach() + 1
    y[i] = y
    return y * x


@programs(X, paddle.to_tensor([2, 1, 0]), AT, graphs=1, breaks=0)
def copies_and_items_of_itself(x, i, j):
    y = x.detach() + 1
    y[i] = y * 1
    y[j] = y[i[:2]]
    y[i] = y[1, 1]
    y[y > 1] = y[0, 2:3]
    return y * x


@programs(X, paddle.to_tensor([[1, 2, 2], [0, 0, 0], [5, 5, 5]]), breaks=1)
def indices_in_itself(x, k):
    y = k + 0
    y[y[0]] = 0
    return y, y.astype("float32") + x[:, :3]


@programs(X, paddle.to_tensor([[True, False, True], [False, True, True], [True, True, False]]), graphs=1, breaks=0)
def a_mask_in_itself(x, mask):
    y, z = mask.clone(), paddle.logical_not(mask)
    y[y[0]] = False
    z[z] = False
    return y, z, x * 2


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
@pytest.mark.parametrize("function, args, expectations", programs)
def test_items_are_put(function, args, expectations, backend):
    check(function, *args, repeat=3, fallbacks=None, backend=backend, close=backend == "cinn", **expectations)


def test_the_gradient_is_that_of_eager_mode_bit_by_bit():
    """Also where what arrives is no number, infinite or a negative zero."""

    def function(x, mask, i):
        y = x * 1
        y[mask] = 2
        y[i] = 3
        return y

    found = []
    arrives = np.array([np.nan, np.inf, -0.0, 3, -np.inf, -1, 0.0, 5, -np.nan, 2, 1, 0], "float32").reshape(3, 4)
    static = sot.to_static(function, min_graph_size=0)
    for run in (function, static, static):
        x = X.detach()
        x.stop_gradient = False
        run(x, MASK, AT[:1]).backward(paddle.to_tensor(arrives))
        found.append(x.grad.numpy().tobytes())
    assert found[0] == found[1] == found[2]
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])


def of_numbers(x, mask):
    y = x * 2
    y[mask] = 3.0
    return y, mask


def of_a_tensor(x, mask):
    y = x + 1
    y[mask] = paddle.to_tensor([3.0])
    return y, mask


def of_a_mask_that_is_made(x, mask):
    y, mask = x * 2, paddle.logical_not(mask)
    y[mask] = 7.0
    return y, mask


def of_a_view(x, mask):
    y = x * 2
    y[mask[0]] = 3.0
    return y[:, :2], mask


FILLED = [of_numbers, of_a_tensor, of_a_mask_that_is_made, of_a_view]
CHANGES = {
    "nothing": lambda mask: None,
    "set_value": lambda mask: mask.set_value(~mask),
    "assign": lambda mask: paddle.assign(~mask, mask),
    "in place": lambda mask: mask.logical_not_(),
    "an item": lambda mask: mask.__setitem__(0, True),
}


@pytest.mark.parametrize("backend", ["paddle", "cinn", "eager"])
@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("function", FILLED, ids=lambda it: it.__name__)
def test_a_mask_that_changes_before_backward(function, rows, how, backend):
    """Eager mode keeps it for the gradient, which sees new numbers in it, and refuses it if it was changed in place."""

    def outcome(run):
        x = X.detach()
        x.stop_gradient = False
        mask = ROWS.clone() if rows else MASK.clone()
        if function is of_a_view:
            mask = paddle.stack([mask, mask])
        y, mask = run(x, mask)
        CHANGES[how](mask)
        try:
            y.backward(paddle.arange(y.size, dtype="float32").reshape(y.shape))
        except RuntimeError as refused:
            assert "modified by an inplace operation" in str(refused)
            return "refused"
        return x.grad.numpy().tobytes()

    static = sot.to_static(function, min_graph_size=0, backend=backend)
    expected = outcome(function)
    assert [outcome(static), outcome(static)] == [expected] * 2
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])
    assert (expected == "refused") == (how in ("assign", "in place", "an item"))
