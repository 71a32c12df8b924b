"""`paddle.inference` with oneDNN on: kernels keep filters, weights and biases, also those that each run makes anew."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from export.test_onednn_in_predictors import predictor
from paddle import nn
from paddle.nn import functional as F
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python


def equals_eager_in_each_run(function, tmp_path, dims):
    path = str(tmp_path / "m")
    sot.save(function, path, input_spec=[InputSpec(dims, "float32", "x")])
    paddle.seed(1)
    for onednn in (False, True):
        run = predictor(path, onednn)
        for _ in range(3):
            x = paddle.randn(dims)
            for found, wanted in zip(run(x), paddle.utils.flatten(function(x)), strict=True):
                np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-5)


FILTERS = {
    "plain": lambda x: F.conv2d(x, F.tanh(x[:, :, :3, :3]), padding=1),
    "activated": lambda x: F.relu(F.conv2d(x, x[:, :, :3, :3], padding=1)),
    "depthwise": lambda x: F.conv2d(x, x[0, :, :3, :3].unsqueeze(1), groups=4) + 1,
    "grouped": lambda x: F.conv2d(x, x[:, :2, :3, :3], padding=1, groups=2, dilation=2),
    "with a bias": lambda x: F.conv2d(x, x[:, :, :2, :2], x[0, :, 0, 0], stride=2),
    "normed": lambda x: F.batch_norm(
        F.conv2d(x, x[:, :, :3, :3]), x[0, :, 0, 0], x[0, 0].abs()[0, :4] + 1, *x[0, :2, 1, :4]
    ),
    "transposed": lambda x: F.conv2d_transpose(x, x[:, :, :3, :3], stride=2, padding=1, output_padding=1),
    "transposed, sized": lambda x: F.conv2d_transpose(x, x[:, :, :3, :3], stride=2, output_size=[17, 17]),
    "transposed, grouped": lambda x: F.conv2d_transpose(x, x[:, :2, :3, :3], groups=2),
    "one dim": lambda x: F.conv1d(x.flatten(2), x[:, :, 0, :3], padding="SAME"),
    "three dims": lambda x: F.conv3d(x.reshape([4, 4, 4, 4, 4]), x[:3, :, :2, :4].reshape([3, 4, 2, 2, 2])).tanh(),
    "another's": lambda x: F.conv2d(x, x.mean([2, 3]).reshape([4, 4, 1, 1])) + x,
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_that_are_computed(name, tmp_path):
    """Each run but the first convolved with the filter of the first."""
    equals_eager_in_each_run(FILTERS[name], tmp_path, [4, 4, 8, 8])


SUMMED = {
    "two layers": lambda net, x: net.plain(x[:1]) + net.linear(x[1:]),
    "two without biases": lambda net, x: net.plain(x[:1]) + net.plain(x[1:].tanh()),
    "activated": lambda net, x: F.tanh(net.plain(x[:1]) + F.relu(x[1:])),
    "residual": lambda net, x: x[:1] + net.plain(x[1:]) + x[1:],
    "vector": lambda net, x: net.plain(x) + x[0],
    "rows": lambda net, x: net.plain(x.unsqueeze(1)) + x[:1],
    "scaled": lambda net, x: net.plain(x) * 0.5 + x[1],
    "weight": lambda net, x: x @ (x.T @ x) + net.linear.bias,
    "weight and bias": lambda net, x: F.linear(x, x.T @ x, x[0]),
    "weight in a layer": lambda net, x: F.relu(F.linear(net.linear.weight, (x.T @ x).tanh(), net.linear.bias)),
    "taken apart": lambda net, x: paddle.split(net.plain(x[:1]) + net.linear(x[1:]), 2, -1),
}


@pytest.mark.parametrize("name", SUMMED)
def test_sums_of_products_that_are_computed(name, tmp_path):
    """A pass makes a layer of a product and what is added to it, and each run added what the first did."""
    paddle.seed(0)
    net = nn.Layer()
    net.plain, net.linear = nn.Linear(8, 8, bias_attr=False), nn.Linear(8, 8)
    equals_eager_in_each_run(lambda x: SUMMED[name](net, x), tmp_path, [2, 8])


NORMED = {
    "plain": lambda net: net.convolution,
    "with a bias": lambda net: net.biased,
    "depthwise": lambda net: net.depthwise,
    "transposed": lambda net: net.transposed,
}


@pytest.mark.parametrize("of", ["scale", "statistics"])
@pytest.mark.parametrize("name", NORMED)
def test_norms_whose_numbers_are_computed(name, of, tmp_path):
    """A pass makes a filter of that of a convolution and the numbers of the batch norm behind it (of conditions)."""
    paddle.seed(0)
    net = nn.Layer()
    net.convolution, net.biased = nn.Conv2D(4, 4, 3, bias_attr=False), nn.Conv2D(4, 4, 3)
    net.depthwise = nn.Conv2D(4, 4, 3, groups=4, bias_attr=False)
    net.transposed = nn.Conv2DTranspose(4, 4, 2, stride=2, bias_attr=False)
    convolution, steady = NORMED[name](net), paddle.rand([4]) + 0.5

    def normed(x):
        computed = x[0, 0, 0, :4].abs() + 1
        numbers = (computed, computed, steady, steady) if of == "statistics" else (steady, steady, computed, computed)
        return F.relu(F.batch_norm(convolution(x), *numbers))

    equals_eager_in_each_run(normed, tmp_path, [2, 4, 8, 8])


def test_filters_of_loops(tmp_path):
    """What comes into a block may differ in each round."""

    def rounds(x):
        y, count = x, paddle.zeros([], "int64")
        while count < x.shape[0]:
            y = F.conv2d(x, F.tanh(y[:, :, :3, :3]), padding=1)
            count += 1
        return y

    equals_eager_in_each_run(rounds, tmp_path, [4, 4, 8, 8])
