"""What Paddle infers otherwise than its kernels make it: types of results, in `_CORRECTIONS`.

What operations ask of open dims: those that do something else where one is 0 or 1, and those whose shapes Paddle
infers wrongly. A row in `ASKS` for each, and a case in `SEEN` of `scalars/test_open_dims_of_functions.py`."""

from typing import Any

import paddle
from paddle.base.libpaddle.pir import create_shaped_type

from paddle_sot_rs._paddle.runnable import DATA_FORMAT
from paddle_sot_rs._paddle.value_patches import NUMBER, dims


def asked(operations):
    """What the operations of a call ask, as `Trace.asked` has it.

    Raises for what depends on a dim that nobody knows.
    """
    found = []
    for op in operations:
        asks = ASKS.get(op.name())
        if asks is not None:
            found += asks(op, operations)
    return found


def _are_not(op, value, number, among=None):
    """That open dims of a value are not this number; refuses those that are known to be."""
    if among is None and number in dims(value):
        raise NotImplementedError(f"{op.name()} with a dim of {number}")
    places = [at for at, dim in enumerate(dims(value)) if dim < 0 and (among is None or at in among)]
    return [(str(value.id), at, "__eq__", NUMBER, number, False) for at in places]


def _rows_of(at):
    """Without rows in this operand, eager mode answers with another shape or dtype, or at all, or raises."""
    return lambda op, _: _are_not(op, op.operand_source(at), 0)


def _known(at):
    """Paddle does not infer what becomes of open dims of this operand."""

    def asks(op, _):
        if -1 in dims(op.operand_source(at)):
            raise NotImplementedError(f"Paddle does not infer the shape of {op.name()} of open length")
        return []

    return asks


def _made_of(shape_of):
    """Paddle computes with the -1 of open dims: the shape is what `shape_of` says of the operand's."""

    def asks(op, operations):
        given, result = dims(op.operand_source(0)), op.result(0)
        if -1 not in given:
            return []
        shape = shape_of(op.attrs(), given, dims(result))
        if shape != dims(result):
            _give_shape(result, shape, op)
        return []

    return asks


def _give_shape(value, shape, of):
    """Gives a value another shape, and what the same call has made of it: Paddle has inferred that from the first."""
    value.set_type(create_shaped_type(value.type(), shape))
    for user in value.all_used_ops():
        result = user.result(0)
        if user.name() == "pd_op.squeeze":
            made = _without(shape, user.operand_source(1))
        elif user.name() == "pd_op.add" and sum(dim != 1 for dim in dims(user.operand_source(1))) < 2:
            # A bias for each channel.
            made = shape if len(dims(result)) == len(shape) else None
        else:
            made = None
        if made is None:
            raise NotImplementedError(f"Paddle does not infer the shape of {of.name()} of open length")
        _give_shape(result, made, of)


def _without(shape, axes):
    """A shape without these axes, None where nobody knows which."""
    maker = axes.get_defining_op()
    if maker is None or maker.name() != "pd_op.full_int_array":
        return None
    gone = {axis % len(shape) for axis in maker.attrs()["value"]}
    return [dim for at, dim in enumerate(shape) if at not in gone]


