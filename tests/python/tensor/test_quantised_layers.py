"""Quantised layers and networks of `paddle.quantization`: one graph in each phase, bit-equal to eager mode.

Eager mode calls other kernels than programs have: the operator `dequantize_linear` of a program quantises.
"""

import copy

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import _legacy_C_ops, nn
from paddle.distributed.fleet.utils import recompute
from paddle.nn.quant.format import LinearDequanter, LinearQuanter, LinearQuanterDequanter
from paddle.nn.quant.quant_layers import FakeQuantAbsMax, FakeQuantChannelWiseAbsMax, FakeQuantMovingAverageAbsMax
from paddle.quantization import PTQ, QAT, QuantConfig
from paddle.quantization.imperative import ImperativeQuantAware
from paddle.quantization.observers import AbsmaxObserver
from paddle.quantization.quanters import FakeQuanterWithAbsMaxObserver
from paddle.quantization.quanters.abs_max import FakeQuanterWithAbsMaxObserverLayer

BACKENDS = ("paddle", "cinn", "pylayer", "eager")


def scales(*numbers):
    return paddle.to_tensor(numbers[0] if len(numbers) == 1 else list(numbers))


LAYERS = {
    "dequanter": lambda: LinearDequanter(scales(1.5), scales(0.0)),
    "quanter": lambda: LinearQuanter(scales(1.5), scales(0.0)),
    "quanter and dequanter": lambda: LinearQuanterDequanter(
        LinearQuanter(scales(1.5), scales(0.0)), LinearDequanter(scales(1.5), scales(0.0))
    ),
    "dequanter along an axis": lambda: LinearDequanter(scales(1.5, 2.0, 0.5), scales(0.0, 0.0, 0.0), quant_axis=1),
    "quanter along an axis": lambda: LinearQuanter(scales(1.5, 2.0, 0.5), scales(0.0, 0.0, 0.0), quant_axis=1),
    "dequanter of float8": lambda: LinearDequanter(scales(1.5), scales(0.0), bit_length=(4, 3)),
    "quanter of float8": lambda: LinearQuanter(scales(1.5), scales(0.0), bit_length=(5, 2)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LAYERS)
def test_a_part_of_another_layer_equals_eager(name, backend):
    layer = LAYERS[name]()

    def function(x):
        return layer(x * 2) + 1

    x = paddle.to_tensor([[0.5, 127.0, -32.0], [1.0, -0.25, 0.0]])
    translated = translate(function, backend=backend)
    for _ in range(2):
        assert translated(x).tolist() == function(x).tolist()
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


NUMBERS = (0.5, 127.0, -32.0, 1e-9, -0.0, float("inf"), float("-inf"), float("nan"), 0.75, -0.75, 3e38, 1.0)


@pytest.mark.parametrize("scale", [1.5, 1e-7, 0.0, 0.3333, float("nan")])
@pytest.mark.parametrize("bits", [4, 8])
def test_all_bits_are_those_of_eager_mode(scale, bits):
    quantise = LinearQuanter(scales(scale), scales(0.0), bit_length=bits)
    dequantise = LinearDequanter(scales(scale), scales(0.0), bit_length=bits)

    def function(x):
        return quantise(x), dequantise(x), dequantise(quantise(x))

    x = paddle.to_tensor(NUMBERS)
    translated = translate(function)
    for ours, expected in zip(translated(x), function(x), strict=True):
        assert ours.numpy().tobytes() == expected.numpy().tobytes()
        assert (ours.stop_gradient, ours.is_leaf) == (expected.stop_gradient, expected.is_leaf)
    assert sot.stats(translated).graph_breaks == []


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("least", "most"), [(-128, 127), (-8, 7), (0, 255), (0, 15), (-1, 1)])
def test_the_range_is_that_of_the_largest_number(least, most, bits):
    """Kernels of eager mode do not look at the number of bits."""
    named = ("quant_axis", 1, "bit_length", bits, "qmin", least, "qmax", most)
    of_channels = (scales(1.5, 0.7, 1e-8), scales(3.0, 3.0, 3.0))

    def function(x):
        computed = (_legacy_C_ops.quantize_linear, _legacy_C_ops.dequantize_linear)
        return [made(x, *of_channels, *named) for made in computed]

    x = paddle.to_tensor(NUMBERS).reshape([4, 3])
    translated = translate(function)
    for ours, expected in zip(translated(x), function(x), strict=True):
        assert ours.numpy().tobytes() == expected.numpy().tobytes()
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


