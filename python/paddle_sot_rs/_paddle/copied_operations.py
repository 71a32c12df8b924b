"""Copies of operations without blocks of their own, which take other values than these do."""

from paddle.base.libpaddle import pir

_OPTIONS = pir.CloneOptions(False, True, True)


def copied(op, mapping):
    """A copy where operations are inserted now; `mapping` learns of its results."""
    return op.clone(mapping, _OPTIONS)


def all_copied(operations, replaced):
    """Copies of operations in their order. `replaced`: pairs of a value that they take, and what the copies take."""
    mapping = pir.IrMapping()
    for old, new in replaced:
        mapping.add(old, new)
    return [copied(op, mapping) for op in operations]
