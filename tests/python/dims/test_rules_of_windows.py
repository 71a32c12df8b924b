"""Dims behind convolutions, pools and what scales follow from dims of inputs: guards compute what Python asks."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.nn import functional as F

pytestmark = pytest.mark.default_python

SIZES = [(2, 12, 14), (3, 18, 11), (4, 25, 31), (5, 9, 40), (6, 33, 17), (7, 16, 16)]

paddle.seed(0)
WEIGHT = paddle.randn([4, 3, 3, 2])
LINE = nn.Conv1D(6, 2, 4, stride=3, padding=2)
UPSAMPLED = nn.Upsample(scale_factor=3)
LAYERS = {
    "Conv2D": nn.Conv2D(3, 4, 3),
    "Conv2D that keeps": nn.Conv2D(3, 4, 3, padding=1),
    "Conv2D in strides": nn.Conv2D(3, 4, 3, stride=(2, 1), padding=(1, 2)),
    "Conv2D with dilation": nn.Conv2D(3, 4, (3, 2), stride=2, dilation=(2, 1)),
    "Conv2DTranspose": nn.Conv2DTranspose(3, 2, 3, stride=2, padding=1, output_padding=1),
    "Conv2DTranspose in strides": nn.Conv2DTranspose(3, 2, (2, 3), stride=(2, 3), dilation=(1, 2)),
    "MaxPool2D": nn.MaxPool2D(2),
    "MaxPool2D in strides": nn.MaxPool2D(3, stride=2, padding=1),
    "MaxPool2D that rounds up": nn.MaxPool2D(3, stride=2, ceil_mode=True),
    "AvgPool2D": nn.AvgPool2D((2, 3), stride=(1, 2), padding=1),
    "AdaptiveAvgPool2D": nn.AdaptiveAvgPool2D((None, 5)),
    "Upsample": UPSAMPLED,
    "BatchNorm2D": nn.Sequential(nn.Conv2D(3, 4, 3, stride=2), nn.BatchNorm2D(4)),
    "GroupNorm": nn.Sequential(nn.Conv2D(3, 4, 3, stride=2), nn.GroupNorm(2, 4)),
}
for layer in LAYERS.values():
    layer.eval()

FUNCTIONS = {
    **LAYERS,
    "conv2d": lambda x: F.conv2d(x, WEIGHT, None, 2, [1, 0]),
    "conv2d by names": lambda x: F.conv2d(x, WEIGHT, stride=[1, 3], padding=2, dilation=2),
    "conv1d": lambda x: LINE(x.flatten(1, 2)[:, :6]).unsqueeze(2),
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool2d by names": lambda x: F.max_pool2d(x, kernel_size=[2, 3], ceil_mode=True),
    "avg_pool2d": lambda x: F.avg_pool2d(x, [3, 2], stride=2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, [1, x.shape[3]]),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2),
    "interpolate to a size": lambda x: F.interpolate(x, size=[x.shape[2] + 1, 5]),
    "upsample": lambda x: F.upsample(x, scale_factor=[1, 2]),
    "flatten": lambda x: x.flatten(2).unsqueeze(2),
    "flatten of the middle": lambda x: x.flatten(1, 2).unsqueeze(1),
    "slices in steps": lambda x: x[:, :, :-2:2, 1::3],
    "sum of two pools": lambda x: F.max_pool2d(x, [3, 1], stride=[2, 1]) + x[:, :, :-2:2],
}

# More translations than four.
MORE = {
    # Paddle infers no open dims of it.
    "Conv2DTranspose": 6,
    # Paddle reads a size of None from the dims, in Python.
    "AdaptiveAvgPool2D": 6,
    # Rows of channels that only the graph knows.
    "conv1d": 6,
    # What it does depends on the dims that do not change yet.
    **dict.fromkeys(("Upsample", "interpolate", "upsample"), 5),
}


@pytest.mark.parametrize("at", [2, 3])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_comparisons_are_guards(name, at):
    make = FUNCTIONS[name]
    limit = sorted(make(paddle.ones([b, 3, h, w])).shape[at] for b, h, w in SIZES)[3]

    def function(x):
        y = make(x)
        if y.shape[at] < limit:
            return y * y.shape[at]
        return y - y.shape[at]

    translated = sot.to_static(function, min_graph_size=0, compile_at_call=1)
    with paddle.no_grad():
        for _ in range(2):
            for batch, height, width in SIZES:
                x = paddle.randn([batch, 3, height, width])
                np.testing.assert_array_equal(translated(x).numpy(), function(x).numpy())
    record = sot.stats(translated)
    assert (record.graph_breaks, record.fallbacks) == ([], [])
    # The first, with dims that are known, then one for each way; some sizes change one after the other.
    assert record.translations <= MORE.get(name, 4)


def test_features_of_a_pyramid_are_added():
    down, up = nn.Conv2D(3, 3, 3, stride=2, padding=1), nn.Upsample(scale_factor=2)

    def function(x):
        half = down(x)
        quarter = down(half)
        return half + up(quarter), x + up(half)

    translated = sot.to_static(function, min_graph_size=0, compile_at_call=1)
    with paddle.no_grad():
        for batch, height, width in ((2, 16, 8), (3, 32, 24), (4, 8, 40), (2, 24, 12)):
            x = paddle.randn([batch, 3, height, width])
            for one, other in zip(translated(x), function(x), strict=True):
                np.testing.assert_array_equal(one.numpy(), other.numpy())
        # Here they do not fit.
        x = paddle.randn([2, 3, 18, 8])
        with pytest.raises(ValueError, match="[Bb]roadcast"):
            function(x)
        with pytest.raises(ValueError, match="[Bb]roadcast"):
            translated(x)
    assert sot.stats(translated).translations <= 4


@pytest.mark.parametrize("format", ["NCHW", "NHWC"])
@pytest.mark.parametrize("padding", ["SAME", "VALID", [1, 2, 0, 1]])
def test_what_no_rule_says_is_right_too(padding, format):
    layer = nn.Conv2D(3, 3, 3, stride=2, padding=padding, data_format=format)

    def function(x):
        y = layer(x)
        return y * 2 if y.shape[2] > 6 else y - y.shape[1]

    translated = sot.to_static(function, min_graph_size=0, compile_at_call=1)
    with paddle.no_grad():
        for batch, height, width in SIZES:
            shape = [batch, 3, height, width] if format == "NCHW" else [batch, height, width, 3]
            x = paddle.randn(shape)
            np.testing.assert_array_equal(translated(x).numpy(), function(x).numpy())
    assert not sot.stats(translated).graph_breaks


def test_other_numbers_of_a_layer_are_seen():
    layer = nn.MaxPool2D(2)

    def function(x):
        y = layer(x)
        return y * 2 if y.shape[2] > 6 else y - 1

    translated = sot.to_static(function, min_graph_size=0, compile_at_call=1)
    with paddle.no_grad():
        for size in (2, 3, 2):
            layer.ksize = size
            for batch, height, width in SIZES:
                x = paddle.randn([batch, 3, height, width])
                np.testing.assert_array_equal(translated(x).numpy(), function(x).numpy())
    assert not sot.stats(translated).graph_breaks
