"""Operations of a program for what plain Python computes without one: dims, and numbers that differ between calls."""

from paddle_sot_rs._core import PYTHON_NUMBER
from paddle_sot_rs._paddle.constants import CONSTANTS, DATA
from paddle_sot_rs._paddle.value_patches import raw_dims

# They read the dims of a tensor.
DIMS = ("pd_op.shape", "pd_op.shape64")
# They put numbers into a list, or take them out.
_OF_LISTS = frozenset(
    ("builtin.combine", "builtin.split", *(f"pd_op.{name}" for name in ("concat", "slice", "stack", "unbind")))
)


def read_dims(operations):
    return any(op.name() in DIMS for op in operations)


def of_numbers(operations):
    """Those of the operations that compute numbers from numbers alone, and that read dims."""
    found, numbers, constants = [], set(), set()
    for op in operations:
        name = op.name()
        results = op.results()
        if name in CONSTANTS:
            constants.update(value.id for value in results)
            continue
        if name == DATA:
            if op.has_attr(PYTHON_NUMBER):
                numbers.update(value.id for value in results)
            continue
        if name not in DIMS:
            taken = [value.id for value in op.operands_source() if value.initialized()]
            if numbers.isdisjoint(taken) or not all(one in numbers or one in constants for one in taken):
                continue
            if name not in _OF_LISTS and any(raw_dims(value) for value in results):
                continue
        numbers.update(value.id for value in results)
        found.append(op)
    return found
