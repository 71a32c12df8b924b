"""Data-parallel training of a translated Layer on two CPU processes.

Run it with:  python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo examples/distributed.py

Three ways to combine the two, each compared with the same training in eager mode: `DataParallel(to_static(net))`,
`to_static(DataParallel(net))`, and fleet's wrapper around a translated Layer.
"""

import sys

import numpy as np
import paddle
import paddle.distributed as dist
import paddle_sot_rs as sot
from paddle import nn
from paddle.distributed import fleet

STEPS = 3


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.last = nn.Linear(16, 4)

    def forward(self, x):
        return self.last(nn.functional.relu(self.norm(self.first(x))))


def batches():
    """Each process has its own part of the data."""
    random = np.random.default_rng(100 + dist.get_rank())
    for _ in range(STEPS):
        yield [paddle.to_tensor(random.standard_normal(shape, "float32")) for shape in ([6, 8], [6, 4])]


def train(wrap):
    """Gradients of the last step and parameters after it."""
    paddle.seed(7)
    net = Net()
    model = wrap(net)
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    gradients = []
    for x, y in batches():
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        gradients = [parameter.grad.numpy() for parameter in net.parameters()]
        optimizer.step()
        optimizer.clear_grad()
    return gradients, [parameter.numpy() for parameter in net.parameters()]


def translated(layer):
    return sot.to_static(layer, min_graph_size=0)


WAYS = {
    "DataParallel(to_static(net))": lambda net: paddle.DataParallel(translated(net)),
    "to_static(DataParallel(net))": lambda net: translated(paddle.DataParallel(net)),
    "fleet.distributed_model(to_static(net))": lambda net: fleet.distributed_model(translated(net)),
}


def check(name, wrap, expected):
    sot.reset()
    for found, eager in zip(train(wrap), expected, strict=True):
        for ours, theirs in zip(found, eager, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    counters = sot.stats()
    assert counters.graphs >= 1, f"{name}: nothing was translated"
    print(f"{name}: equal to eager mode; {counters.graphs} graphs, {counters.cache_hits} calls from the cache")


def main():
    paddle.set_device("cpu")
    fleet.init(is_collective=True)
    expected = train(paddle.DataParallel)
    own = train(lambda net: net)
    # Otherwise nothing would show that the processes exchange gradients.
    assert any(not np.allclose(a, b) for a, b in zip(expected[1], own[1], strict=True))
    for name, wrap in WAYS.items():
        check(name, wrap, expected)
    print(f"process {dist.get_rank()} of {dist.get_world_size()} is done")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
