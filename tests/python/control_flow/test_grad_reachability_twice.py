"""Captured control flow that gradients go through more than once: `retain_graph`, `paddle.grad`, `create_graph`."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

MODES = {
    "program": {"full_graph": True},
    "eager": {"capture_control_flow": True, "backend": "eager"},
    "cinn": {"full_graph": True, "backend": "cinn", "dynamic": True},
}
DATA = ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.1, 0.2, 0.3])
w, v = (paddle.to_tensor(numbers, stop_gradient=False) for numbers in ([0.5, -1.0, 2.0], [1.5, 2.0, -0.5]))


def branch(x):
    y = x * w
    if x.sum() > 0:
        y = y * 2
    else:
        y = y + v
    return y * y


def one_side(x):
    y = x * x
    if x.sum() > 0:
        y = y * v
    return y * w


def loop(x):
    y, n = x, x.detach().abs().sum()
    while n < 20:
        y, n = y * w, n * 2 + 1
    return y * y


def branch_in_a_loop(x):
    y, n = x, x.detach().abs().sum()
    while n < 20:
        if y.sum() > 0:
            y = y * w
        else:
            y = y + v * x
        n = n * 2 + 1
    return y.tanh()


def in_range(x):
    y = x
    for at in range(paddle.to_tensor(3)):
        y = y * w + at
    return y * x


FUNCTIONS = [branch, one_side, loop, branch_in_a_loop, in_range]


def twice(x, y):
    y.sum().backward(retain_graph=True)
    first = grads(x)
    y.sum().backward(retain_graph=True)
    (y * 3).sum().backward()
    return first + grads(x)


def with_other_gradients(x, y):
    paddle.autograd.backward([y], [paddle.to_tensor([1.0, 0.0, 2.0])], retain_graph=True)
    paddle.autograd.backward([y], [paddle.to_tensor([0.0, -1.0, 0.5])])
    return grads(x)


def asked_for_twice(x, y):
    one = paddle.grad(y.sum(), [x, w, v], retain_graph=True, allow_unused=True)
    other = paddle.grad((y * y).sum(), [x, w, v], allow_unused=True)
    return [None if grad is None else grad.numpy() for grad in (*one, *other)] + grads(x)


def of_gradients(x, y):
    (grad,) = paddle.grad(y.sum(), [x], create_graph=True)
    (grad * grad).sum().backward()
    return [grad.numpy(), *grads(x)]


WAYS = [twice, with_other_gradients, asked_for_twice, of_gradients]


def grads(x):
    return [None if leaf.grad is None else leaf.grad.numpy() for leaf in (x, w, v)]


def observe(function, way, data):
    for leaf in (w, v):
        leaf.clear_gradient(set_to_zero=False)
    x = paddle.to_tensor(data, stop_gradient=False)
    return way(x, function(x))


def same(got, want):
    assert [one is None for one in got] == [one is None for one in want]
    for one, other in zip(got, want, strict=True):
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradients_are_those_of_eager_mode(function, way, mode):
    static = sot.to_static(function, min_graph_size=0, **MODES[mode])
    for data in (*DATA, *DATA):
        same(observe(static, way, data), observe(function, way, data))
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


# Nothing in these says that a graph will be retained: the program is made before anybody knows.
HIDDEN = {"run": lambda tensor, **settings: tensor.sum().backward(**settings), "name": "retain" + "_graph"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_it_is_right_or_an_error_where_nobody_knew(function, mode):
    space = {"to_static": sot.to_static, "function": function, "mode": MODES[mode]}
    exec("def call(x):\n    return static(x)\n\nstatic = to_static(function, min_graph_size=0, **mode)\n", space)

    def way(x, y):
        HIDDEN["run"](y, **{HIDDEN["name"]: True})
        HIDDEN["run"](y)
        return grads(x)

    for data in DATA:
        want = observe(function, way, data)
        try:
            got = observe(space["call"], way, data)
        except RuntimeError as error:
            assert "backward" in str(error)
            continue
        same(got, want)
