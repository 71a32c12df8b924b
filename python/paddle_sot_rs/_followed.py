"""Functions of Paddle's that translated code follows in another form.

What they do with classes and variables of modules of their own no graph has; what comes of it, it has.
"""

from __future__ import annotations

import types
from typing import Any

import paddle
from paddle import framework
from paddle.nn.layer.rnn import RNNCellBase

# Another function with its code: calls of the one itself come here.
_initial_states = types.FunctionType(
    RNNCellBase.get_initial_states.__code__,
    RNNCellBase.get_initial_states.__globals__,
    argdefs=RNNCellBase.get_initial_states.__defaults__,
)


def initial_states(
    cell: Any, batch_ref: Any, shape: Any = None, dtype: Any = None, init_value: float = 0.0, batch_dim_idx: int = 0
) -> Any:
    """`cell.get_initial_states(...)`: for the shape of one state, or a tuple of several, without a class for each."""
    reference = paddle.utils.flatten(batch_ref)[0]
    shape = cell.state_shape if shape is None else shape
    try:
        dtype = cell.state_dtype if dtype is None else dtype
    except NotImplementedError:
        dtype = framework.get_default_dtype()
    size = reference.shape[batch_dim_idx]
    alone = _is_shape(shape)
    usual = alone or (type(shape) is tuple and all(_is_shape(each) for each in shape))
    if not usual or isinstance(dtype, list | tuple | dict) or not size > 0:
        return _initial_states(cell, batch_ref, shape, dtype, init_value, batch_dim_idx)
    made = []
    for each in (shape,) if alone else shape:
        dims = list(each[1:]) if each[0] == -1 else list(each)
        made.append(paddle.full(shape=[size, *dims], fill_value=init_value, dtype=dtype))
    return made[0] if alone else tuple(made)


def _is_shape(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(dim, int) for dim in value)
