"""Backend `onednn`: convolutions and products keep their weights in oneDNN's layout, until they change."""

import ctypes
import gc
import os
import sys
import threading

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from harness import translate
from onednn.test_onednn_backend import ONEDNN, compare, made
from paddle import nn

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


@pytest.fixture(autouse=True)
def seeded():
    """A result near 0 may be off by more than its own digits: with other weights one in 4,000 is."""
    paddle.seed(0)


class Block(nn.Layer):
    """More weights than are compared before a run (256 KiB), with a residual connection."""

    def __init__(self, channels=96, bias=False, groups=1):
        super().__init__()
        self.first = nn.Conv2D(channels, channels, 3, padding=1, bias_attr=None if bias else False, groups=groups)
        self.norm = nn.BatchNorm2D(channels)
        self.second = nn.Conv2D(channels, channels, 1)
        self.last = nn.Linear(channels, 7)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = F.hardswish(self.second(x) + x)
        return self.last(x.mean([2, 3]))


def with_statistics(network):
    for number, layer in enumerate(network.sublayers()):
        if isinstance(layer, nn.BatchNorm2D):
            layer._mean.set_value(made(layer._mean.shape, seed=number) * 0.1)
            layer._variance.set_value(made(layer._mean.shape, seed=number).abs() + 0.5)
    network.eval()
    return network


def whole(layer, **options):
    return translate(lambda *args: layer(*args), **ONEDNN, min_graph_size=1, **options)


def report(translated):
    return " ".join(translated.graphs()[-1].report)


def operators(translated):
    return translated.graphs()[-1].program


def by_optimizer(network, x):
    paddle.seed(1)
    network.train()
    optimizer = paddle.optimizer.Adam(0.1, parameters=network.parameters())
    with paddle.enable_grad():
        network(x).sum().backward()
    optimizer.step()
    optimizer.clear_grad()
    network.eval()


def by_one_number(network, x):
    weight = network.second.weight.detach()
    weight[-1, -1] = weight[-1, -1] + 30.0


def by_shared_memory(network, x):
    # NumPy shares what DLPack hands over: nothing of Paddle's tells of this write.
    view = np.from_dlpack(network.second.weight.detach())
    view.flags.writeable or pytest.skip("NumPy does not write there")
    view[-1, -1] += 1.0


CHANGES = dict(
    set_value=lambda network, x: network.first.weight.set_value(network.first.weight * 0.5),
    in_place=lambda network, x: network.second.bias.detach().add_(paddle.ones([96])),
    one_number=by_one_number,
    statistics=lambda network, x: network.norm._mean.set_value(network.norm._mean + 0.5),
    state=lambda network, x: network.set_state_dict({k: v * 1.5 for k, v in network.state_dict().items()}),
    linear=lambda network, x: network.last.weight.set_value(network.last.weight + 1.0),
    optimizer=by_optimizer,
    shared_memory=by_shared_memory,
)


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_seen_at_once(change):
    network = with_statistics(Block())
    translated, x = whole(network), made([2, 96, 6, 6])
    with paddle.no_grad():
        for _ in range(3):
            compare(translated(x), network(x))
            before = network(x).numpy()
            CHANGES[change](network, x)
            assert not np.allclose(before, network(x).numpy(), rtol=1e-3)
            compare(translated(x), network(x))
            compare(translated(x), network(x))
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


@pytest.mark.parametrize(("bias", "groups"), [(False, 1), (True, 1), (False, 96), (True, 4)])
def test_batch_norms_are_folded(bias, groups):
    network = with_statistics(Block(bias=bias, groups=groups))
    translated, x = whole(network), made([2, 96, 6, 6])
    with paddle.no_grad():
        for _ in range(2):
            compare(translated(x), network(x))
    text = operators(translated)
    assert "batch_norm" not in text and text.count("fused_conv2d") == 2 and 'relu" (' not in text, text


@pytest.mark.parametrize("weights", [(True, True), (True, False), (False, True), (False, False)])
def test_norms_without_a_scale_or_a_bias(weights):
    norm = nn.BatchNorm2D(4, weight_attr=weights[0] and None, bias_attr=weights[1] and None)
    network = with_statistics(nn.Sequential(nn.Conv2D(3, 4, 3), norm, nn.Sigmoid()))
    translated, x = whole(network), made([2, 3, 5, 5])
    with paddle.no_grad():
        compare(translated(x), network(x))