@pytest.mark.parametrize("name", ["quanter", "dequanter", "dequanter along an axis"])
def test_no_gradient_goes_through(name):
    layer = LAYERS[name]()

    def function(x):
        return layer(x * 2) + x * x

    grads = []
    for f in (function, translate(function)):
        x = paddle.to_tensor([[0.5, 1.0, -2.0]], stop_gradient=False)
        result = f(x)
        result.sum().backward()
        grads.append((x.grad.tolist(), layer(x).stop_gradient))
    assert grads[0] == grads[1]


def test_other_attributes_of_the_kernel_are_left_to_eager_mode():
    def function(x):
        given = ("quant_axis", -1, "bit_length", 8, "qmin", -128, "qmax", 127, "only_observer", True)
        return _legacy_C_ops.quantize_linear(x, scales(1.5), scales(0.0), *given) * 2

    x = paddle.to_tensor([0.5, 1.0])
    translated = translate(function)
    assert translated(x).tolist() == function(x).tolist()
    assert sum(it.count for it in sot.stats(translated).graph_breaks) == 1


def test_gradients_of_what_stands_in_front_are_not_cut():
    layer = LinearDequanter(scales(1.5), scales(0.0))

    def function(x):
        y = x * 3
        layer(y)
        return y.tanh() * y

    grads = []
    for f in (function, translate(function)):
        x = paddle.to_tensor([[0.5, 1.0]], stop_gradient=False)
        f(x).sum().backward()
        grads.append(x.grad.tolist())
    assert grads[0] == grads[1]
    assert grads[0][0][0] != 0.0


def network():
    paddle.seed(0)
    convolutions = [nn.Conv2D(1, 2, 3, padding=1), nn.ReLU(), nn.Conv2D(2, 2, 3), nn.ReLU()]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(8, 3))


def images(count):
    paddle.seed(count)
    return paddle.randn([count, 1, 4, 4])


def after_training():
    network_ = network()
    network_.eval()
    config = QuantConfig(activation=AbsmaxObserver(quant_bits=8), weight=AbsmaxObserver(quant_bits=8))
    quantiser = PTQ(config)
    quantised = quantiser.quantize(network_)
    quantised(images(4))
    return quantiser.convert(quantised)


def aware():
    quanter = FakeQuanterWithAbsMaxObserver(moving_rate=0.9)
    return QAT(QuantConfig(activation=quanter, weight=quanter)).quantize(network())


def by_imperative():
    net = network()
    kinds = {"weight_quantize_type": "channel_wise_abs_max", "activation_quantize_type": "moving_average_abs_max"}
    ImperativeQuantAware(**kinds).quantize(net)
    return net


def states(net):
    return {name: value.tolist() for name, value in net.state_dict().items()}


