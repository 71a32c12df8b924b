"""`paddle.inference` with oneDNN on: what gets other dims twice is one operation there, and others read its result."""

import paddle
import pytest
from export.test_onednn_in_predictors import equals_eager
from paddle import nn
from paddle.nn import functional as F

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
