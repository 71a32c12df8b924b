"""Captured loops where the user has switched eager deletion off: Paddle's executors compute loops wrongly then."""

import logging

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.base import core
from paddle.static import InputSpec
from support import DELETION, eager_deletion

scale = paddle.to_tensor([0.5, 0.7, 0.9], stop_gradient=False)


def over_a_range(x, n):
    total = x * 0
    for i in range(n):
        total = total + x * i
    return total


def exchanged(x, n):
    a, b, i = x, x * scale, n * 0
    while i < n:
        a, b, i = b, a * scale + i, i + 1
    return a * b


def in_a_branch(x, n):
    y = x * 2
    if n > 2:
        before, i = y, n * 0
        while i < n:
            before, y, i = y, y * scale + before, i + 1
        y = y - before
    return y


FUNCTIONS = [over_a_range, exchanged, in_a_branch]


def run(function, n, backward=True):
    scale.clear_gradient()
    x = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=not backward)
    with paddle.set_grad_enabled(backward):
        y = function(x, paddle.to_tensor(n))
    if backward:
        (y * y).sum().backward()
    grads = [np.zeros(3) if leaf.grad is None else leaf.grad.numpy() for leaf in (x, scale)]
    return [y.numpy(), *grads]


def agree(static, function, n, backward):
    for got, want in zip(run(static, n, backward), run(function, n, backward), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def is_one_graph(static):
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])


@pytest.mark.parametrize("backward", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_off_when_the_loop_is_compiled(function, backward):
    with eager_deletion(False):
        static = sot.to_static(function, full_graph=True, min_graph_size=0)
        for n in (0, 1, 4, 7, 4):
            agree(static, function, n, backward)
            assert paddle.get_flags(DELETION)[DELETION] == -1.0
    is_one_graph(static)


@pytest.mark.parametrize("backward", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_switched_off_later(function, backward):
    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    agree(static, function, 0, backward)
    # No round was run yet: the executor of the body is made now.
    with eager_deletion(False):
        agree(static, function, 4, backward)
        core.clear_executor_cache()
        agree(static, function, 5, backward)
    agree(static, function, 6, backward)
    is_one_graph(static)


def test_switched_off_between_forward_and_backward():
    static = sot.to_static(exchanged, full_graph=True, min_graph_size=0)
    grads = []
    for function in (exchanged, static):
        x = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
        y = function(x, paddle.to_tensor(5))
        with eager_deletion(False):
            y.sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(*grads, rtol=1e-6)
    is_one_graph(static)


def test_gradients_that_are_asked_for():
    static = sot.to_static(exchanged, full_graph=True, min_graph_size=0)
    with eager_deletion(False):
        grads = []
        for function in (exchanged, static):
            x = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
            y = function(x, paddle.to_tensor(5))
            grads.append([value.numpy() for value in paddle.autograd.grad([y.sum()], [x, scale], retain_graph=False)])
    np.testing.assert_allclose(*grads, rtol=1e-6)


def test_the_setting_is_there_again_after_an_error():
    space = {}
    source = "def f(x, n):\n    for i in range(n):\n        x = x + i\n    assert x.sum() < 10\n    return x\n"
    exec(source, space)
    static = sot.to_static(space["f"], full_graph=True, min_graph_size=0)
    with eager_deletion(False):
        static(paddle.ones([3]), paddle.to_tensor(2))
        with pytest.raises(AssertionError):
            static(paddle.ones([3]), paddle.to_tensor(20))
        assert paddle.get_flags(DELETION)[DELETION] == -1.0
    is_one_graph(static)


@pytest.mark.parametrize("on", [True, False])
def test_saving_a_loop_says_what_loading_it_needs(on, tmp_path, caplog):
    def decays(x):
        while x.sum() > 1:
            x = x * 0.5
        return x

    with eager_deletion(on), caplog.at_level(logging.WARNING, "paddle_sot_rs.backend"):
        sot.save(decays, str(tmp_path / "net"), input_spec=[InputSpec([3], "float32", "x")])
    said = [record.message for record in caplog.records if DELETION in record.message]
    assert len(said) == (0 if on else 1)
