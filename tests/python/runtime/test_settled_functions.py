"""Functions that have settled: what programs do not pay for runs call by call, and where breaks cost more, as it is."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn
from paddle.autograd import PyLayer
from paddle.nn import functional as F

pytestmark = pytest.mark.default_python

# Calls after which a function has settled.
MANY = 24


def inputs():
    return paddle.to_tensor(np.linspace(-1, 1, 128, dtype="float32").reshape(16, 8))


def seeded(make):
    paddle.seed(7)
    return make()


def trained(function, net, calls, x):
    """What `calls` steps return and leave in the gradients."""
    found = []
    for _ in range(calls):
        loss = function(net, x).mean()
        loss.backward()
        found.append([loss.numpy(), *(it.grad.numpy() for it in net.parameters())])
        net.clear_gradients()
    return found


def compare(make, function, calls=MANY, **options):
    options.setdefault("min_graph_size", None)
    translated = translate(function, **options)
    expected = trained(function, seeded(make), calls, inputs())
    found = trained(translated, seeded(make), calls, inputs())
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    return translated


def round_trip(net, x):
    y = net[0](x)
    return net[1](paddle.to_tensor(np.tanh(y.numpy())) + y)


def small():
    return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))


def backends(translated):
    return {record.backend for record in translated.graphs()}


def test_small_pieces_between_breaks_run_as_they_are():
    translated = compare(small, round_trip)
    stats = sot.stats(translated)
    (fallback,) = stats.fallbacks
    assert "too small" in fallback.message
    assert (stats.graphs, len(stats.graph_breaks)) == (2, 2)
    assert stats.cache_misses == 5


def test_a_few_calls_are_not_settled():
    assert not sot.stats(compare(small, round_trip, calls=10)).fallbacks


def test_what_the_user_asks_to_compile_is_not_weighed():
    assert not sot.stats(compare(small, round_trip, min_graph_size=0)).fallbacks


def test_large_pieces_between_breaks_stay_programs():
    def make():
        return nn.Sequential(*(nn.Sequential(*(nn.Linear(8, 8) for _ in range(6))) for _ in range(2)))

    translated = compare(make, round_trip)
    assert not sot.stats(translated).fallbacks
    assert backends(translated) == {"paddle (forward and backward)"}


def test_other_arguments_are_translated():
    translated, net, x = translate(round_trip, min_graph_size=None), seeded(small), inputs()
    trained(translated, net, MANY, x)
    misses = sot.stats(translated).cache_misses
    with paddle.no_grad():
        np.testing.assert_array_equal(translated(net, x).numpy(), round_trip(net, x).numpy())
    assert sot.stats(translated).cache_misses > misses


def test_another_way_through_is_found_in_time():
    def function(net, x, big):
        y = net[0](x)
        if float(big) > 0:
            for _ in range(20):
                y = F.relu(y) + 1
        return y

    translated = translate(function, min_graph_size=None)
    net, x = seeded(small), inputs()
    for big in [0.0] * MANY + [1.0] * 260:
        found = translated(net, x, paddle.to_tensor(big))
        np.testing.assert_array_equal(found.numpy(), function(net, x, paddle.to_tensor(big)).numpy())
    assert any("paddle" in backend for backend in backends(translated))


class Half(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.relu(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensor()
        return grad * (x > 0).astype(grad.dtype) * 0.5


def with_custom(net, x):
    return net[1](Half.apply(net[0](x)))


def test_a_custom_operation_in_a_small_graph_runs_as_it_is():
    stats = sot.stats(compare(small, with_custom))
    (fallback,) = stats.fallbacks
    assert "too small" in fallback.message


def test_a_custom_operation_stays_under_full_graph():
    stats = sot.stats(compare(small, with_custom, full_graph=True))
    assert (stats.graphs, stats.fallbacks) == (1, [])


class Recurrent(nn.Layer):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        return self.out(self.rnn(x.reshape([2, 8, 8]))[0][:, -1]).mean()


NETWORKS = {
    "perceptron": lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)),
    "recurrent": Recurrent,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_small_networks_train_as_programs(name):
    translated = compare(NETWORKS[name], lambda net, x: net(x), calls=3)
    stats = sot.stats(translated)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])
    assert backends(translated) == {"paddle (forward and backward)"}


def test_few_plain_operations_run_call_by_call():
    translated = compare(small, lambda net, x: net[0](x) + net[1].weight.sum() + net[1].bias.sum(), calls=3)
    assert backends(translated) == {"eager"}


def test_calls_in_pieces_become_rarer():
    translated, x = translate(lambda x: paddle.to_tensor(x.numpy() * 2) + x, min_graph_size=None), inputs()
    hits, in_pieces = 0, []
    with paddle.no_grad():
        for number in range(1900):
            translated(x)
            before, hits = hits, sot.stats(translated).cache_hits
            if hits - before > 1:
                in_pieces.append(number)
    late = [number for number in in_pieces if number > MANY]
    assert [later - earlier for earlier, later in zip([in_pieces[-len(late) - 1], *late], late, strict=False)] == [
        256,
        512,
        1024,
    ]
    assert [it.id for it in sot.stats(translated).fallbacks] == ["PSR0805"]


def operators(count):
    def function(net, x):
        y = net(x)
        for _ in range(count):
            y = y * 2 - y
        return y

    return function


@pytest.mark.parametrize(("count", "backend"), [(4, "eager"), (12, "paddle (forward and backward)")])
def test_operators_of_python_in_training_count_less(count, backend):
    translated = compare(lambda: nn.Linear(8, 8), operators(count), calls=3)
    assert backends(translated) == {backend}