ACTIVATIONS = dict(
    none=lambda x: x,
    relu=F.relu,
    relu6=F.relu6,
    hardswish=F.hardswish,
    swish=F.swish,
    silu=F.silu,
    sigmoid=F.sigmoid,
    tanh=F.tanh,
    hardsigmoid=F.hardsigmoid,
    mish=F.mish,
    gelu=F.gelu,
    gelu_tanh=lambda x: F.gelu(x, True),
    leaky_relu=F.leaky_relu,
    elu=F.elu,
    in_place=lambda x: F.relu_(x),
)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_behind_convolutions(name, residual):
    first, second = nn.Conv2D(3, 8, 3, padding=1), nn.Conv2D(8, 8, 3, padding=1)

    def f(x):
        x = F.softsign(first(x))
        y = second(x)
        return ACTIVATIONS[name](y + x if residual else y) * 2

    translated, x = translate(f, **ONEDNN, min_graph_size=1), made([2, 3, 6, 6])
    x[0, 0, 0, 0] = 100.0
    with paddle.no_grad():
        compare(translated(x), f(x))
    assert operators(translated).count("fused_conv2d") == 2


def test_what_is_no_number_stays_none():
    network = nn.Sequential(nn.Conv2D(3, 4, 1), nn.ReLU(), nn.Conv2D(4, 4, 1), nn.Hardswish())
    translated, x = whole(network), made([1, 3, 4, 4])
    x[0, :, 1, 1] = float("nan")
    with paddle.no_grad():
        found, expected = translated(x).numpy(), network(x).numpy()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))


class Sums:
    """Sums with what is read again, given, or viewed: none may be written over it."""

    def read_later(self, convolution, x):
        y = F.softsign(x)
        z = convolution(x) + y
        return F.relu(z), y * 3

    def given(self, convolution, x):
        return F.relu(convolution(F.softsign(x)) + x)

    def viewed(self, convolution, x):
        y = F.softsign(x)
        rows = y.flatten(1)
        return F.relu(convolution(x) + y), rows.sum(-1)

    def result(self, convolution, x):
        y = F.softsign(x)
        return convolution(x) + y, y

    def twice(self, convolution, x):
        y = convolution(x)
        return F.relu(y + y)

    def of_two(self, convolution, x):
        return F.relu(convolution(x) + convolution(F.softsign(x)))

    def made_later(self, convolution, x):
        y = convolution(x)
        return F.tanh(y + F.softsign(x))


@pytest.mark.parametrize("name", [name for name in vars(Sums) if not name.startswith("_")])
def test_sums(name):
    convolution = nn.Conv2D(4, 4, 3, padding=1)
    translated = whole(lambda x: getattr(Sums(), name)(convolution, x))
    with paddle.no_grad():
        for seed in range(3):
            x = made([2, 4, 6, 6], seed=seed)
            given = x.numpy()
            compare(translated(x), getattr(Sums(), name)(convolution, x))
            np.testing.assert_array_equal(x.numpy(), given)


def test_filters_that_are_computed():
    """From parameters: once. From anything else: in each call."""
    network = nn.utils.weight_norm(nn.Conv2D(3, 4, 3))

    def f(x, w):
        return F.relu(network(x)), F.relu(F.conv2d(x, w)), F.relu(F.conv2d(x, network.weight_v * 2) + 1.0)

    translated, x = whole(f), made([2, 3, 5, 5])
    with paddle.no_grad():
        for seed in range(3):
            w = made([4, 3, 3, 3], seed=seed)
            compare(translated(x, w), f(x, w))
            network.weight_g.set_value(network.weight_g * 2)
    assert operators(translated).count("fused_conv2d") == 2


def test_several_networks_of_one_code():
    networks = [with_statistics(Block()) for _ in range(2)]
    translated, x = sot.to_static(Block.forward, **ONEDNN), made([2, 96, 6, 6])
    with paddle.no_grad():
        for _ in range(3):
            for network in networks:
                compare(translated(network, x), network(x))


def test_random_numbers_are_drawn_once():
    convolution = nn.Conv2D(96, 96, 3)

    def f(x):
        return F.relu(convolution(x)) + paddle.rand([1])

    translated, x = whole(f), made([2, 96, 6, 6])
    with paddle.no_grad():
        for _ in range(3):
            paddle.seed(3)
            found = translated(x), paddle.rand([1])
            paddle.seed(3)
            compare(found, (f(x), paddle.rand([1])))
            convolution.weight.set_value(convolution.weight * 1.5)


