"""`paddle.inference` with oneDNN on saved programs: where its passes are wrong or end the process, programs avoid them.

Files of `paddle.jit.save` have these faults.
"""

import os

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import inference, nn
from paddle.nn import functional as F
from paddle.static import InputSpec
from support import windows

pytestmark = pytest.mark.default_python


def predictor(path, onednn):
    """What runs a file, with one predictor for all calls."""
    parameters = f"{path}.pdiparams"
    config = inference.Config(f"{path}.json", parameters if os.path.exists(parameters) else "")
    config.disable_gpu()
    config.disable_glog_info()
    (config.enable_mkldnn if onednn else config.disable_mkldnn)()
    made = inference.create_predictor(config)

    def run(x):
        made.get_input_handle(made.get_input_names()[0]).copy_from_cpu(x.numpy())
        made.run()
        return [made.get_output_handle(name).copy_to_cpu() for name in made.get_output_names()]

    return run


def predicted(path, x, onednn):
    return predictor(path, onednn)(x)


def equals_eager(function, tmp_path, shapes, dims=(None, None)):
    path = str(tmp_path / "m")
    sot.save(function, path, input_spec=[InputSpec(list(dims), "float32", "x")])
    for onednn in (False, True):
        run = predictor(path, onednn)
        for shape in shapes:
            paddle.seed(sum(shape))
            x = paddle.randn(shape)
            expected = paddle.utils.flatten(function(x))
            for found, wanted in zip(run(x), expected, strict=True):
                assert found.shape == tuple(wanted.shape)
                np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-6)


SHAPES = [(2, 3), (1, 2), (3, 1), (4, 4), (5, 6)]


def doubles(x):
    return x.astype("float64")


# One operation is made of two, and the second is forgotten in dtypes that oneDNN has not.
COMPUTES = {
    "difference": lambda x: x * abs(x.shape[0] - x.shape[1]),
    "multiples": lambda x: x * ((x.shape[0] - x.shape[1]) * 3),
    "clipped": lambda x: [paddle.clip(x.astype(dtype) * x.astype(dtype), 0, 2) for dtype in ("int64", "int32")],
    "unsqueezed": lambda x: (x.astype("int64") * x.astype("int64")).unsqueeze(0),
    "doubles": lambda x: F.relu(x.astype("float64") - 0.5) + F.gelu(x.astype("float64") * 2),
    "activations": lambda x: [f(x.astype("float64") * x) for f in (F.relu6, F.sigmoid, F.hardswish, F.mish, F.silu)],
    "product": lambda x: F.relu(x.astype("float64") @ x.astype("float64").T),
    "product and sum": lambda x: doubles(x) @ doubles(x).T + 1.5 * doubles(x) @ doubles(x).T,
    "product of multiples": lambda x: (doubles(x) * 0.5) @ (doubles(x) * 2).T,
    "product of transposed": lambda x: (doubles(x)[None].transpose([0, 2, 1]) @ doubles(x)[None]).transpose([1, 0, 2]),
    "softplus": lambda x: F.softplus(doubles(x)).tanh(),
}


@pytest.mark.parametrize("name", COMPUTES)
def test_what_is_computed_behind_whole_numbers_and_doubles(name, tmp_path):
    equals_eager(COMPUTES[name], tmp_path, SHAPES)


def positions(x):
    return paddle.arange(x.shape[1], dtype="float32").unsqueeze(1)


def shared(x):
    angles = positions(x) * 1.5
    return paddle.concat([angles.sin(), angles.cos()], -1)


def shared_by_a_product(x):
    angles = positions(x) + paddle.to_tensor([1.0, 2.0])
    return angles.floor() + 1, angles * 3


def alike(x):
    # A pass makes one product of the two.
    return paddle.concat([(positions(x) * 1.5).sin(), (positions(x) * 1.5).cos()], -1)


def returned(x):
    angles = positions(x) * 1.5
    return angles, angles.square()


