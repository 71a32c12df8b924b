"""`recompute` where a graph runs call by call: what its gradients need is computed again, as in Paddle's own."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import paddle
from paddle.autograd import PyLayer
from paddle.base import core

from paddle_sot_rs._graph.control import Step


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


# Paddle knows one pair of hooks, for all threads: as in its own `recompute`, one at a time may run
# such blocks.
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
    return _Again.apply(Step((block, places, tensors)), *given)
