"""Variables of captured loops that have no items any more: Paddle would hand on what they were."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

pytestmark = pytest.mark.default_python


def shortened(x, n):
    i = paddle.zeros([], "int64")
    while i < n:
        x = x[1:]
        i = i + 1
    return x


def selected(x, n):
    i = paddle.zeros([], "int64")
    while i < n:
        x = paddle.masked_select(x, x > i.astype("float32"))
        i = i + 1
    return x


def transposed(x, n):
    i = paddle.zeros([], "int64")
    while i < n:
        x = x.transpose([1, 0])
        i = i + 1
    return x


@pytest.mark.parametrize("function", [shortened, selected])
def test_what_gets_empty(function):
    x = paddle.arange(3).astype("float32")
    translated = translate(function, capture_control_flow=True)
    for rounds in (1, 2, 3, 4):
        n = paddle.to_tensor(rounds)
        assert translated(x, n).tolist() == function(x, n).tolist()
    stats = sot.stats(translated)
    assert stats.graphs == 1 and not stats.graph_breaks


@pytest.mark.parametrize("shape", [[0, 3], [3, 0], [2, 3]])
def test_what_is_empty_and_turned(shape):
    x = paddle.zeros(shape)
    for rounds in (1, 2, 3):
        n = paddle.to_tensor(rounds)
        assert translate(transposed, capture_control_flow=True)(x, n).shape == transposed(x, n).shape
