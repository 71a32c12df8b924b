"""Backend `onednn` with activations behind products: each is computed, and none ends the process."""

import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.nn import functional as F
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

if "onednn" not in sot.list_backends():
    pytest.skip("no such backend", allow_module_level=True)

BEHIND = {
    "abs, sqrt": lambda x: x.abs().sqrt(),
    "tanh, relu": lambda x: F.relu(paddle.tanh(x)),
    "sigmoid, tanh": lambda x: paddle.tanh(F.sigmoid(x)),
    "gelu, abs": lambda x: F.gelu(x).abs(),
    "relu6, hardswish": lambda x: F.hardswish(F.relu6(x)),
    "scale, scale": lambda x: (x * 2.0) * -3.0,
    "mish, tanh": lambda x: paddle.tanh(F.mish(x)),
    "three": lambda x: F.relu(F.sigmoid(x.abs()) * -1.0),
    "leaky_relu": F.leaky_relu,
    "leaky_relu, relu": lambda x: F.relu(F.leaky_relu(x) * -1.0),
}
OPTIONS = {"least_elements": 0}


def products(behind):
    paddle.seed(0)
    linear = nn.Linear(4, 8)
    return {
        "layer": lambda x: behind(linear(x)),
        "product": lambda x: behind(x @ x.T),
        "sum": lambda x: behind(x @ linear.weight[:, :4] + x),
        "reshaped": lambda x: behind((x[None] @ linear.weight).transpose([0, 2, 1]).reshape([-1, 8])),
        "heads": lambda x: behind(
            (x.reshape([1, -1, 2, 2]).transpose([0, 2, 1, 3]) @ linear.weight[:2, :2])
            .transpose([0, 2, 1, 3])
            .reshape([1, -1, 4])
        ),
    }


@pytest.mark.parametrize("dims", [[3, 4], [None, 4]], ids=["known", "open"])
@pytest.mark.parametrize("product", ["layer", "product", "sum", "reshaped", "heads"])
@pytest.mark.parametrize("name", BEHIND)
def test_each_activation_is_computed(name, product, dims):
    function = products(BEHIND[name])[product]
    x = paddle.arange(12, dtype="float32").reshape([3, 4]) / 6 - 1
    with paddle.no_grad():
        expected = function(x)
    frozen = sot.freeze(function, [(InputSpec(dims, "float32"),)], options=OPTIONS)
    assert (frozen(x) - expected).abs().max().item() < 1e-5
