"""Warm calls keep memory where it was, and dropped functions free what they held."""

import gc
import os
import resource
import weakref

import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn


def test_warm_calls_do_not_grow():
    def f(x, y):
        return [x + y, (x * y).sum()]

    g = sot.to_static(f, min_graph_size=0)
    x, y = paddle.randn([8]), paddle.randn([8])

    def used(calls):
        for _ in range(calls):
            g(x, y)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with paddle.no_grad():
        before = used(2_000)
        assert used(40_000) - before < 3_000  # KiB


def test_a_dropped_layer_is_freed_with_its_graphs():
    net = sot.to_static(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), min_graph_size=0)
    for _ in range(2):
        net(paddle.randn([2, 4])).sum().backward()
    dead = weakref.ref(net)
    del net
    gc.collect()
    assert dead() is None


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted there")
def test_threads_of_dropped_graphs_end():
    def threads():
        return len(os.listdir("/proc/self/task"))

    def one(k):
        def function(x):
            return (x * k + 1) * x

        x = paddle.ones([4])
        x.stop_gradient = False
        static = sot.to_static(function, min_graph_size=0)
        static(x).sum().backward()
        return static, x

    static, x = one(3)
    before = threads()
    for k in range(150):
        one(k)
    gc.collect()
    one(0)
    # Some seven for each graph whose executors are still there.
    assert threads() - before < 100 * 7
    assert static(x).tolist() == [4.0] * 4
