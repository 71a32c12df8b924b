"""What `paddle.inference` asks of a saved program.

Its passes and kernels do not know all that may be in one: what `paddle.jit.load` computes can fail there, or be wrong.
"""

import functools

import paddle
from paddle import _C_ops
from paddle.base.libpaddle import pir

from paddle_sot_rs._onednn.equal_dims import equal_dims
from paddle_sot_rs._onednn.operators import (
    TURNED,
    activates_again,
    begins_in_front,
    ends_a_product,
    grows_a_product,
    has_six_dims,
    is_cut_off,
    is_flattened_otherwise,
    is_multiplied_otherwise,
    is_squeezed_otherwise,
    is_typed_otherwise,
    misread,
    norms_several_dims,
    plain_name,
    pools_otherwise,
    reads_behind_the_slope,
    scales_a_quotient,
    sliced_axes,
    transposes_a_column,
)
from paddle_sot_rs._paddle.blocks import ROWS
from paddle_sot_rs._paddle.gradients.backward import CUSTOM, blocks_of
from paddle_sot_rs._paddle.passes.constant_folding import keep_from_folding
from paddle_sot_rs._paddle.passes.kept_operands import CONVOLVES, kept_otherwise
from paddle_sot_rs._paddle.passes.written_over import made_by, written_over_once_more
from paddle_sot_rs._paddle.value_patches import dims
from paddle_sot_rs._paddle.views import ASSIGN

# oneDNN's passes make one operation of these and of what is computed next, which kernels of other
# dtypes than its own forget.
_ACTIVATIONS = """
    abs clip gelu hardsigmoid hardswish leaky_relu mish relu relu6 scale sigmoid silu sqrt squeeze swish tanh unsqueeze
""".split()
_FOLLOWERS = """
    conv2d, conv3d, depthwise_conv2d, conv2d_transpose: add batch_norm builtin.combine
    matmul: add transpose
    add, subtract, multiply, divide, softplus, batch_norm:
    scale: matmul
    transpose: matmul reshape unsqueeze
"""
# Of these only what is named is joined to them.
_PLAIN_ONLY = "scale transpose".split()


def _followers():
    for line in _FOLLOWERS.strip().splitlines():
        names, followers = line.split(":")
        for name in names.strip().split(", "):
            yield name, (*followers.split(), *(() if name in _PLAIN_ONLY else _ACTIVATIONS))


_JOINED = dict(_followers())
_MULTIPLIES = "matmul scale".split()
_CONVOLUTIONS = [f"pd_op.{name}" for name in (*CONVOLVES, *"add batch_norm_".split())]
_BEFORE_A_SLOPE = (*CONVOLVES, *"add batch_norm matmul".split())
# What a pass makes of these and of what is next is refused, or computed otherwise.
_REFUSED = (is_flattened_otherwise, is_typed_otherwise, is_squeezed_otherwise, is_multiplied_otherwise)
_ONEDNN = (paddle.float32, paddle.bfloat16)
_BYTES = (paddle.int8, paddle.uint8)
_SIZE = "output_size"
_CONVOLVED = {
    "conv2d": "strides paddings padding_algorithm dilations groups data_format",
    "conv3d": "strides paddings padding_algorithm groups dilations data_format",
    "depthwise_conv2d": "strides paddings padding_algorithm groups dilations data_format",
    "conv2d_transpose": "strides paddings output_padding output_size padding_algorithm groups dilations data_format",
}
_PAD = "pd_op.pad"
_NEAREST = "pd_op.nearest_interp"
_PRELU = "pd_op.prelu"
_LAYER_NORM = "pd_op.layer_norm"
_POOL = "pd_op.pool2d"
_SOFTPLUS = "pd_op.softplus"
_SUM = "pd_op.sum"
# Those of kernels of oneDNN, where these are more.
_DTYPES = {_NEAREST: (*_ONEDNN, paddle.float16, *_BYTES)}
_SELECTED = (paddle.float32, paddle.float64, paddle.int32, paddle.int64)
_FLOATS = (paddle.float32, paddle.float16, paddle.bfloat16)


