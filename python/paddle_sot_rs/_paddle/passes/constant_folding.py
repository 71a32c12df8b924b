"""What constant folding of `paddle.inference` must not compute."""

import paddle
from paddle import _C_ops
from paddle.base.libpaddle import pir

from paddle_sot_rs._onednn.operators import plain_name
from paddle_sot_rs._paddle.constants import DATA
from paddle_sot_rs._paddle.effects import first_random

# Kernels do not make all results of these, as the mean of a norm: folding asks for the memory of
# each. By name, the operand that is made to depend on an input: for quantisation, the scale.
_MAKE_FEWER = {
    "quantize_linear": 1,
    "fake_quantize_dequantize_moving_average_abs_max": 1,
    "batch_norm": 0,
    "layer_norm": 0,
    "unique": 0,
    "eigvalsh": 0,
}
_FLOATS = (paddle.float32, paddle.float64, paddle.float16, paddle.bfloat16)


def keep_from_folding(op, given):
    """Makes what is computed of constants depend on an input, where it may not be computed once for all."""
    if op.name() == "pd_op.if":
        # It does not know that a branch has blocks, and fails.
        if _are_constant([op.operand_source(0)]):
            _open(op, given)
        return
    at = _MAKE_FEWER.get(plain_name(op))
    if at is None and first_random([op]) and _is_filled(op):
        at = 0
    if at is not None and _are_constant(_operands(op)):
        _multiply(op, at, given)


def _is_filled(op):
    """Whether it draws by numbers in a tensor, such as probabilities. Those that are given a shape are not folded."""
    first = op.operand_source(0) if op.num_operands() else None
    return first is not None and first.initialized() and first.dtype in _FLOATS


def _are_constant(values):
    """Whether constant folding may compute them: it does not know that a branch has blocks, and fails."""
    waiting, seen = list(reversed(values)), set()
    while waiting:
        op = waiting.pop().get_defining_op()
        if op is None or op.name() == DATA:
            return False
        if op.id() not in seen:
            seen.add(op.id())
            waiting += reversed(_operands(op))
    return True


def _open(branch, given):
    """Makes the condition of a branch depend on an input."""
    pir.set_insertion_point(branch)
    condition = _C_ops.logical_and(branch.operand_source(0), _holds(given))
    condition.stop_gradient = True
    branch.operand(0).set_source(condition)


def _multiply(op, at, given):
    """Makes an operand depend on an input: it is multiplied by 1."""
    pir.set_insertion_point(op)
    value = op.operand_source(at)
    opened = _C_ops.multiply(value, _C_ops.cast(_holds(given), value.dtype))
    opened.stop_gradient = True
    op.operand(at).set_source(opened)


def _operands(op):
    return [value for value in op.operands_source() if value.initialized()]


def _holds(given):
    """True, which only the program knows."""
    count = _C_ops.numel(given)
    return _C_ops.greater_equal(count, _C_ops.full_like(count, 0, count.dtype, paddle.base.core.Place()))
