"""What a caller changes between forward and backward: an optimizer's step, `set_value`, operations in place."""

from __future__ import annotations

import random
import types
from typing import Any

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


def pick(chance: random.Random, results: bool = True) -> tuple[Any, str, bool]:
    """Something that a caller may change: what, how, and whether gradients are on."""
    return chance.choice(GIVEN + RESULTS * results), chance.choice(list(HOWS)), chance.random() < 0.3


def change(
    module: types.ModuleType,
    args: tuple[paddle.Tensor, ...],
    results: list[paddle.Tensor],
    picked: tuple[Any, str, bool],
) -> None:
    """Changes it, where there is such a tensor."""
    target, how, with_gradients = picked
    tensor = _target(module, args, results, target)
    if tensor is None or not tensor.is_floating_point():
        return
    # Leaves cannot change in place while gradients are on.
    with paddle.set_grad_enabled(with_gradients and not tensor.is_leaf):
        HOWS[how](tensor)


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
