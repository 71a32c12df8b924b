"""Backend `onednn`: windows of pooling that end behind the padding, and slices that begin in front of the first place.

Its kernels count other padding, refuse what has as much of it as a window, and read in front of a tensor.
"""

import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from onednn.test_onednn_backend import compare, made
from paddle.static import InputSpec

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

SIZES = [(8, 6), (7, 5), (4, 9), (3, 3), (2, 2)]
ALGORITHMS = [0, 1, [1, 0], [0, 1, 1, 0], "SAME", "VALID"]
MODES = ["max", "average", "average with padding"]


def pooled(mode, size, stride, padding, up):
    if mode == "max":
        return lambda x: F.max_pool2d(x * 1.5, size, stride, padding, ceil_mode=up)
    counts = mode == "average with padding"
    return lambda x: F.avg_pool2d(x * 1.5, size, stride, padding, ceil_mode=up, exclusive=not counts)


def fits(function, x):
    """Whether eager mode takes it: it does not pool to nothing."""
    try:
        return function(x).shape.count(0) == 0
    except ValueError:
        return False


@pytest.mark.parametrize("dims", ["known", "open"])
@pytest.mark.parametrize("up", [False, True], ids=["down", "up"])
@pytest.mark.parametrize("mode", MODES)
def test_windows_of_pooling(mode, up, dims):
    spec = [InputSpec([None, 2, None, None], "float32")]
    for padding in ALGORITHMS[: 4 if up else None]:
        for size, stride in [(2, 2), (3, 2), (3, 1), (2, 3), ([3, 2], 2), (1, 2)]:
            function = pooled(mode, size, stride, padding, up)
            inputs = [x for x in (made([2, 2, *dims]) for dims in SIZES) if fits(function, x)]
            frozen = dims == "open" and sot.freeze(function, [spec], options={"least_elements": 0})
            for x in inputs:
                known = frozen or sot.freeze(function, [(x,)], options={"least_elements": 0})
                compare(known(x), function(x))


def test_windows_that_end_inside_are_its():
    """Those of usual networks."""
    layers = {
        "max": lambda x: F.max_pool2d(F.max_pool2d(x, 3, 2, 1), 3, 2, 1, ceil_mode=True),
        "average": lambda x: F.avg_pool2d(x, 3, 1, 1) + F.avg_pool2d(x, 3, 1, 1, exclusive=False),
        "halves": lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True, exclusive=False),
        "alike": lambda x: F.avg_pool2d(x, 3, 1, "SAME", exclusive=False),
    }
    for name, layer in layers.items():
        frozen = sot.freeze(lambda x, layer=layer: layer(x) * 2, [(made([1, 2, 6, 8]),)], options={"least_elements": 0})
        assert "not for" not in " ".join(frozen.report[0]), name


SLICES = {
    "last": lambda x: x[:, -3:],
    "two axes": lambda x: x[-4:, -3:],
    "until": lambda x: x[:, -5:2],
    "and one": lambda x: x[:, -4:, 0],
    "function": lambda x: paddle.slice(x, [1, 2], [-9, -2], [9, 9]),
    "of a number": lambda x: paddle.slice(x, [1], [paddle.full([], -4, "int64")], [paddle.full([], 9, "int64")]),
}


@pytest.mark.parametrize("name", SLICES)
def test_slices_that_begin_in_front(name):
    function = lambda x: F.relu(SLICES[name](x * 2)) + 1  # noqa: E731
    shapes = [[3, 2, 2], [1, 1, 4], [5, 4, 1], [2, 6, 3]]
    frozen = sot.freeze(function, [(InputSpec([None, None, None], "float32"),)], options={"least_elements": 0})
    for x in map(made, shapes):
        compare(frozen(x), function(x))
        compare(sot.freeze(function, [(x,)], options={"least_elements": 0})(x), function(x))
