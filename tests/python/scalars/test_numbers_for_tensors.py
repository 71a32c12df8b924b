"""Numbers of the graph where eager mode takes tensors alone: it raises, or makes something else of a number."""

import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest

pytestmark = pytest.mark.default_python

REFUSED = {
    "abs": lambda x, i: paddle.abs(i) + x,
    "add": lambda x, i: paddle.add(x, i),
    "add of a first number": lambda x, i: paddle.add(i, x),
    "assign": lambda x, i: paddle.assign(i),
    "assign of a bool": lambda x, i: paddle.assign(i < 1),
    "cast": lambda x, i: paddle.cast(i, "float32"),
    "clip": lambda x, i: paddle.clip(i, 0, 1),
    "divide": lambda x, i: x.divide(y=i + 1),
    "embedding": lambda x, i: F.embedding(i, paddle.ones([5, 2])),
    "expand": lambda x, i: paddle.expand(i, [3]),
    "gather": lambda x, i: paddle.gather(x, i),
    "less_than": lambda x, i: paddle.less_than(x, i),
    "logical_and": lambda x, i: paddle.logical_and(x > 1, i < 1),
    "max": lambda x, i: paddle.max(i),
    "multiply in place": lambda x, i: (x * 1).multiply_(i),
    "relu": lambda x, i: F.relu(i),
    "reshape": lambda x, i: paddle.reshape(i, [1]),
    "subtract": lambda x, i: x.subtract(i),
    "unsqueeze": lambda x, i: paddle.unsqueeze(i, 0),
    "where": lambda x, i: paddle.where(i < 1, x, x * 2),
}

CAPTURED = {
    "equal": lambda x, i: paddle.equal(x, i),
    "full": lambda x, i: paddle.full([2], i),
    "operators": lambda x, i: (x + i) * (i + 1) - i / 2,
    "pow": lambda x, i: x.pow(i),
    "remainder": lambda x, i: paddle.remainder(x, i + 1),
    "scale": lambda x, i: paddle.scale(x, i),
    "roll": lambda x, i: paddle.roll(x, i),
    "to_tensor": lambda x, i: paddle.to_tensor(i) * x,
}


def rounds(call):
    def function(x, n):
        y = x
        for i in range(n):
            y = call(x, i)
        return y

    return function


def observed(function, n):
    try:
        result = function(paddle.to_tensor([0.5, 2.0, 3.0]), paddle.to_tensor(n))
    except (AttributeError, TypeError, ValueError) as error:
        return type(error), str(error)
    return result.dtype, result.shape, result.tolist()


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_refused(call):
    function = rounds(call)
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for n in (3, 2, 0, 1, 3):
        assert observed(static, n) == observed(function, n)
    with pytest.raises(sot.GraphBreakError):
        sot.to_static(function, full_graph=True)(paddle.ones([3]), paddle.to_tensor(2))


@pytest.mark.parametrize("call", CAPTURED.values(), ids=CAPTURED)
def test_captured(call):
    function = rounds(call)
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for n in (3, 2, 1, 3):
        assert observed(static, n) == observed(function, n)
    assert not sot.stats(static).fallbacks
