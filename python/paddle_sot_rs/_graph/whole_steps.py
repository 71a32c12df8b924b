"""Train steps whose update is part of their program: what is asked in front of it, and what runs behind it.

The calls of the step behind the program are made in any case. The list of gradients tells them what is left to do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import _core
from . import optimizers, updates


def rate_of(optimizer: Any) -> Any:
    """The learning rate that the next step takes, a tensor of one number.

    None where a step is more than its recipe.
    """
    if not (optimizers.is_alone() and updates.can_fuse() and updates.are_paddles()):
        return None
    rate = optimizers.rate_of(optimizer)
    if rate is not None:
        optimizers.set_rate(optimizer, rate)
    return rate


def _is_updated(gradients: list[Any]) -> bool:
    """Whether the program has done the step; gradients leave it all the same where they are seen behind it."""
    return updates.is_done(gradients) or getattr(gradients[0], "sot_updated", False)


def step_unless_done(note: Callable[[str], None] | None, optimizer: Any, gradients: list[Any]) -> Callable[[Any], Any]:
    """`optimizers.step_of`, where the program has not done that."""
    return _core.nothing if _is_updated(gradients) else optimizers.step_of(note, optimizer)


def minimize_unless_done(
    note: Callable[[str], None] | None, optimizer: Any, loss: Any, gradients: list[Any]
) -> Callable[[Any, Any], Any]:
    """`optimizers.minimize_of`, where the program has not done that."""
    return _core.nothing if _is_updated(gradients) else optimizers.minimize_of(note, optimizer, loss)


def scaler_step_unless_done(
    note: Callable[[str], None] | None, scaler: Any, optimizer: Any, gradients: list[Any]
) -> Callable[[Any, Any], Any]:
    """`optimizers.scaler_step_of`, where the program has not done that."""
    return _core.nothing if _is_updated(gradients) else optimizers.scaler_step_of(note, scaler, optimizer)


def noting(name: str, note: Callable[[str], None] | None) -> Callable[..., Any]:
    """One of these, which tells `note`."""
    named: dict[str, Callable[..., Any]] = {
        "step": step_unless_done,
        "minimize": minimize_unless_done,
        "scaler_step": scaler_step_unless_done,
    }
    return functools.partial(named[name], note)


def clear_parameters(optimizer: Any, parameters: list[Any], to_zero: bool) -> None:
    """Clears the gradients of all parameters that the optimizer updates, one by one."""
    for parameter in parameters:
        parameter.clear_gradient(to_zero)
    if to_zero:
        _core.note_cleared(optimizer)


def clear_parameters_unless_done(
    optimizer: Any, parameters: list[Any], to_zero: bool, gradients: list[Any]
) -> Callable[..., Any]:
    """The same, where the program has not left gradients as they were."""
    return _core.nothing if updates.is_done(gradients) else clear_parameters


def clear_unless_done(optimizer: Any, to_zero: bool, gradients: list[Any]) -> Callable[..., Any]:
    """What clears gradients, where the program has not left them as they were."""
    return _core.nothing if updates.is_done(gradients) else _core.clear_gradients
