"""Whether a program that was put onto oneDNN computes what eager mode does.

Paddle's passes and kernels for oneDNN have faults that depend on what stands next to what. Each program runs twice
when it is made, beside eager mode: with the tensors that it is made for, and with others, which shows what kernels
keep from a first run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import paddle

# How far a number may be from eager mode's, to the largest of its tensor: rounding is far below,
# and what is read in another layout, or added twice, far above.
_ROUNDING = 1e-2
# The same in formats of 16 bits.
_ROUNDING_OF_HALVES = 0.2
_HALVES = (paddle.float16, paddle.bfloat16)
# So many whole numbers may differ: ties are decided by rounding.
_MOST_WHOLE = 0.25


def _is_made_up(tensor: Any) -> bool:
    """Whether it has no numbers of the caller's: parts of graphs are made for what is not there yet."""
    return tensor.size > 0 and not bool(tensor.astype("bool").any())


def _random(tensor: Any, state: numpy.random.RandomState) -> Any:
    numbers = state.standard_normal(tensor.shape).astype("float32")
    return paddle.to_tensor(numpy.asarray(numbers)).astype(tensor.dtype)


def inputs(tensors: Sequence[Any]) -> list[list[Any]]:
    """The inputs of two runs. Weights and whole numbers are the same in both."""
    state = numpy.random.RandomState(0)
    first, second = [], []
    for tensor in tensors:
        if tensor.persistable or not tensor.is_floating_point():
            one = other = tensor
        else:
            one = _random(tensor, state) if _is_made_up(tensor) else tensor
            # The numbers that there are, elsewhere: they stay in the domain of what is computed.
            other = one.flatten().flip(0).reshape(one.shape)
        first.append(one)
        second.append(other)
    return [first, second]


def _numbers(tensor: Any) -> Any:
    return (tensor.astype("float32") if tensor.dtype in _HALVES else tensor).numpy()


def difference(found: Sequence[Any], wanted: Sequence[Any], in_bfloat16: bool) -> str | None:
    """What is otherwise in results of a program than in eager mode's; None where nothing is."""
    for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"result {at} is {one.dtype} of {one.shape}, in eager mode {other.dtype} of {other.shape}"
        got, want = _numbers(one), _numbers(other)
        if not (other.is_floating_point() or other.is_complex()):
            if want.size and (got != want).mean() > _MOST_WHOLE:
                return f"{(got != want).mean():.0%} of result {at} are other numbers"
            continue
        counts = numpy.isfinite(want)
        largest = numpy.abs(want, where=counts, out=numpy.zeros(want.shape, "float64")).max(initial=0.0)
        off = numpy.abs(numpy.where(counts, got, 0) - numpy.where(counts, want, 0)).max(initial=0.0)
        allowed = _ROUNDING_OF_HALVES if in_bfloat16 or other.dtype in _HALVES else _ROUNDING
        # What is no number here is one in eager mode.
        if not off <= allowed * largest + 1e-6:
            return f"result {at} is off by {off:.2g}, where its largest number is {largest:.2g}"
    return None
