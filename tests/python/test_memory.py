"""Warm calls keep memory where it was, and dropped functions free what they held."""

import gc
import resource
import weakref

import paddle
import paddle_sot_rs as sot
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