def prepare(block, inputs, outputs=(), written_over=None):
    """Changes a program that is going to be saved.

    `inputs` are Values of its inputs, and `outputs` of its results: other ones may take their places. Of a block
    inside of it, `written_over` is what `written_over_once_more` says of the program.
    """
    while customs := [op for op in block.ops if op.name() == CUSTOM]:
        for op in customs:
            _inline(op, outputs)
    for op in filter(transposes_a_column, block.ops):
        _transpose_before(op, outputs)
    if written_over is None:
        _compute_anew(block, outputs)
        written_over = written_over_once_more(block, {value.id for value in outputs})
    plain, known = {}, equal_dims(block)
    for op in block.ops:
        for at in misread(op):
            _read_plainly(op, at, plain)
        if inputs:
            keep_from_folding(op, inputs[0])
        if _has_no_kernel(op):
            # It is gone then, and has no blocks.
            _compute_in_doubles(op, outputs)
            continue
        elif op.name() == "pd_op.expand_as" and -1 in dims(op.result(0)):
            _expand_to_shape(op, outputs)
            continue
        elif op.name() == "pd_op.gather" and _gathers_along_another(op):
            _select(op, outputs)
            continue
        elif begins_in_front(op) and op.result(0).dtype in (*_ONEDNN, *_BYTES) and not _takes_one_of_each(op):
            _slice_in_steps(op, outputs)
            continue
        elif op.name() == "pd_op.add" and op.result(0).dtype in _BYTES:
            _add_whole_numbers(op, outputs)
            continue
        elif op.name() == _SUM and op.operand_source(0).dtype in _ONEDNN and _makes_another_dtype(op):
            _sum_of_another_dtype(op, outputs)
            continue
        elif op.name() in _WITHOUT_DIMS and not dims(_first_part(op)) and op.result(0).dtype in _ONEDNN:
            _WITHOUT_DIMS[op.name()](op, outputs)
            continue
        elif op.id() in written_over or _is_joined(op, known):
            _keep_apart(op, outputs)
        for inner in blocks_of(op):
            prepare(inner, inputs, (), written_over)
            _hand_over_plainly(inner)


def _compute_anew(block, outputs):
    """Keeps from kernels of oneDNN what they would keep, and runs differ in."""
    convolutions, apart = kept_otherwise(block)
    for op in convolutions:
        pir.set_insertion_point(op)
        given = (_C_ops.cast(value, paddle.float64) for value in op.operands_source()[:2])
        made = _convolved(op, *given)
        _take_place(op, _C_ops.cast(made, op.result(0).dtype), outputs)
    for op in apart:
        _keep_apart(op, outputs)


def _convolved(op, given, weight):
    """The same convolution of other operands."""
    names = _CONVOLVED[plain_name(op)].split()
    sizes = op.operands_source()[2:]
    return getattr(_C_ops, plain_name(op))(
        given, weight, *(op.attrs()[name] if name != _SIZE else sizes[0] for name in names)
    )


def _inline(custom, outputs):
    """Puts what a custom operation computes into its place.

    Nothing that is saved goes backward, and constant folding does not know that it has a block.
    """
    (forward,) = blocks_of(custom)
    *computed, end = forward.ops
    for op in computed:
        op.move_before(custom)
    for old, new in zip(custom.results(), end.operands_source(), strict=True):
        _replace(old, new, outputs)
    custom.get_parent_block().remove_op(custom)


def _replace(old, new, outputs):
    old.replace_all_uses_with(new)
    for at, value in enumerate(outputs):
        if value.is_same(old):
            outputs[at] = new


def _take_place(op, made, outputs):
    """Puts a value into the place of the only result of an operation, which goes."""
    made.stop_gradient = op.result(0).stop_gradient
    _replace(op.result(0), made, outputs)
    op.get_parent_block().remove_op(op)


