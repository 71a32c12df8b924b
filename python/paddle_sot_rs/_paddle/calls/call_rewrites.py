"""Calls that a program cannot make as eager mode does: they are made in another way."""

import functools

import numpy
import paddle
from paddle import _C_ops

from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.open_sizes import key_of, of_open_sizes
from paddle_sot_rs._paddle.value_patches import Value, for_view, same_dtype

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


def _casts_before(makes):
    @functools.wraps(makes)
    def call(x, y, *args, **kwargs):
        return makes(*_as_complex(x, y), *args, **kwargs)

    def rewrite(function, args, kwargs):
        mixes = any(getattr(value, "dtype", None) in _CAST_BESIDE for value in args[:2])
        return (call if mixes else function), args, kwargs

    return rewrite


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


def _instead(makes):
    return lambda function, args, kwargs: (makes, args, kwargs)


def _constant_of(function, args, kwargs):
    return paddle.assign, [constant(*args, **kwargs)], {}


def _floor_divided(function, args, kwargs):
    named = {_OPERANDS.get(name, name): _with_constants(value) for name, value in kwargs.items()}
    return _floor_divide, [_with_constants(value) for value in args], named


def _with_whole_numbers(function, args, kwargs):
    # The product of an empty shape is 1.0; eager mode takes it for a whole number.
    return function, [_as_whole(value) for value in args], {name: _as_whole(it) for name, it in kwargs.items()}


# What makes the call that does in a program what one does in eager mode, by `key_of`.
_REWRITES = {
    id(paddle.to_tensor): _constant_of,
    id(paddle.multinomial): _with_whole_numbers,
    "view": _instead(_view),
    # Paddle 3.2 has no such function.
    **dict.fromkeys(("narrow", id(getattr(paddle, "narrow", _narrow))), _instead(_narrow)),
    **dict.fromkeys(("floor_divide", id(paddle.floor_divide)), _floor_divided),
    **{
        key: _casts_before(makes)
        for function, makes in _PRODUCTS_THAT_CAST
        for key in (id(function), function.__name__)
    },
}


def put_static_form(function, form):
    """`form` is written for programs, and takes the place of this function of the package there."""
    _REWRITES[id(function)] = _instead(form)


def as_traced(function, args, kwargs):
    """The call that does in a program what this one does in eager mode."""
    rewrite = _REWRITES.get(key_of(function))
    if rewrite is not None:
        return rewrite(function, args, kwargs)
    return of_open_sizes(function, args, kwargs), args, kwargs


def call_method(value, name, args, kwargs):
    """`value.name(*args, **kwargs)`; looked up here: some act as in eager mode while the window is open."""
    result = getattr(value, name)(*args, **kwargs)
    if name == "__getitem__" and result is value:
        return for_view(result)
    return result
