"""What captured control flow computes again from, or hands on, of tensors that anyone can change.

Eager mode's gradients see what such a tensor has become where no version counts it (`set_value`, an optimizer's step),
and what `recompute` and PyLayers keep they see in any case. The gradient of control flow has what was there: it
refuses.
"""

from paddle_sot_rs._paddle.blocks import ROWS
from paddle_sot_rs._paddle.gradients.backward import (
    REGIONS,
    UNVERSIONED,
    blocks_of,
    inner_operations,
    is_gradient,
    with_inner,
)
from paddle_sot_rs._paddle.gradients.grad_liveness import reads, used
from paddle_sot_rs._paddle.views import ASSIGN, PARTS, is_view

_NAMES = (ASSIGN, *PARTS)


class _Aliases:
    """For each value the inputs and outputs that it may be, or be a view of; what control flow handed on apart."""

    def __init__(self, roots):
        self.every = {root: frozenset([root]) for root in roots}
        self.handed_on = {}

    def walk(self, operations):
        for op in operations:
            name = op.name()
            if name in ("pd_op.if", "pd_op.while"):
                self.region(op)
            elif is_view(op) or name in _NAMES or op.has_attr(ROWS):
                for value in op.results() if op.num_operands() else ():
                    self.add(value, op.operand_source(0))
            elif name == "builtin.combine":
                for value in op.operands_source():
                    self.add(op.results()[0], value)

    def add(self, value, source):
        for known in (self.every, self.handed_on):
            _unite(known, value, known.get(source.id))

    def region(self, op):
        operands = op.operands_source()
        for block in blocks_of(op):
            # What a variable of a loop becomes in one round it is in the next.
            for _ in range(2 if op.name() == "pd_op.while" else 1):
                last = block.back()
                yielded = last.operands_source()
                for argument, value in zip(block.args(), operands[1:], strict=False):
                    self.add(argument, value)
                self.walk(block.ops)
                for argument, value in zip(block.args(), yielded[1:], strict=False):
                    self.add(argument, value)
            results = op.results()
            for value, source in zip(results, yielded[-len(results) :], strict=True):
                self.hand_on(value, self.every.get(source.id))
        if op.name() == "pd_op.while":
            # The values of its variables are kept in others of its results.
            found = frozenset().union(*(self.every.get(value.id, ()) for value in operands))
            for value in op.results():
                self.hand_on(value, found)

    def hand_on(self, value, found):
        for known in (self.every, self.handed_on):
            _unite(known, value, found)


def _unite(known, value, found):
    if found:
        known[value.id] = known.get(value.id, found) | found


def read_again(operations, forward_end, start, inputs, roots):
    """Those of `roots` that should not change behind the back of their versions before their gradients run.

    Then those that should not change at all. `inputs` are the ids of those that come in.
    """
    aliases = _Aliases(roots)
    aliases.walk(operations[:forward_end])
    uncounted, ever = set(), set()
    # What is read where it is, as it has become.
    direct = set(inputs)

    def note(operations, known, found):
        for op in operations:
            for value in reads(op, lambda value: value.id in known):
                found.update(known[value.id])

    for op in operations[start:]:
        aliases.walk([op])
        inside = list(inner_operations(op))
        if _keeps(op):
            note((op, *inside), aliases.handed_on, ever)
        elif op.name() in REGIONS:
            kept = list(with_inner(filter(_keeps, inside)))
            if op.name() == "pd_op.while":
                # The values of its variables come from where each round has left them.
                note(inside, aliases.handed_on, uncounted)
                kept = kept and inside
            note(kept, aliases.every, ever)
            direct.update(_copies(inside, direct))
            # What is computed again is so from copies of what was there, or see
            # `backward_reads.py`.
            gradients = filter(is_gradient, used(inside))
            copies = {value: found for value, found in aliases.every.items() if value not in direct}
            note(gradients, copies, uncounted)
        else:
            direct.update(_copies([op], direct))
            note([op], aliases.handed_on, uncounted)
    return uncounted, ever


def from_control_flow(operations):
    """Ids of the results of control flow, and of what is in their storage.

    Eager mode's gradient of the way that was taken may read them, or have handed on what another one reads.
    """
    found = set()
    for op in operations:
        if op.name() in ("pd_op.if", "pd_op.while"):
            found.update(value.id for value in op.results())
        elif op.num_operands() and (is_view(op) or op.name() in _NAMES) and op.operand_source(0).id in found:
            found.update(value.id for value in op.results())
    return found


def _keeps(op):
    """Whether it is of what keeps tensors without looking after them: `recompute` and PyLayers."""
    return op.name() == "pd_op.pylayer" or op.has_attr(UNVERSIONED)


def _copies(operations, direct):
    assigns = (op for op in operations if op.name() == ASSIGN)
    return [op.results()[0].id for op in assigns if op.operand_source(0).id in direct]
