"""Cells of recurrent layers whose results leave a function: gradients are summed as in eager mode."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

X = np.random.RandomState(0).randn(4, 6, 8).astype("float32")


class Steps(nn.Layer):
    """Answers with the last output and the last states."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell(8, 8)

    def forward(self, x):
        states = None
        for step in range(x.shape[1]):
            y, states = self.cell(x[:, step], states)
        return y, states


class Decoder(nn.Layer):
    """Answers with what is projected of each step, and the last states."""

    def __init__(self, cell):
        super().__init__()
        self.cell, self.out = cell(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        states, outputs = None, []
        for step in range(x.shape[1]):
            y, states = self.cell(x[:, step], states)
            outputs.append(self.out(y))
        return paddle.stack(outputs, 1), states


def tensors(value):
    if isinstance(value, paddle.Tensor):
        return [value]
    return [tensor for item in value for tensor in tensors(item)]


@pytest.mark.parametrize("network", [Steps, Decoder])
@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.SimpleRNNCell])
@pytest.mark.parametrize("chosen", [slice(None), slice(1), slice(1, None)])
def test_gradients_have_all_digits(network, cell, chosen):
    net = network(cell)

    def gradients(call):
        x = paddle.to_tensor(X, stop_gradient=False)
        results = tensors(call(x))[chosen]
        sum((result * result).sum() for result in results).backward()
        leaves = [x, *net.parameters()]
        found = [None if leaf.grad is None else leaf.grad.numpy().tobytes() for leaf in leaves]
        net.clear_gradients()
        return found

    want = gradients(lambda x: network.forward(net, x))
    static = sot.to_static(net.forward, min_graph_size=0)
    for _ in range(2):
        assert gradients(static) == want
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])
