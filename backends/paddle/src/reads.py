"""What a backward part reads of tensors that anyone can change: inputs and outputs of the program, and views of them.

Eager mode counts changes in place, and its gradients refuse a tensor that was changed after it was kept for them.
"""

from paddle_sot_rs._backward import REGIONS, UNVERSIONED, inner_operations, is_view

# They look at dims and dtype, and Paddle does not say so.
_DESCRIBE = frozenset(f"pd_op.{name}" for name in ("shape", "shape64", "full_like", "empty_like"))


def read_back(operations, forward_end, start, inputs, outputs):
    """Positions among `inputs` and among `outputs` of those whose numbers the operations from `start` on read.

    Then those of inputs that branches and loops are computed again from: what that makes, eager mode has kept.
    """
    # The value whose storage another one is a view of, or of which it is a copy, for values of interest.
    roots = {value.id: value.id for value in inputs}
    lists = {}
    written = set()
    for op in operations[:forward_end]:
        name = op.name()
        if is_view(op):
            first = op.operand_source(0).id
            roots[op.results()[0].id] = roots.setdefault(first, first)
        elif name == "builtin.combine":
            lists[op.results()[0].id] = op.operands_source()
        elif name.endswith("_"):
            # Running statistics: the program changes them itself.
            written.update(value.id for value in op.operands_source() if value.initialized())
    sources = [_source(value) for value in outputs]
    for value, source in zip(outputs, sources, strict=True):
        roots[value.id] = roots.setdefault(source, source)
    read, computed_from = set(), set()
    for op in operations[start:]:
        name = op.name()
        if name == "pd_op.assign":
            source = op.operand_source(0).id
            if source in roots:
                roots[op.results()[0].id] = roots[source]
        elif name != "pd_op.pylayer" and not op.has_attr(UNVERSIONED):
            # Eager mode does not look after what a PyLayer keeps, or `recompute`: neither compares versions.
            _add(op, roots, lists, read)
            if name in REGIONS:
                inside = list(inner_operations(op))
                for inner in inside:
                    _add(inner, roots, lists, read)
                for inner in _used(inside):
                    if not inner.name().endswith("_grad"):
                        _add(inner, roots, lists, computed_from)
    given = {value.id for value in inputs}
    return (
        [at for at, value in enumerate(inputs) if value.id in read and value.id not in written],
        [at for at, source in enumerate(sources) if roots[source] in read and roots[source] not in given],
        [at for at, value in enumerate(inputs) if value.id in computed_from and value.id not in written],
    )


def _used(operations):
    """Those whose numbers go somewhere: many gradients take no more than the dims of what was computed."""
    needed = set()
    for op in reversed(operations):
        name, results = op.name(), op.results()
        if results and name not in REGIONS and not any(value.id in needed for value in results):
            continue
        yield op
        if name not in _DESCRIBE:
            whole = name == "builtin.combine"
            values = (value for value in op.operands_source() if value.initialized())
            needed.update(value.id for value in values if whole or not op.is_no_need_buffer(value))


def _source(value):
    """What an output is a copy of."""
    op = value.get_defining_op()
    return op.operand_source(0).id if op.name() == "pd_op.assign" else value.id


def _add(op, roots, lists, read):
    name = op.name()
    if name == "builtin.combine":
        lists[op.results()[0].id] = op.operands_source()
    if name == "builtin.combine" or name in _DESCRIBE:
        return
    for value in op.operands_source():
        if not value.initialized():
            continue
        found = {roots[part.id] for part in lists.get(value.id, (value,)) if part.initialized() and part.id in roots}
        if found and not op.is_no_need_buffer(value):
            read |= found
