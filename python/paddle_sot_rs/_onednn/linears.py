"""Products with a weight, with the bias and the activation behind them. Their kernel keeps the weight in
oneDNN's layout from call to call, as those of convolutions do.
"""

from __future__ import annotations

from typing import Any

from paddle_sot_rs._paddle.gradients.backward import with_inner

from .convolutions import is_closed_float, only_user, other_operand
from .masks import Masks, can_hide
from .passes import run_passes

_PRODUCT = "pd_op.matmul"
_PASSES = ("matmul_add_act_fuse_pass", "fc_onednn_enable_pass", "fc_activation_fuse_pass")


def _bias_of(op: Any, steady: set[int]) -> Any:
    """The bias behind a product with a weight; None where there is no such thing."""
    value, weight = op.operands_source()
    attributes = op.attrs()
    if attributes["transpose_x"] or attributes["transpose_y"] or weight.id not in steady:
        return None
    if not all(map(is_closed_float, (value, weight))) or len(value.shape) < 2 or len(weight.shape) != 2:
        return None
    addition = only_user(op.result(0))
    if addition is None or addition.name() != "pd_op.add":
        return None
    bias = other_operand(addition, op.result(0))
    is_bias = is_closed_float(bias) and bias.id in steady and list(bias.shape) == [weight.shape[1]]
    return bias if is_bias else None


def kept_by_linears(block: Any, steady: set[int]) -> list[Any]:
    """Weights and biases that products will keep, if they are set apart."""
    kept = []
    for op in with_inner(block.ops):
        if op.name() == _PRODUCT and (bias := _bias_of(op, steady)) is not None:
            kept += [op.operand_source(1), bias]
    return kept


def fuse_linears(program: Any, weights: list[Any]) -> None:
    """Fuses the products whose weights and biases are among these."""
    steady = {value.id for value in weights}
    products = [op for op in program.global_block().ops if op.name() == _PRODUCT]
    others = [op for op in products if _bias_of(op, steady) is None]
    if len(others) == len(products) or not all(map(can_hide, others)):
        return
    masks = Masks(program, others, "sot_product_")
    run_passes(program, _PASSES)
    masks.show()
