"""Functions that take no numbers of the graph, or no open dims, while a program is built, and what stands for them."""

import functools
import operator

import paddle
from paddle import _C_ops
from paddle.base.libpaddle.pir import create_shaped_type
from paddle.nn import functional

from paddle_sot_rs._graph.control import check
from paddle_sot_rs._paddle.runnable import DATA_FORMAT
from paddle_sot_rs._paddle.value_patches import Value, dims


def _with_open_diagonal(keeps):
    """`tril` or `triu` with a diagonal that is a number of the graph: an operator takes whole numbers alone."""

    def call(x, diagonal=0, name=None):
        rows, columns = (paddle.arange(size) for size in _sizes(x)[-2:])
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
        result = function(x, list(one), *args, **kwargs)
        if not args and kwargs.get(DATA_FORMAT, "NCHW") == "NCHW":
            # Those that are known are, beside others.
            made = dims(result)
            known = [
                made[at] if size is None or isinstance(size, Value) else size for at, size in enumerate(output_size, 2)
            ]
            result.set_type(create_shaped_type(result.type(), [*made[:2], *known]))
        return result

    return call


def _pooled(x, output_size, name=None):
    """`adaptive_avg_pool1d`: a pool of images of one row."""
    (size,) = output_size if isinstance(output_size, (list, tuple)) else [output_size]
    pooled = functional.adaptive_avg_pool2d(paddle.unsqueeze(x, [2]), [1, size.reshape([1])])
    # What was one before the pool is open behind it.
    return paddle.reshape(pooled, [*_sizes(x)[:2], size])


_POOLS = {
    id(functional.adaptive_avg_pool1d): _pooled,
    id(functional.adaptive_avg_pool2d): _with_sizes(functional.adaptive_avg_pool2d),
}


def _has_open_sizes(args, kwargs):
    sizes = args[1] if len(args) > 1 else kwargs.get("output_size")
    return any(isinstance(size, Value) for size in (sizes if isinstance(sizes, (list, tuple)) else [sizes]))


def _sizes(x):
    """The dims of a tensor: numbers of the graph where they are open."""
    return [dim if dim >= 0 else read for dim, read in zip(x.shape, paddle.shape(x).unbind(), strict=True)]


def _padded(x, pad, mode="constant", value=0.0, data_format=None, pad_from_left_axis=True, name=None):
    """`pad` with numbers of the graph: for all dims its operator takes known ones, that of images takes these."""
    pairs = [list(pad[at : at + 2]) for at in range(0, len(pad), 2)]
    if len(pairs) == x.ndim - 2:
        # Of images: the last of their dims first.
        channels = [[0, 0]]
        last = str(data_format).upper().endswith("C")
        pairs = [[0, 0], *([] if last else channels), *pairs[::-1], *(channels if last else [])]
    else:
        pairs += [[0, 0]] * (x.ndim - len(pairs))
        if len(pad) < 2 * x.ndim or not pad_from_left_axis:
            pairs.reverse()
    first = max(0, x.ndim - 3)
    behind, before = pairs[first:], pairs[:first]
    x = _padded_last(x, behind, value)
    if any(type(size) is not int or size for pair in before for size in pair):
        flat = _padded_last(paddle.flatten(x, first), [*before, [0, 0]], value)
        x = paddle.reshape(flat, [*_sizes(flat)[:first], *_sizes(x)[first:]])
    return x


def _padded_last(x, pairs, value):
    """The last dims, at most three, with so many values before and behind."""
    sizes = _sizes(x)
    whole = sizes[: x.ndim - len(pairs)]
    sizes = [*whole, *(size + sum(pair) for size, pair in zip(sizes[len(whole) :], pairs, strict=True))]
    image = paddle.unsqueeze(x, list(range(5 - x.ndim))) if x.ndim < 5 else x
    pairs = [[0, 0]] * (3 - len(pairs)) + pairs
    image = _C_ops.pad3d(image, [size for pair in pairs[::-1] for size in pair], "constant", value, "NCDHW")
    # Its operator infers no dim beside one that is open.
    return paddle.reshape(image, sizes)


_LAYOUTS = {3: ("NCL", "NLC"), 4: ("NCHW", "NHWC")}


