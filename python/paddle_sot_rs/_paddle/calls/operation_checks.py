"""Operations that would compute something else than eager mode: the call that appended them is refused."""

import math

import numpy
import paddle

from paddle_sot_rs._graph.quantisers import AS_EAGER
from paddle_sot_rs._paddle.gradients.backward import REGIONS
from paddle_sot_rs._paddle.gradients.stop_gradients import TRANSPARENT, differentiable
from paddle_sot_rs._paddle.kernels import is_on_cpu, mixed, operands, without_kernel
from paddle_sot_rs._paddle.value_patches import dims

_PRODUCTS = frozenset(("pd_op.matmul", "pd_op.linear_v2", "pd_op.fused_gemm_epilogue"))


def _refuse_mixed_products(operations):
    """Static mode multiplies matrices of two types, eager mode refuses or takes the type of the first."""
    for op in operations:
        if op.name() in _PRODUCTS:
            first, *rest = (value.dtype for value in op.operands_source() if value.initialized())
            if any(dtype != first for dtype in rest):
                raise TypeError("a matrix product of tensors of two types")


# They take a number as a tensor of floats, which rounds it.
_SCALED = {"pd_op.scale", "pd_op.clip", "pd_op.pad", "pd_op.fill", "pd_op.full_like", "pd_op.cast"}
_WRITTEN_OUT = {"pd_op.assign_value", "pd_op.assign_value_"}
_WIDE = {paddle.float64, paddle.complex64, paddle.complex128}


def _refuse_rounded_numbers(operations, args, kwargs):
    """Next to doubles, eager mode takes all digits of a number. Of one that Paddle's code wrote, the float is left: it
    was rounded, most likely, when it has more than twelve binary digits."""
    for op in operations:
        name = op.name()
        if name not in _SCALED or op.result(0).dtype not in _WIDE:
            continue
        makers = [value.get_defining_op() for value in op.operands_source() if value.dtype == paddle.float32]
        makers = [maker for maker in makers if maker is not None]
        if name == "pd_op.cast":
            made = {value.id for op in operations for value in op.results()}
            if any(maker.name() in _WRITTEN_OUT and maker.result(0).id in made for maker in makers):
                raise TypeError("a constant that a program rounds to a float next to doubles")
            continue
        numbers = [maker.attrs()["value"] for maker in makers if maker.name() == "pd_op.full"]
        if name == "pd_op.scale":
            numbers.append(op.attrs()["bias"])
        rounded = any(type(given) is float and numpy.float32(given) != given for given in (*args, *kwargs.values()))
        for number in numbers:
            digits = numpy.float32(number).view(numpy.int32)
            # The largest double is infinite as a float.
            if math.isinf(number) or number % 1 and (rounded or digits % 2**11):
                raise TypeError("a number that a program rounds to a float next to doubles")


def _refuse_rounded_bounds(operations):
    """A program writes the bounds of `arange` as doubles."""
    for op in operations:
        if op.name() != "pd_op.arange" or op.result(0).dtype != paddle.int64:
            continue
        makers = [value.get_defining_op() for value in op.operands_source()]
        if any(maker is not None and abs(maker.attrs().get("value", 0)) >= 2**53 for maker in makers):
            raise TypeError("a bound of arange() that a program rounds to a double")


def _refuse_views_by_equation(operations):
    """In eager mode what these answer is in the storage of what they are given, which no program knows."""
    for op in operations:
        if op.name() == "pd_op.einsum" and len(op.operand_source(0).get_defining_op().operands_source()) == 1:
            given, _, made = op.attrs()["equation"].replace(" ", "").partition("->")
            if made in ("", given):
                raise NotImplementedError("einsum() that answers with a view")


# Paddle's programs let them write over their first operand where nothing reads it later, and do not
# ask whether it is another operand too. Those that read each number before they write it are not
# among them.
_WRITE_OVER = frozenset(
    f"pd_op.{name}"
    for name in (
        *("addmm", "baddbmm", "cross_entropy_with_softmax"),
        *("index_add", "index_put", "put_along_axis", "scatter"),
    )
)


def _refuse_written_while_read(operations):
    for op in operations:
        if op.name() in _WRITE_OVER:
            first, *rest = operands(op)
            if any(value.id == first.id for value in rest):
                raise NotImplementedError("a tensor that a program writes over while it reads it")


# In eager mode their calls run kernels of this name through `_legacy_C_ops`, with other
# arguments: the program would quantise what eager mode dequantises. `quantisers.py` has those.
_OTHER_KERNELS = frozenset(("pd_op.dequantize_linear", "pd_op.quantize_linear"))


