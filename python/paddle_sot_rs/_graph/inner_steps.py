"""Steps of optimizers inside of a program: what comes behind one computes with the parameters that it leaves.

Such a program runs where every step is what it was made for. Where one is not, the function runs as it is, and is
looked at behind that: then it is known what the next call will find.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle

from .. import _core
from . import optimizers, step_recipes


class NotReadyError(Exception):
    """Some step is not as the program has it; nothing has happened.

    Attributes:
        steps: optimizers, what each of them updates, and whether its gradients become zeros.
    """

    def __init__(self, steps: list[tuple[Any, list[Any], bool]]) -> None:
        super().__init__("a step of an optimizer is not as the program has it")
        self.steps = steps


def parameters_of(optimizer: Any) -> list[Any] | None:
    """What an optimizer may update; None where no program does its step."""
    if not step_recipes.has_recipe(optimizer):
        return None
    try:
        groups = optimizers.groups_of(optimizer)
    except optimizers.OwnStepError:
        return None
    return [it for group in groups for it in optimizers.parameters_of(optimizer, group)]


def begin(parameters: list[Any], gradients: list[Any]) -> Any:
    """Stands for a step while the function is followed: the parameters from there on."""
    raise NotImplementedError("a step of an optimizer outside of a program")


def renew(
    recipes: tuple[step_recipes.Recipe, ...], parameters: list[Any], gradients: list[Any], rate: Any, states: list[Any]
) -> Any:
    """The step itself, in a program: the parameters from there on."""
    raise NotImplementedError("a step of an optimizer outside of a program")


def kept(updated: list[Any]) -> list[tuple[Any, Any]]:
    """What steps update, and copies of it."""
    with paddle.no_grad():
        return [(tensor, tensor.clone()) for tensor in updated]


def restore(both: list[tuple[Any, Any]]) -> None:
    """A program has failed that may have updated this: nothing has happened."""
    with paddle.no_grad():
        for tensor, copy in both:
            tensor.copy_(copy, True)


def ran(note: Callable[[str], None] | None, steps: list[tuple[Any, list[Any], bool]]) -> None:
    """The function has run as it is, all its steps and clears: of each optimizer what it updates, and how it clears."""
    for optimizer, updated, to_zero in steps:
        optimizers.prepare(note, optimizer, updated)
        if to_zero:
            _core.note_cleared(optimizer)
