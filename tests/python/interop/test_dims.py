"""`Dim`: open dims with names, and with sizes that are allowed."""

import copy
import pickle

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.nn import functional as F
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python


class Net(nn.Layer):
    """Halves its image five times, and doubles it again."""

    def __init__(self):
        super().__init__()
        self.down = nn.LayerList(nn.Conv2D(3, 3, 3, stride=2, padding=1) for _ in range(5))

    def forward(self, x):
        kept = []
        for layer in self.down:
            kept.append(x)
            x = layer(x)
        for other in reversed(kept):
            x = F.interpolate(x, scale_factor=2) + other
        return x


def test_an_export_of_a_network_that_wants_multiples(tmp_path):
    sides = [sot.Dim(name, min=64, multiple_of=32) for name in ("h", "w")]
    net = Net()
    net.eval()
    sot.save(net, str(tmp_path / "m"), [InputSpec([None, 3, *sides], "float32")])
    loaded = paddle.jit.load(str(tmp_path / "m"))
    for size in ((1, 3, 64, 96), (2, 3, 128, 64), (3, 3, 96, 96)):
        x = paddle.randn(size)
        np.testing.assert_allclose(loaded(x).numpy(), net(x).numpy(), rtol=1e-5, atol=1e-6)


def test_dims_of_one_name_are_equal(tmp_path):
    def weighed(x, weights):
        return (x * weights).sum(axis=1)

    rows = sot.Dim("rows", multiple_of=2)
    spec = [InputSpec([None, rows], "float32", "x"), InputSpec([rows], "float32", "weights")]
    sot.save(weighed, str(tmp_path / "m"), spec)
    loaded = paddle.jit.load(str(tmp_path / "m"))
    for size in (2, 6, 10):
        given = paddle.randn([3, size]), paddle.randn([size])
        np.testing.assert_allclose(loaded(*given).numpy(), weighed(*given).numpy(), rtol=1e-6)


def test_calls_that_do_not_fit():
    n = sot.Dim("n", min=4, max=12, multiple_of=4)

    def added(x, y):
        return x + y

    static = sot.to_static(added, input_spec=[InputSpec([n, 2], "float32"), InputSpec([n, 2], "float32")])
    for size in (4, 8, 12):
        assert static(paddle.ones([size, 2]), paddle.ones([size, 2])).shape == [size, 2]
    stats = sot.stats(static)
    assert (stats.graphs, stats.translations, stats.graph_breaks) == (1, 1, [])
    for size in (2, 6, 16):
        with pytest.raises(ValueError, match=rf"argument x: dim 0 is Dim\('n', min=4, .*\), got {size}"):
            static(paddle.ones([size, 2]), paddle.ones([size, 2]))
    with pytest.raises(ValueError, match=r"argument y: dim 0 is .*, got 8, but x has 4 there"):
        static(paddle.ones([4, 2]), paddle.ones([8, 2]))


def test_one_name_for_other_sizes():
    specs = [InputSpec([sot.Dim("n", min=2)], "float32"), InputSpec([sot.Dim("n", min=3)], "float32")]
    with pytest.raises(ValueError, match="the dim n is given twice"):
        sot.to_static(lambda x, y: x + y, input_spec=specs)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": 3}, TypeError, "name: expected a text"),
        ({"name": "n", "min": 1.5}, TypeError, "min: expected a whole number"),
        ({"name": "n", "min": 0}, ValueError, "min: expected 1 or more"),
        ({"name": "n", "multiple_of": 0}, ValueError, "multiple_of: expected 1 or more"),
        ({"name": "n", "min": 5, "max": 7, "multiple_of": 8}, ValueError, "max: no multiple of 8"),
    ],
)
def test_dims_without_sizes(arguments, error, message):
    with pytest.raises(error, match=message):
        sot.Dim(**arguments)


def test_copies():
    dim = sot.Dim("n", min=2, max=8, multiple_of=2)
    for made in (copy.copy(dim), copy.deepcopy(dim), pickle.loads(pickle.dumps(dim))):
        assert repr(made) == repr(dim) == "Dim('n', min=2, max=8, multiple_of=2)" and made == -1


@pytest.mark.parametrize(
    "dim",
    [sot.Dim("n"), sot.Dim("n", min=9), sot.Dim("n", max=6), sot.Dim("n", min=33, multiple_of=32)],
    ids=repr,
)
def test_examples_are_allowed(dim):
    found = [dim.example(number) for number in (2, 3, 5, 7, 11, 13)]
    assert all(map(dim.allows, found))
    # Others for each, where there are so many.
    assert dim.max is not None or len(set(found)) == len(found)
