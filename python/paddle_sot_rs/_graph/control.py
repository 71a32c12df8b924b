"""What `assert`, `print` and `PyLayer.apply` become in a graph. Each works in eager mode too."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import paddle
from paddle import _C_ops
from paddle.autograd import PyLayer, PyLayerContext
from paddle.base import framework
from paddle.base.variable_index import parse_index
from paddle.static.nn import control_flow
from paddle.utils import get_int_tensor_list

_COMPLEX = (paddle.complex64, paddle.complex128)


def check(condition: Any) -> None:
    """`assert condition`; a graph in which it fails is run again by the interpreter, which raises the user's error."""
    if paddle.in_dynamic_mode():
        if not condition:
            raise AssertionError
    else:
        control_flow.Assert(condition)


def assume(condition: Any, text: str) -> None:
    """`assert condition`, which an export takes for granted: `text` says it to the user."""
    if paddle.in_dynamic_mode():
        if not condition:
            raise AssertionError(text)
    else:
        control_flow.Assert(condition)


def check_place(tensor: Any, place: Any, axis: int) -> None:
    """Checks that `tensor` has such a place along `axis`, counted from either end."""
    size = tensor.shape[axis]
    if size < 0:
        size = paddle.shape(tensor)[axis].astype(place.dtype)
    check(paddle.logical_and(place >= -size, place < size))


def show(*values: Any) -> None:
    """`print(*values)`; in a program each tensor is printed by a `Print` operator, with the text around it."""
    if paddle.in_dynamic_mode():
        builtins.print(*values)
        return
    tensors = [at for at, value in enumerate(values) if isinstance(value, paddle.pir.Value)]
    if not tensors:
        # The operator wants a tensor.
        parts = dict.fromkeys(("name", "type", "shape", "layout", "lod"), False)
        hidden = {f"print_tensor_{part}": shown for part, shown in parts.items()}
        paddle.static.Print(paddle.full([], 0, "int64"), message=_text(values), **hidden)
    for number, at in enumerate(tensors):
        before = values[tensors[number - 1] + 1 if number else 0 : at]
        behind = values[at + 1 :] if at == tensors[-1] else ()
        text = f"{_text(before)} ... {_text(behind)}".lstrip() if behind else _text(before)
        paddle.static.Print(values[at], message=text or None)


def _text(values: Any) -> str:
    return " ".join(map(str, values))


def set_item(tensor: Any, key: Any, value: Any) -> Any:
    """A copy of `tensor` after `copy[key] = value`, for keys of whole numbers, slices, `...` and None."""
    if paddle.in_dynamic_mode():
        result = paddle.assign(tensor)
        result[key] = value
        return result
    starts, ends, steps, axes, none_axes, decrease_axes, *_ = parse_index(tensor, _from_start(tensor, key))
    place = (*map(_whole_numbers, (starts, ends, steps)), axes, decrease_axes, none_axes)
    if not isinstance(value, paddle.pir.Value):
        # The gradient of `set_value`, which takes numbers, goes to what was overwritten too.
        value = paddle.full([1], value, tensor.dtype)
    return _C_ops.set_value_with_tensor(tensor, value, *place)


def _from_start(tensor: Any, key: Any) -> Any:
    """The key with places that only the program knows counted from the first: a slice from -1 to 0 is empty."""
    keys = list(key) if isinstance(key, tuple) else [key]
    for axis, place in enumerate(keys):
        if isinstance(place, paddle.pir.Value):
            place = place.astype("int64")
            size = tensor.shape[axis]
            if size < 0:
                size = paddle.shape(tensor)[axis].astype("int64")
            keys[axis] = paddle.where(place < 0, place + size, place)
    return tuple(keys) if isinstance(key, tuple) else keys[0]


def _whole_numbers(numbers: Any) -> Any:
    return get_int_tensor_list(numbers) if any(isinstance(one, paddle.pir.Value) for one in numbers) else numbers