def _of_spectrum(attributes, given, _):
    """A half and one more of the last axis."""
    last = attributes["axes"][-1]
    size = given[last]
    return [(-1 if size < 0 else size // 2 + 1) if at == last % len(given) else dim for at, dim in enumerate(given)]


def _of_frames(attributes, given, _):
    length, hop = attributes["frame_length"], attributes["hop_length"]
    if attributes["axis"] == 0:
        return [-1 if given[0] < 0 else (given[0] - length) // hop + 1, length, *given[1:]]
    return [*given[:-1], length, -1 if given[-1] < 0 else (given[-1] - length) // hop + 1]


def _of_transposed(attributes, given, made):
    """Paddle adds the padding of the output to a -1."""
    if not any(attributes["output_padding"]):
        return made
    last = not attributes[DATA_FORMAT].startswith("NC")
    places = range(1, len(given) - 1) if last else range(2, len(given))
    return [-1 if at in places and given[at] < 0 else dim for at, dim in enumerate(made)]


def _of_grid(op, _):
    """Where sizes are numbers of the graph, Paddle takes the grid for one of volumes."""
    batch, rank, _columns = dims(op.operand_source(0))
    if len(dims(op.result(0))) != rank + 2:
        _give_shape(op.result(0), [batch, *[-1] * rank, rank], op)
    return []


def _of_nothing(op, _):
    """Without elements the kernel leaves open dims of its result at -1."""
    made = dims(op.result(0))
    if 0 in made and -1 in made:
        raise NotImplementedError(f"{op.name()} with a dim of 0 beside open ones")
    return []


def _of_another_dtype(op, _):
    """Without elements, eager mode answers with the dtype of the operand, but for whole numbers of 64 bits."""
    given, dtype = op.operand_source(0), op.result(0).dtype
    return [] if dtype in (given.dtype, paddle.int64) else _are_not(op, given, 0)


def _where(attribute, asks):
    """Only with this attribute."""
    return lambda op, operations: asks(op, operations) if op.attrs()[attribute] else []


def _indexed(asks):
    """The last dim of an index says the rank of the result."""

    def asks_too(op, operations):
        if dims(op.operand_source(1))[-1:] == [-1]:
            raise NotImplementedError(f"{op.name()} with an index of open length")
        return asks(op, operations)

    return asks_too


def _shaped(first):
    """The length of a shape that is a tensor says the rank of the result."""

    def asks(op, _):
        shapes = [value for value in op.operands_source()[first:] if value.initialized()]
        if any(value.is_dense_tensor_type() and dims(value) == [-1] for value in shapes):
            raise NotImplementedError(f"{op.name()} to a shape of open length")
        return []

    return asks


def _labels(op, operations):
    """The mean of no labels is nan in eager mode, where labels are counted."""
    counted = op.attrs()["ignore_index"] >= 0 or any(other.name() == "pd_op.gather_nd" for other in operations)
    return _are_not(op, op.operand_source(0), 0) if counted else []


def _squeezed(op, _):
    value, rank = op.operand_source(0), len(dims(op.operand_source(0)))
    maker = op.operand_source(1).get_defining_op()
    axes = maker.attrs()["value"] if maker is not None and maker.name() == "pd_op.full_int_array" else ()
    return _are_not(op, value, 1, {axis + rank if axis < 0 else axis for axis in axes} or range(rank))


def _gathered(op, _):
    """Along another axis than the first, the kernel forgets the axis where there is nothing to do."""
    maker = op.operand_source(2).get_defining_op()
    if maker is not None and maker.name() == "pd_op.full" and maker.attrs()["value"] == 0:
        return []
    return _are_not(op, op.operand_source(0), 0) + _are_not(op, op.operand_source(1), 0)


def _product(op, operations):
    """Paddle infers that the product of an open batch and one of 1 has 1."""
    one, other = (dims(op.operand_source(at))[:-2] for at in (0, 1))
    at_1 = [at for at, pair in enumerate(zip(one[::-1], other[::-1], strict=False)) if {*pair} == {-1, 1}]
    if at_1:
        if op.id() != operations[-1].id():
            raise NotImplementedError("a product of matrices, in an open batch and a batch of 1, inside of a call")
        result, batch = op.result(0), max(len(one), len(other))
        shape = dims(result)
        for at in at_1:
            shape[batch - 1 - at] = -1
        result.set_type(create_shaped_type(result.type(), shape))
    return []


_TRANSPOSED = [f"pd_op.{kind}_transpose" for kind in "conv2d conv3d depthwise_conv2d".split()]
_INTERPOLATIONS = [f"pd_op.{kind}_interp" for kind in "bicubic bilinear linear nearest trilinear".split()]
ASKS = {
    **dict.fromkeys(("pd_op.bincount", "pd_op.topk", "pd_op.unique", "pd_op.unique_consecutive"), _rows_of(0)),
    "pd_op.affine_grid": _of_grid,
    **dict.fromkeys(_TRANSPOSED, _made_of(_of_transposed)),
    **dict.fromkeys(("pd_op.expand_as", *_INTERPOLATIONS), _of_nothing),
    "pd_op.cross_entropy_with_softmax": _labels,
    "pd_op.diag": _where("offset", _known(0)),
    "pd_op.fft_r2c": _where("onesided", _made_of(_of_spectrum)),
    "pd_op.frame": _made_of(_of_frames),
    "pd_op.overlap_add": _known(0),
    "pd_op.full_with_tensor": _shaped(0),
    "pd_op.gather": _gathered,
    "pd_op.gather_nd": _indexed(lambda *_: []),
    "pd_op.matmul": _product,
    **dict.fromkeys(("pd_op.expand", "pd_op.reshape", "pd_op.tile"), _shaped(1)),
    "pd_op.scatter_nd_add": _indexed(_rows_of(1)),
    "pd_op.squeeze": _squeezed,
    "pd_op.sum": _of_another_dtype,
}


_types: dict[Any, Any] = {}


def _type_of(dtype):
    # Types live as long as the process: Paddle has one object for all equal ones.
    if dtype not in _types:
        with paddle.static.program_guard(paddle.static.Program()):
            _types[dtype] = paddle.full([1], 0, dtype).type()
    return _types[dtype]


def _of_dtype(dtype, *places):
    """Results in these places have this dtype; all of them where none is named."""

    def corrections(op):
        return {at: (dtype, dims(op.result(at))) for at in places or range(op.num_results())}

    return corrections


def _two_of_each_matrix(op):
    """A sign and a logarithm."""
    given = op.operand_source(0)
    return {0: (given.dtype, [2, *dims(given)[:-2]])}


_CORRECTIONS = {
    "pd_op.slogdet": _two_of_each_matrix,
    "pd_op.equal_all": _of_dtype(paddle.bool),
    "pd_op.lstsq": _of_dtype(paddle.int32, 2),
    **dict.fromkeys(
        ("pd_op.matrix_rank", "pd_op.matrix_rank_tol", "pd_op.matrix_rank_atol_rtol"), _of_dtype(paddle.int64)
    ),
}


def correct(operations):
    """Gives the results of operations that a call has appended the types that they will have.

    What is made of such a result in the same call has been inferred from the wrong one: that is refused.
    """
    for op in operations:
        corrections = _CORRECTIONS.get(op.name())
        if corrections is None:
            continue
        for at, (dtype, shape) in corrections(op).items():
            result = op.result(at)
            if result.dtype == dtype and dims(result) == shape:
                continue
            if not result.use_empty():
                raise NotImplementedError(f"{op.name()} inside of a call: Paddle infers another type for its result")
            result.set_type(create_shaped_type(_type_of(dtype), shape))
            if dtype not in (paddle.float32, paddle.float64):
                result.stop_gradient = True
