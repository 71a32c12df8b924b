"""`x[indices] = v` in a program, with eager mode's gradient of `v`."""

from math import prod

import paddle
from paddle import _C_ops

from paddle_sot_rs._graph.control import put_items_with_gradient
from paddle_sot_rs._paddle.calls.call_rewrites import put_static_form

# Paddle 3.2 has no decorators that know other names of arguments; its gradient keeps the value.
_KEEPS_VALUE = not hasattr(paddle.floor_divide, "__wrapped__")
_BYTES = 4


def _with_gradient(tensor, value):
    """The tensor, as one that a gradient goes to: on to a value, as zeros."""
    one = paddle.slice(paddle.reshape(value, [-1]), [0], [0], [1])
    chosen = paddle.full(tensor.shape, True, "bool")
    return _C_ops.where(chosen, tensor, paddle.expand(one, tensor.shape))


def put(tensor, key, value):
    """The static form of `put_items_with_gradient`, of single precision.

    The kernel is eager mode's. Of a place that is given twice, one of both values has the gradient: the kernel takes it
    out of that of the tensor, to which one goes for that reason.
    """
    if _KEEPS_VALUE:
        raise NotImplementedError("indices that are set to what a gradient goes to, on Paddle 3.2")
    given = key if isinstance(key, tuple) else (key,)
    # A copy would not be refused where the indices are changed before `backward`.
    keys = [each if each.dtype == paddle.int64 else paddle.cast(each, "int64") for each in given]
    if tensor.stop_gradient:
        tensor = _with_gradient(tensor, value)
    shape, places, count = list(tensor.shape), list(keys[0].shape), len(keys)
    strides = [prod(shape[at + 1 :]) for at in range(len(shape))]
    selected = places + shape[count:], [0] * len(places) + strides[count:]
    # Behind the -1 stands the shape of the keys, as wide as what they select.
    indexed = [*shape[:count], -1, *places, *[1] * (len(shape) - count)]
    steps = [stride * _BYTES for stride in strides[:count]]
    return _C_ops.index_elementwise_put_with_tensor(tensor, keys, value, *selected, indexed, steps, 0)


put_static_form(put_items_with_gradient, put)
