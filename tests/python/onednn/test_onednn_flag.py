"""`FLAGS_use_onednn=1`: programs are made as if it were off, and it is on for everything else."""

import os
import subprocess
import sys

import pytest

# Each in a process of its own, which may die.
PROGRAM = """
import sys
import numpy
import paddle
import paddle_sot_rs as sot
from paddle import nn

NETWORKS = {
    "pooling": lambda: nn.MaxPool2D(2),
    "a convolution with statistics": lambda: nn.Sequential(nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4)),
    "a block": lambda: nn.Sequential(nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.MaxPool2D(2)),
    "linear behind a convolution": lambda: nn.Sequential(nn.Conv2D(3, 4, 3), nn.Flatten(), nn.Linear(144, 2)),
    "resnet18": lambda: paddle.vision.models.resnet18(num_classes=4),
}
backend = sys.argv[1]
# Compiled operations add up in another order.
tolerance = 1e-3 if backend == "cinn" else 0.0


def observed(net, function, numbers):
    for parameter in net.parameters():
        parameter.clear_gradient(False)
    x = paddle.to_tensor(numbers, stop_gradient=not net.training)
    if not net.training:
        with paddle.no_grad():
            return [function(x).numpy()]
    y = function(x)
    y.square().sum().backward()
    gradients = [parameter.grad for parameter in net.parameters() if parameter.grad is not None]
    return [tensor.numpy() for tensor in (y, x.grad, *gradients)]


def compare(name, mode):
    net = NETWORKS[name]()
    getattr(net, mode)()
    translated = sot.to_static(lambda x: net(x), min_graph_size=0, backend=backend)
    for number in range(4):
        size = [2, 3, 32, 32] if name == "resnet18" else [2 + (number > 1) * (mode == "eval"), 3, 8, 8]
        numbers = numpy.random.default_rng(number).random(size, dtype="float32")
        one, other = (observed(net, function, numbers) for function in (translated, net))
        for found, expected in zip(one, other, strict=True):
            numpy.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    stats = sot.stats(translated)
    assert stats.graphs > 0 and stats.graph_breaks == []


for name in NETWORKS:
    if name != "resnet18" or backend == "paddle":
        for mode in ("train", "eval"):
            compare(name, mode)
print(*(name for name in ("FLAGS_use_onednn", "FLAGS_use_mkldnn") if paddle.get_flags(name)[name]))
"""


@pytest.mark.default_python
@pytest.mark.parametrize(
    ("backend", "flag"),
    [*((backend, "FLAGS_use_onednn") for backend in ("paddle", "cinn", "pylayer")), ("paddle", "FLAGS_use_mkldnn")],
)
def test_networks_equal_eager(backend, flag):
    environment = {**os.environ, flag: "1", "GLOG_minloglevel": "3"}
    command = [sys.executable, "-c", PROGRAM, backend]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout.split()[-1:]) == (0, [flag]), done.stderr[-2000:]