def _has_open_paddings(args, kwargs):
    """Whether dims are padded by numbers of which the graph makes some."""
    x, pad, mode = [*args, None, None, None][:3]
    pad, mode = kwargs.get("pad", pad), kwargs.get("mode", mode) or "constant"
    if not isinstance(x, Value) or not isinstance(pad, (list, tuple)) or mode != "constant":
        return False
    numbers = all(type(size) is int or isinstance(size, Value) and size.ndim == 0 for size in pad)
    computed = any(isinstance(size, Value) for size in pad)
    value = args[3] if len(args) > 3 else kwargs.get("value", 0.0)
    fits = 0 < x.ndim <= 5 and len(pad) <= 2 * x.ndim and len(pad) % 2 == 0
    layout = args[4] if len(args) > 4 else kwargs.get(DATA_FORMAT)
    if len(pad) == 2 * (x.ndim - 2):
        # Paddle's own function says what else is wrong.
        fits = x.ndim in (3, 4) and (layout is None or str(layout).upper() in _LAYOUTS[x.ndim])
    return numbers and computed and fits and type(value) in (int, float)


def _repeated(x, repeats, axis=None, name=None, output_size=None):
    """`repeat_interleave` by a number of the graph, which its operator takes for a tensor with one for each item."""
    check(repeats > 0)
    if axis is None:
        x, axis = paddle.flatten(x), 0
    places = paddle.arange(_sizes(x)[axis]).unsqueeze(-1)
    return paddle.index_select(x, paddle.tile(places, [1, repeats]).flatten(), axis)


def _repeats_openly(args, kwargs):
    x, repeats = [*args, None, None][:2]
    repeats = kwargs.get("repeats", repeats)
    fits = isinstance(x, Value) and {"repeats", "axis"}.issuperset(kwargs) and len(args) <= 3
    return fits and isinstance(repeats, Value) and repeats.ndim == 0


def _chunked(x, chunks, axis=0, name=None):
    """`chunk`: it compares the dim with the number of parts, which the operator does too."""
    return paddle.split(x, chunks, axis)


def _chunks_openly(args, kwargs):
    x, chunks, axis = [*args, *(kwargs.get(name, 0) for name in ("x", "chunks", "axis")[len(args) :])][:3]
    fits = isinstance(x, Value) and type(chunks) is int and chunks > 0 and type(axis) is int and len(args) <= 3
    return fits and {"chunks", "axis"}.issuperset(kwargs) and any(dim < 0 for dim in x.shape[axis:][:1])


def _highest(x, k, axis=None, largest=True, sorted=True, name=None):
    """`topk` of so many as the graph says: its kernel leaves their shape open where there are no rows."""
    sizes = _sizes(x)
    sizes[-1 if axis is None else axis] = k
    return tuple(paddle.reshape(part, sizes) for part in paddle.topk(x, k, axis, largest, sorted))


def _counts_openly(args, kwargs):
    x, k = [*args, None, None][:2]
    k, axis = kwargs.get("k", k), args[2] if len(args) > 2 else kwargs.get("axis")
    fits = isinstance(x, Value) and x.ndim > 0 and isinstance(k, Value) and k.ndim == 0 and "name" not in kwargs
    return fits and (axis is None or type(axis) is int) and any(dim < 0 for dim in x.shape)


def _gathered(x, index, axis):
    # A program infers the shape as along the first axis.
    raise TypeError("gather() along an axis that is a tensor")


def _of_gather(x=None, index=None, axis=None, *_, **_others):
    return index, axis


def _gathers_along_tensor(args, kwargs):
    index, axis = _of_gather(*args, **kwargs)
    # What follows a number is the index.
    return isinstance(index, Value) and isinstance(axis, Value)


def _cropped(x, shape=None, offsets=None, name=None):
    """`crop` with numbers of the graph, which are larger than those that Paddle puts beside them."""
    lists = ([_as_small(one) for one in sizes] if _is_open_list(sizes) else sizes for sizes in (shape, offsets))
    return paddle.crop(x, *lists)


def _as_small(size):
    return paddle.cast(size, paddle.int32).reshape([1]) if isinstance(size, Value) else size


def _is_open_list(sizes):
    return isinstance(sizes, (list, tuple)) and any(isinstance(size, Value) for size in sizes)


