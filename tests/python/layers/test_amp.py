"""auto_cast around and inside of translated functions. On a CPU it casts nothing and warns: nothing else shows here."""

import contextlib
import warnings

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, tensor
from paddle.base import core

X = tensor(2, 8)


def network():
    paddle.seed(0)
    return paddle.nn.Sequential(paddle.nn.Linear(8, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 4))


@contextlib.contextmanager
def casting(level):
    """What auto_cast sets on devices that can cast."""
    tracer = paddle.base.framework._dygraph_tracer()
    old = tracer._amp_level, tracer._amp_dtype
    tracer._amp_level, tracer._amp_dtype = level, "bfloat16"
    try:
        yield
    finally:
        tracer._amp_level, tracer._amp_dtype = old


@pytest.mark.parametrize("level", [core.AmpLevel.O1, core.AmpLevel.O2], ids=str)
def test_active_around_a_translation(level):
    results = []
    for translate in (lambda net: net, sot.to_static):
        net = translate(network())
        for _ in range(2):
            with casting(level):
                output = net(X)
            output.mean().backward()
        results.append([output.numpy().tolist()] + [p.grad.numpy().tolist() for p in net.parameters()])
    assert results[0] == results[1]
    assert sot.stats(net).graphs == 1
    assert not sot.stats(net).fallbacks


def test_each_level_has_its_translation():
    net = sot.to_static(network())
    net(X)
    with casting(core.AmpLevel.O1):
        net(X)
    net(X)
    assert sot.stats(net).graphs == 2


class Everything(paddle.nn.Layer):
    """What Paddle's SOT does not trace since 3.11: every frame with an exception table."""

    def __init__(self):
        super().__init__()
        self.layers = paddle.nn.LayerList([paddle.nn.Linear(8, 8) for _ in range(3)])
        self.scales = {"a": 1.0, "b": 2.0}

    def forward(self, x):
        def scaled(y, name):
            return y * self.scales[name] + bias

        bias = x.mean()
        with paddle.no_grad():
            mask = (x > 0).astype("float32")
        with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
            for layer in self.layers:
                x = paddle.nn.functional.relu(layer(x))
        try:
            factor = self.scales["c"]
        except KeyError:
            factor = 0.5
        parts = [scaled(x, name) * factor for name in sorted(self.scales)]
        return sum(part * mask for part in parts)


def test_everything_is_one_graph():
    paddle.seed(3)
    net = Everything()
    check(net.forward, tensor(4, 8, grad=True), graphs=1, breaks=0, fallbacks=0)


@pytest.mark.parametrize("inside", [True, False], ids=["return inside", "return outside"])
def test_it_warns_as_often_as_in_eager_mode(inside):
    def function(x):
        with paddle.amp.auto_cast():
            y = x * 2
            if inside:
                return y
        with paddle.amp.auto_cast(enable=False):
            return y + 1

    counts = []
    for run in (function, sot.to_static(function, min_graph_size=0)):
        for _ in range(2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                run(X)
            counts.append(sum("amp_guard" in str(warning.message) for warning in caught))
    assert counts == [1, 1, 1, 1]


def test_a_break_inside_enters_it_again():
    def function(x):
        with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
            y = x * 2
            print(float(y.sum()))
            y = y + 1
        return y

    # float(), print(), and leaving the manager that was really entered.
    check(function, X, graphs=2, breaks=3)


def test_reading_the_state_inside():
    def function(x):
        with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
            return x * 2, paddle.amp.is_autocast_enabled() if hasattr(paddle.amp, "is_autocast_enabled") else None

    check(function, X, breaks=None, fallbacks=None)


def test_a_wrong_level_raises():
    def function(x):
        with paddle.amp.auto_cast(level="O7"):
            return x * 2

    check(function, X, breaks=None, fallbacks=None)


def test_lists_of_operators():
    def function(x):
        with paddle.amp.auto_cast(level="O1", dtype="bfloat16", custom_white_list={"scale", "tanh"}):
            y = paddle.tanh(x * 2)
        with paddle.amp.auto_cast(custom_white_list=("exp",), custom_black_list=["sum"]):
            y = y * 2
        with paddle.amp.auto_cast(custom_white_list=[], custom_black_list=set()):
            return y.sum()

    check(function, X, graphs=1, breaks=0, fallbacks=0)


def test_a_name_in_both_lists_raises():
    def function(x):
        with paddle.amp.auto_cast(custom_white_list={"exp"}, custom_black_list=["log", "exp"]):
            return x * 2

    check(function, X, breaks=None, fallbacks=None)
