"""Which operators of a program run on oneDNN, and which are fused."""

from __future__ import annotations

import math
from typing import Any

import paddle
from paddle import _C_ops
from paddle.base import core, framework
from paddle.base.libpaddle import pir

from paddle_sot_rs._onednn.operators import (
    KNOWN,
    activates_again,
    begins_in_front,
    ends_a_product,
    grows_a_product,
    has_six_dims,
    is_cut_off,
    is_flattened_otherwise,
    is_multiplied_otherwise,
    is_typed_otherwise,
    misread,
    norms_several_dims,
    plain_name,
    pools_otherwise,
    reads_behind_the_slope,
    scales_a_quotient,
    transposes_a_column,
)
from paddle_sot_rs._paddle import programs
from paddle_sot_rs._paddle.constants import CONSTANTS, DATA
from paddle_sot_rs._paddle.effects import has_effects
from paddle_sot_rs._paddle.gradients.backward import REGIONS, with_inner
from paddle_sot_rs._paddle.kernels import is_on_cpu
from paddle_sot_rs._paddle.runnable import LAYOUT_NAMES
from paddle_sot_rs._paddle.views import ASSIGN

from .convolutions import (
    CONVOLVES,
    convolutions,
    fold_batch_norms,
    follows_the_batch,
    fuse_convolutions,
    kept_by_convolutions,
    let_go_of_weights,
    transposed,
)
from .direct_calls import DirectCalls, direct_calls
from .equal_dims import equal_dims
from .linears import fuse_linears, kept_by_linears
from .masks import Masks, can_hide
from .open_shapes import Unknown, filled, following
from .outlined import lay_out_plainly, outlined
from .outlined import refusal as refusal_of_blocks
from .passes import run_passes
from .steady import Steady, computed_once, is_open, steady_values

# Fusions in the order of Paddle's predictor. Those of convolutions are in `convolutions.py`.
# What is squeezed and transposed stays two operations: see `is_squeezed_otherwise`.
FUSIONS = (
    "matmul_scale_fuse_pass",
    "scale_matmul_fuse_pass",
    "reshape_transpose_matmul_fuse_pass",
    "matmul_transpose_reshape_fuse_pass",
    "matmul_elementwise_add_fuse_pass",
    "matmul_activation_fuse_pass",
    "fc_onednn_enable_pass",
    "self_attention_fuse_pass",
    "batch_norm_act_fuse_pass",
    "softplus_activation_fuse_pass",
    "shuffle_channel_detect_pass",
    "elementwise_act_onednn_fuse_pass",
    "operator_scale_onednn_fuse_pass",
    "operator_unsqueeze_onednn_fuse_pass",
    "operator_reshape_onednn_fuse_pass",
)
PLACEMENT = "onednn_placement_pass"
# Those of Paddle's predictor: what has such a kernel computes in bfloat16, between conversions.
_IN_BFLOAT16 = (
    "cpu_bfloat16_placement_pass",
    "cpu_bfloat16_pass",
    "cpu_bfloat16_type_placement_pass",
    "cpu_special_ops_bf16_pass",
    "cpu_bf16_quantize_squash_pass",
)
_CONVERSIONS = ("onednn_op.quantize", "onednn_op.dequantize")


def _always(op: Any) -> bool:
    return True


def _prelu(op: Any) -> bool:
    # Of six dims it raises.
    return reads_behind_the_slope(op) or has_six_dims(op)


def _transpose(op: Any) -> bool:
    return is_flattened_otherwise(op) or is_typed_otherwise(op) or is_multiplied_otherwise(op)


def _layer_norm(op: Any) -> bool:
    # A scale without a bias, or the other way round, is not looked at.
    # Of six dims, and over several, it raises.
    if norms_several_dims(op):
        return True
    return has_six_dims(op) or op.operand_source(1).initialized() != op.operand_source(2).initialized()


def _batch_norm(op: Any) -> bool:
    # Without a scale and a bias its kernel ends the process.
    return follows_the_batch(op) or not all(op.operand_source(at).initialized() for at in (3, 4))


def _makes_another_dtype(op: Any) -> bool:
    return op.result(0).dtype != op.operand_source(0).dtype


def _has_open_dims(op: Any) -> bool:
    return any(dim < 0 for dim in op.operand_source(0).shape)


