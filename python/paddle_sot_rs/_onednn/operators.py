"""Operators that Paddle's passes for oneDNN know, and what these join wrongly."""

from __future__ import annotations

from typing import Any

# They ask for no more than the name.
KNOWN = frozenset(
    """
    abs add add_n batch_norm bilinear_interp cast clip concat conv2d conv2d_transpose
    conv2d_transpose_bias conv3d depthwise_conv2d divide elu exp fc flatten full fusion_gru
    gaussian gelu hardswish layer_norm leaky_relu log_softmax lrn matmul matmul_with_flatten max
    mean min mish multiply nearest_interp pad pad3d pool2d prelu prior_box relu relu6 reshape
    round scale shape sigmoid slice softmax softplus split split_with_num sqrt squeeze stack
    subtract sum swish tanh transpose unsqueeze
    """.split()
)
# What the passes join to the operation in front of it.
ACTIVATIONS = frozenset(
    """
    abs clip elu gelu hardsigmoid hardswish leaky_relu mish relu relu6 scale sigmoid silu softplus sqrt swish tanh
    """.split()
)


def _name(op: Any) -> str:
    return str(op.name()).removeprefix("pd_op.").removesuffix("_")


def _maker(op: Any) -> Any:
    """The operation that made the first operand, None where that is an input of a block."""
    return op.operand_source(0).get_defining_op() if op.num_operands() else None


def ends_a_product(op: Any) -> bool:
    """Whether it reads a product, or the sum of one and something else."""
    maker = _maker(op)
    if maker is not None and _name(maker) == "add":
        makers = (value.get_defining_op() for value in maker.operands_source())
        return any(it is not None and _name(it) == "matmul" for it in makers)
    return maker is not None and _name(maker) == "matmul"


def activates_again(op: Any) -> bool:
    """Whether it is the second activation behind a product: the passes give that one of them."""
    maker = _maker(op)
    if maker is None or not {_name(op), _name(maker)} <= ACTIVATIONS:
        return False
    return ends_a_product(maker)
