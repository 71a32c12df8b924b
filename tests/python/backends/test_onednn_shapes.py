"""Backend `onednn`: tensors with open dims."""


import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from backends.test_onednn_backend import compare, made
from paddle import nn
from paddle.static import InputSpec

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


LAYERS = nn.LayerNorm(4), nn.Linear(4, 3)
for layer in LAYERS:
    layer.eval()
WEIGHT = made([4, 3])
# oneDNN's kernels of these raise, or end the process, where there are no items.
OF_NOTHING = {
    "concat": lambda x: paddle.concat([x, x * 2]),
    "reshape": lambda x: (x.reshape([1, -1, 4]), x.flatten()),
    "transpose": lambda x: x.transpose([1, 0]),
    "stack": lambda x: paddle.stack([x, x]),
    "split": lambda x: x.split(2, axis=1)[1] * 2,
    "slice": lambda x: x[:, 1:3] * 2,
    "matmul": lambda x: F.relu(x @ WEIGHT),
    "layers": lambda x: LAYERS[1](LAYERS[0](x)),
    "softmax": lambda x: F.softmax(F.gelu(x)),
}


@pytest.mark.parametrize("name", OF_NOTHING)
@pytest.mark.parametrize("comes", ["in", "about"])
def test_no_items(name, comes):
    def f(x):
        if comes == "about":
            x = paddle.masked_select(x, x > 0).reshape([-1, 4])
        return OF_NOTHING[name](x)

    frozen = sot.freeze(f, [(InputSpec([None, 4], "float32"),)], options={"least_elements": 0})
    for rows in (3, 0, 1, 0):
        x = made([rows, 4]).abs() + 1
        with paddle.no_grad():
            compare(frozen(x), f(x))
            compare(frozen(-x), f(-x))
