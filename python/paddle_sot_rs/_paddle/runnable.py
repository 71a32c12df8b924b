"""Programs as Paddle's executor takes them: ids, names of values, layout, and the attributes of `run_program`."""

import itertools
import math

from paddle.base import core
from paddle.base.libpaddle import pir
from paddle.pir import get_fake_value_name, is_fake_value

from paddle_sot_rs._paddle.constants import GIVEN
from paddle_sot_rs._paddle.gradients.backward import blocks_of
from paddle_sot_rs._paddle.value_patches import raw_dims

_program_numbers = itertools.count(1)


def _new_program_id():
    """Paddle finds executors by 65 times the program's id plus a quarter of the scope's address, modulo 2**64: this far
    apart (addresses have 47 bits) no other program's id and scope come to the same sum.
    """
    spread = (next(_program_numbers) << 46) % (1 << 64)
    return spread - (1 << 64) if spread >> 63 else spread


# Attributes that name one, in the order in which Paddle looks for them.
DATA_FORMAT = "data_format"
LAYOUT_NAMES = (DATA_FORMAT, "data_layout")


def all_values(program):
    values = {}
    for op in program.global_block().ops:
        # Operands are results of earlier operations; optional results may be absent.
        for value in op.results():
            if value.initialized():
                values.setdefault(value.id, value)
    return values.values()


# What these give is there before the run.
# Of a size that is not told, and none on a CPU.
_WITH_WORK_SPACE = frozenset(("pd_op.batch_norm", "pd_op.batch_norm_"))


def made_bytes(programs, trains):
    """Bytes of all that the operations make, in training of eight bytes a number; None where a dim is open."""
    total = 0
    for program in programs:
        for op in program.global_block().ops:
            if op.name() in GIVEN:
                continue
            for value in op.results():
                # The values in a list are results of the operation that takes it apart.
                if value.initialized() and value.is_dense_tensor_type():
                    shape = raw_dims(value)
                    if min(shape, default=0) >= 0:
                        total += math.prod(shape) * (8 if trains else core.size_of_dtype(value.dtype))
                    elif op.name() not in _WITH_WORK_SPACE:
                        return None
    return total


def unify_names(program, mapping):
    mapping = dict(mapping)
    for value in list(all_values(program)):
        if value.has_name:
            name = mapping.get(value.name, value.name)
            mapping.update(value._rename(name, program.global_block()))
    return mapping


def name_of(value):
    return get_fake_value_name() if is_fake_value(value) else value.name


def say_layout(block):
    """Before each run on a CPU Paddle goes through operations until one of them names a layout: so the first does."""
    operations = block.ops
    if not operations:
        return
    named = (op.attrs().get(name) for op in operations for name in LAYOUT_NAMES if op.has_attr(name))
    if not any(operations[0].has_attr(name) for name in LAYOUT_NAMES):
        operations[0].set_str_attr(LAYOUT_NAMES[0], "NHWC" if next(named, None) == "NHWC" else "NCHW")
    for op in operations:
        for inner in blocks_of(op):
            say_layout(inner)


def run_attributes(forward, backward, names, results, trains):
    """The attribute map of `run_program`; `names` by what they are names of."""
    description = {
        "forward_program": forward,
        "backward_program": backward,
        "is_test": not trains,
        "program_id": _new_program_id(),
        "in_sot_mode": True,
        "fo_values": results,
    }
    for key, list_ in names.items():
        description[key + "_names"] = list_
    return core.construct_program_attribute_map(description)


def whole(program, inputs, outputs):
    """What runs a program as it is, without a backward."""
    size = len(program.global_block().ops)
    given = (inputs, [], outputs, [], [], [], (0, size), (size, size))
    (forward, backward), attributes = pir.split_program(program, *given)
    names = {key: [name_of(value) for value in values] for key, values in attributes.items()}
    by_name = {name: value for value in all_values(forward) for name in value._names}
    return run_attributes(forward, backward, names, [by_name[name] for name in names["fo"]], False)
