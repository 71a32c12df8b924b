"""What Values do as tensors do in eager mode, while a program is built."""

import functools
import inspect
import sys
import types

import numpy
import paddle
from paddle import _C_ops
from paddle.base import core
from paddle.base.libpaddle import pir

from paddle_sot_rs._core import PYTHON_NUMBER
from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.views import SHARES

Value = pir.Value

_static_divide, _static_power, _static_reversed_power = Value.__truediv__, Value.__pow__, Value.__rpow__
_static_reversed_divide = Value.__rtruediv__
_static_floor_divide, _static_reversed_floor_divide = Value.__floordiv__, Value.__rfloordiv__


def _scalar(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@functools.cache
def eager_mode_divides():
    """Whether it divides by a tensor; that of Paddle 3.2 multiplies by the reciprocal, as static mode does.

    Asked first in eager mode: in static mode the guard would have other threads begin in that.
    """
    with paddle.base.dygraph.guard(paddle.CPUPlace()), paddle.amp.auto_cast(enable=False):
        five = paddle.full([], 5.0, "float32")
        # A third of it has another last digit than the product.
        return (five / 3.0).item() == paddle.divide(five, paddle.full([], 3.0, "float32")).item()


def _divide(self, other):
    if not _scalar(other):
        return _static_divide(self, other)
    value = self
    if value.dtype in _INTEGERS:
        value = value.astype(paddle.float32)
    if not eager_mode_divides():
        return _static_divide(value, other)
    divisor = _C_ops.full([], other, value.dtype, core.Place())
    divisor.get_defining_op().set_bool_attr(PYTHON_NUMBER, True)
    return _C_ops.divide(value, divisor)


def _reversed_divide(self, other):
    # Paddle fills a tensor of the shape with the number, and knows of one open dim alone.
    if not _scalar(other) or -1 not in dims(self):
        return _static_reversed_divide(self, other)
    divisor = self.astype(paddle.float32) if self.dtype in _INTEGERS else self
    return _C_ops.divide(paddle.full(paddle.shape(divisor), other, divisor.dtype), divisor)


def _power(self, other):
    # Eager mode uses the kernel with a number for the exponent.
    if _scalar(other) and (self.dtype not in _INTEGERS or self.dtype in _WITH_POWERS and isinstance(other, int)):
        return _C_ops.pow(self, other)
    result = _static_power(self, other)
    return _with_rank_one(self, other, result) if isinstance(other, bool) else result


def _reversed_power(self, other):
    # As with quotients.
    if not _scalar(other) or -1 not in dims(self):
        return _static_reversed_power(self, other)
    exponent = self.astype(paddle.float32) if isinstance(other, float) and self.dtype in _INTEGERS else self
    return _C_ops.elementwise_pow(paddle.full(paddle.shape(exponent), other, exponent.dtype), exponent)


def _with_rank_one(value, other, result):
    # Where eager mode makes a tensor of the number, it makes one of shape [1].
    if isinstance(other, (int, float)) and not value.shape and not result.shape:
        return _C_ops.reshape(result, [1])
    return result


_REALS = (
    (paddle.uint8, paddle.int8, paddle.int16, paddle.int32, paddle.int64),
    (paddle.float16, paddle.bfloat16, paddle.float32, paddle.float64),
)


def same_dtype(x, y):
    """Operands of `floor_divide`: in eager mode a tensor of no dims has a say in the dtype, in a program none."""
    x, y = tracing.current.cast(x), tracing.current.cast(y)
    for reals in _REALS:
        if x.dtype != y.dtype and x.dtype in reals and y.dtype in reals and (not x.shape or not y.shape):
            if paddle.bfloat16 in (x.dtype, y.dtype):
                raise TypeError("floor_divide() of tensors of two types")
            dtype = numpy.result_type(x.dtype.name.lower(), y.dtype.name.lower()).name
            return x.astype(dtype), y.astype(dtype)
    return x, y


def _floor_divide(self, other):
    if isinstance(other, (Value, paddle.Tensor)):
        self, other = same_dtype(self, other)
    return _with_rank_one(self, other, _static_floor_divide(self, other))


def _reversed_floor_divide(self, other):
    if isinstance(other, (Value, paddle.Tensor)):
        self, other = same_dtype(self, other)
    return _with_rank_one(self, other, _static_reversed_floor_divide(self, other))


def _positive(self):
    if self.dtype == paddle.bool:
        raise TypeError("+ of a tensor of bools")
    return self


def _detach(self):
    # Paddle's `share_data_` hides that the result lives in the storage of `self`: a later kernel
    # that writes in place would change a tensor of the caller.
    copy = for_view(self)
    copy.stop_gradient = True
    return copy


def for_view(value):
    """A copy of what eager mode has a view of."""
    copy = _C_ops.assign(value)
    copy.get_defining_op().set_bool_attr(SHARES, True)
    return copy


class _OpenDim(int):
    """The -1 of an open dim of a Value, or what was computed with it.

    What a comparison answers is noted, to be guarded; two open dims are taken for equal. What computes with one
    computes with -1.
    """

    # The id of the value and the place of the dim; of what was computed nobody knows them.
    place = "", 0

    def __eq__(self, other):
        answer = int.__eq__(self, other)
        if type(other) is _OpenDim:
            asks = other.place != self.place or not self.place[0]
        else:
            asks = other != -1
        if asks:
            _ask(self, "__eq__", other, answer)
        return answer

    def __ne__(self, other):
        return not self == other

    __hash__ = int.__hash__


def _ask(dim, name, other, answer):
    trace = tracing.current
    if trace is None:
        return
    if type(other) is _OpenDim:
        trace.asked.append((*dim.place, name, *other.place, bool(answer)))
    elif type(other) is int:
        trace.asked.append((*dim.place, name, NUMBER, other, bool(answer)))
    else:
        trace.asked.append((*dim.place, name, "", 0, bool(answer)))


# Instead of the id of a value, where a dim is compared with a number.
NUMBER = "number"
# How functions ask whether a dim is open, and whether it is open or there are no rows.
_ASKS = (("__lt__", 0), ("__ge__", 0), ("__gt__", -1), ("__le__", -1))
_ASKS_FOR_ROWS = (("__gt__", 0), ("__le__", 0), ("__ge__", 1), ("__lt__", 1))


def _order(name):
    operation = getattr(int, name)

    def compared(self, other):
        answer = operation(self, other)
        trace = tracing.current
        if trace is None or type(other) is int and (name, other) in _ASKS:
            return answer
        if type(other) is int and (name, other) in _ASKS_FOR_ROWS:
            trace.asks = True
            return answer
        trace.computes = True
        _ask(self, name, other, answer)
        return answer

    return compared


def _inner_code(function, name):
    """The code of a function that another one defines; empty where there is none."""
    consts = inspect.unwrap(function).__code__.co_consts
    return {it for it in consts if isinstance(it, types.CodeType) and it.co_name == name}


# They multiply dims to ask whether there are any numbers, and leave out an assertion
# where there are none.
_ASKS_FOR_NUMBERS = _inner_code(paddle.reshape, "get_attr_shape")


def _computing(name):
    operation = getattr(int, name)
    stays = name not in ("__int__", "__index__")

    def computed(self, *others):
        if tracing.current is not None and sys._getframe(1).f_code not in _ASKS_FOR_NUMBERS:
            tracing.current.computes = True
        result = operation(self, *others)
        return _OpenDim(result) if stays and type(result) is int else result

    return computed


for _name in ("lt", "le", "gt", "ge"):
    setattr(_OpenDim, f"__{_name}__", _order(f"__{_name}__"))
_TWO = ("add", "sub", "mul", "floordiv", "truediv", "mod", "divmod", "pow", "lshift", "rshift", "and", "or", "xor")
_ONE = ("int", "float", "index", "neg", "abs", "invert", "round")
for _name in (*(side + name for name in _TWO for side in ("", "r")), *_ONE):
    setattr(_OpenDim, f"__{_name}__", _computing(f"__{_name}__"))


_static_shape = Value.shape


def raw_dims(value):
    """The shape as plain numbers, below 0 for what is open: some of Paddle's rules multiply with the -1."""
    return _static_shape.__get__(value)


def dims(value):
    """The shape as plain numbers, -1 for what is open."""
    return [max(dim, -1) for dim in raw_dims(value)]


def _shape(self):
    shape = raw_dims(self)
    if shape and min(shape) < 0:
        for at, dim in enumerate(shape):
            if dim < 0:
                shape[at] = _OpenDim(-1)
                shape[at].place = str(self.id), at
    return shape


class _Items:
    """The items of a tensor, one after the other until that raises: what Python makes of a Value."""

    def __init__(self, value):
        self._value = value

    def __getitem__(self, at):
        return self._value[at]


def _iter(self):
    # Any place of an open dim is one of the program: there would be no end.
    if dims(self)[:1] == [-1]:
        raise NotImplementedError("a function of Paddle's that goes through a tensor of open length")
    return iter(_Items(self))


_INTEGERS = (paddle.bool, paddle.uint8, paddle.int8, paddle.int16, paddle.int32, paddle.int64)
# Of which there is a power by a number.
_WITH_POWERS = (paddle.int32, paddle.int64)
# What a Value does otherwise than a tensor, and what it does in a window.
AS_EAGER = {
    "__truediv__": _divide,
    "__div__": _divide,
    "__rtruediv__": _reversed_divide,
    "__rdiv__": _reversed_divide,
    "__pow__": _power,
    "__rpow__": _reversed_power,
    "__floordiv__": _floor_divide,
    "__rfloordiv__": _reversed_floor_divide,
    "__pos__": _positive,
    "__iter__": _iter,
    "detach": _detach,
    "shape": property(_shape),
    # Paddle's warns that it says nothing.
    "place": property(lambda self: None),
}
# None for what a Value does not have.
AS_STATIC = {name: getattr(Value, name, None) for name in AS_EAGER}


def become(names):
    for name, function in names.items():
        if function is not None:
            setattr(Value, name, function)
        elif hasattr(Value, name):
            delattr(Value, name)
