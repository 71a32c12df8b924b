"""What is put on a result from outside (hooks, `retain_grads()`, `paddle.grad`) sees what it does in plain Python.

Results may be views that share storage, and be what other results are computed from; calls may have several results of
which gradients arrive at some only.
"""

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from harness import translate

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

BACKENDS = ["paddle", "cinn", "eager", "pylayer"]

VIEWS = {
    "items": lambda y: (y[0], y[1]),
    "slices": lambda y: (y[:2], y[1:]),
    "columns": lambda y: (y[:, 0], y[:, 1]),
    "chunk": lambda y: y.chunk(3),
    "split": lambda y: paddle.split(y, [1, 2]),
    "unbind": lambda y: y.unbind(),
    "tensor_split": lambda y: paddle.tensor_split(y, 2),
    "of a view": lambda y: (y[1:], y[1:][0]),
    "reshaped": lambda y: (y.reshape([-1]), y[0]),
    "no views": lambda y: (y * 1.5, y + 1.0),
}
RESULTS = {
    "both, and of the second": lambda y, a, b: (a, b, b.exp()),
    "both, and of each": lambda y, a, b: (a, b, a * 3.0, b.exp()),
    "one, and of the other": lambda y, a, b: (a, b.exp()),
    "base and view, and of the view": lambda y, a, b: (y, a, a * 3.0),
    "both": lambda y, a, b: (a, b),
    "of a view of it": lambda y, a, b: (a, b, a[0] * 2.0),
}
SOURCES = {"made": lambda x: F.gelu(x * 2.0), "given": lambda x: x}


def _numbers(tensor):
    return None if tensor is None or not tensor._is_initialized() else tensor.numpy()


def _times(gradient, factor):
    return None if gradient is None else gradient * factor


def _seen(function, how, backward_from):
    """What hooks see, gradients that are kept or asked for, and the gradient of the argument."""
    x = paddle.to_tensor(np.random.RandomState(0).randn(3, 6), dtype="float32", stop_gradient=False)
    results = function(x * 1.0)
    start = results[backward_from % len(results)]
    seen = []
    if how == "grad":
        given = paddle.grad((start * start).sum(), [*results, x], allow_unused=True)
        return [_numbers(gradient) for gradient in given]
    for number, result in enumerate(results):
        if how == "looks":
            result.register_hook(lambda gradient, number=number: seen.append((number, _numbers(gradient))))
        elif how == "changes":
            result.register_hook(lambda gradient, number=number: _times(gradient, number + 2))
        else:
            result.retain_grads()
    (start * start).sum().backward()
    if how == "keeps":
        seen = [_numbers(result.grad) for result in results]
    return [*seen, _numbers(x.grad)]


HOWS = ("looks", "changes", "keeps", "grad")


def _compare(function, run, starts, hows=HOWS, seen=_seen):
    for how in hows:
        for start in range(starts):
            expected = seen(function, how, start)
            for _ in range(2):
                assert _equal(seen(run, how, start), expected), (how, start)


def _equal(found, expected):
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(_equal, found, expected))
    if isinstance(expected, np.ndarray):
        return isinstance(found, np.ndarray) and np.allclose(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
    return not isinstance(found, np.ndarray) and found == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("results", RESULTS)
@pytest.mark.parametrize("view", VIEWS)
def test_of_views(view, results, backend):
    for source in SOURCES.values():

        def function(x, source=source):
            made = source(x)
            one, other, *_ = VIEWS[view](made)
            return RESULTS[results](made, one, other)

        run = translate(function, backend=backend)
        _compare(function, run, 3)
        assert sot.stats(run).graphs == 1
        assert not sot.stats(run).graph_breaks


@pytest.mark.parametrize("backend", BACKENDS)
def test_views_on_both_sides_of_a_graph_break(backend):
    def function(x):
        made = F.gelu(x * 2.0)
        mean, spread = made.chunk(2, axis=1)
        noisy = mean + spread.exp()
        sot.graph_break()
        return mean, spread, noisy * 2.0, spread * mean

    run = translate(function, backend=backend)
    _compare(function, run, 4)
    assert sot.stats(run).graphs == 2
    assert sum(it.count for it in sot.stats(run).graph_breaks) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_views_share_storage_with_what_they_are_of(backend):
    def function(x):
        made = x * 2.0
        one, other = made.split(2)
        return made, one, other, (one * other).sum()

    run = translate(function, backend=backend)
    for _ in range(3):
        outcomes = []
        for each in (function, run):
            x = paddle.arange(8, dtype="float32").reshape([2, 4])
            x.stop_gradient = False
            made, one, other, loss = each(x)
            loss.backward()
            with paddle.no_grad():
                one.scale_(3.0)
                made[1] = 7.0
            outcomes.append([made.tolist(), one.tolist(), other.tolist(), x.grad.tolist()])
        assert outcomes[0] == outcomes[1]
    assert sot.stats(run).graphs == 1


CALLS = {
    "attention": (paddle.nn.MultiHeadAttention(6, 2, need_weights=True), lambda net, x: net(x[None], x[None], x[None])),
    "lstm cell": (paddle.nn.LSTMCell(6, 4), lambda net, x: net(x)[1]),
    "lstm": (paddle.nn.LSTM(6, 4, num_layers=2), lambda net, x: (lambda y, states: (y, *states))(*net(x[None]))),
    "gru": (paddle.nn.GRU(6, 4), lambda net, x: net(x[None])),
    "frexp": (paddle.nn.Identity(), lambda net, x: paddle.frexp(net(x))),
    "svd of a projection": (
        paddle.nn.Identity(),
        lambda net, x: paddle.linalg.svd(net(x) * 0.0 + paddle.eye(3, 6))[:2],
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("computes", [False, True], ids=["as they are", "computed from"])
@pytest.mark.parametrize("call", CALLS)
def test_of_calls_with_several_results(call, computes, backend):
    """A parameter that nothing arrives at has no gradient, not zeros, which an optimizer would take."""
    net, call = CALLS[call]
    hows = HOWS
    if isinstance(net, paddle.nn.LSTM | paddle.nn.GRU):
        # `paddle.grad` of some of their results raises in eager mode.
        hows = hows[:3]

    def function(x):
        results = call(net, x)
        return [result * 2.0 if computes else result for result in results]

    def gradients(each, how, start):
        net.clear_gradients(False)
        return [*_seen(each, how, start), *(_numbers(parameter.grad) for parameter in net.parameters())]

    run = translate(function, backend=backend)
    _compare(function, run, 3, hows, gradients)
    assert sot.stats(run).graphs == 1
    assert not sot.stats(run).graph_breaks
