"""What a backward part reads of tensors that anyone can change: inputs and outputs of the program, and views of them.

Eager mode counts changes in place, and its gradients refuse a tensor that was changed after it was kept for them.
"""

from paddle_sot_rs._paddle.aliases import from_control_flow, read_again
from paddle_sot_rs._paddle.effects import written
from paddle_sot_rs._paddle.gradients.backward import REGIONS, UNVERSIONED, inner_operations, is_gradient
from paddle_sot_rs._paddle.gradients.grad_liveness import reads, used
from paddle_sot_rs._paddle.views import ASSIGN, is_view, shares_count


def read_back(operations, forward_end, start, inputs, outputs):
    """Positions among `inputs` and among `outputs` of those whose numbers the operations from `start` on read.

    Then those, of both, that control flow is computed again from (what that makes, eager mode has kept) or hands on,
    and whether changes matter that versions count, too (see `aliases.py`).
    """
    # The value with which changes of another one are counted, or of which it is a copy, for values
    # of interest.
    roots = {value.id: value.id for value in inputs}
    lists = {}
    # Those among them that have storage of their own, which in a program is counted by itself.
    copied = set()
    changed = set()
    for op in operations[:forward_end]:
        if shares_count(op):
            first = op.operand_source(0).id
            result = op.results()[0].id
            roots[result] = roots.setdefault(first, first)
            if first in copied or not is_view(op):
                copied.add(result)
        elif op.name() == "builtin.combine":
            lists[op.results()[0].id] = op.operands_source()
        else:
            # The program changes them itself.
            changed.update(value.id for value in written(op))
    sources = [source_of(value) for value in outputs]
    for value, source in zip(outputs, sources, strict=True):
        roots[value.id] = roots.setdefault(source, source)
    read, computed_from = set(), set()
    for op in operations[start:]:
        name = op.name()
        if name == ASSIGN or shares_count(op):
            # Views of inputs are made again: what reads them reads those.
            source, *others = op.operands_source()
            if source.id in roots:
                roots[op.results()[0].id] = roots[source.id]
            read.update(roots[value.id] for value in others if value.initialized() and value.id in roots)
        elif name != "pd_op.pylayer" and not op.has_attr(UNVERSIONED):
            # Eager mode does not look after what a PyLayer keeps, or `recompute`: neither compares
            # versions.
            _add(op, roots, lists, read)
            if name in REGIONS:
                inside = list(inner_operations(op))
                for inner in inside:
                    _add(inner, roots, lists, read)
                for inner in used(inside):
                    if not is_gradient(inner):
                        _add(inner, roots, lists, computed_from)
    given = {value.id for value in inputs}
    uncounted, ever = set(), computed_from | _kept_by_kernels(operations[:forward_end], roots, lists, given)
    if any(op.name() in REGIONS for op in operations[:forward_end]):
        uncounted, others = read_again(operations, forward_end, start, given, given.union(sources))
        uncounted |= from_control_flow(operations[:forward_end]).intersection(sources)
        ever |= others
    again = {**dict.fromkeys(uncounted, False), **dict.fromkeys(ever, True)}
    return (
        [at for at, value in enumerate(inputs) if value.id in read and value.id not in changed],
        [
            at
            for at, source in enumerate(sources)
            if roots[source] in read and (roots[source] not in given or source in copied)
        ],
        [(at, again[value.id]) for at, value in enumerate(inputs) if value.id in again and value.id not in changed],
        [(at, again[source]) for at, source in enumerate(sources) if source in again and source not in given],
    )


def _kept_by_kernels(operations, roots, lists, given):
    """What the gradient of `einsum` finds in a cache of its kernel, not where it is now: outputs, and views of inputs.

    In eager mode the cache may be in their storage, and nothing compares versions.
    """
    kept = set()
    for op in operations:
        if op.name() == "pd_op.einsum":
            parts = [part.id for part in lists.get(op.operand_source(0).id, ()) if part.id in roots]
            kept.update(roots[part] for part in parts if roots[part] not in given or part not in given)
    return kept


def source_of(value):
    """What an output is a copy of."""
    op = value.get_defining_op()
    return op.operand_source(0).id if op.name() == ASSIGN else value.id


def _add(op, roots, lists, read):
    if op.name() == "builtin.combine":
        lists[op.results()[0].id] = op.operands_source()

    def found(value):
        return {roots[part.id] for part in lists.get(value.id, (value,)) if part.initialized() and part.id in roots}

    for value in reads(op, found):
        read |= found(value)
