"""`recompute` where no argument needs a gradient: a call, and Paddle logs that there is no need for it."""

import contextlib
import logging

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import tensor
from paddle import nn
from paddle.distributed.fleet.utils import recompute
from paddle.distributed.fleet.utils.log_util import logger

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python
REENTRANT = pytest.mark.parametrize("reentrant", [True, False])


def records(function, *args):
    """What it answers with, and what Paddle logs meanwhile."""
    found = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append((record.levelname, record.funcName, record.lineno, record.getMessage()))
    logger.addHandler(handler)
    try:
        return function(*args), found
    finally:
        logger.removeHandler(handler)


@REENTRANT
def test_without_a_gradient_it_is_a_call_and_paddle_logs_it(reentrant):
    w = paddle.to_tensor([2.0, 3.0])

    def again(x, y):
        first = recompute(lambda a, b: paddle.tanh(a * 2) + b, x, y, use_reentrant=reentrant)
        return first, recompute(lambda a: a * w, first, use_reentrant=reentrant)

    static = sot.to_static(again, full_graph=True, min_graph_size=0)
    x = paddle.to_tensor([1.0, 2.0])
    for value in (1.0, 2.0, 3.0):
        with paddle.no_grad() if value == 3.0 else contextlib.nullcontext():
            y = paddle.to_tensor([value, -value])
            (got, said), (want, says) = records(static, x, y), records(again, x, y)
        assert said == says and len(says) == (0 if value == 3.0 else 2)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
            assert (one.stop_gradient, one.is_leaf) == (other.stop_gradient, other.is_leaf)
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks) == (2, [])


@REENTRANT
def test_parameters_of_a_block_whose_argument_needs_no_gradient(reentrant):
    net = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))

    def again(x):
        return recompute(net, x, use_reentrant=reentrant) + net(x)

    static = sot.to_static(again, full_graph=True, min_graph_size=0)
    for seed in range(3):
        found = []
        for function in (static, again):
            (result, said) = records(function, tensor(3, 4, seed=seed))
            result.sum().backward()
            found.append((said, result.numpy(), [it.grad.numpy() for it in net.parameters()]))
            net.clear_gradients(set_to_zero=False)
        assert found[0][0] == found[1][0]
        assert len(found[1][0]) == 1
        np.testing.assert_array_equal(found[0][1], found[1][1])
        for one, other in zip(found[0][2], found[1][2], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])


def test_what_comes_first_and_can_be_seen_breaks_the_graph():
    seen = []

    class Kept:
        value = None

    kept = Kept()

    def again(x):
        kept.value = x * 2
        return recompute(lambda a: a + 1, x)

    static = sot.to_static(again, min_graph_size=0)
    for function in (static, again):
        handler = logging.Handler()
        handler.emit = lambda record: seen.append(kept.value is None)
        logger.addHandler(handler)
        kept.value = None
        function(paddle.ones([2]))
        logger.removeHandler(handler)
    assert seen == [False, False]
