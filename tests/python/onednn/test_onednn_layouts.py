"""Backend `onednn`: what reads a tensor that a kernel of oneDNN has laid out, and what has no kernel there."""

import paddle
import paddle_sot_rs as sot
import pytest
from export.test_onednn_in_predictors import equals_eager
from paddle import nn
from paddle.nn import functional as F
from paddle.static import InputSpec
from support import GROWN, windows

pytestmark = pytest.mark.default_python

if "onednn" not in sot.list_backends():
    pytest.skip("no such backend", allow_module_level=True)

OPTIONS = {"least_elements": 0}


class Convolved(nn.Layer):
    """What reads a convolution."""

    def __init__(self, behind):
        super().__init__()
        paddle.seed(0)
        self.convolution, self.linear, self.norm = nn.Conv2D(2, 3, 3, padding=1), nn.Linear(4, 4), nn.LayerNorm([3, 4])
        self.transposed, self.behind = nn.Conv2DTranspose(3, 3, 2, stride=2), behind
        self.eval()

    def forward(self, x):
        return self.behind(self, F.relu(self.convolution(x)))


BEHIND = {
    "product": lambda net, y: paddle.matmul(y, y, transpose_y=True),
    "product of transposed": lambda net, y: y.transpose([0, 1, 3, 2]) @ y,
    "layer": lambda net, y: net.linear(y),
    "pooled": lambda net, y: net.linear(F.max_pool2d(y, 3, 1, 1)),
    "sum": lambda net, y: net.linear(y + y.mean(1, keepdim=True)),
    "put together": lambda net, y: net.linear(paddle.concat([y, y * 2], 1)),
    "taken apart": lambda net, y: [net.linear(part) for part in paddle.split(y, 3, 1)],
    "cut": lambda net, y: net.linear(y[:, 1:]),
    "normed": lambda net, y: net.linear(F.layer_norm(y, 4)),
    "unsqueezed": lambda net, y: net.linear((y + y * 2).unsqueeze(1)),
    "activated": lambda net, y: net.linear(F.softmax(F.leaky_relu(y - 0.5), 1)),
    "norm of several dims": lambda net, y: F.relu(net.norm(y.transpose([0, 2, 1, 3]))),
    "transposed convolution": lambda net, y: F.relu(net.transposed(y)),
}


def check(function, dims, shapes):
    with paddle.no_grad():
        frozen = sot.freeze(function, [(InputSpec(dims, "float32"),)], options=OPTIONS)
        for shape in shapes:
            x = paddle.cos(paddle.arange(max(paddle.ones(shape).size, 0), dtype="float32")).reshape(shape)
            found, expected = frozen(x), function(x)
            pairs = zip(found, expected, strict=True) if isinstance(expected, list) else [(found, expected)]
            for ours, wanted in pairs:
                assert ours.shape == wanted.shape
                assert ours.size == 0 or (ours - wanted).abs().max().item() < 1e-5
    return frozen


@pytest.mark.parametrize("dims", [[2, 2, 4, 4], [None, 2, None, 4]], ids=["known", "open"])
@pytest.mark.parametrize("name", BEHIND)
def test_what_reads_a_convolution(name, dims):
    """Products took its layout for the plain one; norms of several dims raised."""
    frozen = check(Convolved(BEHIND[name]), dims, [(2, 2, 4, 4), (1, 2, 4, 4)])
    assert frozen.report[0][0].startswith("oneDNN: ")


@pytest.mark.parametrize("dims", [[0, 2, 4, 4], [None, 2, 4, 4]], ids=["known", "open"])
def test_transposed_convolutions_take_no_rows(dims):
    check(Convolved(BEHIND["transposed convolution"]), dims, [(0, 2, 4, 4)])


@pytest.mark.parametrize("dims", [[2, 4, 6, 8], [None, 4, 6, 8]], ids=["known", "open"])
def test_windows_in_front_of_a_layer(dims):
    """What is transposed and reshaped became one operation, whose dims the layer took for its own."""
    check(windows(8), dims, [(2, 4, 6, 8), (1, 4, 6, 8)])


# What is added to heads of attention, `y`, which are not multiplied once more.
SUMMED = {
    "in front": lambda y, x: y + x,
    "behind": lambda y, x: x + y,
    "row": lambda y, x: y + x[:, :1],
    "activated": lambda y, x: F.relu(y + x),
    "doubled": lambda y, x: y * 2 + x,
}