def _refuse_other_kernels(operations):
    for op in operations:
        if op.name().removesuffix("_") in _OTHER_KERNELS and not op.has_attr(AS_EAGER):
            raise NotImplementedError(f"{op.name()} of a program, where eager mode runs another kernel")
        if is_on_cpu() and (dtype := without_kernel(op)) is not None:
            raise TypeError(f"{op.name()} of {dtype}, which a CPU has no kernel for")
        if op.num_regions() or op.name() in (*REGIONS, *TRANSPARENT):
            continue
        if mixed(op.operands_source()) and mixed(differentiable(op)):
            raise TypeError(f"{op.name()} of tensors of several dtypes")
        if _mixes_complex(op):
            raise TypeError(f"{op.name()} of complex numbers and others")


def _mixes_complex(op):
    """Eager mode casts the others, or refuses; the kernel of a program reads their bytes as its own. Numbers that are
    written out as tensors are not meant."""
    if op.name() == "pd_op.svd":
        # A program says that the singular values of complex numbers are complex.
        return op.operand_source(0).dtype in _COMPLEX
    given = [value for value in op.operands_source() if value.initialized() and value.is_dense_tensor_type()]
    if _COMPLEX.isdisjoint(value.dtype for value in given):
        return False
    dtypes = {value.dtype for value in given if value.get_defining_op().name() != "pd_op.full"}
    return bool(dtypes & _COMPLEX) and len(dtypes & _NUMBERS) > 1


def _refuse_labels(operations):
    """Those that eager mode has no kernels for: what the gradient of a program raises ends the process."""
    for op in operations:
        # Eager mode takes the bits for whole numbers, and has a gradient.
        if op.name() == "pd_op.take_along_axis" and op.operand_source(1).dtype not in (paddle.int32, paddle.int64):
            raise TypeError("an index that is no whole number")
        if op.name() != "pd_op.cross_entropy_with_softmax" or op.attrs()["soft_label"]:
            continue
        if op.operand_source(1).dtype not in (paddle.int32, paddle.int64):
            raise NotImplementedError("labels of cross_entropy() that are no classes")


_COMPLEX = {paddle.complex64, paddle.complex128}
_NUMBERS = _COMPLEX | {paddle.float16, paddle.bfloat16, paddle.float32, paddle.float64}


def _refuse_without_kernels(operations):
    """Where programs lack kernels: eager mode goes back through strides, and casts what arrives at a sum or `eig`."""
    for op in operations:
        name = op.name()
        if name not in ("pd_op.clip", "pd_op.eig", "pd_op.strided_slice", "pd_op.sum"):
            continue
        made = op.result(0).dtype
        if name == "pd_op.clip":
            # Eager mode refuses it; what a program casts it for may end the process.
            if made == paddle.bfloat16 and is_on_cpu():
                raise TypeError("clip() of bfloat16 on a CPU")
        elif op.result(0).stop_gradient:
            continue
        elif name == "pd_op.eig" and op.operand_source(0).dtype not in _COMPLEX:
            raise NotImplementedError("a gradient of eigenvalues of a real matrix")
        elif name == "pd_op.strided_slice" and made == paddle.float16 and is_on_cpu():
            raise NotImplementedError("a gradient of a slice of halves, which a CPU has no kernel for")
        elif name == "pd_op.sum" and op.operand_source(0).dtype in _COMPLEX and made not in _COMPLEX:
            raise NotImplementedError("a gradient of a real sum of complex numbers")


def _refuse_other_counts(operations):
    """A reshape that infers another number of elements: a 0 that an operation computes is taken for the dim there."""
    for op in operations:
        if op.name() == "pd_op.reshape":
            shapes = dims(op.operand_source(0)), dims(op.result(0))
            if -1 not in (*shapes[0], *shapes[1]) and math.prod(shapes[0]) != math.prod(shapes[1]):
                raise TypeError("reshape() to a computed 0")


def refuse(operations, args, kwargs):
    """Raises where what a call appended would compute something else than eager mode."""
    _refuse_other_counts(operations)
    _refuse_without_kernels(operations)
    _refuse_written_while_read(operations)
    _refuse_views_by_equation(operations)
    _refuse_labels(operations)
    _refuse_other_kernels(operations)
    _refuse_mixed_products(operations)
    _refuse_rounded_bounds(operations)
    _refuse_rounded_numbers(operations, args, kwargs)
