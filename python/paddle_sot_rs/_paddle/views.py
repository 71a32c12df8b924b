"""Which operations make views in eager mode.

They share storage with their first operand, and the count of changes; where they have to copy, the count alone.
"""

from paddle_sot_rs._core import operators

VIEWS = frozenset(f"pd_op.{name}" for name in operators("view"))

# What copies, and what `detach` is.
ASSIGN = "pd_op.assign"

# They take apart the lists that some of them make.
PARTS = ("builtin.split", "builtin.slice")

# An attribute of one that is a view in eager mode (`detach`).
SHARES = "sot_shares"
# An attribute of one of the above whose result has storage of its own there (see `strides.py`).
COPIES = "sot_copies"


def shares_count(op):
    """Whether changes in place of its result and of its first operand are counted together."""
    name = op.name()
    return name in VIEWS or name == ASSIGN and op.has_attr(SHARES)


def is_view(op):
    """Whether its result is in the storage of its first operand."""
    return shares_count(op) and not op.has_attr(COPIES)
