"""What operations do besides giving results: they draw random numbers, or write what they are given."""

from paddle_sot_rs._core import operators
from paddle_sot_rs._paddle.gradients.backward import with_inner

# Operations that draw random numbers, some of them where an attribute says so only.
_RANDOM = frozenset(f"pd_op.{name}" for name in operators("draws"))


def first_random(operations):
    """The name of the first of them, or in their blocks, that draws random numbers; None if none does."""
    return next((op.name() for op in with_inner(operations) if _is_random(op)), None)


def _is_random(op):
    name = op.name()
    if name in ("pd_op.rnn", "pd_op.cudnn_lstm"):
        # Between its layers.
        attributes = op.attrs()
        return attributes["dropout_prob"] != 0 and not attributes["is_test"]
    # In inference `dropout` and `rrelu` compute with what they expect.
    return name in _RANDOM and not op.attrs().get("is_test", False)


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
    return attributes["use_global_stats"] or attributes["is_test"] and not attributes["trainable_statistics"]


def has_effects(operations):
    """Whether running them once more would draw other numbers, or write what they are given again."""
    if first_random(operations) is not None:
        return True
    return any(written(op) and not reads_statistics(op) for op in with_inner(operations))
