"""Updates of parameters as parts of programs.

A program that computes gradients goes on to update the parameters with them, in place, by the kernels that a step of
the optimizer calls. `recipes_of` says what it computes with, `update` builds that part of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import paddle
from paddle import _C_ops
from paddle.base import core
from paddle.nn import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from paddle.optimizer import SGD, Adam, AdamW, Momentum
from paddle.optimizer.optimizer import Optimizer
from paddle.regularizer import L2Decay

from . import updates
from .updates import Parts, Updates


class Recipe(NamedTuple):
    """What the update of a group computes with: numbers, flags and texts of Python's, so that equal ones are alike.

    Attributes:
        kind: the name of the optimizer's class.
        settings: what all parameters have in common.
        own: what each parameter has of its own, for the kernel.
        factors: those of the learning rate, one for each parameter.
        clip: the name of the clip's class and its numbers, or None.
        clipped: whether each parameter's gradient is clipped.
        decays: what of each parameter is added to its gradient, or None.
    """

    kind: str
    settings: tuple[Any, ...]
    own: tuple[Any, ...]
    factors: tuple[float, ...]
    clip: tuple[Any, ...] | None
    clipped: tuple[bool, ...]
    decays: tuple[float | None, ...]


def recipes_of(optimizer: Any, parts: Parts) -> tuple[Recipe, ...] | None:
    """What a step of a plain optimizer computes with, group by group; None where no program does the same."""
    recipes = []
    for group, given in parts:
        if group is not None:
            # As the step does it.
            optimizer._update_param_group(group)
        recipe = _recipe_of(optimizer, given, updates.clip_of(optimizer, group))
        if recipe is None:
            return None
        recipes.append(recipe)
    return tuple(recipes)


def _recipe_of(optimizer: Any, given: Updates, clip: Any) -> Recipe | None:
    known = _CLIPS.get(type(clip))
    if known is None or (type(clip) is ClipGradByGlobalNorm and not updates.is_plain_clip(clip, given.gradients)):
        return None
    limits = [getattr(clip, name) for name in known.numbers]
    decays = _decays(optimizer, given)
    settings, own = _KINDS[type(optimizer)].settings(optimizer, given)
    plain = (*settings, *(given.rates or ()), *limits)
    if decays is None or not all(type(it) in (float, int, bool, str) for it in plain):
        return None
    return Recipe(
        type(optimizer).__name__,
        settings,
        own,
        tuple(given.rates or [1.0] * len(given.parameters)),
        None if clip is None else (type(clip).__name__, *map(float, limits)),
        tuple(updates.is_clipped(it) for it in given.parameters),
        decays,
    )


def _decays(optimizer: Any, given: Updates) -> tuple[float | None, ...] | None:
    """What is added to each gradient, by `updates.regularize`; None where that is no decay of squares."""
    common, own = optimizer.regularization, given.regularizers
    if common is None and own is None:
        return (None,) * len(given.parameters)
    own = own or [None] * len(given.parameters)
    if type(optimizer) is Momentum:
        # Its kernel does a parameter's own decay of squares.
        own = [None if type(it) is L2Decay else it for it in own]
    elif type(optimizer)._create_regularization_of_grad is not Optimizer._create_regularization_of_grad:
        return None
    decays = [common if it is None else it for it in own]
    if not all(it is None or type(it) is L2Decay and type(it._coeff) is float for it in decays):
        return None
    return tuple(None if it is None else it._coeff for it in decays)


def update(
    recipes: tuple[Recipe, ...], parameters: list[Any], gradients: list[Any], rate: Any, states: list[Any]
) -> None:
    """Appends the update to the program that is built: all are values of it, in the order of the groups.

    The states of a group are one kind after the other.
    """
    updated(recipes, parameters, gradients, rate, states)


def updated(
    recipes: tuple[Recipe, ...], parameters: list[Any], gradients: list[Any], rate: Any, states: list[Any]
) -> list[Any]:
    """The same; the answer is the parameters behind it."""
    numbers = functools.cache(_number)
    answer: list[Any] = []
    kinds = len(states) // len(parameters)
    for recipe in recipes:
        count = len(recipe.own)
        own = parameters[:count], gradients[:count], states[: count * kinds]
        del parameters[:count], gradients[:count], states[: count * kinds]
        answer += _update(recipe, *own, rate, numbers)
    return answer


def _update(
    recipe: Recipe,
    parameters: list[Any],
    gradients: list[Any],
    states: list[Any],
    rate: Any,
    numbers: Callable[[float], Any],
) -> list[Any]:
    gradients = _clipped(recipe, gradients, numbers)
    for at, decay in enumerate(recipe.decays):
        if decay is not None:
            gradients[at] = _C_ops.add_n([gradients[at], _C_ops.scale(parameters[at], numbers(decay), 0.0, True)])
    rates = {
        factor: rate if factor == 1.0 else _C_ops.scale(rate, numbers(float(factor)), 0.0, True)
        for factor in recipe.factors
    }
    count, answer = len(parameters), []
    for at, (parameter, gradient, factor, own) in enumerate(
        zip(parameters, gradients, recipe.factors, recipe.own, strict=True)
    ):
        row = parameter, gradient, rates[factor], states[at::count]
        answer.append(_KINDS_BY_NAME[recipe.kind].call(row, recipe.settings, own, numbers)[0])
    return answer


def run(optimizer: Any, given: Updates, rate: Any) -> None:
    """The same of tensors, where gradients are clipped and decayed: a kernel for each parameter."""
    kind = _KINDS[type(optimizer)]
    settings, own = kind.settings(optimizer, given)
    for (parameter, gradient, factor, *states), its in zip(given.rows(), own, strict=True):
        kind.call((parameter, gradient, updates.scaled(rate, factor), states), settings, its, _as_it_is)


def _as_it_is(value: float) -> float:
    return value


def _number(value: float) -> Any:
    """A number that a kernel takes as it is: without this a program rounds it to 32 bits."""
    return _C_ops.full([1], value, paddle.float64, core.CPUPlace())


def _clipped(recipe: Recipe, gradients: list[Any], numbers: Callable[[float], Any]) -> list[Any]:
    clipped = [at for at, clips in enumerate(recipe.clipped) if clips]
    answer = list(gradients)
    if recipe.clip is None or not clipped:
        return answer
    name, *limits = recipe.clip
    made = _CLIPS_BY_NAME[name].call([gradients[at] for at in clipped], limits, numbers)
    for at, gradient in zip(clipped, made, strict=True):
        answer[at] = gradient
    return answer


class _Clip(NamedTuple):
    """The names of a clip's numbers, and what it makes of gradients."""

    numbers: tuple[str, ...]
    call: Callable[[list[Any], list[float], Callable[[float], Any]], list[Any]]