def _compute_in_doubles(op, outputs):
    """Computes in doubles what oneDNN's kernels fail in, end the process in, differ in, or read and
    write in where they may not.

    Rows that come and go, all of which may be empty, `pad`, `prelu`, `softplus`, norms of several
    dims, pooling to sizes that do not divide dims or by windows that end behind the padding, and copies of the nearest.

    Those take no doubles, which hold what they are given.
    """
    result = op.result(0)
    if result.dtype not in _DTYPES.get(op.name(), _ONEDNN):
        return
    pir.set_insertion_point(op)
    given = op.operand_source(0)
    if op.name() == _PAD:
        doubles = _C_ops.cast(given, paddle.float64)
        made = _C_ops.pad(doubles, op.attrs()["paddings"], op.operand_source(1))
    elif op.name() == _PRELU:
        # Products of two floats are exact.
        operands = (_C_ops.cast(value, paddle.float64) for value in op.operands_source())
        made = _C_ops.prelu(*operands, *(op.attrs()[name] for name in "data_format mode".split()))
    elif op.name() == _LAYER_NORM:
        attributes = op.attrs()
        operands = (
            _C_ops.cast(value, paddle.float64) if value.initialized() else None for value in op.operands_source()
        )
        made = _C_ops.layer_norm(*operands, attributes["epsilon"], attributes["begin_norm_axis"])
    elif op.name() == _POOL:
        names = (
            "strides paddings ceil_mode exclusive data_format pooling_type global_pooling adaptive padding_algorithm"
        )
        doubles, sizes = _C_ops.cast(given, paddle.float64), op.operand_source(1)
        made = _C_ops.pool2d(doubles, sizes, *(op.attrs()[name] for name in names.split()))
    elif op.name() == _SOFTPLUS:
        attributes = op.attrs()
        made = _C_ops.softplus(_C_ops.cast(given, paddle.float64), attributes["beta"], attributes["threshold"])
    elif op.name() == _NEAREST:
        made = _nearest(op, _C_ops.cast(given, paddle.float64))
    elif op.name() == "pd_op.concat":
        made = _C_ops.concat([_C_ops.cast(value, paddle.float64) for value in _parts(op)], op.operand_source(1))
    else:
        attributes, ends = op.attrs(), (op.operand_source(1), op.operand_source(2))
        if _is_element(op):
            # The dims that go say that -1 is the last place.
            going = attributes["decrease_axis"]
            made = _C_ops.slice(given, attributes["axes"], *ends, attributes["infer_flags"], going)
            made = _C_ops.reshape(_C_ops.cast(made, paddle.float64), [])
        else:
            doubles = _C_ops.cast(given, paddle.float64)
            made = _C_ops.slice(doubles, attributes["axes"], *ends, attributes["infer_flags"], [])
    _take_place(op, _C_ops.cast(made, result.dtype), outputs)


def _nearest(op, given):
    """The same copies of another tensor. Paddle hands a list of scales on to no kernel of oneDNN."""
    size, sizes, scale = (value if value.initialized() else None for value in op.operands_source()[1:])
    if sizes is not None:
        sizes = sizes.get_defining_op().operands_source()
    attributes = op.attrs()
    names = "data_format out_d out_h out_w scale interp_method align_corners align_mode"
    return _C_ops.nearest_interp(given, size, sizes, scale, *(attributes[name] for name in names.split()))


def _expand_to_shape(op, outputs):
    """The kernel of `expand_as` leaves its result without a shape where that has no elements."""
    given, like = op.operands_source()
    pir.set_insertion_point(op)
    _take_place(op, _C_ops.expand(given, _C_ops.shape64(like)), outputs)


def _gathers_along_another(op):
    """Whether it goes along another axis than the first: where there is nothing, it has the shape of that."""
    x, places, axis = op.operands_source()
    maker = axis.get_defining_op()
    known = maker is not None and maker.name() == "pd_op.full" and x.dtype in _SELECTED
    return known and len(dims(places)) == 1 and maker.attrs()["value"] % max(len(dims(x)), 1) != 0


