"""Which operations of a gradient need numbers, and of which operands; and what operations write."""

from paddle_sot_rs._backward import REGIONS

# They look at dims and dtype, and Paddle does not say so.
DESCRIBE = frozenset(f"pd_op.{name}" for name in ("shape", "shape64", "full_like", "empty_like"))


def used(operations):
    """Those whose numbers go somewhere: many gradients take no more than the dims of what was computed."""
    needed = set()
    for op in reversed(operations):
        name, results = op.name(), op.results()
        if results and name not in REGIONS and not any(value.id in needed for value in results):
            continue
        yield op
        if name not in DESCRIBE:
            whole = name == "builtin.combine"
            values = (value for value in op.operands_source() if value.initialized())
            needed.update(value.id for value in values if whole or not op.is_no_need_buffer(value))


def reads(op, matters):
    """Those of the operands that `matters` says yes to whose numbers the operation needs.

    Those of lists are read by the operation that takes the list.
    """
    name = op.name()
    if name == "builtin.combine" or name in DESCRIBE:
        return []
    operands = (value for value in op.operands_source() if value.initialized() and matters(value))
    return [value for value in operands if not op.is_no_need_buffer(value)]


_NORMALIZATIONS = ("pd_op.batch_norm_", "pd_op.sync_batch_norm_")
# Operands that an operation in place writes, where that is not the first: running statistics.
_WRITTEN = {**dict.fromkeys(_NORMALIZATIONS, (1, 2)), "pd_op.assign_out_": (1,), "pd_op.share_data_": ()}


def written(op):
    """The operands that an operation in place writes."""
    name = op.name()
    if not name.endswith("_"):
        return []
    operands = op.operands_source()
    return [operands[at] for at in _WRITTEN.get(name, (0,)) if operands[at].initialized()]


def reads_statistics(op):
    """Whether this is a normalization by running statistics, which leaves them as they are."""
    if op.name() not in _NORMALIZATIONS:
        return False
    attributes = op.attrs()
    return attributes["is_test"] and not attributes["trainable_statistics"]
