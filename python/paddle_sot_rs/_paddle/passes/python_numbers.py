"""Operations of a program for what plain Python computes without one: dims, and numbers that differ between calls."""

from paddle_sot_rs._core import PYTHON_NUMBER
from paddle_sot_rs._paddle.constants import CONSTANTS, DATA, may_be_written
from paddle_sot_rs._paddle.effects import first_random
from paddle_sot_rs._paddle.value_patches import raw_dims
from paddle_sot_rs._paddle.views import COPIES

# They read the dims of a tensor.
DIMS = ("pd_op.shape", "pd_op.shape64")
# Attributes that say nothing about what an operation computes.
_SAYS_NOTHING = ("stop_gradient", "op_callstack", "struct_name")
# With those that say how: who compares asks for copies.
NO_CHOICE = (*_SAYS_NOTHING, "target_shape", COPIES)


def read_dims(operations):
    return any(op.name() in DIMS for op in operations)


def _is_tensor(value):
    """Whether it is more than a number, or than as many of them as the program says."""
    dims = raw_dims(value) if value.is_dense_tensor_type() else []
    return len(dims) > 1 or any(dim < 0 for dim in dims)


def _is_pure(op):
    return not (op.name().endswith("_") or op.num_regions() or first_random([op]))


def of_numbers(operations, constants=()):
    """Those of the operations that compute numbers from numbers alone, and that read dims. `constants`: values that
    are given, and are the same in each run.
    """
    constants = {value.id for value in constants}
    found, numbers = [], set()
    for op in operations:
        name = op.name()
        results = op.results()
        if name in CONSTANTS:
            constants.update(value.id for value in results)
            continue
        if name == DATA:
            if op.has_attr(PYTHON_NUMBER) and constants.isdisjoint(value.id for value in results):
                numbers.update(value.id for value in results)
            continue
        if name not in DIMS:
            taken = [value.id for value in op.operands_source() if value.initialized()]
            if numbers.isdisjoint(taken) or not all(one in numbers or one in constants for one in taken):
                continue
            if any(map(_is_tensor, results)) or not _is_pure(op):
                continue
        numbers.update(value.id for value in results)
        found.append(op)
    return found


def described(op):
    """What an operation computes of its operands, for a look-up of those that compute the same."""
    named = ((name, repr(value)) for name, value in op.attrs().items() if name not in _SAYS_NOTHING)
    return op.name(), *sorted(named)


def share(block, end, constants, kept):
    """Common subexpression elimination of these operations, in front of the one at `end`: each dim is read once, and
    each list of sizes made once. The answer is how many operations are gone. Values of the ids in `kept` stay.
    """
    known, gone = {}, 0
    for op in of_numbers(block.ops[:end], constants):
        results = op.results()
        # A loop writes to what it begins with.
        if not results or any(value.id in kept or may_be_written(value) for value in results):
            continue
        taken = (value.id if value.initialized() else None for value in op.operands_source())
        first = known.setdefault((described(op), *taken), op)
        if first is op:
            continue
        for value, same in zip(results, first.results(), strict=True):
            value.replace_all_uses_with(same)
        block.remove_op(op)
        gone += 1
    return gone