def _transpose_before(op, outputs):
    """The product with what is transposed by itself. The copy keeps passes from putting the two together."""
    x, y = op.operands_source()
    pir.set_insertion_point(op)
    *outer, rows, columns = range(len(dims(y)))
    turned = _C_ops.assign(_C_ops.transpose(y, [*outer, columns, rows]))
    made = _C_ops.matmul(x, turned, op.attrs()[TURNED[0]], False)
    _take_place(op, made, outputs)


def _select(op, outputs):
    x, places, axis = op.operands_source()
    pir.set_insertion_point(op)
    made = _C_ops.index_select(x, places, int(axis.get_defining_op().attrs()["value"]))
    _take_place(op, made, outputs)


def _takes_one_of_each(op):
    """Whether it takes one place of each axis that it goes along: eager mode raises where there is none."""
    return set(sliced_axes(op)) <= set(op.attrs()["decrease_axis"])


def _slice_in_steps(op, outputs):
    """The same slice with steps of 1: that has no kernel of oneDNN."""
    (given, begins, ends), along = op.operands_source(), sliced_axes(op)
    pir.set_insertion_point(op)
    made = _C_ops.strided_slice(given, along, begins, ends, [1] * len(along))
    if going := op.attrs()["decrease_axis"]:
        made = _C_ops.squeeze(made, going)
    _take_place(op, made, outputs)


def _add_whole_numbers(op, outputs):
    """The sum of bytes, computed as of larger numbers: the kernel of oneDNN gives the largest byte where one goes on
    from the smallest.
    """
    pir.set_insertion_point(op)
    left, right = (_C_ops.cast(value, paddle.int32) for value in op.operands_source())
    _take_place(op, _C_ops.cast(_C_ops.add(left, right), op.result(0).dtype), outputs)


def _add_one_by_one(op, outputs):
    first, *rest = _parts(op)
    pir.set_insertion_point(op)
    _take_place(op, functools.reduce(_C_ops.add, rest, first), outputs)


def _reshape_to_one(op, outputs):
    pir.set_insertion_point(op)
    _take_place(op, _C_ops.reshape(op.operand_source(0), [1]), outputs)


# Kernels of oneDNN that raise for a tensor without dims, and what takes their place.
_WITHOUT_DIMS = {"pd_op.add_n": _add_one_by_one, "pd_op.flatten": _reshape_to_one}


def _first_part(op):
    """The first operand, or the first of the list that it is."""
    value = op.operand_source(0)
    return value if value.is_dense_tensor_type() else _parts(op)[0]


def _makes_another_dtype(op):
    return op.result(0).dtype != op.operand_source(0).dtype


def _sum_of_another_dtype(op, outputs):
    """The sum of what has the dtype of the result: the kernel of oneDNN makes one of the operand's."""
    pir.set_insertion_point(op)
    (given, axes), dtype = op.operands_source(), op.result(0).dtype
    _take_place(op, _C_ops.sum(_C_ops.cast(given, dtype), axes, dtype, op.attrs()["keepdim"]), outputs)


def _has_no_kernel(op):
    """Whether it is computed in doubles: see there."""
    differs = op.name() in (_PAD, _NEAREST) or reads_behind_the_slope(op) or is_cut_off(op)
    differs = differs or op.name() == _PRELU and has_six_dims(op)
    differs = differs or op.name() == _POOL and (_pools_unevenly(op) or pools_otherwise(op))
    return differs or _is_norm_alone(op) or _is_element(op) or _is_of_rows(op)


def _pools_unevenly(op):
    """Whether it pools to sizes of which one may not divide a dim: oneDNN's kernel pools others, or raises."""
    attributes, sizes = op.attrs(), op.operand_source(1).get_defining_op()
    if not attributes["adaptive"]:
        return False
    if sizes is None or "value" not in sizes.attrs():
        return True
    pairs = zip(dims(op.operand_source(0))[2:], sizes.attrs()["value"], strict=False)
    return any(size != 1 and (dim < 0 or dim % size) for dim, size in pairs)


def _is_norm_alone(op):
    """Whether it norms several dims, or one of six, and nothing reads the mean and the variance."""
    differs = norms_several_dims(op) or op.name() == _LAYER_NORM and has_six_dims(op)
    return differs and all(value.use_empty() for value in op.results()[1:])


