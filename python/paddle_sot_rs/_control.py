"""What `assert`, `print` and `PyLayer.apply` become in a graph. Each works in eager mode too."""

from __future__ import annotations

import builtins
import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import paddle
from paddle import _C_ops
from paddle.autograd import PyLayer, PyLayerContext
from paddle.base import core
from paddle.base.variable_index import parse_index
from paddle.static.nn import control_flow


def check(condition: Any) -> None:
    """`assert condition`; a graph in which it fails is run again by the interpreter, which raises the user's error."""
    if paddle.in_dynamic_mode():
        if not condition:
            raise AssertionError
    else:
        control_flow.Assert(condition)


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
    starts, ends, steps, axes, none_axes, decrease_axes, *_ = parse_index(tensor, key)
    place = (starts, ends, steps, axes, decrease_axes, none_axes)
    if not isinstance(value, paddle.pir.Value):
        # The gradient of `set_value`, which takes numbers, goes to what was overwritten too.
        value = paddle.full([1], value, tensor.dtype)
    return _C_ops.set_value_with_tensor(tensor, value, *place)


def where(condition: Any, x: Any, y: Any) -> Any:
    """`paddle.where`, which in a program adds zeros to reach one shape (and takes `-0.0` for `0.0`)."""
    if paddle.in_dynamic_mode():
        return paddle.where(condition, x, y)
    parts = [part if isinstance(part, paddle.pir.Value) else paddle.to_tensor(part) for part in (condition, x, y)]
    shapes = [list(part.shape) for part in parts]
    if all(dim >= 0 for shape in shapes for dim in shape):
        wide = list(np.broadcast_shapes(*shapes))
        pairs = zip(parts, shapes, strict=True)
        parts = [part if shape == wide else paddle.broadcast_to(part, wide) for part, shape in pairs]
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
        if paddle.is_grad_enabled() and not ctx.again:
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
    step = _Step((*blocks, outputs, gradients, again, free))
    result: tuple[Any, ...] = _Operation.apply(step, *given)
    return result


class _Step:
    """What is no argument of the operation: `apply` looks for tensors in containers."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self._parts = parts

    def __iter__(self) -> Any:
        return iter(self._parts)


class _Again(PyLayer):  # type: ignore[misc]
    """A block that gradients flow through from some of its tensors, and that adds up those of parameters by itself."""

    @staticmethod
    def forward(ctx: Any, step: Any, *given: Any) -> Any:
        block, places, free = ctx.step = tuple(step)
        ctx.save_for_backward(*given)
        return tuple(block(_placed(free, places, given)))

    @staticmethod
    def backward(ctx: Any, *arrived: Any) -> Any:
        block, places, free = ctx.step
        given = ctx.saved_tensor()
        detached = _detached(given, [tensor.stop_gradient for tensor in given])
        with paddle.enable_grad():
            results = block(_placed(free, places, detached))
        pairs = [pair for pair in zip(results, arrived, strict=True) if not pair[0].stop_gradient]
        if not pairs:
            raise RuntimeError("recompute: no result of the function needs a gradient")
        paddle.autograd.backward(*map(list, zip(*pairs, strict=True)))
        return tuple([tensor._grad_ivar() for tensor in detached])


def _placed(free: list[Any], places: list[int], given: Any) -> list[Any]:
    taken = list(free)
    for place, tensor in zip(places, given, strict=True):
        taken[place] = tensor
    return taken


def _detached(tensors: Any, stops: list[bool]) -> list[Any]:
    detached = [tensor.detach() for tensor in tensors]
    for tensor, stop in zip(detached, stops, strict=True):
        tensor.stop_gradient = stop
    return detached


class _Place:
    """Stands for a tensor that the gradient of a recomputed block needs."""

    __slots__ = ("__weakref__",)


class _Recomputation:
    """A block whose gradients compute what they need again, from what its tensors have become."""

    def __init__(self, block: Any, given: list[Any]) -> None:
        self._block = block
        self._given = given
        self._stops = [tensor.stop_gradient for tensor in given]
        # In the order in which autograd keeps tensors, the same in every run.
        self._places: list[weakref.ref[_Place]] = []
        self._found: weakref.WeakKeyDictionary[_Place, Any] = weakref.WeakKeyDictionary()

    def run(self) -> Any:
        with _keeping(self._pack, self._unpack):
            return self._block(self._given)

    def _pack(self, _: Any) -> _Place:
        place = _Place()
        self._places.append(weakref.ref(place))
        return place

    def _unpack(self, place: _Place) -> Any:
        if place not in self._found:
            self._compute()
        return self._found.pop(place)

    def _compute(self) -> None:
        places = iter(self._places)

        def pack(tensor: Any) -> None:
            place = next(places)()
            if place is not None:
                self._found[place] = tensor.detach()

        def unpack(_: None) -> None:
            raise RuntimeError("a block that is computed again goes nowhere")

        with paddle.enable_grad(), _keeping(pack, unpack):
            self._block(_detached(self._given, self._stops))


class _Current(threading.local):
    hooks: tuple[Any, Any] | None = None


# Paddle knows one pair of hooks, for all threads: as in its own `recompute`, one at a time may run such blocks.
_current = _Current()


@contextlib.contextmanager
def _keeping(pack: Any, unpack: Any) -> Iterator[None]:
    """Gives these the tensors that autograd keeps; hooks of a block around hold again behind it."""
    around, hooks = _current.hooks, (pack, unpack)
    if around is not None:
        core.eager.reset_saved_tensors_hooks()
    core.eager.register_saved_tensors_hooks(*hooks)
    _current.hooks = hooks
    try:
        yield
    finally:
        _current.hooks = around
        core.eager.reset_saved_tensors_hooks()
        if around is not None:
            core.eager.register_saved_tensors_hooks(*around)


def run_again(block: Any, places: list[int] | None, tensors: list[Any]) -> Any:
    """A captured `recompute` in eager mode, `places` are those of its arguments, None without reentrance."""
    if places is None:
        return _Recomputation(block, tensors).run()
    given = [tensors[place] for place in places]
    if all(tensor.stop_gradient for tensor in given):
        with paddle.no_grad():
            return block(tensors)
    return _Again.apply(_Step((block, places, tensors)), *given)


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
