"""What a step of an optimizer does with parameters and gradients: clips, decays, and the update of all in one call."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import paddle
from paddle import _C_ops
from paddle.autograd import PyLayer
from paddle.base import core, framework
from paddle.nn import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from paddle.optimizer import Optimizer
from paddle.regularizer import L2Decay

from .. import _core

# Most bytes of a block of the fused kernel: Paddle's default, which CPUs do not ask for.
_CHUNK = 32 * 2048
_FLAGS, _NO_CASTS = core.globals(), core.AmpLevel.O0


# Paddle's clips.
CLIPS = ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue


def _clip_parts() -> list[Any]:
    parts = [function for kind in CLIPS for function in (kind.__call__, kind._dygraph_clip)]
    return [*parts, ClipGradByNorm._clip_gradients]


# A program may put others in their places.
_CLIP_PARTS = _clip_parts()
_DECAY = L2Decay.__call__
_REGULARIZED = Optimizer._create_regularization_of_grad


class Updates(NamedTuple):
    """Parameters with gradients, and lists of what belongs to each.

    Attributes:
        parameters: those that have a gradient.
        gradients: theirs.
        states: a list for each kind of state.
        rates: factors of the learning rate, where one is not 1.
        regularizers: their own, where one has any.
    """

    parameters: list[Any]
    gradients: list[Any]
    states: tuple[list[Any], ...]
    rates: list[Any] | None
    regularizers: list[Any] | None

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Parameter, gradient, factor and states of each."""
        rates = [1.0] * len(self.parameters) if self.rates is None else self.rates
        return zip(self.parameters, self.gradients, rates, *self.states, strict=True)

    def parts(self, decays: list[bool] | bool) -> Iterator[tuple[tuple[Any, bool], Updates]]:
        """Those that have a factor and whether they decay in common, with both: as few parts as may be."""
        count = len(self.parameters)
        if not count:
            return
        if self.rates is None and isinstance(decays, bool):
            yield (1.0, decays), self
            return
        rates = [1.0] * count if self.rates is None else self.rates
        decays = [decays] * count if isinstance(decays, bool) else decays
        keys = list(zip(rates, decays, strict=True))
        if keys.count(keys[0]) == count:
            yield keys[0], self
            return
        places: dict[Any, list[int]] = {}
        if _core.are_in_any_order(self.parameters, self.gradients, *self.states):
            for at, key in enumerate(keys):
                places.setdefault(key, []).append(at)
            for key, some in places.items():
                yield key, self._only(some)
            return
        first = 0
        for at in range(1, count + 1):
            if at == count or keys[at] != keys[first]:
                yield keys[first], self._only(range(first, at))
                first = at

    def _only(self, places: Any) -> Updates:
        lists = (self.parameters, self.gradients, *self.states)
        parameters, gradients, *states = ([each[at] for at in places] for each in lists)
        return Updates(parameters, gradients, tuple(states), None, None)


# A group of parameters, or None of a plain list; and what is updated.
Parts: TypeAlias = list[tuple[dict[str, Any] | None, Updates]]


def clip_of(optimizer: Any, group: dict[str, Any] | None) -> Any:
    """What clips the gradients of a group."""
    return optimizer._grad_clip if group is None else group["grad_clip"]


def clip(clip: Any, given: Updates) -> Updates:
    """What a clip of Paddle's answers with."""
    clipped = clip(list(zip(given.parameters, given.gradients, strict=True)))
    return given._replace(gradients=[gradient for _, gradient in clipped])


def clip_by_global_norm(own: Any, given: Updates) -> Updates:
    """`clip(own, given)` for dense gradients of one process and dtype: the same kernels in the same order."""
    pairs = zip(given.parameters, given.gradients, strict=True)
    clipped = [gradient for parameter, gradient in pairs if is_clipped(parameter)]
    if not clipped or not are_paddles() or not is_plain_clip(own, clipped) or _casts():
        return clip(own, given)
    share = share_of_norm(clipped, own.clip_norm)
    for gradient in clipped:
        _C_ops.multiply_(gradient, share)
    return given


def share_of_norm(gradients: list[Any], most: Any) -> Any:
    """What gradients are multiplied by so that the norm of all is at most that: tensors, or values of a program."""
    squares = [_C_ops.squared_l2_norm(gradient) for gradient in gradients]
    total = _C_ops.sum(_C_ops.stack(squares, 0), [], None, False)
    norm = _C_ops.sqrt(_C_ops.sum(_C_ops.stack([total], 0), [], None, False))
    most = paddle.full(shape=[1], dtype="float32", fill_value=most)
    return _C_ops.divide(most, _C_ops.maximum(norm, most))