def test_threads():
    """Weights change between turns of threads: each result is of those of its turn."""
    network = with_statistics(Block())
    translated, x = whole(network), made([2, 96, 6, 6])
    weights = [network.first.weight.clone(), network.first.weight * 2]
    wrong = []

    def run(expected):
        with paddle.no_grad():
            for _ in range(5):
                found = translated(x).numpy()
                if not np.allclose(found, expected, rtol=1e-3, atol=1e-4):
                    wrong.append(found)

    for number in range(20):
        network.first.weight = paddle.create_parameter(
            weights[0].shape, "float32", default_initializer=nn.initializer.Assign(weights[number % 2])
        )
        with paddle.no_grad():
            expected = network(x).numpy()
        threads = [threading.Thread(target=run, args=(expected,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def resident():
    """Bytes, without those that only the C library still has."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def loops_have_run():
    """For each of their runs Paddle does not hear once that something is to be freed."""

    def f(x):
        while x.sum() < 10:
            x = x + 1
        return x

    translated = translate(f, capture_control_flow=True, min_graph_size=0)
    with paddle.no_grad():
        for _ in range(300):
            translated(paddle.zeros([1]))
    assert sot.stats(translated).graphs == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read there")
def test_what_is_kept_goes_with_the_layer():
    """Twenty layers of 9.4 MB, one after the other, which one function is translated for."""
    loops_have_run()
    translated, x = sot.to_static(Block.forward, backend="onednn"), made([1, 512, 4, 4])

    def run(times):
        for _ in range(times):
            network = with_statistics(Block(512))
            with paddle.no_grad():
                compare(translated(network, x), network(x))
            del network

    run(4)
    before = resident()
    run(20)
    assert resident() - before < 60 << 20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read there")
def test_what_was_kept_is_freed():
    """Of 2.4 MB of weights, sixty times others."""
    loops_have_run()
    network = nn.Sequential(nn.Conv2D(256, 256, 3), nn.ReLU(), nn.Conv2D(256, 7, 1))
    translated, x = whole(network), made([1, 256, 5, 5])

    def run(times):
        with paddle.no_grad():
            for _ in range(times):
                network[0].weight.set_value(network[0].weight * 1.01)
                translated(x)
                translated(x)

    run(10)
    before = resident()
    run(60)
    assert resident() - before < 30 << 20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read there")
def test_what_threads_keep_is_bounded():
    """Eight threads at once, of 9.4 MB of weights: one copy for each run that may be under way, whoever runs it."""
    network, x = with_statistics(Block(512)), made([1, 512, 4, 4])
    frozen = sot.freeze(network, [(x,)])
    expected, wrong, together = network(x).numpy(), [], threading.Barrier(9)

    def run():
        for _ in range(6):
            together.wait()
            found = [frozen(x).numpy() for _ in range(10)]
            wrong.extend(one for one in found if not np.allclose(one, expected, rtol=1e-3, atol=1e-4))
            together.wait()

    before = resident()
    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    grown = []
    for _ in range(6):
        together.wait()
        together.wait()
        grown.append(resident() - before)
    for thread in threads:
        thread.join()
    assert not wrong and max(grown) < 120 << 20
    # What a thread has kept does not go with it.
    np.testing.assert_array_equal(frozen(x).numpy(), frozen(x).numpy())


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3])
def test_transposed_convolutions(stride, groups, dilation, kernel):
    network = nn.Conv2DTranspose(4, 6, kernel, stride, padding=kernel // 2, groups=groups, dilation=dilation)
    network.eval()
    translated = translate(lambda x: F.relu(network(x)) * 2, **ONEDNN, min_graph_size=1)
    with paddle.no_grad():
        for seed in range(4):
            x = made([2, 4, 5, 4], seed=seed)
            compare(translated(x), F.relu(network(x)) * 2)
            if seed:
                network.weight.set_value(made(network.weight.shape, seed=seed))
                network.bias.set_value(made(network.bias.shape, seed=seed))
    assert "not for" not in report(translated)
    assert sot.stats(translated).graph_breaks == []


def test_a_filter_that_is_filtered_by_itself():
    class Filters(nn.Layer):
        def __init__(self):
            super().__init__()
            self.weight = self.create_parameter([4, 4, 3, 3])
            self.norm = nn.BatchNorm2D(4)
            self.norm._mean.set_value(paddle.rand([4]))
            self.norm._variance.set_value(paddle.rand([4]) + 0.5)

        def forward(self, x):
            filtered = nn.functional.conv2d(self.weight, self.weight, padding=1)
            return self.norm(filtered) + self.norm(nn.functional.conv2d(x, self.weight, padding=1))

    layer = Filters()
    layer.eval()
    static = sot.to_static(layer.forward, min_graph_size=0, backend="onednn")
    with paddle.no_grad():
        for _ in range(3):
            x = paddle.rand([4, 4, 3, 3])
            np.testing.assert_allclose(static(x).numpy(), Filters.forward(layer, x).numpy(), rtol=1e-4, atol=1e-5)