# By name, where oneDNN computes something else than eager mode, ends the process or grows.
UNSAFE = dict(
    # Other random numbers.
    gaussian=_always,
    # What is no number becomes infinite.
    exp=_always,
    # What is no number is passed over.
    max=_always,
    min=_always,
    # Ends the process for some ranks, and never ends for others.
    pad=_always,
    # But for fused ones, what oneDNN makes for each shape lives as long as the program.
    conv2d=_has_open_dims,
    conv3d=_has_open_dims,
    depthwise_conv2d=_has_open_dims,
    # Where nobody sees that weights change, they keep those that they were first called with.
    conv2d_transpose=_always,
    conv2d_transpose_bias=_always,
    # Raises: Paddle cannot hand a list of doubles on to oneDNN, not even an empty one.
    bilinear_interp=_always,
    nearest_interp=_always,
    prelu=_prelu,
    # Joined to a product, its slope is taken for a float, and is a double: that ends the process.
    leaky_relu=ends_a_product,
    softplus=is_cut_off,
    slice=begins_in_front,
    pool2d=pools_otherwise,
    matmul=transposes_a_column,
    transpose=_transpose,
    # Reorders, whatever dtype is asked for.
    cast=_makes_another_dtype,
    sum=_makes_another_dtype,
    layer_norm=_layer_norm,
    # Placed, it is always the one of inference.
    batch_norm=_batch_norm,
)
# Of bytes its kernels saturate where eager mode wraps around; halves it rounds elsewhere.
_OTHERWISE = {paddle.int8, paddle.uint8, paddle.bfloat16}

_READ_NO_NUMBERS = ("shape",)

_MOST_DIMS = 6


def _layouts(block: Any) -> set[str]:
    """The layouts that operations of a program name."""
    operations = list(with_inner(block.ops))
    named = (op.attrs().get(name) for op in operations for name in LAYOUT_NAMES if op.has_attr(name))
    return {layout for layout in named if layout not in ("", "AnyLayout")}


def _has_no_kernel(op: Any) -> bool:
    """Whether it computes with another dtype than oneDNN.

    Alone it would run on Paddle's kernel. Passes join it to what follows, and for the two there is none, or one that
    forgets the second.
    """
    if not op.num_operands() or plain_name(op) in _READ_NO_NUMBERS:
        return False
    ends = (op.operand_source(0), op.result(0))
    return all(map(_is_tensor, ends)) and any(value.dtype != paddle.float32 for value in ends)


def _is_tensor(value: Any) -> bool:
    return bool(value.initialized()) and bool(value.is_dense_tensor_type())


def is_unsafe(op: Any, has_items: set[int]) -> bool:
    """Whether this operation must not be placed. `has_items`: see `filled`."""
    name = plain_name(op)
    # A pass joins it to the product, and forgets the activation between them.
    if activates_again(op):
        return True
    if name not in KNOWN:
        return False
    # Of nothing, kernels of oneDNN raise or end the process.
    values = (value for value in (*op.operands_source(), *op.results()) if value.initialized())
    if any(value.id not in has_items for value in values):
        return True
    plain = list(filter(_is_tensor, op.operands_source()))
    if any(value.dtype in _OTHERWISE for value in plain):
        return True
    # Kernels of oneDNN have no tensors without dims: they get one. Of more than six they raise.
    made = list(filter(_is_tensor, op.results()))
    if _has_no_kernel(op):
        return True
    if not all(1 <= len(value.shape) <= _MOST_DIMS for value in (*plain, *made)):
        return True
    rule = UNSAFE.get(name)
    return rule is not None and rule(op)


def _copy_in_plain_layout(block: Any) -> None:
    """`assign` copies what oneDNN has laid out as it lies, and forgets how. Products read it as it lies."""
    plain: dict[int, Any] = {}
    for op in block.ops:
        value = op.operand_source(0) if op.name() == ASSIGN else None
        if value is not None and value.is_dense_tensor_type() and value.dtype == paddle.float32:
            pir.set_insertion_point(op)
            copy = _C_ops.memcpy(value, 0)
            copy.stop_gradient = op.result(0).stop_gradient
            op.result(0).replace_all_uses_with(copy)
            block.remove_op(op)
        for at in misread(op):
            value = op.operand_source(at)
            if value.id not in plain:
                pir.set_insertion_point(op)
                plain[value.id] = _C_ops.memcpy(value, 0)
            op.operand(at).set_source(plain[value.id])
    pir.set_insertion_point_to_block_end(block)


def _register() -> None:
    """The first executor of a process makes the operators of oneDNN known."""
    program = paddle.static.Program()
    with framework._dygraph_guard(None), paddle.static.program_guard(program):
        value = _C_ops.full([1], 0.0, paddle.float32, core.Place())
        paddle.static.Executor(paddle.CPUPlace()).run(program, fetch_list=[value])


_register()


def _is_known(op: Any) -> bool:
    """Whether the passes may place it."""
    return plain_name(op) in KNOWN and op.name() not in CONSTANTS


def _small(block: Any) -> int | None:
    """The mean number of elements of results, where a program of few is better off with Paddle's kernels.

    A kernel of oneDNN costs 20 to 40 us however little it computes. Paddle's own convolutions cost more.
    """
    sizes = []
    for op in with_inner(block.ops):
        if "conv" in op.name():
            return None
        if _is_known(op):
            shape = op.result(0).shape if op.result(0).is_dense_tensor_type() else []
            if any(dim < 0 for dim in shape):
                return None
            sizes.append(math.prod(shape))
    return sum(sizes) // len(sizes) if sizes else None


