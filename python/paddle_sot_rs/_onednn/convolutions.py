"""Convolutions of inference with what follows them: batch norms folded, biases, sums and activations fused.

A fused convolution keeps its filter and bias in oneDNN's layout from call to call: both are steady,
and `Steady` says when they have changed.
"""

from __future__ import annotations

from typing import Any

import paddle
from paddle import _C_ops
from paddle.base.libpaddle import pir

from paddle_sot_rs._paddle import programs
from paddle_sot_rs._paddle.gradients.backward import with_inner

from .equal_dims import CONVOLUTIONS, LAYOUTS, equal_dims
from .masks import Masks
from .open_shapes import Unknown, filled, following
from .passes import cloned, run_passes, stand_in
from .steady import steady_values

CONVOLVES = frozenset("conv2d conv3d depthwise_conv2d".split())
_PLACED = frozenset(f"onednn_op.{name}" for name in CONVOLVES)
_TRANSPOSED = "pd_op.conv2d_transpose"
_BATCH_NORMS = ("pd_op.batch_norm", "pd_op.batch_norm_")
# Activations that the fused kernel has; Paddle's pass says with which numbers.
_ACTIVATIONS = frozenset(
    f"pd_op.{name}" for name in "relu relu6 hardswish swish sigmoid tanh hardsigmoid mish gelu".split()
)
_PASSES = ("depthwise_conv_onednn_pass", "conv_activation_onednn_fuse_pass")
_FILTER = "sot_f"
_RESIDUAL = "sot_residual_"


def _users(value: Any) -> list[Any]:
    return value.all_used_ops() if value.initialized() else []


def only_user(value: Any) -> Any:
    """The operation that alone reads a value, once, in the block where it is made."""
    if not value.initialized() or not value.has_one_use():
        return None
    maker, user = value.get_defining_op(), _users(value)[0]
    return user if maker is not None and maker.get_parent_block() is user.get_parent_block() else None


def _is_float(value: Any) -> bool:
    return value.initialized() and value.is_dense_tensor_type() and value.dtype == paddle.float32


def is_closed_float(value: Any) -> bool:
    """Whether it is a float32 tensor with elements whose dims are known."""
    return _is_float(value) and all(dim > 0 for dim in value.shape)


def convolutions(block: Any, steady: set[int], unknown: Unknown = frozenset()) -> list[Any]:
    """Convolutions whose filters can be kept: inputs alone, but for those that are unknown, say which shapes they
    meet.
    """
    known = following(block, unknown) & filled(block, unknown)
    return [op for op in with_inner(block.ops) if _fits(op, steady, known)]


def transposed(block: Any, steady: set[int]) -> list[Any]:
    """Transposed convolutions whose filters can be kept. Placed, they always keep them."""
    found = [op for op in with_inner(block.ops) if op.name() == _TRANSPOSED and op.operand_source(1).id in steady]
    return [op for op in found if all(map(is_closed_float, op.operands_source()[:2]))]


def _fits(op: Any, steady: set[int], known: set[int]) -> bool:
    if op.name() not in CONVOLUTIONS or op.attrs()["data_format"] not in LAYOUTS:
        return False
    given, weight = op.operands_source()
    return _is_float(given) and given.id in known and is_closed_float(weight) and weight.id in steady


def other_operand(op: Any, value: Any) -> Any:
    """The other operand of one that has two."""
    left, right = op.operands_source()
    return right if left.id == value.id else left


def _is_bias(value: Any, steady: set[int], channels: int) -> bool:
    """Whether it is a number for each channel."""
    return _is_float(value) and value.id in steady and list(value.shape) == [1, channels, 1, 1]


def _bias_behind(value: Any, steady: set[int]) -> Any:
    """The addition of a bias that alone reads a value."""
    op = only_user(value)
    if op is None or op.name() != "pd_op.add" or not _is_bias(other_operand(op, value), steady, value.shape[1]):
        return None
    return op


