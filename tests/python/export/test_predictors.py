"""`paddle.inference` on saved control flow, with the passes and kernels that it takes by itself."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.static import InputSpec

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

DATA = (np.arange(8, dtype="float32").reshape(2, 4)[::-1].copy(), -np.ones([3, 4], "float32"))
weight = paddle.to_tensor([0.5, -1.0, 2.0, 1.0])


def test_of_constants(x):
    number = paddle.to_tensor([1.0])
    return x + 1 if number > 0 else x.exp()


def two_tests(x):
    i = paddle.to_tensor(0)
    while i < 5 and x.abs().max() < 10:
        x = x * 1.5 + 1
        i += 1
    return x, i


def test_of_a_parameter(x):
    return x * weight if weight.sum() > 0 else x - weight


def test_of_constants_in_a_loop(x):
    limit = paddle.to_tensor(2.0)
    i = paddle.to_tensor(0)
    while i < 3:
        if limit > 1:
            x = x * limit
        i += 1
    return x


def one_side_changes(x):
    i = paddle.to_tensor(0)
    while i < 5:
        if x.max() < 10:
            x = x * 1.5 + 1
        i += 1
    return x, i


def loop_in_a_loop(x):
    i = paddle.to_tensor(0)
    while i < 5:
        while x.max() < 10:
            x = x * 1.5 + 1
        x = x.abs() - i
        i += 1
    return x, i


def behind_a_branch(x):
    y = x * 1.5 if x.sum() > 0 else x.sort(-1)
    return y.sort(-1), y.roll(1) * 2


FUNCTIONS = [
    *(test_of_constants, two_tests, test_of_a_parameter, test_of_constants_in_a_loop),
    *(one_side_changes, loop_in_a_loop, behind_a_branch),
]
for function in FUNCTIONS:
    function.__test__ = False


def predict(prefix, x):
    config = paddle.inference.Config(prefix + ".json", prefix + ".pdiparams")
    config.disable_glog_info()
    predictor = paddle.inference.create_predictor(config)
    predictor.get_input_handle(predictor.get_input_names()[0]).copy_from_cpu(x)
    predictor.run()
    return [predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()]


def same(got, want):
    for one, other in zip(got, paddle.utils.flatten(want), strict=True):
        assert one.dtype == other.numpy().dtype
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("size", [None, 2])
def test_saved_control_flow(function, size, tmp_path):
    prefix = str(tmp_path / "saved")
    sot.save(function, prefix, input_spec=[InputSpec([size, 4], "float32", "x")])
    for x in DATA:
        if size in (None, len(x)):
            same(predict(prefix, x), function(paddle.to_tensor(x)))


class Network(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1D(4)

    def forward(self, x):
        x = nn.functional.relu(self.first(x))
        if self.first.weight.sum() > 0:
            x = self.norm(x)
        for row in x:
            if row.sum() > 0.5:
                x = nn.functional.gelu(self.first(x) + row)
        return x


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_network(seed, tmp_path):
    paddle.seed(seed)
    net = Network()
    net.eval()
    prefix = str(tmp_path / "net")
    sot.save(net, prefix, input_spec=[InputSpec([None, 4], "float32", "x")])
    for x in DATA:
        same(predict(prefix, x), net(paddle.to_tensor(x)))
