"""`paddle.inference`: what its passes compute with the channels last, or read as a convolution has laid it out."""

import paddle
import pytest
from export.test_onednn_in_predictors import equals_eager
from paddle import nn
from paddle.nn import functional as F

pytestmark = pytest.mark.default_python


def pooled(x):
    return F.max_pool2d(x, 3, 1, 1)


PARTS = {
    "channels": lambda x: [pooled(part) for part in paddle.split(x, 2, 1)],
    "last": lambda x: [pooled(part) for part in paddle.split(x, [1, 3], -1)],
    "copies": lambda x: [pooled(part.clone()) for part in paddle.split(x, 2, 2)],
    "averages": lambda x: [F.avg_pool2d(part, 2) for part in paddle.chunk(x, 2, 1)],
    "put together": lambda x: paddle.concat([pooled(part) for part in paddle.split(x, [1, 3], 1)], 1),
    "some": lambda x: [pooled(paddle.split(x, 2, 1)[0]), *paddle.split(x, 2, 1)],
}
LISTS = {
    "last": lambda x: pooled(paddle.concat([x, x * 2], -1)),
    "rows": lambda x: pooled(paddle.concat([x, x * 2], 2)),
    "channels from behind": lambda x: pooled(paddle.concat([x, x * 2], -3)),
    "channels": lambda x: pooled(paddle.concat([x, x * 2], 1)),
    "of pooled": lambda x: paddle.concat([pooled(x), pooled(x * 2)], 3),
    "of pooled, and pooled": lambda x: pooled(paddle.concat([pooled(x), x], 3)),
    "sum": lambda x: paddle.add_n([pooled(x), pooled(x * 2)]),
    "stack": lambda x: paddle.stack([pooled(x), pooled(x * 2)], 1),
}


@pytest.mark.parametrize("dims", [[2, 4, 4, 4], [None, 4, 4, 4]], ids=["known", "open"])
@pytest.mark.parametrize("name", PARTS)
def test_pooled_parts(name, dims, tmp_path):
    """With oneDNN off all parts but one had transposed results."""
    equals_eager(PARTS[name], tmp_path, [(2, 4, 4, 4)] if dims[0] else [(2, 4, 4, 4), (1, 4, 4, 4)], dims)


@pytest.mark.parametrize("dims", [[2, 4, 4, 4], [None, 4, 4, 4]], ids=["known", "open"])
@pytest.mark.parametrize("name", LISTS)
def test_lists_next_to_pooling(name, dims, tmp_path):
    """With oneDNN off a predictor refused lists along other axes than the channels."""
    equals_eager(LISTS[name], tmp_path, [(2, 4, 4, 4)] if dims[0] else [(2, 4, 4, 4), (1, 4, 4, 4)], dims)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("channels", [4, 8])
def test_norms_behind_transposed_convolutions(channels, size, groups, tmp_path):
    """A pass took the filter of several groups for that of one: it was wrong, or raised."""
    paddle.seed(0)
    convolution = nn.Conv2DTranspose(4, channels, size, stride=size, groups=groups, bias_attr=False)
    norm = nn.BatchNorm2D(channels)
    norm._mean.set_value(paddle.randn([channels]))
    norm._variance.set_value(paddle.rand([channels]) + 0.5)
    norm.eval()
    equals_eager(lambda x: F.relu(norm(convolution(x))), tmp_path, [(2, 4, 4, 4)], [None, 4, 4, 4])
