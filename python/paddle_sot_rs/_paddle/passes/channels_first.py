"""Keeps the channels first where `paddle.inference` would compute pooling with the channels last, wrongly.

With oneDNN off a pass transposes what is pooled, and what is next to it. Of the results of one operation it
transposes the last, and takes the others for transposed, too. It raises for lists along another axis than the
channels, and for sums of lists.
"""

from paddle import _C_ops
from paddle.base.libpaddle import pir

from paddle_sot_rs._paddle.gradients.backward import with_inner
from paddle_sot_rs._paddle.value_patches import dims
from paddle_sot_rs._paddle.views import ASSIGN

_POOL, _CONCAT = "pd_op.pool2d", "pd_op.concat"
_LISTS = (_CONCAT, "pd_op.add_n", "pd_op.stack")
_LIST = "builtin.combine"


def keep_channels_first(block):
    """Reshapes what is pooled, and lists of what was, to the dims that they have: the pass ends there."""
    for op in list(with_inner(block.ops)):
        if op.name() == _POOL and _is_moved_otherwise(_maker(op.operand_source(0))):
            _reshape(op, 0)
        elif op.name() == _LIST and any(_joins_otherwise(user) for user in op.result(0).all_used_ops()):
            for at, value in enumerate(op.operands_source()):
                maker = _maker(value)
                if maker is not None and maker.name() == _POOL:
                    _reshape(op, at)


def _maker(value):
    """The operation that makes what this may be a copy of."""
    op = value.get_defining_op() if value.initialized() else None
    while op is not None and op.name() == ASSIGN:
        op = op.operand_source(0).get_defining_op()
    return op


def _is_moved_otherwise(maker):
    return maker is not None and (maker.num_results() > 1 or _joins_otherwise(maker))


def _joins_otherwise(op):
    """Whether it makes one tensor of a list, but not along the channels."""
    if op.name() != _CONCAT:
        return op.name() in _LISTS
    axis = op.operand_source(1).get_defining_op()
    return axis is None or axis.attrs().get("value") != 1


def _reshape(op, at):
    value = op.operand_source(at)
    if len(dims(value)) != 4:
        return
    pir.set_insertion_point(op)
    made = _C_ops.reshape(value, [0] * 4)
    made.stop_gradient = value.stop_gradient
    op.operand(at).set_source(made)