def fold_batch_norms(block: Any, weights: list[Any]) -> None:
    """Makes a filter and a bias of those of a convolution and the batch norm behind it."""
    steady = steady_values(block, weights)
    for convolution in convolutions(block, steady):
        out = convolution.result(0)
        addition = _bias_behind(out, steady)
        norm = only_user(out if addition is None else addition.result(0))
        if norm is None or norm.name() not in _BATCH_NORMS or not _is_foldable(norm, steady):
            continue
        pir.set_insertion_point(norm)
        bias = None if addition is None else other_operand(addition, out)
        folded = _folded(convolution, bias, norm)
        norm.result(0).replace_all_uses_with(folded)
        for op in (norm, addition, convolution):
            if op is not None:
                op.get_parent_block().remove_op(op)
    pir.set_insertion_point_to_block_end(block)


def follows_the_batch(norm: Any) -> bool:
    """Whether a batch norm takes the statistics of what it is given."""
    asked = norm.attrs()
    return asked["trainable_statistics"] or not (asked["is_test"] or asked["use_global_stats"])


def _is_foldable(norm: Any, steady: set[int]) -> bool:
    if follows_the_batch(norm):
        return False
    given = [value for value in norm.operands_source()[1:] if value.initialized()]
    if norm.attrs()["data_format"] not in LAYOUTS or not all(map(_is_float, given)):
        return False
    left = [value for value in norm.results()[1:] if value.initialized()]
    return all(value.id in steady for value in given) and all(value.use_empty() for value in left)


def _folded(convolution: Any, bias: Any, norm: Any) -> Any:
    """What the norm gives, by one convolution and an addition."""
    _, mean, variance, scale, shift = norm.operands_source()
    factor = _C_ops.rsqrt(_C_ops.scale(variance, 1.0, norm.attrs()["epsilon"], True))
    if scale.initialized():
        factor = _C_ops.multiply(factor, scale)
    if bias is not None:
        mean = _C_ops.subtract(mean, _C_ops.reshape(bias, [-1]))
    moved = _C_ops.scale(_C_ops.multiply(mean, factor), -1.0, 0.0, True)
    if shift.initialized():
        moved = _C_ops.add(moved, shift)
    given, weight = convolution.operands_source()
    mapping = pir.IrMapping()
    mapping.add(given, given)
    mapping.add(weight, weight)
    scaled = _C_ops.multiply(weight, _C_ops.reshape(factor, [-1, 1, 1, 1]))
    again = cloned(convolution, mapping)
    # Not in the mapping: what it is given may be the weight, too.
    again.operand(1).set_source(scaled)
    return _C_ops.add(again.result(0), _C_ops.reshape(moved, [1, -1, 1, 1]))


def kept_by_convolutions(block: Any, steady: set[int]) -> list[Any]:
    """Filters and biases that convolutions will keep, if they are set apart."""
    kept = []
    for op in convolutions(block, steady):
        kept.append(op.operand_source(1))
        addition = _bias_behind(op.result(0), steady)
        if addition is not None:
            kept.append(other_operand(addition, op.result(0)))
    return [*kept, *(op.operand_source(1) for op in transposed(block, steady))]


class _Known:
    """What is known of a program before its convolutions are fused."""

    def __init__(self, block: Any, steady: set[int]) -> None:
        self.steady = steady
        # Of operations, by their ids.
        self.places = {op.id(): at for at, op in enumerate(block.ops)}
        self.dims = equal_dims(block)

    def are_alike(self, one: Any, other: Any) -> bool:
        """Whether two values have the same shape in every call."""
        return self.dims.get(one.id, one.id) == self.dims.get(other.id, other.id)