@pytest.mark.parametrize("dims", [[2, 2, 5, 4], [None, 2, 5, 4], [None, 2, None, 4]], ids=["known", "batch", "open"])
@pytest.mark.parametrize("name", SUMMED)
def test_sums_of_transposed_products(name, dims):
    """A sum became part of the product, and its other operand was read as if it were transposed too."""

    def function(x):
        y = F.softmax(paddle.matmul(x, x, transpose_y=True)) @ x
        return SUMMED[name](y.transpose([0, 2, 1, 3]).reshape([0, -1, 8]), x.reshape([0, -1, 8]))

    check(function, dims, [(2, 2, 5, 4), (2, 2, 5, 4)])


@pytest.mark.parametrize("dims", [[2, 5, 8], [None, 5, 8], [None, None, 8]], ids=["known", "batch", "open"])
@pytest.mark.parametrize("name", GROWN)
def test_sums_that_are_larger_than_a_product_in_them(name, dims):
    """They became a part of it, with its dims."""
    paddle.seed(0)
    weight = paddle.randn([8, 8])
    check(lambda x: GROWN[name](x, weight), dims, [(2, 5, 8), *([(3, 4, 8), (1, 1, 8)] if dims[1] is None else [])])


@pytest.mark.parametrize("groups", [1, 2], ids=["plain", "depthwise"])
def test_numbers_of_channels_behind_a_convolution(groups):
    """The convolution stood in front of what the numbers come in by: that ended the process."""

    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv2D(2, 2, 3, padding=1, groups=groups, bias_attr=False)
            self.shift = self.create_parameter([1, 2, 1, 1], default_initializer=nn.initializer.Constant(0.5))

        def forward(self, x):
            return F.relu(self.convolution(x) + self.shift) + self.shift

    paddle.seed(0)
    net = Net()
    net.eval()
    check(net, [2, 2, 4, 4], [(2, 2, 4, 4)])


@pytest.mark.parametrize("dims", [[3, 4], [None, 4]], ids=["known", "open"])
@pytest.mark.parametrize("threshold", [1.0, 6.0, 20.0])
def test_softplus_has_a_threshold(threshold, dims):
    def function(x):
        return F.softplus(x * 9, 1.0, threshold) + F.softplus(x @ x.T, 2.0, threshold).sum()

    check(function, dims, [(3, 4)])


@pytest.mark.parametrize("dims", [[3, 4, 5], [None, 4, None]], ids=["known", "open"])
@pytest.mark.parametrize("slopes", [[0.2], [0.1, 0.2, 0.3, 0.4]], ids=["one", "each channel"])
def test_slopes_of_three_dims(slopes, dims):
    """The kernel of oneDNN read behind a single one."""
    slope = paddle.to_tensor(slopes)
    for _ in range(8):
        check(lambda x: F.prelu(x * 2.0 - 1.0, slope), dims, [(3, 4, 5), (1, 4, 5)])


@pytest.mark.parametrize("dims", [[5, 1], [None, 1], [None, None]], ids=["known", "open rows", "open"])
def test_products_of_columns_with_transposed_columns(dims):
    """The kernel of oneDNN read behind them."""

    def function(x):
        y = paddle.stack([x, x * 2], 0)
        return [x @ x.T, paddle.matmul(x, x + 1, transpose_y=True), paddle.matmul(y, y + 1, transpose_y=True)]

    check(function, dims, [(5, 1), (5, 1)])


def attends(net, y):
    """Attention between pixels, of known dims."""
    rows = y.reshape([2, 3, -1])
    return paddle.matmul(rows.transpose([0, 2, 1]), rows)


RESHAPED = {
    "in front": attends,
    "behind": lambda net, y: y.reshape([2, 3, -1]) @ y.reshape([2, 3, -1]).transpose([0, 2, 1]),
    "both": lambda net, y: paddle.matmul(*[y.reshape([2, 3, -1]).transpose([0, 2, 1])] * 2, transpose_x=True),
    "heads": lambda net, y: y.reshape([2, 3, 2, 6]).transpose([0, 2, 1, 3]) @ y.reshape([2, 2, 6, 3]),
    "not at first": lambda net, y: attends(net, F.sigmoid(y) * y),
    "scaled": lambda net, y: attends(net, y) / 64 @ y.reshape([2, 3, -1]).transpose([0, 2, 1]),
}