def _crops_openly(args, kwargs):
    lists = [*args[1:3], *(kwargs.get(name) for name in ("shape", "offsets"))]
    numbers = [size for sizes in filter(_is_open_list, lists) for size in sizes if isinstance(size, Value)]
    return bool(numbers) and all(size.ndim == 0 and size.dtype == paddle.int64 for size in numbers)


def _has_step(key):
    return isinstance(key, slice) and isinstance(key.step, Value)


def _stepped(x, key):
    """`x[key]` with slices whose steps the graph makes: Paddle asks those for their truth."""
    keys = key if isinstance(key, tuple) else (key,)
    x = x[tuple(slice(one.start, one.stop) if _has_step(one) else one for one in keys)]
    axis = 0
    for one in keys:
        if _has_step(one):
            check(one.step > 0)
            x = paddle.index_select(x, paddle.arange(0, _sizes(x)[axis], one.step), axis)
        axis += one is None or isinstance(one, slice)
    return x


def _steps_openly(args, kwargs):
    keys = args[1] if len(args) == 2 and isinstance(args[1], tuple) else args[1:]
    simple = all(one is None or type(one) is int or isinstance(one, slice) for one in keys)
    return isinstance(args[0], Value) and simple and any(map(_has_step, keys)) and not kwargs


# Functions by address, methods by name: when another one stands for them.
_OTHERS = {
    "__getitem__": (_steps_openly, _stepped),
    **dict.fromkeys((id(paddle.gather), paddle.gather.__name__), (_gathers_along_tensor, _gathered)),
    **dict.fromkeys((id(paddle.chunk), "chunk"), (_chunks_openly, _chunked)),
    **dict.fromkeys((id(paddle.crop), "crop"), (_crops_openly, _cropped)),
    **dict.fromkeys((id(paddle.topk), "topk"), (_counts_openly, _highest)),
    **dict.fromkeys((id(functional.pad), "pad"), (_has_open_paddings, _padded)),
    **dict.fromkeys((id(paddle.repeat_interleave), "repeat_interleave"), (_repeats_openly, _repeated)),
}


def _unshuffled(x, downscale_factor, data_format="NCHW", name=None):
    """`pixel_unshuffle`: its operator wants to divide dims that are open."""
    step, first = downscale_factor, data_format == "NCHW"
    sizes = _sizes(x)
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
    layout = layout[0] if layout else kwargs.get(DATA_FORMAT, "NCHW")
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


_OF_NUMBERS = frozenset((*_OF_DIAGONALS, *_POOLS, id(paddle.repeat_interleave), "repeat_interleave"))


def wants_numbers(function):
    """Whether eager mode takes no tensor for a number of this function, or takes it for something else."""
    return key_of(function) in _OF_NUMBERS


def as_numbers(args, kwargs):
    """The arguments with numbers in the place of tensors that the graph has of those, behind the first."""
    return [*args[:1], *map(_as_number, args[1:])], kwargs and {
        key: it if key in ("x", "input") else _as_number(it) for key, it in kwargs.items()
    }


def _as_number(value):
    if isinstance(value, (list, tuple)):
        return type(value)(map(_as_number, value))
    whole = isinstance(value, paddle.Tensor) and value.ndim == 0 and value.dtype in (paddle.int32, paddle.int64)
    return value.item() if whole else value


def key_of(function):
    """What a call is looked up by: methods by name, functions by address."""
    return function if type(function) is str else id(function)


# By what is called: whether the arguments ask for it, and what takes its place then.
_FORMS = {
    **{key: (_has_open_diagonal, form) for key, form in _OF_DIAGONALS.items()},
    **{key: (_has_open_sizes, form) for key, form in _POOLS.items()},
    **dict.fromkeys(_ALONG, (_broadcasts_open_dims, _taken_along)),
    **dict.fromkeys(_UNSHUFFLES, (_is_open_image, _unshuffled)),
    **_OTHERS,
}


def of_open_sizes(function, args, kwargs):
    """What takes numbers of the graph in the place of this function, which does not; mostly itself."""
    applies, form = _FORMS.get(key_of(function), (None, None))
    return form if applies is not None and applies(args, kwargs) else function
