"""Results of operators some of whose operands are trainable but get no gradient: no leaves, and nothing behind them."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn
from paddle.nn import functional as F

# A kernel gives a scale and a shift their gradients where both want one.
SCALE = nn.BatchNorm1D(6, bias_attr=False)
SHIFT = nn.BatchNorm1D(6)
SHIFT.weight.stop_gradient = True
LINEAR = nn.Linear(6, 6)
PARAMETERS = [parameter for layer in (SCALE, SHIFT, LINEAR) for parameter in layer.parameters()]

FUNCTIONS = {
    "a scale alone": lambda x: (SCALE(x),),
    "a shift alone": lambda x: (SHIFT(x),),
    "with more behind it": lambda x: (F.relu(SCALE(x)).sum(),),
    "beside one that trains": lambda x: (SCALE(x), LINEAR(x)),
    "added to one that trains": lambda x: (SCALE(x) + LINEAR(x),),
    "behind one that trains": lambda x: (SCALE(LINEAR(x)),),
    "a part of it": lambda x: (SCALE(x)[0], LINEAR(x)),
    "detached": lambda x: (SCALE(x).detach(), SCALE(x)),
    "changed in the function": lambda x: (SCALE(x).add_(paddle.ones([4, 6])),),
}


def changed(result):
    """What an operation in place raises: leaves that are trainable refuse it."""
    try:
        result.add_(paddle.ones_like(result))
    except ValueError as error:
        return type(error)
    return None


def observed(function):
    x = paddle.arange(24, dtype="float32").reshape([4, 6]).sin()
    found = [(y.stop_gradient, y.is_leaf, changed(y)) for y in function(x)]
    for y in function(x):
        for parameter in PARAMETERS:
            parameter.clear_gradient(False)
        if not y.stop_gradient:
            y.sum().backward()
        found.append([parameter.grad is None for parameter in PARAMETERS])
    return found


@pytest.mark.parametrize("backend", ["paddle", "cinn", "pylayer"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_what_they_are_in_eager_mode(name, backend):
    function = FUNCTIONS[name]
    translated = translate(lambda x: function(x), backend=backend)
    assert observed(translated) == observed(function)
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])
