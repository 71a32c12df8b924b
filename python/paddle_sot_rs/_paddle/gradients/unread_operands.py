"""Operands of operations whose numbers the gradient does not read, only their dims.

An executor lets go of those without a look at who else reads them. Where such an operand is another one of the same
operation too, that would be gone before the gradient reads it.
"""

from paddle import _C_ops

# Where they stand.
_UNREAD = {"pd_op.layer_norm": 2, "pd_op.kldiv_loss": 0}


def apart(op, read):
    """What the gradient takes for the operands of an operation: a copy of such a one, where another is the same."""
    at = _UNREAD.get(op.name())
    if at is None:
        return read
    ((value,), others) = read[at], [*read[:at], *read[at + 1 :]]
    if not value.initialized() or all(other.id != value.id for (other,) in others if other.initialized()):
        return read
    copy = _C_ops.assign(value)
    copy.stop_gradient = value.stop_gradient
    return [*read[:at], [copy], *read[at + 1 :]]
