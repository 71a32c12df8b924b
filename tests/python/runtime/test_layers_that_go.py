"""A layer that was called in a graph and let go is gone, as in eager mode."""

import gc
import weakref

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

KINDS = {
    "linear": lambda: nn.Linear(4, 4),
    "recurrent": lambda: nn.LSTM(4, 4),
    "norm": lambda: nn.BatchNorm1D(4),
    "sequential": lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()),
}


def first(result):
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("backend", ["paddle", "cinn", "eager", "pylayer"])
@pytest.mark.parametrize("kind", KINDS)
def test_as_arguments(kind, backend):
    translated = translate(lambda net, x: first(net(x)).sum() * 2, backend=backend)
    x = paddle.ones([2, 3, 4]) if kind == "recurrent" else paddle.ones([2, 4])
    parts = []
    for _ in range(5):
        net = KINDS[kind]()
        translated(net, x).backward()
        parts += [weakref.ref(net), *map(weakref.ref, net.parameters())]
    del net
    gc.collect()
    assert not any(part() for part in parts)


@pytest.mark.parametrize("size", [0, None])
def test_a_head_that_is_replaced(size):
    net = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
    translated = sot.to_static(net, min_graph_size=size)
    x = paddle.ones([2, 4])
    old = weakref.ref(net[1].weight)
    translated(x)
    net[1] = nn.Linear(5, 7)
    for _ in range(3):
        assert translated(x).shape == [2, 7]
    gc.collect()
    assert old() is None
