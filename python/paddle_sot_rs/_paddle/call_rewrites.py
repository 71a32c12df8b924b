"""Calls that a program cannot make as eager mode does: they are refused, or made in another way."""

import functools
import math
import types
from typing import Any

import numpy
import paddle
from paddle import _C_ops

from paddle_sot_rs._core import operators, whole_arguments
from paddle_sot_rs._graph.quantisers import AS_EAGER
from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.gradients.backward import REGIONS, gives_neither, has_gradient, semantics_of
from paddle_sot_rs._paddle.kernels import is_on_cpu, mixed, operands, taken_from_onednn
from paddle_sot_rs._paddle.open_sizes import of_open_sizes
from paddle_sot_rs._paddle.value_patches import Value, dims, for_view, same_dtype


class BlackListed(Exception):
    """Raised by an inspection: this call is left to the interpreter."""


# With a tensor for an attribute, the static bindings of these end the process. How many tensors
# come first; others have one of the names.
_TENSORS_FIRST = {
    **dict.fromkeys(("all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "logsumexp"), 1),
    **dict.fromkeys(("nanmean", "nanmedian", "nansum", "permute", "squeeze", "sum"), 1),
    **{"slice_scatter": 2, "strided_slice": 1},
    **{"yolo_box": 2, "yolo_loss": 3, "graph_khop_sampler": 3},
}
_TENSOR_NAMES = frozenset(
    (
        "x",
        "input",
        "out",
        "img_size",
        "gt_box",
        "gt_label",
        "gt_score",
        "row",
        "colptr",
        "input_nodes",
        "sorted_eids",
        "theta",
        "value",
    )
)


def _has_tensor(item):
    if isinstance(item, (list, tuple)):
        return any(map(_has_tensor, item))
    return isinstance(item, (Value, paddle.Tensor))


# With sizes or places that are no list of whole numbers these end the process, too: where those
# begin.
_WHOLE = whole_arguments()
# With lists that have such tensors in them; one alone is another operand.
_WHOLE_IN_LISTS = operators("whole_in_lists")


def name_of(function):
    return function if type(function) is str else (getattr(function, "__name__", None) or "").removeprefix("_")


def _check_attributes(name, args, kwargs):
    if name in _WHOLE or name in _WHOLE_IN_LISTS:
        named = (value for key, value in kwargs.items() if key not in _TENSOR_NAMES)
        for given in (*args[_WHOLE.get(name, 1) :], *named):
            alone = (given,) if name in _WHOLE else ()
            for value in given if isinstance(given, (list, tuple)) else alone:
                if not isinstance(value, (Value, paddle.Tensor)):
                    continue
                if value.dtype not in (paddle.int32, paddle.int64):
                    raise TypeError(f"{name}() with a tensor of {value.dtype}")
                if value.ndim > 1 or 0 in value.shape:
                    raise TypeError(f"{name}() with a tensor of shape {list(value.shape)} for whole numbers")
                if name == "affine_grid" and value is given and value.shape[:1] not in ([4], [5]):
                    raise TypeError("affine_grid() of neither four nor five dims")
    first = _TENSORS_FIRST.get(name)
    # An empty one counts as no axis there.
    if 1 in (first, _WHOLE.get(name)) and any(type(given) is str for given in args[1:2]):
        raise TypeError(f"{name}() with a text for a number")
    if first is None:
        return
    given = [*args[first:], *(value for key, value in kwargs.items() if key not in _TENSOR_NAMES)]
    if any(map(_has_tensor, given)):
        raise TypeError(f"{name}() with a tensor for an attribute")


# Give a result for each item along an axis.
_TAKES_APART = ("unbind", "unstack")


def _check_parts(name, args, kwargs):
    """Refuses results of unknown number."""
    if name not in _TAKES_APART:
        return
    value = args[0] if args else next((kwargs[key] for key in ("x", "input") if key in kwargs), None)
    axis = args[1] if len(args) > 1 else kwargs.get("axis", kwargs.get("dim", 0))
    # A slice of an open dim too.
    if isinstance(value, Value) and isinstance(axis, int) and -1 in value.shape[axis:][:1]:
        raise NotImplementedError(f"{name}() along an open dim")


# Where their bindings expect a list of tensors, and what it is called: without one these end the
# process.
_LISTS = {"index_put": (1, "indices")}
_OF_TENSORS = ("add_n", "meshgrid", "stack")


def _check_lists(name, args, kwargs):
    if name in _LISTS:
        at, keyword = _LISTS[name]
        if len(args) <= at and keyword not in kwargs:
            raise TypeError(f"{name}() without {keyword}")
    if name in _OF_TENSORS:
        # Static mode takes them away.
        given = (*args, *kwargs.values())
        lists = [it for it in given if isinstance(it, (list, tuple))]
        if any(item is None for it in (lists if name != "meshgrid" else (*lists, args)) for item in it):
            raise TypeError(f"{name}() with None for a tensor")


def allow(name, args, kwargs):
    """Raises for a call that would end the process inside Paddle."""
    _check_lists(name, args, kwargs)
    _check_attributes(name, args, kwargs)
    _check_parts(name, args, kwargs)


_CONSTANT_DTYPES = ("bool", "int32", "int64", "float32", "float64", "complex64", "complex128")


def constant(data, dtype=None):
    # Static mode rounds numbers to the default dtype first; eager mode decides what they are.
    array = paddle.to_tensor(data, dtype).numpy()
    if array.dtype not in _CONSTANT_DTYPES:
        raise TypeError(f"a constant of dtype {array.dtype}")
    # Attributes of operations forget the sign of a zero.
    if array.dtype.kind in "fc" and _signed_zero(array):
        raise TypeError("a constant with a negative zero")
    if array.dtype == numpy.int64 and (array.astype("float64").astype("object") != array.astype("object")).any():
        raise TypeError("a constant that a program rounds to doubles")
    return array


def _signed_zero(array):
    return any((numpy.signbit(part) & (part == 0)).any() for part in (array.real, array.imag))


def _floor_divide(x, y, name=None, *, out=None):
    other = paddle.assign(y) if isinstance(y, numpy.ndarray) else y
    # Paddle 3.2 has no `out`.
    named = {} if out is None else {"out": out}
    return paddle.floor_divide(*same_dtype(x, other), name, **named)


# Other names that functions of two operands have for them; Paddle 3.2 has none.
_OPERANDS = {"input": "x", "other": "y"} if hasattr(paddle.floor_divide, "__wrapped__") else {}


def _narrow(input, dim, start, length):
    # Static mode knows no strides. What eager mode refuses is left to it.
    size = input.shape[dim]
    if not (type(start) is type(length) is int and 0 < length and -size <= start <= size - length):
        raise TypeError("narrow() of an open dim, or out of range")
    start = start + size if start < 0 else start
    if start + length > size:
        raise TypeError("narrow() out of range")
    return paddle.slice(input, [dim], [start], [start + length])


def _view(x, shape):
    # Static mode has no `view`. That the numbers lie in their order was seen to before.
    return paddle.reshape(x, shape)


def _with_constants(value):
    # Eager mode makes a tensor of a number, too, with the same say.
    return constant(value) if type(value) in (bool, int, float) else value


def _as_whole(value):
    return int(value) if isinstance(value, float) and value.is_integer() else value


# What eager mode casts beside complex numbers of each dtype. The gradient is the real part, as
# that of the cast.
_CAST_BESIDE = {
    paddle.complex64: (paddle.float32,),
    paddle.complex128: (paddle.float32, paddle.float64),
}


def _as_complex(x, y):
    """Both operands as their kernel takes them: a program would read the bytes of a float as a complex number."""
    x, y = tracing.current.cast(x), tracing.current.cast(y)
    if x.dtype in _CAST_BESIDE.get(y.dtype, ()):
        return x.astype(y.dtype), y
    if y.dtype in _CAST_BESIDE.get(x.dtype, ()):
        return x, y.astype(x.dtype)
    return x, y


def _with_casts(function):
    @functools.wraps(function)
    def call(x, y, *args, **kwargs):
        return function(*_as_complex(x, y), *args, **kwargs)

    return call


def _matrix_product(x, y, name=None):
    # `mm` refuses complex numbers while a program is built.
    return _C_ops.matmul(x, y, False, False)


# Products whose two first operands eager mode casts, and what makes them.
_PRODUCTS_THAT_CAST = (
    *((function, function) for function in (paddle.matmul, _C_ops.matmul, paddle.kron, _C_ops.kron)),
    (paddle.mm, _matrix_product),
    (paddle.nn.functional.linear, paddle.nn.functional.linear),
    (Value.__matmul__, _C_ops.matmul),
)
# Functions by address, methods by name.
_CASTING = {
    key: _with_casts(makes) for function, makes in _PRODUCTS_THAT_CAST for key in (id(function), function.__name__)
}


# Paddle 3.2 has none.
_PADDLES_NARROW = getattr(paddle, "narrow", None)
# Functions of this package that are written anew for programs; who writes them puts them here.
STATIC_FORMS: dict[Any, Any] = {}


def as_traced(function, args, kwargs):
    """The call that does in a program what this one does in eager mode."""
    if type(function) is types.FunctionType and function in STATIC_FORMS:
        return STATIC_FORMS[function], args, kwargs
    if function is paddle.to_tensor:
        return paddle.assign, [constant(*args, **kwargs)], {}
    if function == "view":
        return _view, args, kwargs
    if function in ("narrow", _PADDLES_NARROW):
        return _narrow, args, kwargs
    if function in ("floor_divide", paddle.floor_divide):
        named = {_OPERANDS.get(name, name): _with_constants(value) for name, value in kwargs.items()}
        return _floor_divide, [_with_constants(value) for value in args], named
    if function is paddle.multinomial:
        # The product of an empty shape is 1.0; eager mode takes it for a whole number.
        return function, [_as_whole(value) for value in args], {name: _as_whole(it) for name, it in kwargs.items()}
    casting = _CASTING.get(function if type(function) is str else id(function))
    if casting is not None and any(getattr(value, "dtype", None) in _CAST_BESIDE for value in args[:2]):
        return casting, args, kwargs
    return of_open_sizes(function, args, kwargs), args, kwargs


def call_method(value, name, args, kwargs):
    """`value.name(*args, **kwargs)`; looked up here: some act as in eager mode while the window is open."""
    result = getattr(value, name)(*args, **kwargs)
    if name == "__getitem__" and result is value:
        return for_view(result)
    return result


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
        if is_on_cpu() and (dtype := taken_from_onednn(op)) is not None:
            raise TypeError(f"{op.name()} of {dtype}, which a CPU has no kernel for")
        if op.num_regions() or op.name() in (*REGIONS, *_TRANSPARENT):
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


# An attribute of an `assign` that is a leaf of autograd.
BEGINS = "sot_begins"
# No operations of their own in eager mode.
_TRANSPARENT = ("builtin.combine", "builtin.split", "builtin.slice")
# By name, for each operand whether a gradient goes to it.
_differentiable: dict[str, Any] = {}


def differentiable(op):
    """The operands that gradients go through: in eager mode only they make the results of an operation need one."""
    operands = op.operands_source()
    name = op.name()
    if name in _TRANSPARENT:
        return operands
    known = _differentiable.get(name)
    if known is None:
        known = semantics_of(op) if has_gradient(op) else [False] * len(operands)
        _differentiable[name] = known
    return [value for value, takes_gradient in zip(operands, known, strict=True) if takes_gradient]


def reached(op):
    """Those of them that a gradient arrives at."""
    operands = differentiable(op)
    return operands[:1] if gives_neither(op, operands) else operands


def stop_where_eager_stops(operations):
    """Static mode only looks at the inputs, whether a gradient goes to them or not."""
    for op in operations:
        results = [value for value in op.results() if value.initialized() and not value.stop_gradient]
        if not results:
            continue
        if not op.num_operands() or op.num_regions() or op.name() in REGIONS or op.has_attr(BEGINS):
            # Data, parameters and new leaves say themselves what they are; what a nested graph uses
            # are no operands.
            continue
        if all(value.stop_gradient for value in differentiable(op) if value.initialized()):
            for value in results:
                value.stop_gradient = True
