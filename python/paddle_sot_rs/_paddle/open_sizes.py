"""Functions that take no numbers of the graph, or no open dims, while a program is built, and what stands for them."""

import functools
import operator

import paddle
from paddle import _C_ops
from paddle.nn import functional

from paddle_sot_rs._paddle.value_patches import Value


def _with_open_diagonal(keeps):
    """`tril` or `triu` with a diagonal that is a number of the graph: an operator takes whole numbers alone."""

    def call(x, diagonal=0, name=None):
        rows, columns = (paddle.arange(size) for size in paddle.shape(x)[-2:].unbind())
        rows = rows.unsqueeze(-1)
        goes = paddle.logical_not(keeps(columns - rows, diagonal))
        return _C_ops.masked_fill(x, goes, paddle.zeros([1], x.dtype))

    return call


# Functions by address, methods by name.
_OF_DIAGONALS = {
    key: _with_open_diagonal(keeps)
    for name, keeps in (("tril", operator.le), ("triu", operator.ge))
    for key in (name, id(getattr(paddle, name)), id(getattr(_C_ops, name)))
}


def _has_open_diagonal(args, kwargs):
    diagonal = args[1] if len(args) > 1 else kwargs.get("diagonal")
    return isinstance(diagonal, Value) and diagonal.ndim == 0


def _with_sizes(function):
    """Numbers of the graph in a list of sizes, beside others: Paddle makes tensors of one dim of those."""

    @functools.wraps(function)
    def call(x, output_size, *args, **kwargs):
        one = (size.reshape([1]) if isinstance(size, Value) and size.ndim == 0 else size for size in output_size)
        return function(x, list(one), *args, **kwargs)

    return call


_POOLS = {id(functional.adaptive_avg_pool2d): _with_sizes(functional.adaptive_avg_pool2d)}


def _has_open_sizes(args, kwargs):
    sizes = args[1] if len(args) > 1 else kwargs.get("output_size")
    return isinstance(sizes, (list, tuple)) and any(isinstance(size, Value) for size in sizes)


def _unshuffled(x, downscale_factor, data_format="NCHW", name=None):
    """`pixel_unshuffle`: its operator wants to divide dims that are open."""
    step, first = downscale_factor, data_format == "NCHW"
    sizes = [dim if dim >= 0 else read for dim, read in zip(x.shape, paddle.shape(x).unbind(), strict=True)]
    batch, channels, height, width = sizes if first else (sizes[0], sizes[3], *sizes[1:3])
    height, width = height // step, width // step
    # `assign`: the numbers lie in their order then, as those of the operator do.
    if first:
        x = paddle.reshape(x, [batch, channels, height, step, width, step])
        x = paddle.assign(paddle.transpose(x, [0, 1, 3, 5, 2, 4]))
        return paddle.reshape(x, [batch, channels * step**2, height, width])
    x = paddle.reshape(x, [batch, height, step, width, step, channels])
    x = paddle.assign(paddle.transpose(x, [0, 1, 3, 5, 2, 4]))
    return paddle.reshape(x, [batch, height, width, channels * step**2])


_UNSHUFFLES = {id(functional.pixel_unshuffle), id(_C_ops.pixel_unshuffle)}


def _is_open_image(args, kwargs):
    """Whether the operator would take it with known dims, and some are open."""
    x, step, *layout = list(args) + [None] * (2 - len(args))
    layout = layout[0] if layout else kwargs.get("data_format", "NCHW")
    fits = isinstance(x, Value) and x.ndim == 4 and type(step) is int and step > 0
    return fits and layout in ("NCHW", "NHWC") and any(dim < 0 for dim in x.shape[1:])


def _common_sizes(one, other, axis):
    """The sizes that two tensors have together, -1 along the axis: each keeps its own there."""
    sizes = []
    for at, (of_one, of_other) in enumerate(zip(one.shape, other.shape, strict=True)):
        if at == axis:
            sizes.append(-1)
        elif of_one >= 0 and of_other >= 0:
            sizes.append(max(of_one, of_other) if of_one and of_other else 0)
        else:
            read = [paddle.shape(value)[at] for value in (one, other)]
            # Without rows in one of them there are none.
            rows = paddle.clip(paddle.minimum(*read), max=1)
            sizes.append(paddle.maximum(*read) * rows)
    return sizes


def _taken_along(arr, indices, axis, broadcast=True):
    """`take_along_axis`: it compares dims in Python, where all open ones are equal."""
    axis = axis + arr.ndim if axis < 0 else axis
    sizes = _common_sizes(arr, indices, axis)
    return _C_ops.take_along_axis(paddle.expand(arr, sizes), paddle.expand(indices, sizes), axis)


_ALONG = ("take_along_axis", id(paddle.take_along_axis))


def _broadcasts_open_dims(args, kwargs):
    """Whether two tensors of one rank are given by position, with open dims besides the axis."""
    if len(args) < 2 or not {"axis", "broadcast"}.issuperset(kwargs) or not kwargs.get("broadcast", True):
        return False
    arr, indices, axis, *rest = list(args) + [kwargs.get("axis")] * (3 - len(args))
    fits = isinstance(arr, Value) and isinstance(indices, Value) and type(axis) is int and not rest
    if not fits or arr.ndim != indices.ndim or not -arr.ndim <= axis < arr.ndim:
        return False
    open_dims = {at for value in (arr, indices) for at, dim in enumerate(value.shape) if dim < 0}
    return not open_dims <= {axis % arr.ndim}


def _key(function):
    return function if type(function) is str else id(function)


def of_open_sizes(function, args, kwargs):
    """What takes numbers of the graph in the place of this function, which does not; mostly itself."""
    key = _key(function)
    if key in _OF_DIAGONALS and _has_open_diagonal(args, kwargs):
        return _OF_DIAGONALS[key]
    if key in _ALONG and _broadcasts_open_dims(args, kwargs):
        return _taken_along
    if key in _UNSHUFFLES and _is_open_image(args, kwargs):
        return _unshuffled
    if key in _POOLS and _has_open_sizes(args, kwargs):
        return _POOLS[key]
    return function