def put_items(tensor: Any, key: Any, value: Any) -> Any:
    """A copy of `tensor` after `copy[key] = value`, for a mask or tensors of whole numbers."""
    if paddle.in_dynamic_mode():
        result = paddle.assign(tensor)
        result[key] = value
        return result
    if not isinstance(value, paddle.pir.Value):
        value = paddle.full([1], value, tensor.dtype)
    keys = key if isinstance(key, tuple) else (key,)
    if isinstance(keys[0], slice):
        return _put_behind(tensor, len(keys) - 1, keys[-1], value)
    if keys[0].dtype != paddle.bool:
        # Where it is a result, a predictor of Paddle's answers with memory that nobody has written.
        return paddle.assign(paddle.index_put(tensor, keys, value))
    rest = len(tensor.shape) - len(keys[0].shape)
    mask = paddle.unsqueeze(keys[0], list(range(-rest, 0))) if rest else keys[0]
    # `paddle.masked_fill` copies the mask first. Here eager mode's gradient sees what becomes of
    # it.
    return _C_ops.masked_fill(tensor, mask, value)


def _put_behind(tensor: Any, axis: int, places: Any, value: Any) -> Any:
    """`copy[:, places] = value`, for places along one dim: the dim comes first meanwhile."""
    order = [axis, *(at for at in range(len(tensor.shape)) if at != axis)]
    back = [order.index(at) for at in range(len(order))]
    if len(value.shape) == len(order):
        value = paddle.transpose(value, order)
    return paddle.transpose(paddle.index_put(paddle.transpose(tensor, order), (places,), value), back)


def where(condition: Any, x: Any, y: Any) -> Any:
    """`paddle.where`, which in a program adds zeros to reach one shape (and takes `-0.0` for `0.0`)."""
    if paddle.in_dynamic_mode():
        return paddle.where(condition, x, y)
    parts = [part if isinstance(part, paddle.pir.Value) else paddle.to_tensor(part) for part in (condition, x, y)]
    shapes = [list(part.shape) for part in parts]
    wide = next((shape for shape in shapes if shape), [])
    alike = all(shape == wide or not shape and part.stop_gradient for part, shape in zip(parts, shapes, strict=True))
    if wide and alike:
        # The same where dims are open: numbers become as wide as the tensors.
        like = parts[shapes.index(wide)]
        return _C_ops.where(*(part if part.shape else paddle.expand_as(part, like) for part in parts))
    if all(dim >= 0 for shape in shapes for dim in shape):
        wide = list(np.broadcast_shapes(*shapes))
        pairs = zip(parts, shapes, strict=True)
        parts = [part if shape == wide else paddle.broadcast_to(part, wide) for part, shape in pairs]
    elif parts[1].dtype == parts[2].dtype and parts[1].dtype not in _COMPLEX:
        # All of one dtype: the operator takes no others.
        condition, *parts = _C_ops.broadcast_tensors([parts[0].astype(parts[1].dtype), *parts[1:]])
        # Paddle's function would ask whether they are of one shape.
        return _C_ops.where(condition.astype("bool"), *parts)
    return paddle.where(*parts)


def quotient(x: Any, number: Any) -> Any:
    """`number / x`, where eager mode divides a tensor as large as `x`: a vector unit may round such quotients
    otherwise than those of one number."""
    return paddle.expand_as(number, x) / x


def dropout(x: Any, p: Any, *args: Any, **kwargs: Any) -> Any:
    """`dropout` with a tensor for the rate, which in eager mode has to be a number."""
    return paddle.nn.functional.dropout(x, float(p) if paddle.in_dynamic_mode() else p, *args, **kwargs)


def add_n(inputs: Any) -> Any:
    """`paddle.add_n` of tensors of which only some have gradients: its way back in a program crashes on the others."""
    if paddle.in_dynamic_mode():
        return paddle.add_n(inputs)
    total = inputs[0]
    for value in inputs[1:]:
        total = paddle.add(total, value)
    return total