def _is_of_rows(op):
    return op.name() in ("pd_op.concat", "pd_op.slice") and op.has_attr(ROWS)


def _is_element(op):
    """Whether it takes one element: oneDNN's kernel answers with a dim of one."""
    return op.name() == "pd_op.slice" and op.result(0).is_dense_tensor_type() and not dims(op.result(0))


def _is_joined(op, known):
    """Whether a pass makes one operation of it and of what is computed next, for which there is no kernel."""
    name = plain_name(op)
    users = op.result(0).all_used_ops() if op.num_results() else []
    if any(differs(op) for differs in _REFUSED):
        return True
    if any(map(activates_again, users)):
        return True
    if name in CONVOLVES and any(map(_adds_fewer_dims, users)):
        return True
    # The pass takes the filter for that of one group.
    if name == "conv2d_transpose" and op.attrs()["groups"] > 1 and any(plain_name(it) == "batch_norm" for it in users):
        return True
    if any(scales_a_quotient(user, known) for user in users):
        return True
    if name in _MULTIPLIES and any(grows_a_product(user, known) for user in users):
        return True
    # The pass takes the slope for a float, which is a double: that ends the process.
    slopes = [user for user in users if user.name() == "pd_op.leaky_relu"]
    if slopes and (name in _BEFORE_A_SLOPE or ends_a_product(slopes[0])):
        return True
    if op.name() == "pd_op.concat" and any(map(_is_of_convolution, _parts(op))):
        followers = _ACTIVATIONS
    elif name in _JOINED and op.result(0).dtype not in _ONEDNN:
        followers = _JOINED[name]
    else:
        return False
    return any(plain_name(user) in followers for user in users)


def _adds_fewer_dims(op):
    """Whether an operand has fewer dims: a pass takes it for numbers of the channels, whatever it is added along."""
    return op.name().removesuffix("_") == "pd_op.add" and len({len(dims(value)) for value in op.operands_source()}) > 1


def _parts(concat):
    return concat.operand_source(0).get_defining_op().operands_source()


def _is_of_convolution(value):
    """Whether a convolution makes it, or what may become a part of one: the pass that joins an activation to several
    of them takes none with a bias, and ends the process.
    """
    op = value.get_defining_op()
    return op is not None and op.name() in _CONVOLUTIONS


def _keep_apart(op, outputs):
    """A copy between each thing that this makes and what is computed next."""
    for result in made_by(op):
        if not result.use_empty() or any(value.is_same(result) for value in outputs):
            pir.set_insertion_point_after(op)
            copy = _C_ops.assign(result)
            copy.stop_gradient = result.stop_gradient
            _replace(result, copy, outputs)
            copy.get_defining_op().operand(0).set_source(result)


def _read_plainly(op, at, copies):
    """Reads a copy of what it takes for what lies in the order of its dims.

    There is one of each, behind what makes that: a later one would be made in place.
    """
    value = op.operand_source(at)
    copy = copies.get(value.id)
    if copy is None:
        maker = value.get_defining_op()
        if maker.get_parent_block() is op.get_parent_block():
            pir.set_insertion_point_after(maker)
        else:
            pir.set_insertion_point(op)
        copies[value.id] = copy = _C_ops.assign(value)
        copy.stop_gradient = value.stop_gradient
    op.operand(at).set_source(copy)


def _hand_over_plainly(block):
    """What a oneDNN kernel makes is in a layout of its own, and only operations of the same block know."""
    last = block.ops[-1] if block.ops else None
    if last is None or last.name() != "cf.yield":
        return
    for at in range(last.num_operands()):
        value = last.operand_source(at)
        op = value.get_defining_op()
        is_plain = op is not None and op.name() == ASSIGN
        if is_plain or not value.is_dense_tensor_type() or value.dtype not in _FLOATS:
            continue
        pir.set_insertion_point(last)
        plain = _C_ops.assign(value)
        plain.stop_gradient = value.stop_gradient
        last.operand(at).set_source(plain)
