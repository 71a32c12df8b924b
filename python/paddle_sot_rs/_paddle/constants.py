"""Constants of a program, made once in eager mode and passed to each run."""

import math

from paddle import _C_ops
from paddle.base.libpaddle import pir

from paddle_sot_rs._core import PYTHON_NUMBER

# Larger constants are made by every run, as the program says.
_LARGEST_CONSTANT = 4096
# What each run is given, as an input or as a parameter that the program knows.
DATA = "pd_op.data"
GIVEN = (DATA, "builtin.parameter")
CONSTANTS = ("pd_op.full", "pd_op.full_int_array")
# Their results may share storage with what they are given, which operations in place do not know.
_HANDS_ON = ("pd_op.while", "pd_op.if", "cf.yield")


def may_be_written(value):
    """Whether operations that take it may write there."""
    uses = (use.name() for use in value.all_used_ops())
    return any(use.endswith("_") or use in _HANDS_ON for use in uses)


def hoist(block, kept, forward_end, start, place):
    """Makes inputs of the numbers that the program would write to memory in every run.

    The forward part ends at `forward_end`, the backward part starts at `start`. The answer is the new
    inputs, what makes each of them in eager mode, and how many operations the forward part has won.
    """
    values, recipes, removed = [], [], 0
    operations = block.ops
    # Constants have no operands: none of their uses is in front of this operation.
    anchor = next((op for op in operations if op.name() not in CONSTANTS), None)
    if anchor is None or not place.is_cpu_place():
        return values, recipes, 0
    known = {}
    for index, op in enumerate(operations):
        name = op.name()
        if name not in CONSTANTS:
            continue
        if forward_end <= index < start:
            continue
        value = op.results()[0]
        attributes = op.attrs()
        number = attributes["value"]
        whole = name == "pd_op.full_int_array"
        if value.id in kept or value.use_empty() or may_be_written(value):
            continue
        if not whole and (isinstance(number, complex) or math.prod(attributes["shape"]) > _LARGEST_CONSTANT):
            continue
        where = attributes["place"] if attributes["place"].is_cpu_place() else place
        # repr: 0.0 and -0.0 are equal.
        is_number = op.has_attr(PYTHON_NUMBER)
        key = (whole, is_number, repr(number), tuple(value.shape), str(value.dtype), str(where))
        constant = known.get(key)
        if constant is None:
            recipes.append(
                (_C_ops.full_int_array, (number, value.dtype, where))
                if whole
                else (_C_ops.full, (attributes["shape"], number, value.dtype, where))
            )
            pir.set_insertion_point(anchor)
            constant = known[key] = _C_ops.data(f"sot_c{len(values)}", value.shape, value.dtype, where)
            constant.stop_gradient = True
            if is_number:
                constant.get_defining_op().set_bool_attr(PYTHON_NUMBER, True)
            values.append(constant)
        value.replace_all_uses_with(constant)
        block.remove_op(op)
        removed += index < forward_end
    pir.set_insertion_point_to_block_end(block)
    return values, recipes, len(values) - removed
