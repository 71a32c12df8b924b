"""What kernels of oneDNN keep from the first run of a predictor: the filter of a convolution, which a batch norm behind
it becomes a part of, and the weight and the bias of a product with a sum behind it.

They are kept whether a run computes them anew or not.
"""

import paddle

from paddle_sot_rs._onednn.operators import plain_name
from paddle_sot_rs._paddle.constants import DATA
from paddle_sot_rs._paddle.effects import first_random
from paddle_sot_rs._paddle.gradients.backward import with_inner
from paddle_sot_rs._paddle.value_patches import dims

CONVOLVES = "conv2d conv3d depthwise_conv2d conv2d_transpose".split()


def kept_otherwise(block):
    """The convolutions whose filters are kept though runs differ in them, and the operations whose results are to be
    kept apart from what is computed next, for the like. They may be in inner blocks.
    """
    varying = _varying(block)
    convolutions, apart = [], []
    for op in with_inner(block.ops):
        name = plain_name(op)
        if name in CONVOLVES and op.result(0).dtype == paddle.float32 and op.operand_source(1).id in varying:
            convolutions.append(op)
        elif name in ("matmul", "scale") and _becomes_layer(op, varying):
            apart.append(op)
        elif name == "batch_norm" and any(value.id in varying for value in op.operands_source()[1:]):
            normed = op.operand_source(0).get_defining_op()
            listed = {it.id() for it in (*convolutions, *apart)}
            if normed is not None and plain_name(normed) in (*CONVOLVES, "add") and normed.id() not in listed:
                apart.append(normed)
    return convolutions, apart


def _varying(block):
    """The ids of values that may differ from run to run: made of inputs, of random numbers, or by control flow."""
    found = set()
    for op in with_inner(block.ops):
        given = [value for value in op.operands_source() if value.initialized()]
        # What comes into an inner block is made by no operation.
        differs = any(value.id in found or value.get_defining_op() is None for value in given)
        if op.name() == DATA or op.num_regions() or differs or first_random([op]):
            found.update(value.id for value in op.results() if value.initialized())
    return found


def _becomes_layer(op, varying):
    """Whether a pass makes a linear layer of a product, which may be scaled, and what is added to it, and one of its
    weights differs.
    """
    product = op
    while product is not None and plain_name(product) == "scale":
        product = product.operand_source(0).get_defining_op()
    if product is None or plain_name(product) != "matmul" or len(dims(product.operand_source(1))) != 2:
        return False
    differs = product.operand_source(1).id in varying
    added = [_other(user, op) for user in op.result(0).all_used_ops() if plain_name(user) == "add"]
    return any(_is_row(value) and (differs or value.id in varying) for value in added)


def _other(addition, op):
    left, right = addition.operands_source()
    return right if left.is_same(op.result(0)) else left


def _is_row(value):
    """Whether it has one row, which is taken for a bias."""
    return len(dims(value)) in (1, 2) and all(dim == 1 for dim in dims(value)[:-1])