def _unclipped(gradients: list[Any], limits: list[float], number: Callable[[float], Any]) -> list[Any]:
    return gradients


def _by_global_norm(gradients: list[Any], limits: list[float], number: Callable[[float], Any]) -> list[Any]:
    share = updates.share_of_norm(gradients, *limits)
    return [_C_ops.multiply(gradient, share) for gradient in gradients]


def _by_norm(gradients: list[Any], limits: list[float], number: Callable[[float], Any]) -> list[Any]:
    return [_C_ops.clip_by_norm(gradient, *limits) for gradient in gradients]


def _by_value(gradients: list[Any], limits: list[float], number: Callable[[float], Any]) -> list[Any]:
    return [_C_ops.clip(gradient, *map(number, limits)) for gradient in gradients]


_CLIPS: dict[type, _Clip] = {
    type(None): _Clip((), _unclipped),
    ClipGradByGlobalNorm: _Clip(("clip_norm",), _by_global_norm),
    ClipGradByNorm: _Clip(("clip_norm",), _by_norm),
    ClipGradByValue: _Clip(("min", "max"), _by_value),
}
_CLIPS_BY_NAME = {kind.__name__: row for kind, row in _CLIPS.items()}


class _Kind(NamedTuple):
    """What an optimizer's step computes with, of all and of each parameter, and the kernel that it calls for one."""

    settings: Callable[[Any, Updates], tuple[tuple[Any, ...], tuple[Any, ...]]]
    call: Callable[[tuple[Any, ...], tuple[Any, ...], Any, Callable[[float], Any]], Any]


