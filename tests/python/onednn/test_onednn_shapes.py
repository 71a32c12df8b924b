"""Backend `onednn`: convolutions with open dims run on oneDNN, and keep something for a bounded number of shapes."""

import subprocess
import sys
import threading
from pathlib import Path

import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from harness import translate
from onednn.test_onednn_backend import ONEDNN, compare, made
from onednn.test_onednn_weights import with_statistics
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


# A layer with four channels, for images with the channels in front or last.
BY_LAYOUT = {
    "convolution": lambda layout: nn.Conv2D(4, 6, 3, data_format=layout),
    "transposed": lambda layout: nn.Conv2DTranspose(4, 6, 3, 2, padding=1, data_format=layout),
    "transposed, in groups": lambda layout: nn.Conv2DTranspose(4, 6, 3, groups=2, data_format=layout),
    "pooling": lambda layout: nn.Sequential(
        nn.MaxPool2D(2, data_format=layout), nn.BatchNorm2D(4, data_format=layout), nn.ReLU()
    ),
    "behind a norm": lambda layout: nn.Sequential(
        nn.Conv2D(4, 6, 3, padding=1, data_format=layout),
        nn.BatchNorm2D(6, data_format=layout),
        nn.Conv2DTranspose(6, 3, 2, 2, data_format=layout),
    ),
}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", BY_LAYOUT)
def test_layouts_with_open_dims(name, layout):
    """What is not placed (channels last, transposed with open dims) is Paddle's, and as right."""
    net = with_statistics(BY_LAYOUT[name](layout))
    open_dims = (None, 4, None, None) if layout == "NCHW" else (None, None, None, 4)
    options = {"least_elements": 0}
    frozen = sot.freeze(net, [(InputSpec([*open_dims], "float32"),)], on_miss="error", options=options)
    live = translate(lambda x: F.relu(net(x)) * 2, **ONEDNN)
    with paddle.no_grad():
        for at, (batch, height, width) in enumerate([(2, 6, 6), (3, 6, 8), (1, 7, 5), (2, 6, 6), (4, 9, 9)]):
            sizes = iter((batch, height, width))
            x = made([next(sizes) if dim is None else dim for dim in open_dims], seed=at)
            compare(frozen(x), net(x))
            compare(live(x), F.relu(net(x)) * 2)
    assert sot.stats(live).graph_breaks == []


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


class Residual(nn.Layer):
    """Two ways to the same shape: one convolution, or two."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2D(3, 8, 3, stride=2, padding=1)
        self.second = nn.Conv2D(8, 8, 3, padding=1)
        self.aside = nn.Conv2D(3, 8, 1, stride=2)
        self.wide = nn.Conv2D(8, 8, 5, padding=2)
        self.cut = nn.Conv2D(8, 8, 3)

    def forward(self, x):
        y = F.relu(self.second(F.relu(self.first(x))) + self.aside(x))
        y = F.hardswish(self.wide(F.silu(y)) + y)
        return F.relu(self.cut(y) + F.max_pool2d(y, 3, stride=1)), self.cut(y)


def test_sums_are_fused():
    paddle.seed(3)
    net = Residual()
    net.eval()
    frozen = ready(net)
    for at, shape in enumerate(shapes(8) * 2):
        x = made(shape, seed=at)
        with paddle.no_grad():
            compare(frozen(x), net(x))
    # Six convolutions, one of them twice, the pool, and the sum with that: nothing says that its
    # dims fit.
    assert frozen.report[0] == ["oneDNN: 8 of 12 operators"]


def test_sums_that_broadcast_are_not_fused():
    """A dim that is open in both may be one in one of them only."""
    paddle.seed(3)
    first, second = nn.Conv2D(3, 4, 3, padding=1), nn.Conv2D(3, 4, 3, padding=1)

    def f(x, y):
        return F.relu(first(x) + F.softsign(second(y)))

    frozen = sot.freeze(f, [tuple(InputSpec([None, 3, None, None], "float32") for _ in range(2))], on_miss="error")
    for x, y in [([3, 3, 5, 5], [1, 3, 5, 5]), ([1, 3, 5, 5], [3, 3, 5, 1]), ([2, 3, 1, 5], [2, 3, 5, 5])]:
        x, y = made(x), made(y, seed=1)
        with paddle.no_grad():
            compare(frozen(x, y), f(x, y))


# In a process of its own: what others have left behind is not counted.
MANY_SHAPES = """
import sys

sys.path.insert(0, sys.argv[1])
from onednn.test_onednn_shapes import made, ready, resident, Residual

net = Residual()
net.eval()
frozen = ready(net)
shapes = [[1 + at % 5, 3, 6 + at % 23, 6 + at % 29] for at in range(1000)]
for shape in shapes[:150]:
    frozen(made(shape))
before = resident()
for shape in shapes[150:]:
    frozen(made(shape))
assert resident() - before < 40 << 20, resident() - before
assert frozen.stats.misses == 0
"""


def resident():
    """Bytes of memory."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read there")
def test_a_thousand_shapes_leave_memory_where_it_was():
    """850 of them would keep 0.4 MB each."""
    folder = str(Path(__file__).parents[1])
    run = subprocess.run([sys.executable, "-c", MANY_SHAPES, folder], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