def is_clipped(parameter: Any) -> bool:
    """Whether a clip of Paddle's takes the gradient of a parameter."""
    return getattr(parameter, "need_clip", True) is not False


def is_plain_clip(own: Any, clipped: list[Any]) -> bool:
    """Whether a clip by the global norm of these gradients does nothing but that."""
    return (
        not own.auto_skip_clip
        and not own.should_comm_on_shard_dim
        and all(gradient.dtype == paddle.float32 and gradient.ndim for gradient in clipped)
    )


def are_paddles() -> bool:
    """Whether what steps call, and a program may replace, is what Paddle put there."""
    return _clip_parts() == _CLIP_PARTS and L2Decay.__call__ is _DECAY


def regularize(optimizer: Any, given: Updates) -> Updates:
    """`append_regularization_ops`: a parameter's own regularizer goes before the optimizer's."""
    common, own = optimizer.regularization, given.regularizers
    if common is None and own is None:
        return given
    own = [None] * len(given.parameters) if own is None else own
    rows = zip(given.parameters, given.gradients, own, strict=True)
    return given._replace(gradients=[_regularized(optimizer, *row, common) for row in rows])


def _regularized(optimizer: Any, parameter: Any, gradient: Any, own: Any, common: Any) -> Any:
    decay = common if own is None else own
    # `Momentum` leaves a parameter's own decay of squares to its kernel.
    is_base = type(optimizer)._create_regularization_of_grad is _REGULARIZED
    if is_base and type(decay) is L2Decay and L2Decay.__call__ is _DECAY:
        return _C_ops.add_n([gradient, _C_ops.scale(parameter, decay._coeff, 0.0, True)])
    return optimizer._create_regularization_of_grad(parameter, gradient, common)


def decaying(optimizer: Any, given: Updates) -> list[bool]:
    """Which parameters decay."""
    decays = optimizer._apply_decay_param_fun
    return [decays is None or bool(decays(it.name)) for it in given.parameters]


def scaled(rate: Any, factor: Any) -> Any:
    """`_create_param_lr`: the learning rate of a parameter."""
    return rate if factor == 1.0 else rate * factor


def can_fuse() -> bool:
    """Whether nothing tells one kernel for all parameters from one for each."""
    return not _casts() and not _FLAGS["FLAGS_check_nan_inf"]


def _casts() -> bool:
    return framework._dygraph_tracer()._amp_level != _NO_CASTS


def fused(optimizer: Any, given: Updates, rate: Any, decay: float, *, decays: bool) -> None:
    """What `adam_`, or with `decays` `adamw_`, does for each parameter."""
    amsgrad = optimizer._amsgrad
    first, second, *most, power1, power2 = given.states
    moments = first, second, most[0] if amsgrad else None, power1, power2, None, None
    betas = optimizer._beta1, optimizer._beta2, optimizer._epsilon
    end = decays, False, False, amsgrad
    _C_ops.fused_adam_(given.parameters, given.gradients, rate, *moments, *betas, _CHUNK, decay, *end)


# Its last argument came with Paddle 3.3: where the graph is to be drawn.
_NOT_DRAWN = ("",) if "dump_backward_graph_path" in inspect.signature(paddle.autograd.backward).parameters else ()


def is_done(gradients: list[Any]) -> bool:
    """Whether the program of a step has updated the leaves as well: no gradients leave it."""
    return gradients[0] is None


def arrive(leaves: list[Any], gradients: list[Any]) -> None:
    """What the walk back does at leaves: each gradient is its own, or is added to it.

    A walk that begins at the leaf copies what it is given. Where the program has updated the leaves, nothing arrives.
    """
    if is_done(gradients):
        return
    core.eager.run_backward(leaves, gradients, False, *_NOT_DRAWN)


class _Given:
    """Gradients, and what an operation returns: `apply` looks for tensors in containers."""

    def __init__(self, gradients: list[Any]) -> None:
        self.gradients = tuple(gradients)
        self.result = _C_ops.full([], 0.0, paddle.float32, framework._current_expected_place())


class _Arrival(PyLayer):  # type: ignore[misc]
    """An operation on leaves whose gradients are known."""

    @staticmethod
    def forward(ctx: Any, given: _Given, *leaves: Any) -> Any:
        ctx.given = given
        return given.result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return ctx.given.gradients


def arrive_uncopied(leaves: list[Any], gradients: list[Any]) -> None:
    """The same of large gradients, which the leaves take: the walk goes through an operation."""
    if is_done(gradients):
        return
    for gradient in gradients:
        gradient.stop_gradient = False
    _Arrival.apply(_Given(gradients), *leaves).backward()