# Operations that say what goes in and comes out.
_EDGES = (DATA, "builtin.shadow_output", "cf.yield")


class Placed:
    """How operators are placed, and what placement has left, by their names."""

    def __init__(self, in_bfloat16: bool) -> None:
        # Whether oneDNN computes in bfloat16 what it can.
        self.in_bfloat16 = in_bfloat16
        # Those that run on Paddle's kernels, and those whose neighbours do so too.
        self.hidden: set[str] = set()
        self.refused: set[str] = set()


def place(program: Any, weights: list[Any], unknown: Unknown, results: list[int], found: Placed) -> None:
    """Puts a program onto oneDNN, and the blocks in it, each as a program of its own.

    Args:
        program: without a backward.
        weights: inputs that its kernels may keep.
        unknown: see `filled`.
        results: see `lay_out_plainly`.
        found: where to note what is left.
    """
    block = program.global_block()
    has_items = filled(block, unknown)
    known = has_items & following(block, unknown)
    steady = {value.id for value in weights}
    blocks = outlined(program)
    for inner in blocks:
        of_outer = list(zip(inner.given, inner.outer_ids, strict=False))
        kept = [value for value, outer in of_outer if outer in steady]
        told = {value.id for value, outer in of_outer if outer in known}
        place(
            inner.program,
            kept,
            frozenset(value.id for value in inner.given if value.id not in told),
            inner.results,
            found,
        )
    _place_outermost(program, weights, unknown, has_items, found)
    lay_out_plainly(program, results)
    for inner in blocks:
        inner.show()


def _place_outermost(program: Any, weights: list[Any], unknown: Unknown, has_items: set[int], found: Placed) -> None:
    """Puts the outermost block of a program onto oneDNN."""
    block = program.global_block()
    with paddle.static.program_guard(program):
        _copy_in_plain_layout(block)
    steady = {value.id for value in weights}
    kept = {op.id() for op in (*convolutions(block, steady, unknown), *transposed(block, steady))}
    dims = equal_dims(block)
    joined = {op.id() for op in block.ops if grows_a_product(op, dims) or scales_a_quotient(op, dims)}
    if found.in_bfloat16:
        # Converted filters are kept, also those that are made anew in each run.
        joined |= {op.id() for op in block.ops if plain_name(op) in CONVOLVES} - kept
    unsafe = [op for op in block.ops if op.id() not in kept and is_unsafe(op, has_items) or op.id() in joined]
    if refused := {op.name() for op in unsafe if not can_hide(op)}:
        found.refused |= refused
        return
    found.hidden |= {op.name() for op in unsafe}
    masks = Masks(program, unsafe)
    fuse_convolutions(program, weights, unknown)
    fuse_linears(program, weights)
    run_passes(program, FUSIONS)
    # Numbers are made faster by Paddle's kernels.
    constants = Masks(program, [op for op in block.ops if op.name() in CONSTANTS], "sot_constant_")
    run_passes(program, (PLACEMENT,))
    constants.show()
    if found.in_bfloat16:
        run_passes(program, _IN_BFLOAT16)
        _convert_plainly(program)
    masks.show()
    let_go_of_weights(block)


def _dtypes(operations: list[Any]) -> list[str]:
    """What computes in which type, by the names of operators."""
    halves: set[str] = set()
    floats: set[str] = set()
    for op in operations:
        if op.name() not in (*CONSTANTS, *_CONVERSIONS):
            in_halves = op.has_attr("mkldnn_data_type") and op.attrs()["mkldnn_data_type"] == "bfloat16"
            (halves if in_halves else floats).add(op.name())
    return [
        f"oneDNN: {', '.join(sorted(found))} in {dtype}"
        for found, dtype in ((halves, "bfloat16"), (floats, "float32, or the dtype that is given"))
        if found
    ]


def _convert_plainly(program: Any) -> None:
    """oneDNN's conversions raise where what they are given has a layout of its own, and more than one row."""
    block = program.global_block()
    with paddle.static.program_guard(program):
        for op in block.ops:
            value = op.operand_source(0) if op.name() in _CONVERSIONS else None
            if value is not None and value.get_defining_op().name().startswith("onednn_op."):
                pir.set_insertion_point(op)
                op.result(0).replace_all_uses_with(_C_ops.cast(value, op.result(0).dtype))
                block.remove_op(op)
        pir.set_insertion_point_to_block_end(block)


def _data_name(value: Any) -> str:
    return value.get_defining_op().attrs()["name"]


