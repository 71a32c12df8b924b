"""Fused norms of `paddle.incubate`: they do not make all of their results."""

import paddle
import paddle_sot_rs as sot
import pytest
from paddle.incubate.nn import functional as fused
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

WEIGHT, BIAS = paddle.rand([8]), paddle.rand([8])


def rms(x):
    return fused.fused_rms_norm(x, WEIGHT, None, 1e-6, begin_norm_axis=2)[0] * 2


def unpacked(x):
    y, _ = fused.fused_rms_norm(x, WEIGHT, None, 1e-6, begin_norm_axis=2)
    return y + 1


def with_residual(x):
    y, total = fused.fused_rms_norm(x, WEIGHT, None, 1e-6, begin_norm_axis=2, residual=x * 2)
    return y + total


def layer_norm(x):
    return fused.fused_layer_norm(x, WEIGHT, BIAS, 1e-6, begin_norm_axis=2)[0] - 1


def layer_norm_with_residual(x):
    y, total, *_ = fused.fused_layer_norm(x, WEIGHT, BIAS, 1e-6, begin_norm_axis=2, residual=x)
    return y * total


CAPTURED = [rms, unpacked, with_residual, layer_norm, layer_norm_with_residual]


def named(function):
    return function.__name__


@pytest.mark.parametrize("function", CAPTURED, ids=named)
def test_one_graph(function):
    call = sot.to_static(function, min_graph_size=0)
    for _ in range(3):
        x = paddle.randn([2, 3, 8])
        assert paddle.allclose(call(x), function(x), 1e-6, 1e-7)
    record = sot.stats(call)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])


@pytest.mark.parametrize("function", CAPTURED, ids=named)
def test_files(function, tmp_path):
    path = str(tmp_path / "m")
    sot.save(function, path, input_spec=[InputSpec([None, 3, 8], "float32", "x")])
    loaded = paddle.jit.load(path)
    for rows in (1, 2, 5):
        x = paddle.randn([rows, 3, 8])
        assert paddle.allclose(loaded(x), function(x), 1e-6, 1e-7)


def returned(x):
    return fused.fused_rms_norm(x, WEIGHT, None, 1e-6, begin_norm_axis=2)


def compared(x):
    y, total = fused.fused_rms_norm(x, WEIGHT, None, 1e-6, begin_norm_axis=2)
    return y * (1 if total is None else 2), total


def behind_a_break(x):
    y, total = fused.fused_rms_norm(x, WEIGHT, None, 1e-6, begin_norm_axis=2)
    print(end="")
    return y, total


@pytest.mark.parametrize("function", [returned, compared, behind_a_break], ids=named)
def test_what_is_not_made_leaves_to_eager_mode(function):
    call = sot.to_static(function, min_graph_size=0)
    for _ in range(3):
        x = paddle.randn([2, 3, 8])
        (found, nothing), (wanted, _) = call(x), function(x)
        assert paddle.allclose(found, wanted, 1e-6, 1e-7)
        assert type(nothing) is paddle.Tensor and not nothing._is_initialized()
    record = sot.stats(call)
    assert record.graphs == 0 and record.fallbacks


def test_gradients_without_a_kernel():
    """A CPU has none: eager mode raises behind the call, and so does this, which has no program."""
    call = sot.to_static(rms, min_graph_size=0)
    for function in (rms, call):
        x = paddle.randn([2, 3, 8])
        x.stop_gradient = False
        result = function(x)
        assert not result.stop_gradient
        with pytest.raises(RuntimeError, match="kernel"):
            result.sum().backward()
    assert [reason.id for reason in sot.stats(call).fallbacks] == ["PSR0708"]
