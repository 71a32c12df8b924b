"""Which operations of a gradient need numbers, and of which operands."""

from paddle_sot_rs._core import PYTHON_NUMBER
from paddle_sot_rs._paddle.gradients.backward import REGIONS

# They look at dims and dtype, and Paddle does not say so.
DESCRIBE = frozenset(f"pd_op.{name}" for name in ("shape", "shape64", "full_like", "empty_like"))


def used(operations):
    """Those whose numbers go somewhere: many gradients take no more than the dims of what was computed."""
    needed = set()
    for op in reversed(operations):
        name, results = op.name(), op.results()
        if results and name not in REGIONS and not any(value.id in needed for value in results):
            continue
        yield op
        if name not in DESCRIBE:
            whole = name == "builtin.combine"
            values = (value for value in op.operands_source() if value.initialized())
            needed.update(value.id for value in values if whole or not op.is_no_need_buffer(value))


def reads(op, matters):
    """Those of the operands that `matters` says yes to whose numbers the operation needs.

    Those of lists are read by the operation that takes the list.
    """
    name = op.name()
    if name == "builtin.combine" or name in DESCRIBE:
        return []
    operands = op.operands_source()
    if name == "pd_op.divide_grad" and _divides_by_number(op):
        _, divisor, _, gradient = operands
        operands = divisor, gradient
    operands = (value for value in operands if value.initialized() and matters(value))
    return [value for value in operands if not op.is_no_need_buffer(value)]


def _divides_by_number(op):
    """Whether this is the gradient of a quotient by a Python number: eager mode keeps neither dividend nor quotient."""
    maker = op.operands_source()[1].get_defining_op()
    return maker is not None and maker.has_attr(PYTHON_NUMBER)
