"""What is known of the shapes of a program with open dims."""

from __future__ import annotations

from typing import Any

import paddle

from paddle_sot_rs._paddle.constants import CONSTANTS, DATA
from paddle_sot_rs._paddle.gradients.backward import blocks_of, with_inner

from .operators import sliced_axes

# Inputs of which nothing is known, by the ids of values.
Unknown = frozenset[int]

_LISTS = frozenset({"builtin.combine", "builtin.split"})
# Results have items where all operands have some.
# Their dims follow from those of operands and from constants.
_PLAIN = """
abs add add_n assign batch_norm cast clip concat conv2d conv3d depthwise_conv2d divide dropout elu exp flatten gelu
hardsigmoid hardswish layer_norm leaky_relu log log_softmax matmul max maximum mean memcpy min minimum mish multiply
pool2d pow prelu relu relu6 reshape round rsqrt scale sigmoid silu softmax softplus split_with_num sqrt square squeeze
stack subtract sum swish tanh transpose unsqueeze
""".split()
_FILLED = _LISTS | {f"pd_op.{name}" for name in (*_PLAIN, "embedding", "where")}
_FOLLOWING = _LISTS | {f"pd_op.{name}" for name in (*_PLAIN, "bilinear_interp", "nearest_interp", "split")}


def _name(op: Any) -> str:
    return str(op.name()).removesuffix("_")


def _is_there(value: Any) -> bool:
    return bool(value.initialized())


def _is_closed(value: Any) -> bool:
    return value.is_dense_tensor_type() and all(dim > 0 for dim in value.shape)


def _is_open(value: Any) -> bool:
    """Whether it is a list, or nothing that is known says that it is empty."""
    return not value.is_dense_tensor_type() or 0 not in value.shape


def _parts(value: Any) -> list[Any]:
    """The items of a list, where the program takes it apart."""
    if not value.initialized() or value.is_dense_tensor_type():
        return []
    return [part for op in value.all_used_ops() if op.name() == "builtin.split" for part in op.results()]


def _closed_arguments(op: Any) -> set[int]:
    """The ids of closed arguments of its blocks."""
    return {value.id for block in blocks_of(op) for value in block.args() if value.initialized() and _is_closed(value)}


def _is_known(op: Any, unknown: Unknown) -> bool:
    """Whether it is an input that a call says the shape of."""
    return op.name() == DATA and op.result(0).id not in unknown


def _is_constant(value: Any) -> bool:
    # An argument of a block is made by no operation.
    maker = value.get_defining_op()
    return maker is not None and maker.name() in CONSTANTS


def _cuts_closed_dims(op: Any) -> bool:
    if op.name() != "pd_op.slice":
        return False
    shape = op.operand_source(0).shape
    return all(shape[axis] >= 0 for axis in sliced_axes(op))


def filled(block: Any, unknown: Unknown = frozenset()) -> set[int]:
    """The ids of values that have items in every call whose inputs have."""
    found: set[int] = set()
    for op in with_inner(block.ops):
        found |= _closed_arguments(op)
        operands = [value for value in op.operands_source() if value.initialized()]
        fills = _is_known(op, unknown) or (
            (_name(op) in _FILLED or _cuts_closed_dims(op)) and all(value.id in found for value in operands)
        )
        # Axes and sizes: an empty one says that nothing is asked for.
        is_asked = op.name() == "pd_op.full_int_array"
        for value in filter(_is_there, op.results()):
            parts = _parts(value)
            is_closed = all(map(_is_closed, parts)) if parts else _is_closed(value)
            if is_asked or is_closed or (fills and all(map(_is_open, (value, *parts)))):
                found.add(value.id)
    return found


def _says_dims(value: Any) -> bool:
    """Whether numbers in a tensor could be the dims of another."""
    return value.is_dense_tensor_type() and value.dtype != paddle.float32


def following(block: Any, unknown: Unknown = frozenset()) -> set[int]:
    """The ids of values whose dims are known when those of the inputs are: numbers in tensors have no say."""
    found: set[int] = set()
    for op in with_inner(block.ops):
        found |= _closed_arguments(op)
        operands = [value for value in op.operands_source() if value.initialized()]
        follows = _is_known(op, unknown) or op.name() in CONSTANTS
        if not follows and (_name(op) in _FOLLOWING or _cuts_closed_dims(op)):
            is_constant = (_is_constant(value) for value in operands)
            pairs = zip(operands, is_constant, strict=True)
            follows = all(constant or (value.id in found and not _says_dims(value)) for value, constant in pairs)
        for value in op.results():
            if value.initialized() and (follows or _is_closed(value)):
                found.add(value.id)
    return found
