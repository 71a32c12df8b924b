"""Sizes and places that are scalars of NumPy, in lists: `x.reshape([2, np.prod(shape)])`."""

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from harness import translate

# What is done with them does not depend on the version of Python.
pytestmark = pytest.mark.default_python

ONE, TWO = np.int64(1), np.int64(2)
WIDTHS = [np.int64(2)]

CAPTURED = {
    "reshape": lambda x: x.reshape([-1, TWO]),
    "product": lambda x: x.reshape([np.prod(x.shape)]) * 2,
    "expand": lambda x: x.unsqueeze(0).expand([TWO, -1, -1]),
    "transpose": lambda x: x.transpose([ONE, 0]),
    "split": lambda x: x.split([ONE, 3], 1)[1],
    "axes": lambda x: x.sum([ONE]),
    "pad": lambda x: F.pad(x.unsqueeze(0), [ONE, TWO], data_format="NCL"),
    "window": lambda x: F.max_pool2d(x[None, None], (TWO, ONE)),
    "rows": lambda x: x[[ONE, 0]],
}


@pytest.mark.parametrize("name", CAPTURED)
def test_a_list_of_them_is_in_the_graph(name):
    function = CAPTURED[name]
    static = translate(function)
    for _ in range(2):
        x = paddle.arange(8, dtype="float32").reshape([2, 4])
        assert static(x).tolist() == function(x).tolist()
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])


def test_another_one_is_another_graph():
    static = translate(lambda x: x.reshape([-1, WIDTHS[0]]))
    x = paddle.ones([2, 4])
    assert static(x).shape == [4, 2]
    WIDTHS[0] = np.int64(4)
    try:
        assert static(x).shape == [2, 4]
    finally:
        WIDTHS[0] = np.int64(2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: paddle.assign([ONE, TWO]),
        lambda x: paddle.to_tensor([np.int32(1), 2]),
        lambda x: paddle.full([TWO], ONE),
        lambda x: x[(ONE, TWO)],
    ],
)
def test_results_keep_their_dtypes(function):
    x = paddle.arange(8, dtype="float32").reshape([2, 4])
    found, wanted = translate(function)(x), function(x)
    assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist())
