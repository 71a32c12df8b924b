"""Quantised layers and converted networks: eager mode dequantises where the operator of a program quantises."""

import copy

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn
from paddle.nn.quant.format import LinearDequanter, LinearQuanter, LinearQuanterDequanter
from paddle.quantization import PTQ, QAT, QuantConfig
from paddle.quantization.observers import AbsmaxObserver
from paddle.quantization.quanters import FakeQuanterWithAbsMaxObserver

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
    return losses, {name: value.tolist() for name, value in quantised.state_dict().items()}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("least", [None, 0])
def test_a_converted_network_equals_eager(backend, least):
    net = after_training()
    expected = net(images(2)).tolist()
    translated = sot.to_static(net, backend=backend, min_graph_size=least)
    for _ in range(2):
        assert translated(images(2)).tolist() == expected


@pytest.mark.parametrize("least", [None, 0])
def test_training_that_is_aware_of_it_equals_eager(least):
    quantised = aware()
    other = copy.deepcopy(quantised)
    expected = trained(quantised, lambda net: net)
    assert trained(other, lambda net: sot.to_static(net, min_graph_size=least)) == expected


def test_the_export_of_a_converted_network_is_refused(tmp_path):
    net = after_training()
    with pytest.raises(sot.GraphBreakError, match="a call that cuts the gradients"):
        sot.save(net, str(tmp_path / "net"), input_spec=[paddle.static.InputSpec([None, 1, 4, 4])])
    assert list(tmp_path.iterdir()) == []


def test_what_a_refused_call_has_appended_is_removed_wherever_it_is():
    # It makes a parameter of the program, in front of all operations: those of the calls before it stay.
    quanter = LAYERS["quanter"]()

    def function(x):
        y = x.exp() * 2
        z = quanter(y)
        return y - 1, z

    translated = translate(function)
    x = paddle.to_tensor([[0.5, -1.0]])
    for _ in range(2):
        for ours, expected in zip(translated(x), function(x)):
            assert ours.tolist() == expected.tolist()
    assert (sot.stats(translated).graphs, sum(it.count for it in sot.stats(translated).graph_breaks)) == (2, 1)