class Lowering(programs.Lowering):
    """Puts a program that runs without gradients onto oneDNN.

    Args:
        grad: whether the program may go backward.
        caches: what its runs keep in oneDNN's layouts, with a method that forgets it; None where this
            Paddle lets nobody set the layout.
        frozen: whether weights never change.
        least: see `_small`.
        in_bfloat16: whether oneDNN computes in bfloat16 what it can.
    """

    def __init__(self, grad: bool, caches: Any, frozen: bool, least: int, in_bfloat16: bool) -> None:
        self.caches = caches
        self.frozen = frozen
        self.least = least
        self.in_bfloat16 = in_bfloat16
        # Outputs are copies, as they are with gradients: what the passes replace is nobody's.
        self.rewrites = not grad
        # Why nothing of the program runs on oneDNN; None where something does.
        self.refusal: str | None = None
        self.report: list[str] = []
        # Whether it does the same when it runs again, and something of it is on oneDNN.
        self.may_be_compared = False
        # Calls that do the same as a program without oneDNN: see `direct_calls`.
        self.calls: DirectCalls | None = None
        # Names of inputs that convolutions keep.
        self.kept: set[str] = set()

    def before_backward(self, program: Any, kept: Any, trains: bool) -> Any:
        if trains:
            self.refusal = "the program goes backward"
        return kept

    def _refusal(self, block: Any) -> str | None:
        """Why nothing of a program without a backward runs on oneDNN."""
        if not is_on_cpu():
            return "the program runs on another device"
        if self.caches is None:
            return "this Paddle does not let anyone set the layout"
        if any(op.name() in REGIONS for op in block.ops):
            if not self.caches.knows_blocks:
                return "this Paddle does not tell which executors there are"
            if (reason := refusal_of_blocks(block)) is not None:
                return reason
        # It may be a part of a graph then. Guards look at the inputs of whole ones only.
        if not self.rewrites and any(op.name() == DATA and is_open(op.result(0)) for op in block.ops):
            return "gradients are on, and tensors with open dims may be empty"
        if any("C" in layout and not layout.startswith("NC") for layout in _layouts(block)):
            return "an operation takes the channels last"
        if (elements := _small(block)) is not None and elements < self.least:
            return f"results of its operators have {elements} elements on average, fewer than least_elements"
        return None

    def set_apart(self, program: Any, inputs: list[Any], weights: list[int]) -> Steady | None:
        block = program.global_block()
        # Asked once: a program loses operators on its way, and with them a layout or its size.
        self.refusal = self._refusal(block)
        if self.frozen and is_on_cpu() and (self.refusal is not None or not any(map(_is_known, with_inner(block.ops)))):
            self.calls = direct_calls(block, inputs)
        if self.refusal is not None:
            return None
        self.hoists = False
        # Blocks are made when they are run first: no comparison decides which.
        has_blocks = any(op.name() in REGIONS for op in block.ops)
        self.may_be_compared = not has_blocks and not has_effects(block.ops)
        closed = [at for at in weights if not is_open(inputs[at])]
        values = [inputs[at] for at in closed]
        fold_batch_norms(block, values)
        known = steady_values(block, values)
        kept = (*kept_by_convolutions(block, known), *kept_by_linears(block, known))
        if self.frozen:
            kept = (*kept, *computed_once(block, known))
        wanted = list({value.id: value for value in kept}.values())
        # Blocks keep something of their own, which `Steady` lets go of.
        if not wanted and not any(op.name() in REGIONS for op in block.ops):
            return None
        steady = Steady(program, inputs, closed, wanted, self.caches, self.frozen)
        given = {value.id for value in values}
        self.kept = {_data_name(value) for value in (*steady.values, *(v for v in wanted if v.id in given))}
        return steady

    def recipe(self) -> Any:
        """What `Recipe` in `direct.rs` takes, when the program is compiled; None where that runs itself."""
        return None if self.calls is None else self.calls.recipe()

    def finish(self, forward: Any, backward: Any) -> None:
        if self.refusal is not None:
            self.report = [f"oneDNN: not used, {self.refusal}"]
            return
        given = (op.result(0) for op in forward.global_block().ops if op.name() == DATA)
        found = Placed(self.in_bfloat16)
        place(forward, [value for value in given if _data_name(value) in self.kept], frozenset(), [], found)
        self.in_place = False
        operations = [op for op in with_inner(forward.global_block().ops) if op.name() not in _EDGES]
        placed = sum(op.name().startswith("onednn_op.") for op in operations)
        self.may_be_compared &= placed > 0
        self.report = [f"oneDNN: {placed} of {len(operations)} operators"] if placed else []
        if placed and self.in_bfloat16:
            self.report += _dtypes(operations)
        if found.hidden:
            self.report.append(f"oneDNN: not for {', '.join(sorted(found.hidden))}")
        if found.refused:
            self.report.append(f"oneDNN: not used, next to {', '.join(sorted(found.refused))}")