def new_tensor(tensor: Any) -> Any:
    """A copy as `paddle.to_tensor` makes one: autograd has a node for it, which `paddle.grad` asks for."""
    return _known_to_autograd(paddle.assign(tensor))


def new_stack(tensors: Any) -> Any:
    """What `paddle.to_tensor` makes of a list of tensors or numbers."""
    return _known_to_autograd(paddle.stack(tensors))


def _known_to_autograd(tensor: Any) -> Any:
    if paddle.in_dynamic_mode():
        # Setting it makes the node.
        tensor.stop_gradient = True
    return tensor


# What is known of Paddle's functions is known of these, too.
_LIKE_PADDLES = {
    **{dropout: "dropout", new_tensor: "assign", new_stack: "stack"},
    **{where: "where", quotient: "quotient"},
}
for _function, _name in _LIKE_PADDLES.items():
    _function.like_paddles = _name  # type: ignore[attr-defined]


def begin_gradient(tensor: Any) -> Any:
    """What `tensor` is from `tensor.stop_gradient = False` on."""
    result = tensor.detach()
    result.stop_gradient = False
    return result


# A program may put another one in its place.
_paddles_grad = paddle.grad


def partial_gradients(
    outputs: Any, inputs: Any, grad_outputs: Any, retain_graph: bool, create_graph: bool, allow_unused: bool
) -> Any:
    """`paddle.grad` of what it has made lists of; a program has a form of its own."""
    flags = {"retain_graph": retain_graph, "create_graph": create_graph, "allow_unused": allow_unused}
    return _paddles_grad(outputs, inputs, grad_outputs or None, **flags)


def apply_layer(layer: Any, *args: Any, **kwargs: Any) -> Any:
    """`layer.apply(*args, **kwargs)` of a `PyLayer` class: its methods are followed, and become one operation."""
    return layer.apply(*args, **kwargs)


class _Operation(PyLayer):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, step: Any, *given: Any) -> Any:
        forward, ctx.step, outputs, ctx.gradients, ctx.again, free = step
        made = forward([*given, *free])
        ctx.save_for_backward(*made)
        return tuple(made[:outputs])

    @staticmethod
    def backward(ctx: Any, *arrived: Any) -> Any:
        if framework._dygraph_tracer()._has_grad and not ctx.again:
            raise RuntimeError(
                "gradients of gradients through a PyLayer whose backward uses no_grad or another PyLayer: "
                "call the function without translating it (sot.disable)"
            )
        made = ctx.step([*ctx.saved_tensor(), *arrived])
        return tuple([None if at is None else made[at] for at in ctx.gradients])


def run_operation(
    blocks: tuple[Any, Any],
    outputs: int,
    gradients: list[int | None],
    again: bool,
    given: list[Any],
    free: list[Any],
) -> tuple[Any, ...]:
    """A captured `PyLayer` in eager mode."""
    step = Step((*blocks, outputs, gradients, again, free))
    result: tuple[Any, ...] = _Operation.apply(step, *given)
    return result


class Step:
    """What is no argument of the operation: `apply` looks for tensors in containers."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self._parts = parts

    def __iter__(self) -> Any:
        yield from self._parts


class LayerContext(PyLayerContext):  # type: ignore[misc]
    """The `ctx` of a `PyLayer` whose methods are followed: without a C++ base, whose attributes are computed."""

    container: Any = None
    not_inplace_tensors: Any = None
    non_differentiable: Any = None
    materialize_grads = True
    grad_in_dtype_consistent = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.container = tensors

    def saved_tensor(self) -> Any:
        return self.container

    def mark_not_inplace(self, *tensors: Any) -> None:
        self.not_inplace_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value

    def set_grad_in_dtype_consistent(self, flag: bool) -> None:
        self.grad_in_dtype_consistent = flag