def trained(quantised, wrap):
    """Losses of three steps, and all parameters and scales behind them."""
    optimizer = paddle.optimizer.SGD(0.1, parameters=quantised.parameters())
    quantised.train()
    call = wrap(quantised)
    losses = []
    for count in (3, 3, 3):
        loss = (call(images(count)) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    return losses, states(quantised)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("least", [None, 0])
def test_a_converted_network_equals_eager(backend, least):
    net = after_training()
    expected = net(images(2)).tolist()
    translated = sot.to_static(net, backend=backend, min_graph_size=least)
    for _ in range(2):
        assert translated(images(2)).tolist() == expected
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


@pytest.mark.parametrize("backend", ("paddle", "pylayer", "eager"))
@pytest.mark.parametrize("least", [None, 0])
def test_training_that_is_aware_of_it_equals_eager(backend, least):
    quantised = aware()
    other = copy.deepcopy(quantised)
    expected = trained(quantised, lambda net: net)
    assert trained(other, lambda net: sot.to_static(net, backend=backend, min_graph_size=least)) == expected
    assert sot.stats(other).graph_breaks == []
    # With the scales of before: nothing is written.
    quantised.eval()
    other.eval()
    assert other(images(2)).tolist() == quantised(images(2)).tolist()
    assert [it.tolist() for it in other.state_dict().values()] == [
        it.tolist() for it in quantised.state_dict().values()
    ]


def test_a_scale_of_zero_is_not_written():
    # Paddle's layers ask whether a state is true, which is its number.
    found = []
    for wrap in (lambda net: net, lambda net: sot.to_static(net, min_graph_size=0)):
        quantised = aware()
        for name, value in quantised.state_dict().items():
            if "_state" in name or "_accum" in name:
                value.set_value(paddle.zeros_like(value))
        found.append(trained(quantised, wrap))
    assert found[0] == found[1]
    assert [0.0] in found[0][1].values()


def test_networks_that_were_trained_in_eager_mode_go_on():
    """In eager mode scales that were written need a gradient, and are no leaves."""
    quantised = aware()
    expected, _ = trained(quantised, lambda net: net)
    found = trained(quantised, lambda net: sot.to_static(net, min_graph_size=0))
    other = aware()
    assert trained(other, lambda net: net)[0] == expected
    assert trained(other, lambda net: net) == found


def observed_in_turn(quanter, x):
    y = quanter(x)
    sot.graph_break()
    return quanter(y) + y


def observed_in_rounds(quanter, x):
    rounds = paddle.zeros([])
    while rounds < 3 and x.abs().sum() < 100:
        x = quanter(x) + 1
        rounds = rounds + 1
    return x


USES = {
    "twice": lambda quanter, x: quanter(quanter(x) * 2),
    # A block runs again on the way back, and observes once more.
    "recompute": lambda quanter, x: recompute(lambda y: quanter(y) * 2, x),
    "recompute without reentrance": lambda quanter, x: recompute(lambda y: quanter(y) * 2, x, use_reentrant=False),
    "branch": lambda quanter, x: quanter(x) if x.sum() > 0 else quanter(x * 2) + 1,
    "loop": observed_in_rounds,
    "break": observed_in_turn,
    "raises": lambda quanter, x: quanter(x).reshape([5]),
}


@pytest.mark.parametrize("settings", [{}, {"min_graph_size": 0}, {"min_graph_size": 0, "capture_control_flow": True}])
@pytest.mark.parametrize("name", USES)
def test_states_are_written_as_often_as_in_eager_mode(name, settings):
    found = []
    for wrap in (lambda f: f, lambda f: sot.to_static(f, **settings)):
        quanter = FakeQuanterWithAbsMaxObserverLayer(None)
        call = wrap(lambda x, quanter=quanter: USES[name](quanter, x))
        seen = []
        for step in range(3):
            paddle.seed(step)
            x = paddle.randn([3, 4])
            x.stop_gradient = False
            try:
                result = call(x)
                result.sum().backward()
                seen.append((result.tolist(), x.grad.tolist()))
            except ValueError as error:
                seen.append(type(error))
            seen.append(states(quanter))
            if step == 1:
                quanter.eval()
        found.append(seen)
    assert found[0] == found[1]


def test_the_older_interface_trains_as_eager_mode_does():
    quantised = by_imperative()
    other = copy.deepcopy(quantised)
    expected = trained(quantised, lambda net: net)
    assert trained(other, lambda net: sot.to_static(net, min_graph_size=0)) == expected


FAKE = {
    "largest": lambda: FakeQuantAbsMax(quant_on_weight=True),
    "channels": lambda: FakeQuantChannelWiseAbsMax(channel_num=2, quant_on_weight=True),
    "average": FakeQuantMovingAverageAbsMax,
}


@pytest.mark.parametrize("make", FAKE.values(), ids=FAKE)
def test_fake_quanters_write_their_scales_as_in_eager_mode(make):
    found = []
    for wrap in (lambda f: f, translate):
        layer = make()

        def function(x, layer=layer):
            return layer(x * 2) * x

        call = wrap(function)
        seen = []
        for factor in (1.0, 3.0):
            x = paddle.to_tensor([[0.5, 1.0], [-0.3, 0.1]], stop_gradient=False)
            result = call(x * factor)
            result.sum().backward()
            seen.append((result.tolist(), x.grad.tolist(), layer._scale.tolist()))
        found.append(seen)
    assert found[0] == found[1]
    assert sot.stats(call).graph_breaks == []


def test_what_a_refused_call_has_appended_is_removed_wherever_it_is():
    # It makes a parameter of the program, in front of all operations: those of the calls before it
    # stay.
    quanter = LAYERS["quanter"]()

    @sot.allow_in_graph
    def quantised(x):
        return quanter(x)

    def function(x):
        y = x.exp() * 2
        z = quantised(y)
        return y - 1, z

    translated = translate(function)
    x = paddle.to_tensor([[0.5, -1.0]])
    for _ in range(2):
        for ours, expected in zip(translated(x), function(x)):
            assert ours.tolist() == expected.tolist()
    assert (sot.stats(translated).graphs, sum(it.count for it in sot.stats(translated).graph_breaks)) == (2, 1)
