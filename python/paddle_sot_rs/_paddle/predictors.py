"""What `paddle.inference` asks of the nested blocks of a saved program.

Its passes and kernels do not know all that may be in a block: a program that `paddle.jit.load` computes can fail there.
"""

import paddle
from paddle import _C_ops
from paddle.base.libpaddle import pir

from paddle_sot_rs._paddle.gradients.backward import blocks_of

# Some of their results are not made with `is_test`: constant folding asks for their memory. The second operand is the
# scale.
_QUANTISE = frozenset(("pd_op.quantize_linear", "pd_op.fake_quantize_dequantize_moving_average_abs_max"))
_FLOATS = (paddle.float32, paddle.float16, paddle.bfloat16)


def prepare(block, inputs):
    """Changes a program that is going to be saved; `inputs` are Values of its inputs."""
    for op in block.ops:
        if op.name() == "pd_op.if" and inputs and _is_constant(op.operand_source(0), {}):
            _open(op, inputs[0])
        elif op.name() in _QUANTISE and inputs and all(_is_constant(value, {}) for value in _given(op)):
            _open_scale(op, inputs[0])
        for inner in blocks_of(op):
            prepare(inner, inputs)
            _hand_over_plainly(inner)


def _is_constant(value, known):
    """Whether constant folding may compute it: it does not know that a branch has blocks, and fails."""
    op = value.get_defining_op()
    if op is None or op.name() == "pd_op.data":
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


def _open_scale(op, given):
    """Makes the scale of a constant depend on an input: it is multiplied by 1."""
    pir.set_insertion_point(op)
    scale = op.operand_source(1)
    opened = _C_ops.multiply(scale, _C_ops.cast(_holds(given), scale.dtype))
    opened.stop_gradient = True
    op.operand(1).set_source(opened)


def _given(op):
    return [value for value in op.operands_source() if value.initialized()]


def _holds(given):
    """True, which only the program knows."""
    count = _C_ops.numel(given)
    return _C_ops.greater_equal(count, _C_ops.full_like(count, 0, count.dtype, paddle.base.core.Place()))


def _hand_over_plainly(block):
    """What a oneDNN kernel makes is in a layout of its own, and only operations of the same block know."""
    last = block.ops[-1] if block.ops else None
    if last is None or last.name() != "cf.yield":
        return
    for at in range(last.num_operands()):
        value = last.operand_source(at)
        op = value.get_defining_op()
        is_plain = op is not None and op.name() == "pd_op.assign"
        if is_plain or not value.is_dense_tensor_type() or value.dtype not in _FLOATS:
            continue
        pir.set_insertion_point(last)
        plain = _C_ops.assign(value)
        plain.stop_gradient = value.stop_gradient
        last.operand(at).set_source(plain)
