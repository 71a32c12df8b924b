"""What plain Python asks, or says, in each call, and not in the first one only."""

import warnings

import paddle
import paddle_sot_rs as sot
import pytest
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute


def placeholder(x):
    return x * 2 if NotImplemented else x


def no_placeholder(x):
    if not NotImplemented:
        return x
    return x * 2


@pytest.mark.parametrize("function", [placeholder, no_placeholder])
def test_warnings_of_operators(function):
    translated = sot.to_static(function, min_graph_size=0)
    for _ in range(3):
        with pytest.warns(DeprecationWarning, match="NotImplemented"):
            assert translated(paddle.ones([1])).item() == 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(DeprecationWarning):
                translated(paddle.ones([1]))


class Scaled(PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (2 if paddle.get_default_dtype() == "float32" else 3)


def by_layer(x):
    return Scaled.apply(x).sum()


def by_recompute(x):
    return recompute(lambda v: v * (2 if paddle.get_default_dtype() == "float32" else 3), x).sum()


@pytest.mark.parametrize("function", [by_layer, by_recompute])
def test_the_default_dtype_on_the_way_back(function):
    translated = sot.to_static(function, min_graph_size=0)

    def gradient(dtype):
        x = paddle.ones([2])
        x.stop_gradient = False
        y = translated(x)
        try:
            paddle.set_default_dtype(dtype)
            y.backward()
        finally:
            paddle.set_default_dtype("float32")
        return x.grad.tolist()

    assert gradient("float32") == gradient("float32") == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="the default dtype has changed"):
        gradient("float64")
    assert gradient("float64") == [3.0, 3.0]
    assert gradient("float32") == [2.0, 2.0]
