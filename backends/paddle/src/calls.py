"""Calls that a program cannot make as eager mode does: they are refused, or made in another way."""

import math

import numpy
import paddle
from paddle.base import core
from paddle_sot_rs._backward import REGIONS
from paddle_sot_rs._values import NUMBER, Value, dims, for_view


class BlackListed(Exception):
    """Raised by an inspection: this call is left to the interpreter."""


# With a tensor for an attribute, the static bindings of these end the process. How many tensors come first; others
# have one of the names.
_TENSORS_FIRST = {
    **dict.fromkeys(("all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "logsumexp"), 1),
    **dict.fromkeys(("nanmean", "nanmedian", "nansum", "permute", "squeeze", "sum"), 1),
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
    )
)


def _has_tensor(item):
    if isinstance(item, (list, tuple)):
        return any(map(_has_tensor, item))
    return isinstance(item, (Value, paddle.Tensor))


# With sizes or places that are no whole numbers these end the process, too: where those begin.
_WHOLE = {
    **dict.fromkeys(("randn", "standard_normal"), 0),
    **dict.fromkeys(("broadcast_to", "expand", "repeat", "reshape", "roll", "tile", "unsqueeze"), 1),
    **dict.fromkeys(("max", "mean", "min", "prod", "std", "var"), 1),
    **dict.fromkeys(("affine_grid", "crop", "flip", "slice", "strided_slice"), 1),
    **dict.fromkeys((f"adaptive_{kind}_pool{dims}d" for kind in ("avg", "max") for dims in (1, 2, 3)), 1),
}
# With lists that have such tensors in them; one alone is another operand.
_WHOLE_IN_LISTS = ("pad", "interpolate", "upsample", "conv1d_transpose", "conv2d_transpose", "conv3d_transpose")


def name_of(function):
    return function if type(function) is str else (getattr(function, "__name__", None) or "").removeprefix("_")


def _check_attributes(name, args, kwargs):
    if name in _WHOLE or name in _WHOLE_IN_LISTS:
        named = (value for key, value in kwargs.items() if key not in _TENSOR_NAMES)
        for given in (*args[_WHOLE.get(name, 1) :], *named):
            alone = (given,) if name in _WHOLE else ()
            for value in given if isinstance(given, (list, tuple)) else alone:
                if isinstance(value, (Value, paddle.Tensor)) and value.dtype not in (paddle.int32, paddle.int64):
                    raise TypeError(f"{name}() with a tensor of {value.dtype}")
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


def allow(name, args, kwargs):
    """Raises for a call that would end the process inside Paddle."""
    _check_attributes(name, args, kwargs)
    _check_parts(name, args, kwargs)


_CONSTANT_DTYPES = ("bool", "int32", "int64", "float32")


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


def as_traced(function, args, kwargs):
    """The call that does in a program what this one does in eager mode."""
    if function is paddle.to_tensor:
        return paddle.assign, [constant(*args, **kwargs)], {}
    return function, args, kwargs


def call_method(value, name, args, kwargs):
    """`value.name(*args, **kwargs)`; looked up here: some act as in eager mode while the window is open."""
    result = getattr(value, name)(*args, **kwargs)
    if name == "__getitem__" and result is value:
        return for_view(result)
    return result


_PRODUCTS = frozenset(("pd_op.matmul", "pd_op.linear_v2", "pd_op.fused_gemm_epilogue"))


# Without rows, eager mode answers with another shape or dtype, or at all, or raises: the operand that needs some.
_NEED_ROWS = {
    **dict.fromkeys(("pd_op.bincount", "pd_op.topk", "pd_op.unique", "pd_op.unique_consecutive"), 0),
    "pd_op.scatter_nd_add": 1,
}
# What takes a shape as a tensor: Paddle knows its rank by the length of that.
_TAKES_SHAPES = frozenset(("pd_op.reshape", "pd_op.expand", "pd_op.full_with_tensor", "pd_op.tile"))


def asked_dims(operations):
    """What operations ask of open dims, as `Trace.asked` has it."""
    asked = []
    for op in operations:
        name = op.name()
        # The mean of no labels is nan in eager mode.
        counts = name == "pd_op.cross_entropy_with_softmax" and _counts_labels(op, operations)
        if name in _INDEXED and dims(op.operand_source(1))[-1:] == [-1]:
            raise NotImplementedError(f"{name} with an index of open length")
        if name in _NEED_ROWS or counts:
            value = op.operand_source(_NEED_ROWS.get(name, 0))
            if 0 in dims(value):
                raise NotImplementedError(f"{name} without rows")
            asked += [_is_not(value, at, 0) for at, dim in enumerate(dims(value)) if dim < 0]
        elif name == "pd_op.squeeze":
            value, axes = op.operand_source(0), _squeezed(op)
            asked += [
                _is_not(value, at, 1)
                for at, dim in enumerate(dims(value))
                if dim < 0 and (not axes or at in axes or at - len(dims(value)) in axes)
            ]
        elif name == "pd_op.diag" and -1 in dims(op.operand_source(0)) and op.attrs()["offset"]:
            raise NotImplementedError("Paddle does not infer the shape of a diagonal of open length")
        elif name == "pd_op.gather" and _axis_of_gather(op):
            # With an index without items, or of such a tensor, the kernel forgets the axis.
            for value in op.operands_source()[:2]:
                if 0 in dims(value):
                    raise NotImplementedError(f"{name} without items")
                asked += [_is_not(value, at, 0) for at, dim in enumerate(dims(value)) if dim < 0]
        elif name in ("pd_op.frame", "pd_op.overlap_add") and -1 in dims(op.operand_source(0)):
            raise NotImplementedError(f"Paddle does not infer the shape of {name} of open length")
        elif name == "pd_op.fft_r2c" and -1 in dims(op.operand_source(0)) and op.attrs()["onesided"]:
            raise NotImplementedError("Paddle does not infer the shape of half of a transform of open length")
        elif name in _TAKES_SHAPES:
            shapes = [value for value in op.operands_source()[1 - (name == "pd_op.full_with_tensor") :]]
            if any(value.initialized() and value.is_dense_tensor_type() and dims(value) == [-1] for value in shapes):
                raise NotImplementedError(f"{name} to a shape of open length")
    return asked


# The last dim of an index says the rank of the result.
_INDEXED = ("pd_op.gather_nd", "pd_op.scatter_nd_add")


def _axis_of_gather(op):
    maker = op.operand_source(2).get_defining_op()
    return maker is None or maker.name() != "pd_op.full" or maker.attrs()["value"] != 0


def _is_not(value, at, number):
    return str(value.id), at, "__eq__", NUMBER, number, False


def _counts_labels(op, operations):
    return op.attrs()["ignore_index"] >= 0 or any(other.name() == "pd_op.gather_nd" for other in operations)


def _squeezed(op):
    maker = op.operand_source(1).get_defining_op()
    return maker.attrs()["value"] if maker is not None and maker.name() == "pd_op.full_int_array" else ()


def _refuse_mixed_products(operations):
    """Static mode multiplies matrices of two types, eager mode refuses or takes the type of the first."""
    for op in operations:
        if op.name() in _PRODUCTS:
            first, *rest = (value.dtype for value in op.operands_source() if value.initialized())
            if any(dtype != first for dtype in rest):
                raise TypeError("a matrix product of tensors of two types")


def _refuse_open_batches(operations):
    """Paddle infers that the product of an open batch and one of 1 has 1."""
    for op in operations:
        if op.name() in _PRODUCTS:
            one, other = (dims(op.operand_source(at))[:-2] for at in (0, 1))
            if any({*pair} == {-1, 1} for pair in zip(one[::-1], other[::-1], strict=False)):
                raise NotImplementedError("a product of matrices, in an open batch and a batch of 1")


# They take a number as a tensor of floats, which rounds it.
_SCALED = {"pd_op.scale", "pd_op.clip", "pd_op.pad", "pd_op.full_like", "pd_op.cast"}
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


def refuse(operations, args, kwargs):
    """Raises where what a call appended would compute something else than eager mode."""
    _refuse_mixed_products(operations)
    _refuse_open_batches(operations)
    _refuse_rounded_numbers(operations, args, kwargs)


# No operations of their own in eager mode.
_TRANSPARENT = ("builtin.combine", "builtin.split", "builtin.slice")
_differentiable = {}


def stop_where_eager_stops(operations):
    """No gradient flows through an operation without a rule for it; static mode only looks at the inputs."""
    for op in operations:
        results = [value for value in op.results() if value.initialized() and not value.stop_gradient]
        if not results:
            continue
        operands = [value for value in op.operands_source() if value.initialized()]
        name = op.name()
        if not operands or name in REGIONS:
            # Data and parameters say themselves what they are; what a nested graph uses are no operands.
            continue
        known = _differentiable.get(name)
        if known is None:
            known = name in _TRANSPARENT or core.has_vjp(op)
            _differentiable[name] = known
        if op.num_regions():
            # What the blocks use is not among the operands.
            continue
        if not known or all(value.stop_gradient for value in operands):
            for value in results:
                value.stop_gradient = True
