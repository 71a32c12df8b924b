"""How programs are rewritten by Paddle's passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paddle import _C_ops
from paddle.base import core
from paddle.base.libpaddle import pir


def run_passes(program: Any, names: Iterable[str]) -> None:
    """Runs passes, one after the other."""
    passes = pir.PassManager(3)
    for name in names:
        passes.add_pass(name, {})
    passes.run(program)


def stand_in(name: str, value: Any) -> Any:
    """An input like a value, where operations are inserted now."""
    return _C_ops.data(name, list(value.shape), value.dtype, core.Place())


def cloned(op: Any, mapping: Any) -> Any:
    """The same operation of other operands, with its blocks, where operations are inserted now."""
    return op.clone(mapping, pir.CloneOptions(True, True, True))
