"""Backend `onednn`: the blocks of captured control flow run on oneDNN too, and keep their weights until they change."""

import sys
import threading

import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from harness import translate
from onednn.test_onednn_backend import ONEDNN, compare, made
from onednn.test_onednn_weights import loops_have_run, resident, with_statistics
from paddle import nn

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


class Layers(nn.Layer):
    def __init__(self, channels=8):
        super().__init__()
        self.first = nn.Conv2D(3, channels, 3, padding=1)
        self.inner = nn.Conv2D(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2D(channels)
        self.last = nn.Linear(channels, 5)


def one_way(net, x):
    y = F.relu(net.first(x))
    if y.mean() > 1.0:
        y = F.relu(net.norm(net.inner(y)) + y)
    return net.last(y.mean([2, 3])), y


def both_ways(net, x):
    y = F.relu(net.first(x))
    if y.mean() > 1.0:
        y = F.hardswish(net.norm(net.inner(y))) + y
        z = paddle.exp(y * 0.01)
    else:
        y = F.gelu(net.inner(y)) * 2
        z = F.relu6(y)
    return net.last(y.mean([2, 3])), F.softmax(z)


def nested(net, x):
    y = F.relu(net.first(x))
    if y.mean() > 0.1:
        y = F.relu(net.inner(y))
        if y.mean() > 0.5:
            y = F.relu(net.inner(y) + y)
        y = F.sigmoid(y) * 2
    return y


def loop(net, x):
    y = F.relu(net.first(x))
    while y.max() < 50.0:
        y = F.relu(net.norm(net.inner(y))) * 1.5 + y + 1
    return net.last(y.mean([2, 3])), y


def branch_in_a_loop(net, x):
    y, rounds = F.relu(net.first(x)), paddle.zeros([])
    while rounds < 3.0:
        y = F.relu(net.inner(y) * 1.5 + y)
        rounds = rounds + 1
        if y.max() > 10.0:
            y = F.sigmoid(net.inner(y))
    return y, rounds


def given_back(net, x):
    """Results that a block takes, or does not make."""
    y = F.relu(net.first(x))
    z = F.softsign(y)
    if y.mean() > 1.0:
        y, z = z, y
    else:
        y = net.inner(z)
    return y + 1, z


def behind(net, x):
    """A convolution behind a branch runs with either one's executor."""
    y = F.relu(net.first(x))
    y = F.relu(net.inner(y)) if y.mean() > 1.0 else y * 2
    return F.relu(net.inner(F.softsign(y)) + y)


def in_a_row(net, x):
    """What runs last is none of the executors with weights."""
    y = F.relu(net.inner(F.relu(net.first(x))))
    if y.mean() > 1.0:
        y = F.relu(net.inner(F.softsign(y)))
    if y.mean() > 1e9:
        y = y * 2
    return F.softsign(y) + 1


FUNCTIONS = one_way, both_ways, nested, loop, branch_in_a_loop, given_back, behind, in_a_row


def layers(channels=8):
    paddle.seed(3)
    return with_statistics(Layers(channels))


def captured(function, net):
    return translate(lambda x: function(net, x), **ONEDNN, capture_control_flow=True, full_graph=True, min_graph_size=1)


def given(at):
    return made([2, 3, 6, 5], seed=at) * (0.1 if at % 2 else 10)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_both_ways(function):
    net = layers()
    translated = captured(function, net)
    with paddle.no_grad():
        for at in range(6):
            compare(translated(given(at)), function(net, given(at)))
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])
    text = translated.graphs()[0].program
    inner = text.split(' = "pd_op.while"' if "loop" in function.__name__ else ' = "pd_op.if"', 1)[1]
    assert "onednn_op.fused_conv2d" in inner and '"pd_op.conv2d"' not in text, text
    assert "batch_norm" not in text


@pytest.mark.parametrize("function", FUNCTIONS)
def test_parameters_that_change(function):
    net = layers()
    translated = captured(function, net)
    with paddle.no_grad():
        for at in range(8):
            compare(translated(given(at)), function(net, given(at)))
            compare(translated(given(at + 1)), function(net, given(at + 1)))
            for parameter in (net.inner.weight, net.inner.bias, net.norm.weight, net.norm._mean, net.last.weight):
                parameter.set_value(parameter * (0.5 if at % 3 else 1.7))
    assert sot.stats(translated).translations == 1