@pytest.mark.parametrize("function", [shared, shared_by_a_product, alike, returned], ids=lambda f: f.__name__)
def test_results_that_are_used_twice_are_not_written_over(function, tmp_path):
    """What oneDNN makes in plain layout is handed on without a copy, and each user takes it for its own."""
    equals_eager(function, tmp_path, SHAPES)


def halves(x):
    if x.shape[1] % 2 == 0:
        y = x[:, ::2]
    else:
        y = x[:, 1::2]
    return y.sum(1)


def test_branches_whose_results_are_empty(tmp_path):
    """They get a row more on their way: to put empty tensors together ends the process in oneDNN's kernel."""
    equals_eager(halves, tmp_path, SHAPES)


PADS = {
    "behind": lambda x: F.pad(x, [0, 1]),
    "before and behind": lambda x: F.pad(x, [1, 0, 2, 3], value=1.5).sum(-1),
    "in a branch": lambda x: F.pad(x, [0, 1]) if x.shape[1] % 2 else x * 2,
    "of four dims": lambda x: F.pad(x[None, None], [0, 1, 0, 1, 0, 1, 0, 1]) * 2,
    "by a dim": lambda x: F.pad(x, [x.shape[0], 1]),
}


@pytest.mark.parametrize("name", PADS)
def test_pads(name, tmp_path):
    """oneDNN's kernel of `pad` writes where it may not: the process ended at once, or later on."""
    equals_eager(PADS[name], tmp_path, [*SHAPES, (7, 7), (3, 8)])


def of_rounds(x):
    total = x[0, 0] * 2
    for i in range(x.shape[0]):
        total = total + x[i, 0] * i
    return total