@pytest.mark.parametrize("name", RESHAPED)
def test_products_of_reshaped_convolutions(name, tmp_path):
    """A pass made what is reshaped and transposed a part of the product, which read the convolution as it lay."""
    net = Convolved(RESHAPED[name])
    check(net, [2, 2, 3, 4], [(2, 2, 3, 4)])
    equals_eager(net, tmp_path, [(2, 2, 3, 4)], [2, 2, 3, 4])


FILTERS = {
    "plain": lambda net, y: F.conv2d(y, y[:1]),
    "activated": lambda net, y: F.relu(F.conv2d(y, F.relu(y)[:2], padding=1)),
    "whole": lambda net, y: F.conv2d(y, y * 2, padding=1),
    "transposed": lambda net, y: F.conv2d_transpose(y, paddle.concat([y, y])[:3]),
    "depthwise": lambda net, y: F.conv2d(y, y[:1].transpose([1, 0, 2, 3]), groups=3),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_that_a_convolution_makes(name, tmp_path):
    """The kernel read them as the convolution had laid them out."""
    net = Convolved(FILTERS[name])
    check(net, [2, 2, 3, 4], [(2, 2, 3, 4)])
    equals_eager(net, tmp_path, [(2, 2, 3, 4)], [2, 2, 3, 4])


class Transposed(nn.Layer):
    """A convolution over time, with the features last."""

    def __init__(self, behind):
        super().__init__()
        paddle.seed(0)
        self.convolution, self.behind = nn.Conv1D(6, 6, 3, padding=1, bias_attr=False), behind
        self.eval()

    def forward(self, x):
        return self.behind(self.convolution(x.transpose([0, 2, 1])).transpose([0, 2, 1]), x)


ACTIVATED = {
    "residual": lambda y, x: F.relu(y + x),
    "in front": lambda y, x: F.gelu(x + y),
    "slope": lambda y, x: F.leaky_relu(y - x, 0.1),
    "gate": lambda y, x: F.sigmoid(y * x),
    "quotient": lambda y, x: paddle.tanh(y / (x.abs() + 1)),
    "scaled": lambda y, x: (y + x) * 0.5,
    "sum alone": lambda y, x: y + x,
    "limits": lambda y, x: (y + x[:1]).clip(0, 1),
    "list": lambda y, x: F.relu(paddle.concat([y, x], -1)),
    "stack": lambda y, x: F.relu(paddle.stack([y, x], 1).sum(1)),
    "layer": lambda y, x: F.relu(y @ paddle.ones([6, 6]) + paddle.ones([6]) + x),
}


@pytest.mark.parametrize("dims", [[2, 4, 6], [None, 4, 6]], ids=["known", "open"])
@pytest.mark.parametrize("name", ACTIVATED)
def test_squeezed_and_transposed_convolutions(name, dims, tmp_path):
    """Passes inferred sums and lists from the type of what was not squeezed, and raised."""
    net = Transposed(ACTIVATED[name])
    shapes = [(2, 4, 6)] if dims[0] else [(2, 4, 6), (3, 4, 6)]
    check(net, dims, shapes)
    equals_eager(net, tmp_path, shapes, dims)


QUOTIENTS = {
    "negative": lambda x: -(x[:, :1] / (x.abs() + 1)),
    "multiple": lambda x: x.mean(1, keepdim=True) / (x.abs() + 1) * 0.5,
    "moved": lambda x: x[0] / (x.abs() + 1) * 2 + 1,
    "vector": lambda x: 3 - x[0, 0] / (x.abs() + 1),
    "activated": lambda x: F.tanh(x[:, :1] / (x.abs() + 1)) * 2,
    "activated later": lambda x: F.relu(x[:, :1] / (x.abs() + 1) * 2),
    "sum": lambda x: x.sum(-1, keepdim=True) / (x * x + 1) * 0.25,
    "as large": lambda x: x / (x.abs() + 1) * 0.5,
    "of one": lambda x: x / (x[:, :1].abs() + 1) * 0.5,
}


@pytest.mark.parametrize("dims", [[2, 3, 4, 5], [None, 3, None, None]], ids=["known", "open"])
@pytest.mark.parametrize("name", QUOTIENTS)
def test_scaled_quotients_of_what_is_smaller(name, dims, tmp_path):
    """A pass made one operation of the quotient and the factor, whose kernel scaled something else."""
    shapes = [(2, 3, 4, 5)] if dims[0] else [(2, 3, 4, 5), (3, 3, 6, 2)]
    check(QUOTIENTS[name], dims, shapes)
    equals_eager(QUOTIENTS[name], tmp_path, shapes, dims)


LISTED = {
    "reshaped": lambda net, y: paddle.concat(
        [y.transpose([0, 2, 3, 1]).reshape([2, -1, 3]), F.tanh(y).reshape([2, -1, 3])], 1
    ),
    "flattened": lambda net, y: paddle.concat([(y * 2).transpose([0, 2, 3, 1]).flatten(1), y.flatten(1)], 1),
    "unsqueezed": lambda net, y: paddle.concat([y.transpose([0, 2, 3, 1]).unsqueeze(1)] * 2, 1),
    "layers": lambda net, y: paddle.concat(
        [net.linear(y).transpose([0, 2, 1, 3]).reshape([2, 3, -1]), y.flatten(2)], -1
    ),
    "activated": lambda net, y: F.sigmoid(paddle.stack([y.transpose([0, 2, 3, 1]).reshape([2, -1]), y.flatten(1)], 1)),
}


@pytest.mark.parametrize("name", LISTED)
def test_lists_of_what_gets_other_dims(name):
    """A pass made one operation of what is transposed and reshaped, with the type of the first (heads of detectors)."""
    check(Convolved(LISTED[name]), [2, 2, 3, 4], [(2, 2, 3, 4)])


MORE_DIMS = {
    "reversed windows": lambda y: (
        y.reshape([2, 3, 4, 4]).transpose([0, 3, 2, 1]).reshape([8, 2, 2, 1, 3]).transpose([0, 1, 3, 2, 4])
    ).reshape([2, 4, 4, 3]),
    "heads": lambda y: y.transpose([0, 2, 1]).reshape([2, 4, 2, 6]).transpose([0, 2, 1, 3]).reshape([4, -1]),
    "unsqueezed": lambda y: y.transpose([0, 2, 1]).unsqueeze(1).transpose([0, 2, 1, 3]).reshape([8, -1]),
    "activated": lambda y: F.gelu(
        y.transpose([0, 2, 1]).reshape([2, 2, 2, 12]).transpose([1, 0, 2, 3]).reshape([8, 12])
    ),
}


@pytest.mark.parametrize("name", MORE_DIMS)
def test_transposed_again_with_more_dims(name, tmp_path):
    """A pass made one operation of what is transposed and reshaped, with the type of the first, and failed."""

    def function(x):
        return MORE_DIMS[name](F.tanh(x))

    check(function, [2, 12, 4], [(2, 12, 4)])
    equals_eager(function, tmp_path, [(2, 12, 4)], [2, 12, 4])


# Products of `x` of [2, 4, 3, 4] and of what is reshaped and transposed.
OTHER_DIMS = {
    "right": lambda x, y: x @ y.reshape([6, 4, 4]).transpose([1, 2, 0]),
    "right matrix": lambda x, y: x @ y.reshape([24, 4]).transpose([1, 0]),
    "left": lambda x, y: y.reshape([6, 4, 4]).transpose([1, 0, 2]) @ x.transpose([0, 1, 3, 2]),
    "left matrix": lambda x, y: y.reshape([4, 24]).transpose([1, 0]) @ x.transpose([0, 1, 3, 2]),
    "fewer": lambda x, y: x[0] @ y.reshape([1, 6, 4, 4]).transpose([0, 2, 3, 1]),
    "vector": lambda x, y: x @ y[0, :4],
    "as many": lambda x, y: x[0] @ y.reshape([6, 4, 4]).transpose([1, 2, 0]),
    "with a sum": lambda x, y: F.relu(x @ y.reshape([6, 4, 4]).transpose([1, 2, 0]) * 0.5 + 1),
}


@pytest.mark.parametrize("dims", [[2, 4, 3, 4], [None, 4, 3, 4]], ids=["known", "open"])
@pytest.mark.parametrize("name", OTHER_DIMS)
def test_products_with_other_dims_of_what_is_transposed(name, dims, tmp_path):
    """A pass made what is reshaped and transposed a part of the product, whose kernel raised (tokens of styles)."""

    def function(x):
        y = F.tanh(F.linear(x[:1].flatten(1), paddle.linspace(-1, 1, 48 * 96).reshape([48, 96]).sin()))
        return OTHER_DIMS[name](F.tanh(x), y.reshape([6, 16]))

    check(function, dims, [(2, 4, 3, 4)])
    equals_eager(function, tmp_path, [(2, 4, 3, 4)], dims)
