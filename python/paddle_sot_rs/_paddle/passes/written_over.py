"""What oneDNN has made that another operation would write over, though it is used again."""

import paddle
from paddle import _C_ops

from paddle_sot_rs._onednn.operators import ACTIVATIONS, KNOWN, plain_name
from paddle_sot_rs._paddle.gradients.backward import blocks_of, with_inner
from paddle_sot_rs._paddle.passes.python_numbers import described

_ONEDNN = (paddle.float32, paddle.bfloat16)
# What their operands are safe from: of kernels of oneDNN one writes over what is divided.
_KEEPS = KNOWN - set("divide divide_".split())


def written_over_once_more(block, outputs):
    """The operations whose results may be written over by what uses them, where those are used more than once.

    What oneDNN has made in plain layout is handed on without a copy, to each as if to the only one.
    """
    candidates = [op for op in with_inner(block.ops) if any(map(_is_written, _tensors(op)))]
    if not candidates:
        return set()
    alike, found = {}, set()
    _find_alike(block, {}, {}, alike)
    for op in candidates:
        group = alike.get(op.id(), [op])
        for at in range(op.num_results()):
            values = [one.result(at) for one in group if one.result(at).initialized()]
            if sum(_uses(value) + (value.id in outputs) for value in values) > 1:
                found.update(one.id() for one in group)
    return found


def _uses(value):
    """How often a value is used: in a block of an operation, which may be a loop, any number of times."""
    home = value.get_defining_op().get_parent_block()
    return sum(1 if user.get_parent_block() is home else 2 for user in value.all_used_ops())


def made_by(op):
    return [value for value in op.results() if value.initialized() and value.is_dense_tensor_type()]


def _tensors(op):
    """The tensors that a kernel of oneDNN makes, alone or in a list. A cast makes those of other dtypes too."""
    maker = op.operand_source(0).get_defining_op() if op.name() == "builtin.split" else op
    if maker is None or plain_name(maker) not in KNOWN | ACTIVATIONS:
        return []
    return made_by(op)


def _find_alike(block, groups, first, found):
    """By operation, those that compute the same: a pass leaves the first of them, also of what a block around has."""
    for op in block.ops:
        for inner in blocks_of(op):
            _find_alike(inner, dict(groups), first, found)
        if op.num_regions() or not op.num_results():
            continue
        operands = tuple(first.get(value.id, value.id) for value in op.operands_source() if value.initialized())
        group = groups.setdefault((described(op), operands), [])
        group.append(op)
        found[op.id()] = group
        for value, same in zip(op.results(), group[0].results(), strict=True):
            first[value.id] = same.id


def _is_written(value):
    """Whether what uses it may write over it: an operation with such a form whose kernel is none of oneDNN's, or the
    one of these that does so too.
    """
    names = (plain_name(user) for user in value.all_used_ops())
    keeps = _KEEPS if value.dtype in _ONEDNN else ()
    return any(name not in keeps and hasattr(_C_ops, f"{name}_") for name in names)
