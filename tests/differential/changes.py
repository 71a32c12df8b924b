"""What a caller changes between forward and backward: tensors (a step, `set_value`, in place), attributes and items."""

from __future__ import annotations

import random
import types
from typing import Any, NamedTuple

import paddle

# What is changed: globals of the program, arguments and results by number.
GIVEN = ["WEIGHT", "WEIGHT", "BIAS", "NET", *(("argument", at) for at in range(4))]
RESULTS = [("result", at) for at in range(3)]

# Numbers that operations of the programs are defined for.
HOWS = {
    # Counted by no version.
    "step": lambda tensor: _step(tensor),
    "value": lambda tensor: tensor.set_value(tensor.detach() * 0.5 + 0.125),
    "scaled": lambda tensor: tensor.scale_(0.75),
    "item": lambda tensor: tensor.__setitem__(0 if tensor.ndim else (), 0.5),
    "view": lambda tensor: (tensor[0] if tensor.ndim else tensor.reshape([1])).zero_(),
    "detached": lambda tensor: tensor.detach().scale_(0.5),
}

# What no tensor holds, and code that runs again on the way back reads.
PYTHON = {
    "scale": lambda module: setattr(module.SETTINGS, "scale", 0.75),
    "sizes": lambda module: setattr(module.SETTINGS, "sizes", [0.75, 1.0]),
    "size": lambda module: module.SETTINGS.sizes.__setitem__(0, 0.75),
    "item": lambda module: module.SIZES.__setitem__(0, 0.5),
    "settings": lambda module: setattr(module, "SETTINGS", module.Settings()),
}


class Change(NamedTuple):
    """Something that a caller may change, and how."""

    target: Any
    how: str
    with_gradients: bool
    # Whether the caller keeps views of the results only.
    drops: bool


def pick(chance: random.Random, results: bool = True) -> Change:
    """Any of those; none of results without `results`."""
    if chance.random() < 0.2:
        return Change("python", chance.choice(list(PYTHON)), False, False)
    target, how = chance.choice(GIVEN + RESULTS * results), chance.choice(list(HOWS))
    return Change(target, how, chance.random() < 0.3, results and chance.random() < 0.3)


def change(
    module: types.ModuleType,
    args: tuple[paddle.Tensor, ...],
    results: list[paddle.Tensor],
    picked: Change,
) -> None:
    """Changes it, where there is such a thing."""
    if picked.target == "python":
        return PYTHON[picked.how](module)
    tensor = _target(module, args, results, picked.target)
    if tensor is None or not tensor.is_floating_point():
        return None
    # Leaves cannot change in place while gradients are on.
    with paddle.set_grad_enabled(picked.with_gradients and not tensor.is_leaf):
        HOWS[picked.how](tensor)
    return None


def _target(
    module: types.ModuleType, args: tuple[paddle.Tensor, ...], results: list[paddle.Tensor], target: Any
) -> paddle.Tensor | None:
    if target == "NET":
        return module.NET.first.weight
    if isinstance(target, str):
        return getattr(module, target)
    kind, at = target
    tensors = args if kind == "argument" else results
    return tensors[at] if at < len(tensors) else None


def _step(tensor: paddle.Tensor) -> None:
    if not tensor.is_leaf or tensor.stop_gradient:
        tensor.set_value(tensor.detach() * 0.9)
        return
    before, tensor.grad = tensor.grad, paddle.ones_like(tensor)
    paddle.optimizer.SGD(0.125, parameters=[tensor]).step()
    tensor.grad = before