def _alike(given: Updates) -> tuple[Any, ...]:
    return (None,) * len(given.parameters)


def _of_sgd(optimizer: Any, given: Updates) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return (), _alike(given)


def _sgd(row: tuple[Any, ...], settings: tuple[Any, ...], own: Any, number: Callable[[float], Any]) -> Any:
    parameter, gradient, rate, _ = row
    return _C_ops.sgd_(parameter, rate, gradient, None, False)


def _of_momentum(optimizer: Any, given: Updates) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    settings = optimizer._momentum, optimizer._use_nesterov, optimizer._rescale_grad
    # A parameter's own decay goes before the optimizer's.
    common = optimizer._regularization_method, optimizer._regularization_coeff
    decays = (
        common if own is None else ("l2_decay", own._coeff) if type(own) is L2Decay else ("", 0.0)
        for own in given.regularizers or [None] * len(given.parameters)
    )
    return settings, tuple(decays)


def _momentum(row: tuple[Any, ...], settings: tuple[Any, ...], own: Any, number: Callable[[float], Any]) -> Any:
    parameter, gradient, rate, (velocity,) = row
    momentum, nesterov, scale = settings
    return _C_ops.momentum_(parameter, gradient, velocity, rate, None, momentum, nesterov, *own, False, scale)


def _of_adam(optimizer: Any, given: Updates) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return _settings_of_adam(optimizer), _alike(given)


def _settings_of_adam(optimizer: Any) -> tuple[Any, ...]:
    return optimizer._beta1, optimizer._beta2, optimizer._epsilon, optimizer._lazy_mode, optimizer._amsgrad


def _of_adamw(optimizer: Any, given: Updates) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return (*_settings_of_adam(optimizer), optimizer._weight_decay), tuple(updates.decaying(optimizer, given))


def _adam(row: tuple[Any, ...], settings: tuple[Any, ...], own: Any, number: Callable[[float], Any]) -> Any:
    return _call_adam(_C_ops.adam_, row, settings, (), number)


def _adamw(row: tuple[Any, ...], settings: tuple[Any, ...], own: Any, number: Callable[[float], Any]) -> Any:
    *common, decay = settings
    return _call_adam(_C_ops.adamw_, row, common, (1.0, decay, own), number)


def _call_adam(
    kernel: Any, row: tuple[Any, ...], settings: Sequence[Any], own: tuple[Any, ...], number: Callable[[float], Any]
) -> Any:
    parameter, gradient, rate, (first, second, *most, power1, power2) = row
    beta1, beta2, epsilon, lazy, amsgrad = settings
    moments = first, second, most[0] if amsgrad else None, power1, power2, None, None
    betas = number(beta1), number(beta2), number(epsilon)
    return kernel(parameter, gradient, rate, *moments, *betas, *own, lazy, 1000, False, False, amsgrad)


_KINDS: dict[type, _Kind] = {
    SGD: _Kind(_of_sgd, _sgd),
    Momentum: _Kind(_of_momentum, _momentum),
    Adam: _Kind(_of_adam, _adam),
    AdamW: _Kind(_of_adamw, _adamw),
}
_KINDS_BY_NAME = {kind.__name__: row for kind, row in _KINDS.items()}


def keeps_gradients(recipes: tuple[Recipe, ...]) -> bool:
    """Whether a step leaves gradients as they are: a clip by the norm of all writes to them."""
    return all(recipe.clip is None or recipe.clip[0] != ClipGradByGlobalNorm.__name__ for recipe in recipes)


def has_recipe(optimizer: Any) -> bool:
    """Whether a program may do the step of optimizers of this class."""
    return type(optimizer) in _KINDS
