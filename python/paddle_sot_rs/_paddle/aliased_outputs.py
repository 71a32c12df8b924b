"""Results of a program that are views of what it keeps for its backward part.

In eager mode who writes into such a result writes into what the gradient reads. A program copies what leaves it: where
that shows, the views have to be made of real tensors, behind the program.
"""

from paddle_sot_rs._paddle.gradients.backward import with_inner
from paddle_sot_rs._paddle.gradients.backward_reads import source_of
from paddle_sot_rs._paddle.gradients.grad_liveness import reads
from paddle_sot_rs._paddle.views import PARTS, is_view


class BasesAreRead(Exception):
    """Raised while compiling, with the positions of outputs that are such views."""


def look_for_bases(operations, forward_end, start, inputs, outputs, is_part):
    """Raises where there are outputs in whose storage the operations from `start` on read what is no output itself.

    Also where others leave that are in the same storage. In a part inputs may be so, too: other parts read them.
    """
    bases = {}
    for op in operations[:forward_end]:
        if op.num_operands() and (is_view(op) or op.name() in PARTS and op.operand_source(0).id in bases):
            source = op.operand_source(0).id
            for value in op.results():
                bases[value.id] = bases.get(source, source)
    # Outputs are copies, most times: the backward part reads those instead of what they were copied
    # from.
    sources = [source_of(value) for value in outputs]
    given = {value.id for value in inputs}
    outside = given.union(sources)
    views = {}
    for at, source in enumerate(sources):
        base = bases.get(source, source)
        if base != source and (is_part or base not in given):
            views.setdefault(base, []).append(at)
    hidden = {base: found for base, found in views.items() if base not in outside and len(found) == 1}
    found = [at for base, several in views.items() if base not in hidden for at in several]

    def is_hidden(value):
        return value.id not in outside and bases.get(value.id, value.id) in hidden

    for op in with_inner(operations[start:]) if hidden else ():
        for value in reads(op, is_hidden):
            found += hidden.pop(bases.get(value.id, value.id), ())
    if found:
        raise BasesAreRead(found)
