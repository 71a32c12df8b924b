"""Results of a saved program that are one value, or are computed alike.

`paddle.inference` makes one of them, and finds no more than one result of a value.
"""

from paddle import _C_ops
from paddle.base.libpaddle import pir

from paddle_sot_rs._paddle.effects import first_random
from paddle_sot_rs._paddle.passes.python_numbers import described
from paddle_sot_rs._paddle.views import ASSIGN


def keep_apart(block, outputs):
    """Puts copies into the places of results, each of them of another one than alike results."""
    first = _first(block)
    # By what may be the same: numbers of copies in a row. By what is copied: the last copy, and its
    # number.
    taken, last = {}, {}
    pir.set_insertion_point_to_block_end(block)
    for at, value in enumerate(outputs):
        source, _ = _source(value, _copies)
        origin, copies = _source(value, _hands_on)
        made, count = last.get(source.id, (value, copies))
        numbers = taken.setdefault(first.get(origin.id, origin.id), set())
        while count in numbers:
            stop_gradient = made.stop_gradient
            made = _C_ops.assign(made)
            made.stop_gradient = stop_gradient
            count += 1
        numbers.add(count)
        last[source.id] = made, count
        outputs[at] = made


def _first(block):
    """By value, the first one that may become the same, by its id: order of operands says nothing here."""
    groups, first = {}, {}
    for op in block.ops:
        if op.num_regions() or not op.num_results():
            continue
        operands = [value for value in op.operands_source() if value.initialized()]
        known = sorted(first.get(value.id, value.id) for value in operands)
        if _hands_on(op):
            first[op.result(0).id] = first.get(operands[0].id, operands[0].id)
            continue
        for at, value in enumerate(op.results()):
            first[value.id] = groups.setdefault((described(op), *known, at), value.id)
    return first


def _source(value, goes_on):
    """What a value is a copy of, and of how many copies in a row."""
    copies, op = 0, value.get_defining_op()
    while op is not None and goes_on(op):
        copies += _copies(op)
        value = op.operand_source(0)
        op = value.get_defining_op()
    return value, copies


def _copies(op):
    return op.name() == ASSIGN


def _hands_on(op):
    """Whether it gives what it takes: a pass removes all of these but copies."""
    name, attributes = op.name().removesuffix("_"), op.attrs()
    if name == "pd_op.cast":
        return op.result(0).dtype == op.operand_source(0).dtype
    if name == "pd_op.dropout":
        # It may be a factor then, which costs a copy.
        return first_random([op]) is None
    if name == "pd_op.scale":
        factor = op.operand_source(1).get_defining_op()
        return attributes["bias"] == 0 and factor is not None and factor.attrs().get("value") == 1
    return _copies(op)
