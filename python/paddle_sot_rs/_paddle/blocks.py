"""Results of `if` and `pylayer` operations, which Paddle's executor hands on only where they are not empty.

An empty one arrives without its shape. So what may be empty leaves its block with a row more along each axis that may
have none, and loses it right behind.
"""

from contextlib import contextmanager

import numpy
import paddle
from paddle import _C_ops
from paddle.base.libpaddle import pir
from paddle.static.nn import control_flow

from paddle_sot_rs._graph.rows import ROWS
from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.gradients.backward import REGIONS, inner_operations
from paddle_sot_rs._paddle.value_patches import dims


def axes(value):
    """The axes that may have no row."""
    return [at for at, dim in enumerate(dims(value)) if dim <= 0]


def widened(value, along):
    """`value` with a row more along each of these axes."""
    if not along:
        return value
    with marked(ROWS):
        for axis in along:
            value = _C_ops.concat([value, _row(value, axis)], axis)
    return value


def narrowed(values, along):
    """Such values without those rows; None stays None."""
    if not any(along):
        return tuple(values)
    with marked(ROWS):
        pairs = zip(values, along, strict=True)
        return tuple(_narrowed(value, at) if at and value is not None else value for value, at in pairs)


@contextmanager
def marked(attribute):
    """Gives this attribute to the operations that are appended."""
    block = pir.get_current_insertion_point().block()
    start = block.num_ops()
    yield
    missing = block.num_ops() - start
    for op in block.ops[-missing:] if missing else ():
        op.set_bool_attr(attribute, True)


def _narrowed(value, along):
    return _C_ops.slice(value, along, [0] * len(along), [-1] * len(along), [1] * len(along), [])


def _row(value, axis):
    shape = [1 if at == axis else dim for at, dim in enumerate(dims(value))]
    if -1 in shape:
        # There is no shape of `int16` in programs.
        known = _C_ops.shape64(_C_ops.cast(value, paddle.int32) if value.dtype == paddle.int16 else value)
        others = numpy.array([at != axis for at in range(len(shape))], "int64")
        shape = _C_ops.add(_C_ops.multiply(known, paddle.assign(others)), paddle.assign(1 - others))
        shape.stop_gradient = True
    row = paddle.full(shape, 0, value.dtype)
    row.stop_gradient = True
    return row


def branch(condition, then, otherwise):
    """`cond`: its results, and the axes of each along which it has a row more.

    The sides are built again where they do not agree on those.
    """
    block = pir.get_current_insertion_point().block()
    start = len(block.ops)
    along = None
    while True:
        found = []

        def side(build, along=along, found=found):
            def built():
                values = build()
                found.append([axes(value) for value in values])
                return [widened(*pair) for pair in zip(values, along or found[-1], strict=True)]

            return built

        result = control_flow.cond(condition, side(then), side(otherwise))
        result = tuple(result) if isinstance(result, (list, tuple)) else (result,)
        if along is not None or found[0] == found[1]:
            return result, along or found[0]
        along = [sorted({*one, *other}) for one, other in zip(*found, strict=True)]
        take_back(block, start)


def take_back(block, start):
    """Removes the operations behind the first `start` ones, and what is known of them."""
    for op in reversed(block.ops[start:]):
        remove(block, op, tracing.current.branches)


def remove(block, op, branches):
    """Removes an operation, and what `branches` knows of it and of those inside of it."""
    if branches and op.name() in REGIONS:
        # Addresses are used again.
        for dead in (op, *inner_operations(op)):
            for value in dead.results():
                branches.pop(value.id, None)
    block.remove_op(op)


def in_block(given, build):
    """One operation that takes `given` and has a block, in which `build` is called.

    The answer is its results, and the axes of each along which it has a row more. Not through `static_pylayer()`:
    without a backward function, that takes no inputs that have gradients.
    """
    operation = pir.build_pylayer_op(list(given))
    with operation.forward_block():
        values = build()
        along = [axes(value) for value in values]
        pir.cf_yield([widened(*pair) for pair in zip(values, along, strict=True)])
    operation.update_output()
    return tuple(operation.results()), along