@pytest.mark.parametrize("function", FUNCTIONS)
def test_frozen(function):
    net = layers()
    frozen = sot.freeze(lambda x: function(net, x), [(given(0),)], on_miss="error")
    for at in range(4):
        with paddle.no_grad():
            compare(frozen(given(at)), function(net, given(at)))
    assert "not used" not in " ".join(frozen.report[0])


def test_a_whole_network_in_a_branch():
    """It has operations with results that are not there."""
    paddle.seed(3)
    net = paddle.vision.models.mobilenet_v3_small()
    net.eval()

    def f(x):
        if x.mean() > 0.0:
            y = net(x)
        else:
            y = net(x * 2) * 2
        return y

    translated = captured(lambda net, x: f(x), net)
    with paddle.no_grad():
        for sign in (1, -1):
            x = made([1, 3, 32, 32]).abs() * sign
            compare(translated(x), f(x))
    text = translated.graphs()[0].program
    assert '"pd_op.conv2d"' not in text and "batch_norm" not in text
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


def test_open_dims():
    """The rounds of a loop may meet other dims than the call."""
    net = layers()

    def f(x):
        y = F.relu(net.first(x))
        if y.mean() > 0.5:
            y = F.relu(net.inner(y))
        while y.shape[0] < 6:
            y = paddle.concat([y, F.relu(net.inner(y))])
        return y

    translated = translate(f, **ONEDNN, capture_control_flow=True, min_graph_size=1)
    with paddle.no_grad():
        for at, (rows, size) in enumerate([(1, 5), (2, 6), (3, 4), (7, 5), (2, 9), (1, 5)]):
            x = made([rows, 3, size, 5], seed=at)
            compare(translated(x), f(x))


def test_recompute_keeps_its_block():
    net = layers()

    def f(x):
        return paddle.distributed.fleet.utils.recompute(lambda x: F.relu(net.first(x)), x) * 2

    translated = translate(f, **ONEDNN, min_graph_size=1)
    with paddle.no_grad():
        for at in range(3):
            compare(translated(given(at)), f(given(at)))


def test_gradients_are_those_of_the_default_backend():
    net = layers()

    def gradients(backend):
        translated = translate(
            lambda x: loop(net, x)[0].sum(), backend=backend, capture_control_flow=True, min_graph_size=1
        )
        found = []
        for at in range(2):
            translated(given(at)).backward()
            found += [parameter.grad.numpy().tolist() for parameter in net.parameters() if parameter.grad is not None]
            net.clear_gradients()
        return found

    assert gradients("onednn") == gradients("paddle")


def test_random_numbers_are_drawn_once():
    net = layers()

    def f(x):
        y = F.relu(net.first(x))
        if y.mean() > 1.0:
            y = F.relu(net.inner(y)) + paddle.rand([1])
        return y + paddle.rand([1])

    translated = captured(lambda net, x: f(x), net)
    with paddle.no_grad():
        for at in range(4):
            paddle.seed(3)
            found = translated(given(at)), paddle.rand([1])
            paddle.seed(3)
            compare(found, (f(given(at)), paddle.rand([1])))
            net.inner.weight.set_value(net.inner.weight * 1.1)


def test_threads():
    net = layers()
    translated = captured(both_ways, net)
    wrong = []
    with paddle.no_grad():
        expected = [both_ways(net, given(at)) for at in range(4)]

    def run(thread):
        try:
            with paddle.no_grad():
                for at in range(20):
                    compare(translated(given((at + thread) % 4)), expected[(at + thread) % 4])
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read there")
@pytest.mark.parametrize("function", [both_ways, loop, behind, in_a_row])
def test_what_was_kept_is_freed(function):
    """Of 2.4 MB of weights in blocks, sixty times others."""
    loops_have_run()
    net = layers(256)
    translated = captured(function, net)
    scales = [0.01, 10.0]

    def run(times):
        with paddle.no_grad():
            for _ in range(times):
                net.inner.weight.set_value(net.inner.weight * 1.001)
                for scale in scales:
                    translated(made([1, 3, 4, 4]) * scale)

    run(10)
    before = resident()
    run(60)
    assert resident() - before < 30 << 20
