"""Export to ONNX: equal to eager mode in onnxruntime, where paddle2onnx is installed; a clear error where it is not."""

import importlib.util
import os

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.static import InputSpec

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

SPEC = [InputSpec([None, 4], "float32", "x")]
installed = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("paddle2onnx", "onnxruntime")), reason="they are not installed"
)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 8)
        self.norm = nn.LayerNorm(8)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        h = nn.functional.relu(self.norm(self.hidden(x)))
        return self.out(h), nn.functional.softmax(h, axis=-1)


def plain(x):
    return x * 2 + paddle.to_tensor([1.0, 2.0, 3.0, 4.0])


def breaks(x):
    print(x.numpy())
    return x


def open_session(path):
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


@installed
def test_a_layer_with_an_open_batch(tmp_path):
    net = Net()
    net.eval()
    sot.save_onnx(net, tmp_path / "deep" / "net", SPEC)
    session = open_session(str(tmp_path / "deep" / "net.onnx"))
    for size in (1, 3, 7):
        x = np.random.default_rng(size).standard_normal((size, 4)).astype("float32")
        want = net(paddle.to_tensor(x))
        for a, b in zip(session.run(None, {"x": x}), want, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-6)
    assert os.listdir(tmp_path) == ["deep"]


@installed
def test_a_function_without_parameters(tmp_path):
    sot.save_onnx(plain, tmp_path / "plain.onnx", SPEC)
    x = np.ones((2, 4), "float32")
    found = open_session(str(tmp_path / "plain.onnx")).run(None, {"x": x})
    np.testing.assert_array_equal(found[0], plain(paddle.to_tensor(x)).numpy())


@installed
def test_what_paddle2onnx_does_not_know_is_an_error(tmp_path):
    def unknown(x):
        return paddle.lgamma(x)

    with pytest.raises(RuntimeError, match="paddle2onnx cannot convert the program: .*"):
        sot.save_onnx(unknown, tmp_path / "unknown", SPEC)
    assert os.listdir(tmp_path) == []


@installed
def test_more_than_one_graph(tmp_path):
    with pytest.raises(sot.GraphBreakError):
        sot.save_onnx(breaks, tmp_path / "net", SPEC)
    assert os.listdir(tmp_path) == []


def test_without_paddle2onnx(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    missing = lambda name, *rest: None if name == "paddle2onnx" else find(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", missing)
    with pytest.raises(ImportError, match="pip install paddle2onnx"):
        sot.save_onnx(plain, tmp_path / "net", SPEC)
    assert os.listdir(tmp_path) == []
