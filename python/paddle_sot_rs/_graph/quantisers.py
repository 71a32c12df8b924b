"""What the layers of `paddle.quantization` and `paddle.nn.quant` compute, each a statement of a graph.

In eager mode they call kernels by other names than programs have, and write what they have seen into parameters.
"""

from __future__ import annotations

from typing import Any

import paddle
from paddle import _C_ops, _legacy_C_ops

# An attribute of the operations that write what a quantiser has seen: an export leaves them out.
OBSERVES = "sot_observes"
# One of those that quantise, as the kernel does that eager mode finds by this name.
AS_EAGER = "sot_as_eager"
# Numbers half way between two go away from zero.
_AWAY_FROM_ZERO = 1


def quantise(x: Any, scale: Any, zero_point: Any, axis: int, bits: int, least: int, most: int) -> Any:
    """`_legacy_C_ops.quantize_linear`"""
    if paddle.in_dynamic_mode():
        named = ("quant_axis", axis, "bit_length", bits, "qmin", least, "qmax", most)
        return _legacy_C_ops.quantize_linear(x, scale, zero_point, *named)
    # The operands of an observer are not read with `is_test`.
    made, *_ = _C_ops.quantize_linear(x, scale, zero_point, scale, scale, axis, bits, least, most, 0, True, False)
    made.get_defining_op().set_bool_attr(AS_EAGER, True)
    return made


def dequantise(x: Any, scale: Any, zero_point: Any, axis: int, bits: int, least: int, most: int) -> Any:
    """`_legacy_C_ops.dequantize_linear`, whose operator in a program quantises."""
    if paddle.in_dynamic_mode():
        named = ("quant_axis", axis, "bit_length", bits, "qmin", least, "qmax", most)
        return _legacy_C_ops.dequantize_linear(x, scale, zero_point, *named)
    if axis >= 0:
        scale = paddle.reshape(scale, [-1 if dim == axis else 1 for dim in range(len(x.shape))])
    # The range is that of the largest number, whatever `bits` says.
    made = _C_ops.divide(_C_ops.multiply(x, scale), paddle.full([], most, scale.dtype))
    # No gradient goes through the kernel of eager mode.
    return made.detach()


def fake_by_average(x: Any, scale: Any, accumulated: Any, state: Any, rate: float, bits: int, is_test: bool) -> Any:
    """Quantises and dequantises by a moving average of the largest numbers, which it writes unless `is_test`."""
    out, *made = _C_ops.fake_quantize_dequantize_moving_average_abs_max(
        x, scale, accumulated, state, rate, bits, is_test, _AWAY_FROM_ZERO
    )
    if not is_test:
        _write(made[0], scale)
        _write_where_set(made[1], state)
        _write_where_set(made[2], accumulated)
    return out


def fake_by_largest(x: Any, scale: Any, bits: int) -> Any:
    """Quantises and dequantises by the largest number, which it writes where `scale` is given."""
    out, made = _C_ops.fake_quantize_dequantize_abs_max(x, bits, _AWAY_FROM_ZERO)
    if scale is not None:
        _write_where_set(made, scale)
    return out


def fake_by_channel(x: Any, scale: Any, bits: int, axis: int) -> Any:
    """Quantises and dequantises by the largest number of each channel, which it writes where `scale` is given."""
    out, made = _C_ops.fake_channel_wise_quantize_dequantize_abs_max(x, bits, _AWAY_FROM_ZERO, axis)
    if scale is not None:
        _write(made, scale)
    return out


def observe_by_average(x: Any, scale: Any, accumulated: Any, state: Any, rate: float) -> Any:
    """`x` as it is; a moving average of the largest numbers is written."""
    seen = x.detach()
    if paddle.in_dynamic_mode():
        rest = (paddle.empty_like(seen), scale, state, accumulated, "moving_rate", rate)
        with paddle.no_grad():
            _legacy_C_ops.moving_average_abs_max_scale(seen, accumulated, state, *rest)
    else:
        made, *_ = _C_ops.moving_average_abs_max_scale(seen, accumulated, state, rate, False)
        for value, target in zip(made.get_defining_op().results()[1:], (scale, state, accumulated), strict=True):
            _write(value, target)
    return paddle.assign(x)


def _write(value: Any, target: Any) -> None:
    if paddle.in_dynamic_mode():
        _C_ops.assign_out_(value, target)
        return
    stops = target.stop_gradient
    _C_ops.assign_out_(value, target).get_defining_op().set_bool_attr(OBSERVES, True)
    target.stop_gradient = stops


def _write_where_set(value: Any, target: Any) -> None:
    """Paddle's layers ask `if target:`, which is the number in it."""
    if not paddle.in_dynamic_mode():
        _write(_C_ops.where(paddle.not_equal(target, paddle.zeros_like(target)), value, target), target)
    elif target:
        _write(value, target)
