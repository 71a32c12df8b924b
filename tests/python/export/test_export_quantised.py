"""Exports of networks of `paddle.quantization`: `paddle.jit.load` and `paddle.inference` compute what eager mode does.

In each phase. (`paddle.jit.save` refuses converted networks with an open batch, and writes wrong files of the others.)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import inference, nn
from paddle.nn.quant import Stub
from paddle.nn.quant.lsq import FakeQuantActLSQPlus, FakeQuantWeightLSQPlus
from paddle.nn.quant.quant_layers import MAOutputScaleLayer, QuantizedConv2D, QuantStub
from paddle.quantization import PTQ, QAT, QuantConfig
from paddle.quantization.base_quanter import BaseQuanter
from paddle.quantization.factory import QuanterFactory
from paddle.quantization.imperative import ImperativeQuantAware
from paddle.quantization.observers import AbsmaxObserver, GroupWiseWeightObserver
from paddle.quantization.quanters import FakeQuanterWithAbsMaxObserver
from paddle.quantization.quanters.abs_max import FakeQuanterWithAbsMaxObserverLayer
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        paddle.seed(0)
        self.first, self.norm = nn.Conv2D(1, 2, 3, padding=1), nn.BatchNorm2D(2)
        self.stub, self.last = Stub(), nn.Linear(32, 3)

    def forward(self, x: Any) -> Any:
        return self.last(self.stub(self.norm(self.first(x))).flatten(1))


def images(count: int) -> Any:
    paddle.seed(count)
    return paddle.randn([count, 1, 4, 4])


class WithZeroPoints(FakeQuanterWithAbsMaxObserverLayer):
    """Paddle's own has none, and cannot be converted."""

    def zero_points(self) -> Any:
        return paddle.zeros_like(self._scale)


