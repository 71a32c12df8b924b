"""`x.stop_gradient = value` of tensors that exist: set in front of the graph, gradients flow to the tensor itself."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

HELD = paddle.to_tensor([0.5, 2.0])
LAYER = nn.Linear(2, 2)


class Squared(PyLayer):
    @staticmethod
    def forward(ctx, x, layer):
        ctx.save_for_backward(x)
        ctx.layer = layer
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensor()
        return gradient * x * (2 if ctx.layer.weight.stop_gradient else 3)


def begins(x):
    x.stop_gradient = False
    return (x * x).sum()


def begins_and_takes_a_gradient(x):
    x.stop_gradient = False
    y = x * x
    (g,) = paddle.grad([y.sum()], [x])
    return g + x


def penalty(x):
    x.stop_gradient = False
    y = paddle.tanh(x).sum()
    (g,) = paddle.grad(y, x, create_graph=True)
    return y + (g * g).sum()


def stops(x):
    x.stop_gradient = True
    return (x * HELD).sum() + 1


def sets_twice(x):
    x.stop_gradient = False
    x.stop_gradient = True
    x.stop_gradient = False
    return x * 3


def returns_it(x):
    x.stop_gradient = False
    return x, x + 1, x.stop_gradient


def only_sets(x):
    x.stop_gradient = False
    return x.stop_gradient


def of_a_global(x):
    HELD.stop_gradient = False
    return (x * HELD).sum()


def behind_its_shape(x):
    n = x.shape[0]
    x.stop_gradient = False
    return x * n


def a_row_of_it(x):
    x.stop_gradient = False
    return x[0] * 2, x[1:]


def in_a_callee(x):
    return begins(x) + x.sum()


# How many graphs, and breaks.
ONE = (
    begins,
    begins_and_takes_a_gradient,
    penalty,
    stops,
    sets_twice,
    returns_it,
    of_a_global,
    behind_its_shape,
    a_row_of_it,
    in_a_callee,
)


def outcome(function, flag, grad=True):
    HELD.stop_gradient = True
    HELD.clear_gradient()
    x = paddle.to_tensor([1.0, 3.0], stop_gradient=flag)
    with paddle.set_grad_enabled(grad):
        made = function(x)
    parts = [part for part in paddle.utils.flatten(made) if isinstance(part, paddle.Tensor)]
    flows = [part for part in parts if not part.stop_gradient]
    if flows and grad:
        paddle.add_n([part.sum() for part in flows]).backward()
    grads = [None if it.grad is None else it.grad.tolist() for it in (x, HELD)]
    numbers = [part for part in paddle.utils.flatten(made) if not isinstance(part, paddle.Tensor)]
    flags = [(it.stop_gradient, it.is_leaf) for it in (x, HELD, *parts)]
    return [part.tolist() for part in parts], numbers, grads, flags, [part is x for part in parts]


@pytest.mark.parametrize("backend", ["paddle", "eager"])
@pytest.mark.parametrize("function", ONE)
def test_one_graph(function, backend):
    compiled = translate(function, full_graph=True, backend=backend)
    for flag in (True, True, False, True):
        assert outcome(compiled, flag) == outcome(function, flag)
    stats = sot.stats(compiled)
    # It is another flag in the third call.
    assert (stats.graphs, stats.graph_breaks) == (2, []) or stats.graphs == 1


def test_without_a_graph():
    compiled = translate(only_sets, full_graph=True)
    for flag in (True, False, True):
        assert outcome(compiled, flag) == outcome(only_sets, flag)
    assert sot.stats(compiled).graphs == 0


@pytest.mark.parametrize("function", [begins, stops, returns_it])
def test_where_gradients_are_off(function):
    compiled = translate(function, full_graph=True)
    for flag in (True, False, True):
        assert outcome(compiled, flag, grad=False) == outcome(function, flag, grad=False)
    assert not sot.stats(compiled).graph_breaks


def used_before(x):
    y = x * 2
    x.stop_gradient = False
    return y + x * x


def stopped_behind(x):
    y = x * HELD
    x.stop_gradient = True
    return y + x


@pytest.mark.parametrize("function", [used_before, stopped_behind])
def test_a_tensor_that_the_graph_has_used_breaks_it(function):
    compiled = translate(function)
    for flag in (True, False):
        assert outcome(compiled, flag) == outcome(function, flag)
    assert any("stop_gradient" in it.message for it in sot.stats(compiled).graph_breaks)


def test_a_call_that_raises_leaves_the_flag_as_eager_mode_does():
    def f(x, n):
        x.stop_gradient = False
        if n > 3:
            x = x + n
        return x.reshape([3, -1])

    compiled = translate(f)
    for function in (f, compiled):
        x = paddle.ones([4])
        with pytest.raises(Exception, match="."):
            function(x, paddle.to_tensor(1.0))
        assert x.stop_gradient is False
        y = (x * 2).sum()
        y.backward()
        assert x.grad.tolist() == [2.0] * 4


def test_a_graph_that_fails_begins_anew():
    def f(x, n):
        y = n + 1
        x.stop_gradient = False
        z = x * 2
        if n >= 3:
            raise ValueError
        return z + y

    compiled = translate(f, full_graph=True, capture_control_flow=True)
    for function in (f, compiled):
        for n in (1, 5):
            x = paddle.ones([2])
            if n == 5:
                with pytest.raises(ValueError):
                    function(x, paddle.to_tensor(n))
            else:
                function(x, paddle.to_tensor(n)).sum().backward()
                assert x.grad.tolist() == [2.0, 2.0]
            assert x.stop_gradient is False
    assert sot.stats(compiled).graphs == 1


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(2, 2)

    def forward(self, x, frozen):
        self.linear.weight.stop_gradient = frozen
        return self.linear(x).sum()


def test_a_parameter_that_is_frozen_in_forward():
    paddle.seed(1)
    net = Net()
    compiled = translate(net.forward, full_graph=True)
    for frozen in (True, False, False, True, True):
        seen = []
        for function in (net.forward, compiled):
            net.linear.weight.stop_gradient = False
            net.clear_gradients()
            loss = function(paddle.ones([3, 2]), frozen)
            loss.backward()
            grads = [None if it.grad is None else it.grad.tolist() for it in net.parameters()]
            seen.append((loss.item(), grads, net.linear.weight.stop_gradient))
        assert seen[0] == seen[1]
    assert not sot.stats(compiled).graph_breaks


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("function", [begins, penalty, begins_and_takes_a_gradient, stops])
def test_exported(function, stops, tmp_path):
    # `paddle.grad` goes through no open dims.
    sizes = (1, 2, 5) if function in (begins, globals()["stops"]) else (3,)
    spec = InputSpec([None if len(sizes) > 1 else 3, 2], "float32", stop_gradient=stops)
    sot.save(function, str(tmp_path / "f"), input_spec=[spec])
    loaded = paddle.jit.load(str(tmp_path / "f"))
    HELD.stop_gradient = True
    for size in sizes:
        x = paddle.rand([size, 2])
        np.testing.assert_allclose(loaded(x).numpy(), function(x).numpy(), rtol=1e-6)


def recomputed(x, stops):
    LAYER.weight.stop_gradient = stops
    return recompute(LAYER, x)


def squared(x, stops):
    LAYER.weight.stop_gradient = stops
    return Squared.apply(LAYER(x), LAYER)


# What runs again on the way back finds them as the function has set them.
@pytest.mark.parametrize("function", [recomputed, squared])
def test_what_runs_again_finds_the_flag_that_was_set(function):
    def gradients(call, flags):
        found = []
        LAYER.weight.stop_gradient = False
        for stops in flags:
            LAYER.clear_gradients(set_to_zero=False)
            x = paddle.to_tensor([[1.0, 3.0]], stop_gradient=False)
            call(x, stops).sum().backward()
            found.append([None if it.grad is None else it.grad.tolist() for it in (x, *LAYER.parameters())])
        return found

    compiled = translate(function)
    flags = (True, True, False, False, True)
    assert gradients(compiled, flags) == gradients(function, flags)
    assert not sot.stats(compiled).graph_breaks


def test_a_flag_that_changes_before_what_runs_again_is_seen():
    compiled = translate(recomputed)
    LAYER.weight.stop_gradient = False
    for stops in (True, True):
        result = compiled(paddle.to_tensor([[1.0, 3.0]], stop_gradient=False), stops)
    LAYER.weight.stop_gradient = False
    with pytest.raises(RuntimeError, match="has ceased to hold since the call"):
        result.sum().backward()
