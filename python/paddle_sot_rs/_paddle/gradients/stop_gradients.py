"""Which results of operations say that they need a gradient: those of eager mode."""

from typing import Any

from paddle_sot_rs._paddle.gradients.backward import REGIONS, gives_neither, has_gradient, semantics_of

# An attribute of an `assign` that is a leaf of autograd.
BEGINS = "sot_begins"
# No operations of their own in eager mode.
TRANSPARENT = ("builtin.combine", "builtin.split", "builtin.slice")
# By name, for each operand whether a gradient goes to it.
_differentiable: dict[str, Any] = {}


def differentiable(op):
    """The operands that gradients go through: in eager mode only they make the results of an operation need one."""
    operands = op.operands_source()
    name = op.name()
    if name in TRANSPARENT:
        return operands
    known = _differentiable.get(name)
    if known is None:
        known = semantics_of(op) if has_gradient(op) else [False] * len(operands)
        _differentiable[name] = known
    return [value for value, takes_gradient in zip(operands, known, strict=True) if takes_gradient]


def reached(op):
    """Those of them that a gradient arrives at."""
    operands = differentiable(op)
    return operands[:1] if gives_neither(op, operands) else operands


def stop_where_eager_stops(operations):
    """Static mode only looks at the inputs, whether a gradient goes to them or not."""
    for op in operations:
        results = [value for value in op.results() if value.initialized() and not value.stop_gradient]
        if not results:
            continue
        if not op.num_operands() or op.num_regions() or op.name() in REGIONS or op.has_attr(BEGINS):
            # Data, parameters and new leaves say themselves what they are; what a nested graph uses
            # are no operands.
            continue
        if all(value.stop_gradient for value in differentiable(op) if value.initialized()):
            for value in results:
                value.stop_gradient = True
