"""What constant folding of `paddle.inference` must not compute."""

import paddle
from paddle import _C_ops
from paddle.base.libpaddle import pir

from paddle_sot_rs._paddle.constants import DATA
from paddle_sot_rs._paddle.effects import first_random

# Some of their results are not made with `is_test`: folding asks for their memory. The second
# operand is the scale.
_QUANTISE = frozenset(("pd_op.quantize_linear", "pd_op.fake_quantize_dequantize_moving_average_abs_max"))
_FLOATS = (paddle.float32, paddle.float64, paddle.float16, paddle.bfloat16)


def keep_from_folding(op, given):
    """Makes what is computed of constants depend on an input, where it may not be computed once for all."""
    if op.name() == "pd_op.if":
        # It does not know that a branch has blocks, and fails.
        if _is_constant(op.operand_source(0), {}):
            _open(op, given)
        return
    if op.name() in _QUANTISE:
        at = 1
    elif first_random([op]) and _is_filled(op):
        at = 0
    else:
        return
    if all(_is_constant(value, {}) for value in _operands(op)):
        _multiply(op, at, given)


def _is_filled(op):
    """Whether it draws by numbers in a tensor, such as probabilities. Those that are given a shape are not folded."""
    first = op.operand_source(0) if op.num_operands() else None
    return first is not None and first.initialized() and first.dtype in _FLOATS


def _is_constant(value, known):
    """Whether constant folding may compute it: it does not know that a branch has blocks, and fails."""
    op = value.get_defining_op()
    if op is None or op.name() == DATA:
        return False
    found = known.get(value.id)
    if found is None:
        known[value.id] = found = all(_is_constant(operand, known) for operand in op.operands_source())
    return found


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