class _Fusion:
    """One convolution, and what it takes over."""

    def __init__(self, block: Any, number: int, convolution: Any, known: _Known) -> None:
        self.block = block
        self.bias: Any = None
        self.residual: Any = None
        self.gone = []
        out = convolution.result(0)
        addition = _bias_behind(out, known.steady)
        if addition is not None:
            self.bias = other_operand(addition, out)
            self.gone.append(addition)
            out = addition.result(0)
        addition = only_user(out)
        if addition is not None and addition.name() == "pd_op.add":
            other = other_operand(addition, out)
            if known.are_alike(out, other) and _ends_at(other, addition, known.places, convolution):
                self.residual = other
                self.gone.append(addition)
                out = addition.result(0)
        activation = only_user(out)
        self.activates = activation is not None and activation.name() in _ACTIVATIONS
        last = convolution.result(0)
        if not self.activates:
            # The pass makes no fused convolution of one alone.
            pir.set_insertion_point_after(self.gone[-1] if self.gone else convolution)
            is_silu = activation is not None and activation.name() == "pd_op.silu"
            made = _C_ops.swish(out) if is_silu else _C_ops.relu(out)
            (activation.result(0) if is_silu else out).replace_all_uses_with(made)
            if is_silu:
                self.activates = True
                self.gone.append(activation)
            activation = made.get_defining_op()
            known.places[activation.id()] = known.places[convolution.id()]
            known.dims[made.id] = known.dims[out.id]
        activation.operand(0).set_source(last)
        for op in reversed(self.gone):
            block.remove_op(op)
        # A name of its own, which the fused one is found by.
        pir.set_insertion_point(block.ops[0])
        self.weight = convolution.operand_source(1)
        self.stand_in = stand_in(f"{_FILTER}{number}", self.weight)
        convolution.operand(1).set_source(self.stand_in)

    def finish(self, residuals: dict[int, Any]) -> None:
        """Hands the fused one what it takes over. `residuals`: outputs by the ids of operations."""
        fused = only_user(self.stand_in)
        if fused is None or not fused.has_attr("fuse_activation"):
            raise NotImplementedError("a convolution that Paddle does not fuse")
        fused.operand(1).set_source(self.weight)
        self.block.remove_op(self.stand_in.get_defining_op())
        if not self.activates:
            fused.set_str_attr("fuse_activation", "")
        if self.bias is not None:
            # The convolution may stand in front of what the bias comes in by.
            _move_to_front(self.bias.get_defining_op(), self.block)
            fused.operand(2).set_source(self.bias)
        if self.residual is not None:
            fused.operand(3).set_source(residuals[self.residual].operand_source(0))
            fused.set_bool_attr("fuse_residual_connection", True)


def _move_to_front(op: Any, block: Any) -> None:
    first = block.ops[0]
    if op.id() != first.id():
        op.move_before(first)


def _ends_at(value: Any, addition: Any, places: dict[int, int], convolution: Any) -> bool:
    """Whether a sum may be written over an operand: nothing reads it, or what it shares storage with, later."""
    made = value.get_defining_op()
    shares = programs.SHARES_STORAGE
    if not _is_float(value) or made.name() in shares or made.name().endswith("_") or made.num_operands() == 0:
        return False
    # The fused one stands where the convolution does.
    here = places.get(convolution.id())
    users = [op for op in _users(value) if op.id() != addition.id()]
    if here is None or places.get(made.id(), here) >= here:
        return False
    return all(places.get(op.id(), here) < here and op.name() not in shares for op in users)


def fuse_convolutions(program: Any, weights: list[Any], unknown: Unknown) -> None:
    """Fuses convolutions whose filters are among the weights."""
    block = program.global_block()
    steady = {value.id for value in weights}
    found = convolutions(block, steady, unknown)
    if not found:
        return
    # The pass would fuse the others as well, whose filters may differ in each call.
    wanted = {op.id() for op in found}
    others = [op for op in block.ops if op.name() in CONVOLUTIONS and op.id() not in wanted]
    masks = Masks(program, others, "sot_convolution_")
    known = _Known(block, steady)
    with paddle.static.program_guard(program):
        fusions = [_Fusion(block, at, op, known) for at, op in enumerate(found)]
        pir.set_insertion_point_to_block_end(block)
        # The pass replaces what makes a residual; an output follows it.
        adding = [fusion for fusion in fusions if fusion.residual is not None]
        size = len(block.ops)
        pir.append_shadow_outputs(program, [fusion.residual for fusion in adding], size, _RESIDUAL)
        outputs = block.ops[size:]
        by_value = {op.operand_source(0).id: op.id() for op in outputs}
        for fusion in adding:
            fusion.residual = by_value[fusion.residual.id]
        run_passes(program, _PASSES)
        residuals = {op.id(): op for op in outputs}
        for fusion in fusions:
            fusion.finish(residuals)
        for op in residuals.values():
            block.remove_op(op)
    masks.show()


def let_go_of_weights(block: Any) -> None:
    """Makes placed convolutions that were not fused take their filters anew in each call.

    One of inference keeps its filter, whatever becomes of it.
    """
    for op in block.ops:
        if op.name() in _PLACED:
            op.set_bool_attr("is_test", False)
