"""Operator fusion of linear layers: a product with a weight and the bias behind it become one `fc`.

Its kernel calls the same routine of the BLAS and adds the bias to each row, so that results are those of eager mode
to the last bit. With an activation it would not be: `fc` makes numbers of what is none.
"""

import paddle
from paddle import _C_ops
from paddle.base.libpaddle import pir

from paddle_sot_rs._paddle.copied_operations import all_copied
from paddle_sot_rs._paddle.effects import written
from paddle_sot_rs._paddle.value_patches import raw_dims

_PRODUCT, _SUM, _GRADIENT = "pd_op.matmul", "pd_op.add", "pd_op.add_grad"
# Those that the kernel is there for.
_DTYPES = (paddle.float32, paddle.float64)


class Fusion:
    """Fuses the linear layers of blocks."""

    def __init__(self):
        # What fused values became, by their ids.
        self.became = {}
        # The operation that the others of its kind are copies of: appending one takes much longer.
        self._first = {}

    def block(self, block, end=None):
        """Fuses those in front of the operation at `end`; the answer is how many there were."""
        count, operations = 0, block.ops[:end]
        writes = [at for at, op in enumerate(operations) if _writes(op)]
        places = {op.id(): at for at, op in enumerate(operations)} if writes else {}
        # Sums that are fused are gone: who asks one of those for its name reads freed memory.
        for op in [op for op in operations if op.name() == _PRODUCT]:
            if (addition := _addition(op)) is not None:
                # The product moves to the sum: a step may write what it takes before that.
                behind = places.get(addition.id(), len(operations))
                if any(places[op.id()] < at < behind for at in writes):
                    continue
                self._fuse(block, op, addition)
                count += 1
        if count:
            pir.set_insertion_point_to_block_end(block)
        return count

    def _fuse(self, block, product, addition):
        (value, weight), bias = product.operands_source(), addition.operand_source(1)
        result = addition.result(0)
        pir.set_insertion_point(addition)
        # A copy takes one value where the first took one: a product with itself is another kind.
        kind = (value.id == weight.id, str(value.dtype), *raw_dims(result))
        if kind in self._first:
            first = self._first[kind]
            replaced = zip(first.operands_source(), (value, weight, bias), strict=True)
            fused = all_copied([first], replaced)[0].result(0)
        else:
            fused = _C_ops.fc(value, weight, bias, len(raw_dims(value)) - 1, "", False)
            self._first[kind] = fused.get_defining_op()
        fused.stop_gradient = result.stop_gradient
        for use in product.result(0).all_used_ops():
            if use.name() == _GRADIENT:
                # It reads the shape alone, and the sum has the same.
                use.operand(0).set_source(fused)
        result.replace_all_uses_with(fused)
        self.became[result.id] = fused
        block.remove_op(addition)
        block.remove_op(product)


def _writes(op):
    """Whether it writes to what may be a value or a weight: running statistics have one dim."""
    return any(len(raw_dims(value)) > 1 for value in written(op))


def _addition(product):
    """The sum with a bias that alone reads a product with a weight; None where there is no such thing."""
    value, weight = product.operands_source()
    made = product.result(0)
    attributes = product.attrs()
    if attributes["transpose_x"] or attributes["transpose_y"] or value.dtype not in _DTYPES:
        return None
    dims, given = raw_dims(weight), raw_dims(value)
    # Without numbers in the weight the kernel ends the process, and an open depth it refuses.
    if len(dims) != 2 or min(dims) < 1 or len(given) < 2 or given[-1] != dims[0]:
        return None
    found = None
    for use in made.all_used_ops():
        if use.name() == _SUM and found is None and use.operand_source(0).id == made.id:
            found = use
        elif use.name() != _GRADIENT or use.operand_source(0).id != made.id or use.operand_source(1).id == made.id:
            return None
    if found is None or found.get_parent_block() is not product.get_parent_block():
        return None
    bias = found.operand_source(1)
    fits = raw_dims(bias) == dims[1:] and value.dtype == weight.dtype == bias.dtype == found.result(0).dtype
    return found if fits else None
