"""Which open dims of a program are the same number in every call."""

from __future__ import annotations

from typing import Any

from .operators import TURNED

# Dims of a result are those of the first operand.
_KEEPS = frozenset(
    f"pd_op.{name}"
    for name in """
    abs assign batch_norm clip dropout elu exp gelu hardsigmoid hardswish leaky_relu log log_softmax memcpy mish pow
    prelu relu relu6 round rsqrt scale sigmoid silu softmax softplus sqrt square swish tanh
    """.split()
)
_OF_TWO = frozenset(f"pd_op.{name}" for name in "add divide maximum minimum multiply subtract".split())
_PRODUCT = "pd_op.matmul"
CONVOLUTIONS = ("pd_op.conv2d", "pd_op.depthwise_conv2d")
# Channels come first.
LAYOUTS = ("NCHW", "AnyLayout")

# A number, or what an open one is computed from: equal ones are the same number.
Dim = int | tuple[Any, ...]


def equal_dims(block: Any) -> dict[int, list[Dim]]:
    """The dims of tensors, by the ids of values."""
    found: dict[int, list[Dim]] = {}
    for op in block.ops:
        known = _computed(op, found)
        for value in op.results():
            if value.initialized() and value.is_dense_tensor_type():
                sizes = list(value.shape)
                # Other results than the first are of shapes of their own.
                if known is None or len(known) != len(sizes):
                    known = [None] * len(sizes)
                pairs = enumerate(zip(sizes, known, strict=True))
                found[value.id] = [size if size >= 0 else of or (value.id, axis) for axis, (size, of) in pairs]
            known = None
    return found


def _computed(op: Any, found: dict[int, list[Dim]]) -> list[Any] | None:
    """What the dims of an operation's first result are computed from; None where nothing is known."""
    name = op.name().removesuffix("_")
    if name not in _KEEPS and name not in _OF_TWO and name not in CONVOLUTIONS and name != _PRODUCT:
        return None
    given: list[Any] = [found.get(value.id) for value in op.operands_source()[:2] if value.initialized()]
    if name in _OF_TWO and None not in given:
        return list(map(_broadcast, *given)) if len(given[0]) == len(given[1]) else None
    if given[0] is None or name in _KEEPS:
        return given[0]
    if name == _PRODUCT:
        return _multiplied(op, *given)
    return _convolved(op, given[0]) if name in CONVOLUTIONS else None


def _broadcast(left: Dim, right: Dim) -> Dim | None:
    if left == right or right == 1:
        return left
    return right if left == 1 else None


def _multiplied(op: Any, left: list[Dim], right: list[Dim] | None) -> list[Any] | None:
    """Those of a product of matrices with one matrix, or with as many."""
    asked = op.attrs()
    if right is None or min(len(left), len(right)) < 2 or asked[TURNED[0]]:
        return None
    if len(right) > 2 and right[:-2] != left[:-2]:
        return None
    return [*left[:-1], right[-2 if asked[TURNED[1]] else -1]]


def _convolved(op: Any, given: list[Dim]) -> list[Any] | None:
    asked = op.attrs()
    if asked["padding_algorithm"] != "EXPLICIT" or asked["data_format"] not in LAYOUTS:
        return None
    paddings, strides, dilations = (asked[name] for name in "paddings strides dilations".split())
    if len(paddings) == 2:
        paddings = [padding for padding in paddings for _ in range(2)]
    kernel = op.operand_source(1).shape[2:]
    made: list[Any] = [given[0], None]
    for axis, size in enumerate(kernel):
        added = paddings[2 * axis] + paddings[2 * axis + 1] - (dilations[axis] * (size - 1) + 1)
        stride = strides[axis]
        # A result of (dim + added) // stride + 1.
        dim = given[2 + axis]
        made.append(dim if (added, stride) == (-1, 1) else ("convolved", dim, added, stride))
    return made
