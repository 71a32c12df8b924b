"""`paddle.inference` with oneDNN on: what gets other dims twice is one operation there, and others read its result."""

import paddle
import pytest
from export.test_onednn_in_predictors import equals_eager
from paddle import nn
from paddle.nn import functional as F
from support import GROWN

pytestmark = pytest.mark.default_python


def heads(x):
    """What heads of attention make, side by side."""
    y = F.softmax(paddle.matmul(x, x, transpose_y=True)) @ x
    return y.transpose([0, 2, 1, 3]).reshape([0, -1, 8])


SUMMED = {
    "in front": lambda y, x: y + x,
    "behind": lambda y, x: x + y,
    "row": lambda y, x: y + x[:, :1],
    "activated": lambda y, x: F.relu(y + x),
    "copied": lambda y, x: y.clone() + x,
    "listed": lambda y, x: paddle.concat([y, x], 1),
}


@pytest.mark.parametrize("dims", [[2, 2, 5, 4], [None, 2, 5, 4]], ids=["known", "open"])
@pytest.mark.parametrize("name", SUMMED)
def test_sums_of_transposed_products(name, dims, tmp_path):
    """A sum became part of the product, and its other operand was read as if it were transposed too."""
    shapes = [(2, 2, 5, 4)] if dims[0] else [(2, 2, 5, 4), (1, 2, 5, 4)]
    equals_eager(lambda x: SUMMED[name](heads(x), x.reshape([0, -1, 8])), tmp_path, shapes, dims)


LISTED = {
    "reshaped": lambda y: y.transpose([0, 2, 3, 1]).reshape([-1, 12]),
    "copied": lambda y: y.clone().transpose([0, 2, 3, 1]).reshape([-1, 12]),
    "unsqueezed": lambda y: y.transpose([0, 2, 3, 1]).unsqueeze(1),
    "squeezed": lambda y: y[:, :1].squeeze(1).transpose([0, 2, 1]),
    "squeezed and reshaped": lambda y: y[:, :1].squeeze(1).transpose([0, 2, 1]).reshape([-1, 16]),
}
LISTS = {
    "concat": lambda y: paddle.concat([y, y * 2]),
    "stack": lambda y: paddle.stack([F.sigmoid(y), y]),
    "add_n": lambda y: paddle.add_n([y, y * 2]),
}


@pytest.mark.parametrize("make", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("name", LISTED)
def test_lists_of_what_gets_other_dims(name, make, tmp_path):
    """A predictor refused the file: the one operation had the type of the first of the two."""
    paddle.seed(0)
    convolution = nn.Conv2D(2, 3, 3, padding=1)
    equals_eager(lambda x: make(LISTED[name](convolution(x))), tmp_path, [(2, 2, 4, 4), (1, 2, 4, 4)], [None, 2, 4, 4])


@pytest.mark.parametrize("dims", [[2, 5, 8], [None, None, 8]], ids=["known", "open"])
@pytest.mark.parametrize("name", GROWN)
def test_sums_that_are_larger_than_a_product_in_them(name, dims, tmp_path):
    """They became a part of it, with its dims."""
    paddle.seed(0)
    weight = paddle.randn([8, 8])
    shapes = [(2, 5, 8)] if dims[0] else [(2, 5, 8), (3, 4, 8)]
    equals_eager(lambda x: GROWN[name](x, weight), tmp_path, shapes, dims)


# What has as many numbers as there are channels, or one, is added along the last axis.
ADDED = {"row": [4], "row of two dims": [1, 4], "one": [1], "channels": [1, 4, 1, 1]}
CONVOLUTIONS = {
    "plain": lambda: nn.Conv2D(4, 4, 1, bias_attr=False),
    "depthwise": lambda: nn.Conv2D(4, 4, 3, padding=1, groups=4, bias_attr=False),
    "transposed": lambda: nn.Conv2DTranspose(4, 4, 1, bias_attr=False),
}


@pytest.mark.parametrize("make", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
@pytest.mark.parametrize("name", ADDED)
def test_numbers_behind_a_convolution(name, make, tmp_path):
    """A pass took them for those of the channels, or raised."""
    paddle.seed(0)
    convolution, added = make(), paddle.randn(ADDED[name])
    equals_eager(lambda x: F.relu(convolution(x) + added), tmp_path, [(2, 4, 4, 4)], [None, 4, 4, 4])