ELEMENTS = {
    "one": lambda x: x[0, x.shape[1] - 1],
    "of one dim": lambda x: x.flatten()[x.shape[0] - 1] * 2,
    "with others": lambda x: [x[0, 0], x[0], x.sum(), x.max() + x[-1, -1]],
    "in rounds": of_rounds,
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_have_no_dims(name, tmp_path):
    equals_eager(ELEMENTS[name], tmp_path, SHAPES)


DTYPES = ("float64", "int64", "int32", "int8", "uint8", "bool")
# One operation is made of two or three, for which there are kernels of floats alone.
TRANSPOSED = {
    "reshaped": lambda x: x.transpose([1, 0]).reshape([-1]),
    "unsqueezed": lambda x: x.transpose([1, 0]).unsqueeze(0),
    "squeezed": lambda x: x.unsqueeze(1).squeeze(1).transpose([1, 0]),
    "shuffled": lambda x: (
        paddle.stack([x, x, x, x]).reshape([1, 2, 2, *x.shape]).transpose([0, 2, 1, 3, 4]).flatten(1, 2)
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_tensors_of_dtypes_that_onednn_has_not(name, dtype, tmp_path):
    equals_eager(lambda x: TRANSPOSED[name]((x * 9).abs().astype(dtype)), tmp_path, SHAPES)


def test_channels_of_doubles_are_shuffled(tmp_path):
    """The operation that is made of this takes doubles, and shuffles them otherwise."""

    def function(x):
        return F.channel_shuffle(paddle.arange(60, dtype="float64").reshape([1, 6, 2, 5]), 2) + x.sum().astype(
            "float64"
        )

    equals_eager(function, tmp_path, SHAPES[:1])


class Joined(nn.Layer):
    """Two convolutions put together, with an activation behind them."""

    def __init__(self, activation, bias, dtype="float32"):
        super().__init__()
        paddle.seed(0)
        self.dtype, self.activation, parts = dtype, activation, nn.LayerList()
        for _ in range(2):
            convolution = nn.Conv2D(1, 2, 1, bias_attr=None if bias else False)
            parts.append(nn.Sequential(convolution, nn.BatchNorm2D(2)) if bias is None else convolution)
        self.parts = parts.to(dtype=dtype)
        self.eval()

    def forward(self, x):
        x = x[None, None].astype(self.dtype)
        return self.activation(paddle.concat([part(x) for part in self.parts], 1))


@pytest.mark.parametrize("bias", [True, False, None])
@pytest.mark.parametrize("name", ["relu", "leaky_relu", "sigmoid", "hardswish", "square"])
def test_convolutions_that_are_put_together(name, bias, tmp_path):
    """Convolutions with a bias the pass looked for in vain, and without one it ended the process with `leaky_relu`."""
    activation = getattr(F, name, None) or getattr(paddle, name)
    equals_eager(Joined(activation, bias), tmp_path, SHAPES)


@pytest.mark.parametrize("bias", [True, None])
def test_convolutions_of_doubles(bias, tmp_path):
    equals_eager(Joined(F.relu, bias, "float64"), tmp_path, SHAPES)


def test_batch_norm_of_doubles(tmp_path):
    norm = nn.BatchNorm1D(3).to(dtype="float64")
    norm.eval()
    equals_eager(lambda x: F.relu(norm(x[:, :1].astype("float64").expand([-1, 3]))), tmp_path, SHAPES)


COPIES = {
    "factor": lambda x: F.interpolate(x[None, None], scale_factor=2),
    "factors": lambda x: F.interpolate(x[None, None], scale_factor=[2.0, 1.5]) + 1,
    "size": lambda x: F.interpolate(x[None, None], size=[7, 3]),
    "of another": lambda x: F.interpolate(x[None, None], size=x[None, None].tile([1, 1, 2, 3]).shape[2:]),
    "layer": lambda x: nn.UpsamplingNearest2D(scale_factor=2)(x[None, None] * 2),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_the_nearest(name, tmp_path):
    """Paddle hands a list of factors on to no kernel of oneDNN: the program did not start."""
    equals_eager(COPIES[name], tmp_path, SHAPES)


class Activated(nn.Layer):
    """A product or a convolution with activations behind it."""

    def __init__(self, before, behind):
        super().__init__()
        paddle.seed(0)
        self.before, self.behind = before, behind
        self.linear, self.convolution, self.norm = nn.Linear(1, 4), nn.Conv2D(1, 20, 3, padding=1), nn.BatchNorm2D(20)
        self.eval()

    def forward(self, x):
        if self.before == "linear":
            return self.behind(self.linear(x.unsqueeze(-1)))
        x = self.convolution(x[None, None])
        return self.behind(self.norm(x) if self.before == "norm" else x).sum(1)


BEHIND = {
    "slope": F.leaky_relu,
    "two": lambda x: F.relu(paddle.tanh(x)),
    "multiples": lambda x: (x * 2.0) * -3.0,
    "three": lambda x: F.hardswish(F.relu6(x)).abs(),
}


@pytest.mark.parametrize("before", ["linear", "convolution", "norm"])
@pytest.mark.parametrize("name", BEHIND)
def test_activations_behind_products_and_convolutions(name, before, tmp_path):
    """Of two activations behind a product one was forgotten; a slope ended the process."""
    equals_eager(Activated(before, BEHIND[name]), tmp_path, SHAPES)


def test_a_slope_of_two_dims(tmp_path):
    """oneDNN's kernel read behind it."""
    slope = paddle.to_tensor([0.2])
    equals_eager(lambda x: F.prelu(x @ x.T, slope) + F.prelu(x @ x.T * -1.0, slope), tmp_path, SHAPES)


@pytest.mark.parametrize("slopes", [[0.2], [0.1, 0.2, 0.3, 0.4]], ids=["one", "each channel"])
def test_slopes_of_three_dims(slopes, tmp_path):
    slope = paddle.to_tensor(slopes)
    equals_eager(lambda x: F.prelu(paddle.stack([x * 2, x - 1, -x, x], 1), slope), tmp_path, SHAPES)


@pytest.mark.parametrize("threshold", [1.0, 6.0, 20.0])
def test_softplus_has_a_threshold(threshold, tmp_path):
    equals_eager(lambda x: F.softplus(x * 9, 1.0, threshold) + F.softplus(x * x, 2.0, threshold), tmp_path, SHAPES)


def products_of_convolutions():
    paddle.seed(0)
    first, second = nn.Conv2D(1, 3, 3, padding=1), nn.Conv2D(3, 3, 1)

    def products(x):
        y = F.relu(first(x[None, None]))
        z = F.max_pool2d(second(y), 3, 1, 1)
        parts = paddle.split(paddle.concat([y, z], 1), 2, 1)
        return [
            paddle.matmul(y, z, transpose_y=True),
            y.transpose([0, 1, 3, 2]) @ z,
            parts[0] @ x.T,
            F.softmax(z) @ x.T,
        ]

    return products


def test_products_of_convolutions(tmp_path):
    """The kernel took the layout of a convolution for the plain one."""
    equals_eager(products_of_convolutions(), tmp_path, SHAPES)


def test_products_that_are_transposed_and_activated(tmp_path):
    weight = paddle.to_tensor([[1.0, -2.0], [3.0, -0.5]])

    def function(x):
        y = (paddle.stack([x, -x], -1).unsqueeze(1) @ weight).transpose([0, 2, 1, 3]).reshape([1, -1, 2])
        return [F.leaky_relu(y), F.leaky_relu(paddle.tanh(y)), F.relu(F.gelu(y)), F.hardswish(F.relu6(y)) * 2.0]

    equals_eager(function, tmp_path, SHAPES)


def test_windows_in_front_of_a_layer(tmp_path):
    """What is transposed and reshaped became one operation, whose dims the layer took for its own."""
    equals_eager(windows(8), tmp_path, [(2, 4, 6, 8), (1, 4, 6, 8)], [None, 4, 6, 8])


def norm_of_several_dims():
    paddle.seed(0)
    convolution, norm = nn.Conv2D(1, 3, 3, padding=1), nn.LayerNorm([3, 4])
    return lambda x: norm(convolution(paddle.concat([x[None, None]] * 4, 3)[..., :4]).transpose([0, 2, 1, 3]))


def test_norms_of_several_dims(tmp_path):
    equals_eager(norm_of_several_dims(), tmp_path, SHAPES)


def batch_norm(x):
    return F.batch_norm(x, paddle.zeros([6]), paddle.ones([6]), paddle.ones([6]), paddle.zeros([6]))


READ_TWICE = {
    "norm": lambda x: [F.layer_norm(x, 6)],
    "batch norm": lambda x: [batch_norm(x)],
    "parts": lambda x: paddle.split(x * 2, 2, 1),
    "hardsigmoid": lambda x: [F.hardsigmoid(x @ paddle.eye(6), 0.3, 0.4)],
}


@pytest.mark.parametrize("name", READ_TWICE)
def test_results_that_others_read_are_not_written_over(name, tmp_path):
    def function(x):
        made = READ_TWICE[name](x)
        found = [[F.silu(y), F.hardtanh(y, -0.2, 0.5), paddle.abs(y), F.selu(y), y * 2] for y in made]
        return sum(found, [])

    equals_eager(function, tmp_path, [(2, 6), (1, 6), (5, 6)], [None, 6])


CAST = {
    "float64": lambda y: [y() * 2 + 1, y().abs(), y() * y(), (y() @ y().T).astype("float32"), y()],
    "int64": lambda y: [y() + 1, y().clip(0), y() * 2, y()],
    "int32": lambda y: [y() + 1, -y(), y().clip(0), y() - 3],
}


@pytest.mark.parametrize("name", CAST)
def test_casts_that_others_read_are_not_written_over(name, tmp_path):
    """A pass left one of alike ones."""
    equals_eager(lambda x: CAST[name](lambda: x.astype(name)), tmp_path, [(2, 6), (1, 6), (5, 6)], [None, 6])


@pytest.mark.parametrize("columns", [1, None])
def test_products_of_columns_with_transposed_columns(columns, tmp_path):
    """The kernel read behind them."""

    def function(x):
        x = x if columns is None else x[:, :columns]
        y = paddle.stack([x, x * 2], 0)
        products = [paddle.matmul(x, x + 1, transpose_y=True), paddle.matmul(y, y + 1, transpose_y=True)]
        return [x @ x.T, F.relu(products[0]), F.leaky_relu(products[1]), F.hardswish(F.tanh(x @ x.T))]

    equals_eager(function, tmp_path, [*SHAPES, (7, 1)])


def test_pooling_to_sizes_that_do_not_divide_dims(tmp_path):
    """With one open dim and one that is divided the kernel pooled others at a second size, or raised."""
    layer = nn.Linear(8, 8)
    shapes = [(2, 3, height, 8) for height in (8, 4, 12, 5)]
    equals_eager(lambda x: layer(F.adaptive_avg_pool2d(x * 2.0, 8)), tmp_path, shapes, [None, 3, None, 8])


def pooled(x):
    for size, stride, padding, up in [
        (2, 2, 0, True),
        (3, 2, [0, 1, 1, 0], False),
        (3, 2, [1, 0], True),
        (2, 3, 0, True),
    ]:
        yield F.max_pool2d(x, size, stride, padding, ceil_mode=up)
        yield F.avg_pool2d(x, size, stride, padding, ceil_mode=up)
        yield F.avg_pool2d(x, size, stride, padding, ceil_mode=up, exclusive=False)
    yield F.avg_pool2d(x, 2, 1, "SAME", exclusive=False)
    yield F.avg_pool2d(x, 2, 2, exclusive=False)


@pytest.mark.parametrize("dims", [(4, 7, 5), (None, None, None)], ids=["known", "open"])
def test_windows_that_end_behind_the_padding(dims, tmp_path):
    """The kernel counted more of it than there is, or refused windows that are padding."""
    shapes = [(2, 4, 7, 5), (1, 4, 7, 5)] + (
        [] if dims[0] else [(3, 4, 6, 6), (1, 2, 3, 8), (1, 1, 2, 2), (1, 2, 1, 3)]
    )
    equals_eager(lambda x: list(pooled(x * 1.5)), tmp_path, shapes, [None, *dims])


def test_slices_that_begin_in_front_of_the_first_place(tmp_path):
    """The kernel read there."""

    def function(x):
        y = x * 2
        first = y[:, -3:]
        return [first + 1, F.relu(y[-2:, -9:]), y[-3:, 0] * 2, F.relu(paddle.concat([y, x], 1)[:, -4:]).sum(-1)]

    equals_eager(function, tmp_path, [*SHAPES, (1, 1), (7, 1)])


MADE = {
    "list": lambda x: paddle.concat([x, x * 2], 1),
    "product": lambda x: x @ x.T,
    "softmax": lambda x: F.softmax(x, -1),
    "sum": lambda x: (x + x.flip(0)).sum(1),
    "transposed": lambda x: x.T,
    "part": lambda x: paddle.split(paddle.concat([x, x], 1), 2, 1)[0],
}


@pytest.mark.parametrize("name", MADE)
def test_quotients_are_not_written_over_what_is_divided(name, tmp_path):
    """As `normalize` does. The kernel of this one operation does so."""

    def function(x):
        y, z = MADE[name](x), MADE[name](x * 3)
        return y, y / (y.abs() + 2), z / (z.abs() + 2), z.mean(-1)

    equals_eager(function, tmp_path, [(4, 4), (1, 4), (5, 4)], [None, 4])


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_bytes(dtype, tmp_path):
    """Sums go on from the other end, and slices begin in front of the first place."""

    def function(x):
        y = (x * 60).astype("int32").astype(dtype)
        return [y + y[:, :1], (y + y) * 2, y[:, -3:], -y[-9:] + 1]

    equals_eager(function, tmp_path, SHAPES)


def test_norms_and_slopes_of_six_dims(tmp_path):
    slope = paddle.to_tensor([0.2])

    def function(x):
        y = x.reshape([-1, 1, 2, 1, 1, 2]) * 2
        return [F.layer_norm(y, 2), F.prelu(y - 1, slope)]

    equals_eager(function, tmp_path, [(2, 4), (1, 4), (3, 4)], [None, 4])
