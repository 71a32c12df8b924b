"""`copy_`, `set_value` and `assign(..., output=...)` on a tensor that the function made: a copy takes its place."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, translate

pytestmark = pytest.mark.default_python


def copies(x):
    h = paddle.zeros([2, 3])
    h.copy_(x * 3, True)
    return h * 2 + x, h


def copies_by_default(x):
    h = paddle.zeros([2, 3])
    h.copy_(x)
    h = h + 1
    h.copy_(x * 2)
    return h * x, h.stop_gradient


def copies_twice(x):
    h, other = paddle.zeros([2, 3]), paddle.ones([2, 3])
    h.copy_(other, False)
    other.copy_(h + 1, False)
    return h * x, other


def sets(x):
    h = paddle.zeros([2, 3])
    h.set_value(x)
    return h * x


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("function", [copies, copies_by_default, copies_twice, sets])
def test_takes_its_place(function, trains):
    x = paddle.arange(6, dtype="float32").reshape([2, 3])
    x.stop_gradient = not trains
    check(function, x, graphs=1, breaks=0)


def assigns(x):
    h = paddle.zeros([2, 3])
    same = paddle.assign(x.detach() * 2, h)
    same = paddle.assign(h + same, output=same)
    return h * x, same is h


def test_assigned():
    x = paddle.arange(6, dtype="float32").reshape([2, 3])
    check(assigns, x, graphs=1, breaks=0)
    x.stop_gradient = False
    check(assigns, x, graphs=1, breaks=0)


def assigns_what_takes_gradients(x):
    h = paddle.zeros([2, 3])
    paddle.assign(x * 2, h)
    return h.detach() + x


def answers(x):
    h = paddle.zeros([2, 3])
    other = h.copy_(x, True)
    other.add_(paddle.ones([2, 3]))
    return h, other, other is h


def of_another_shape(x):
    h = paddle.zeros([2])
    h.copy_(x, True)
    return h + x


def of_another_dtype(x):
    h = paddle.zeros([2, 3], "int64")
    try:
        h.copy_(x, True)
    except RuntimeError:
        return x * 7
    return x * h


def of_its_view(x):
    h = x * 2
    h[0].copy_(h[1], True)
    return h + 1


def with_a_view(x):
    h = paddle.zeros([2, 3])
    row = h[0]
    h.copy_(x, True)
    return row + 1, h


def of_an_argument(x):
    x.copy_(x * 2, True)
    return x + 1


def of_one_with_gradients(x):
    h = x * 2
    h.copy_(paddle.ones([2, 3]), True)
    return h * 3


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        *(assigns_what_takes_gradients, answers, of_another_shape, of_another_dtype, of_its_view, with_a_view),
        *(of_an_argument, of_one_with_gradients),
    ],
)
def test_what_is_not_captured_is_right(function, trains):
    x = paddle.arange(6, dtype="float32").reshape([2, 3])
    if trains and function is of_an_argument:
        return
    x.stop_gradient = not trains
    check(function, x)


def test_a_step_of_averages():
    def function(x):
        mean = paddle.zeros([3])
        for row in x:
            mean.copy_(mean * 0.5 + row * 0.5, True)
        return mean

    x = paddle.arange(6, dtype="float32").reshape([2, 3])
    translated = translate(function)
    for _ in range(2):
        assert translated(x).tolist() == function(x).tolist()
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])
