"""Backend `onednn`: convolutions with open dims run on oneDNN, and keep something for a bounded number of shapes."""

import sys
import threading

import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from backends.test_onednn_backend import ONEDNN, compare, made
from backends.test_onednn_weights import with_statistics
from harness import translate
from paddle import nn
from paddle.static import InputSpec

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


class Network(nn.Layer):
    """Batch norms, a depthwise convolution, a sum and a list on the way."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2D(3, 8, 3, padding=1, bias_attr=False), nn.BatchNorm2D(8), nn.ReLU())
        self.depthwise = nn.Conv2D(8, 8, 3, padding=1, groups=8)
        self.last = nn.Conv2D(16, 4, 1)

    def forward(self, x):
        x = self.first(x)
        y = F.hardswish(self.depthwise(x)) + x
        return self.last(paddle.concat([x, F.silu(y)], axis=1)).mean([2, 3])


def network():
    paddle.seed(3)
    return with_statistics(Network())


def shapes(number):
    return [[1 + at % 3, 3, 8 + at % 23, 8 + at % 17] for at in range(number)]


def ready(net):
    return sot.freeze(net, [(InputSpec([None, 3, None, None], "float32"),)], on_miss="error")


def test_a_frozen_network():
    net = network()
    frozen = ready(net)
    for at, shape in enumerate(shapes(12) * 2):
        x = made(shape, seed=at)
        with paddle.no_grad():
            compare(frozen(x), net(x))
    assert "not for" not in " ".join(frozen.report[0])
    assert frozen.stats == sot.FrozenStats(kinds=1, misses=0, refreshes=0)


def test_parameters_that_change():
    net = network()
    translated = translate(lambda x: net(x), **ONEDNN)
    with paddle.no_grad():
        for at, shape in enumerate([[2, 3, 8, 9], [3, 3, 10, 12], [2, 3, 8, 9], [4, 3, 6, 5], [3, 3, 10, 12]] * 2):
            x = made(shape, seed=at)
            compare(translated(x), net(x))
            if at % 2:
                for parameter in net.parameters():
                    parameter.set_value(made(parameter.shape, seed=at).abs())
    assert "not for" not in " ".join(translated.graphs()[-1].report)
    assert sot.stats(translated).graph_breaks == []


def test_dims_that_numbers_say():
    """Shapes of inputs do not say how many there are: such a convolution is not kept."""
    weight = made([4, 1, 1, 1])

    def f(x):
        y = paddle.masked_select(x, x > 0).reshape([1, 1, -1, 1])
        return F.relu(F.conv2d(y * 2, weight))

    frozen = sot.freeze(f, [(made([5, 6]),)], on_miss="error", options={"least_elements": 0})
    for seed in range(5):
        x = made([5, 6], seed=seed)
        compare(frozen(x), f(x))
    assert "pd_op.conv2d" in " ".join(frozen.report[0])


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


def test_empty_lists_of_axes():
    """They are no tensors without items."""
    frozen, x = (
        sot.freeze(lambda x: x.sum(keepdim=True), [(made([3, 4]),)], options={"least_elements": 0}),
        made([3, 4]),
    )
    compare(frozen(x), x.sum(keepdim=True))
    assert "not for" not in " ".join(frozen.report[0]), frozen.report


def test_threads_with_shapes_of_their_own():
    net = network()
    frozen = ready(net)
    wrong = []

    def run(thread):
        try:
            for at, shape in enumerate(shapes(40)[thread::2]):
                x = made(shape, seed=at)
                with paddle.no_grad():
                    compare(frozen(x), net(x))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


def resident():
    """Bytes of memory."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read there")
def test_many_shapes_leave_memory_where_it_was():
    net = network()
    frozen, all_shapes = ready(net), shapes(390)
    for shape in all_shapes[:130]:
        frozen(made(shape))
    before = resident()
    for shape in all_shapes[130:]:
        frozen(made(shape))
    # 260 of them would keep 0.4 MB each.
    assert resident() - before < 40 << 20