class OfChannels(BaseQuanter):
    """A quanter of a user, along an axis."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.axis = 1 if isinstance(layer, nn.Linear) else 0
        self.scale: Any = None

    def forward(self, x: Any) -> Any:
        others = [axis for axis in range(x.ndim) if axis != self.axis]
        scale = x.detach().abs().max(axis=others, keepdim=True) + 1e-8
        self.scale = scale.flatten()
        return x + (paddle.round(x / scale * 127).clip(-127, 127) / 127 * scale - x).detach()

    def scales(self) -> Any:
        return self.scale

    def zero_points(self) -> Any:
        return paddle.zeros_like(self.scale)

    def quant_axis(self) -> Any:
        return self.axis

    def bit_length(self) -> int:
        return 8


def factory(made: type) -> Any:
    return type("Factory", (QuanterFactory,), {"_get_class": lambda self: made})()


def after_training(weight: Any = None, activation: Any = None, net: Any = None, **options: Any) -> Any:
    net = Net() if net is None else net
    net.eval()
    quantiser = PTQ(QuantConfig(activation=activation or AbsmaxObserver(), weight=weight or AbsmaxObserver()))
    quantised = quantiser.quantize(net)
    quantised(images(4))
    converted = quantiser.convert(quantised, **options) if options.pop("converts", True) else quantised
    converted.eval()
    return converted


def by_groups() -> Any:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 3))
    net.eval()
    config = QuantConfig(activation=None, weight=None)
    config.add_layer_config(net[3], weight=GroupWiseWeightObserver(quant_bits=8, group_size=128))
    quantiser = PTQ(config)
    quantised = quantiser.quantize(net)
    quantised(images(4))
    converted = quantiser.convert(quantised)
    converted.eval()
    return converted


def trained(net: Any) -> Any:
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    net.train()
    for count in (3, 4):
        (net(images(count)) ** 2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    return net


def aware(quanter: Any, converts: bool, weight: Any = None, evaluates: bool = True, **options: Any) -> Any:
    quantiser = QAT(QuantConfig(activation=quanter, weight=weight or quanter))
    net = trained(quantiser.quantize(Net()))
    net = quantiser.convert(net, **options) if converts else net
    if evaluates:
        net.eval()
    return net


def by_imperative(kind: str) -> Any:
    net = Net()
    ImperativeQuantAware(weight_quantize_type=kind, activation_quantize_type="moving_average_abs_max").quantize(net)
    trained(net).eval()
    return net


def learnt(batch_init: int = 2) -> Any:
    """LSQ: scales are set in the first calls and learnt in the others."""
    weights = dict(per_channel=True, channel_num=2, batch_init=batch_init)

    def first(net: Any) -> Any:
        return QuantizedConv2D(
            net.first,
            weight_quant_layer=lambda: FakeQuantWeightLSQPlus(8, **weights),
            act_quant_layer=lambda: FakeQuantActLSQPlus(8, batch_init=batch_init),
        )

    net = Net()
    net.first, net.stub = first(net), FakeQuantActLSQPlus(8, symmetric=True, batch_init=batch_init)
    trained(net).eval()
    return net


def averaged() -> Any:
    net = Net()
    net.stub, net.last = QuantStub(), MAOutputScaleLayer(net.last)
    trained(net).eval()
    return net


NETWORKS: dict[str, Callable[[], Any]] = {
    "calibrating": lambda: after_training(converts=False),
    "converted": after_training,
    "with its weights": lambda: after_training(remain_weight=True),
    "along channels": lambda: after_training(weight=factory(OfChannels)),
    "four bits": lambda: after_training(weight=AbsmaxObserver(quant_bits=4)),
    "float8": lambda: after_training(*(AbsmaxObserver(quant_bits=(4, 3)) for _ in range(2))),
    "groups": by_groups,
    "aware": lambda: aware(FakeQuanterWithAbsMaxObserver(), converts=False),
    "aware, of channels": lambda: aware(FakeQuanterWithAbsMaxObserver(), False, factory(OfChannels)),
    "aware, converted": lambda: aware(factory(WithZeroPoints), converts=True),
    "aware, with its weights": lambda: aware(factory(WithZeroPoints), True, remain_weight=True),
    "imperative": lambda: by_imperative("abs_max"),
    "imperative, of channels": lambda: by_imperative("channel_wise_abs_max"),
    "learnt": learnt,
    "averaged": averaged,
}


def predicted(path: str, x: Any, onednn: bool) -> Any:
    files = [f"{path}.json", f"{path}.pdiparams"]
    config = inference.Config(*files)
    config.disable_gpu()
    config.disable_glog_info()
    (config.enable_mkldnn if onednn else config.disable_mkldnn)()
    made = inference.create_predictor(config)
    made.get_input_handle(made.get_input_names()[0]).copy_from_cpu(x.numpy())
    made.run()
    return made.get_output_handle(made.get_output_names()[0]).copy_to_cpu()


@pytest.mark.parametrize("name", NETWORKS)
def test_an_export_computes_what_eager_mode_does(name: str, tmp_path: Any, caplog: Any) -> None:
    net = NETWORKS[name]()
    path = os.fspath(tmp_path / "net")
    sot.save(net, path, input_spec=[InputSpec([None, 1, 4, 4], "float32", "x")])
    assert caplog.messages == []
    loaded = paddle.jit.load(path)
    for count in (1, 2, 5):
        x = images(count)
        expected = net(x).numpy()
        # The check of the file runs it beside one of another size: equal bits are not asked of it.
        np.testing.assert_array_equal(loaded(x).numpy(), expected)
        np.testing.assert_array_equal(predicted(path, x, onednn=False), expected)
        np.testing.assert_allclose(predicted(path, x, onednn=True), expected, rtol=1e-4, atol=1e-5)


def test_a_network_in_training_is_saved_as_one_that_learns_nothing(tmp_path: Any) -> None:
    """As running statistics are: the program computes with the scales of the moment, and the network keeps them."""
    net = aware(FakeQuanterWithAbsMaxObserver(), converts=False, evaluates=False)
    before = {name: value.tolist() for name, value in net.state_dict().items()}
    sot.save(net, os.fspath(tmp_path / "net"), input_spec=[InputSpec([None, 1, 4, 4], "float32", "x")])
    assert {name: value.tolist() for name, value in net.state_dict().items()} == before
    loaded = paddle.jit.load(os.fspath(tmp_path / "net"))
    net.eval()
    for _ in range(2):
        assert loaded(images(3)).tolist() == net(images(3)).tolist()


def test_a_quanter_that_still_sets_its_scales_is_refused(tmp_path: Any) -> None:
    with pytest.raises(sot.GraphBreakError, match="sets its scales"):
        sot.save(
            learnt(batch_init=20),
            os.fspath(tmp_path / "net"),
            input_spec=[InputSpec([None, 1, 4, 4], "float32", "x")],
        )


def test_averages_in_training_are_saved_as_those_that_learn_nothing(tmp_path: Any) -> None:
    net = averaged()
    net.train()
    before = {name: value.tolist() for name, value in net.state_dict().items()}
    sot.save(net, os.fspath(tmp_path / "net"), input_spec=[InputSpec([None, 1, 4, 4], "float32", "x")])
    assert {name: value.tolist() for name, value in net.state_dict().items()} == before
    net.eval()
    assert paddle.jit.load(os.fspath(tmp_path / "net"))(images(3)).tolist() == net(images(3)).tolist()


def test_a_converted_network_is_frozen() -> None:
    net = after_training()
    expected = net(images(3)).tolist()
    assert sot.freeze(net, [[images(3)]], backend="paddle")(images(3)).tolist() == expected
