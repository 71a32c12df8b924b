"""Hooks on the tensors that autograd saves see those of each operation: translated functions run as they are then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddle.base.core import eager

from .. import _core

_register, _reset = eager.register_saved_tensors_hooks, eager.reset_saved_tensors_hooks


def _register_and_note(pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
    _register(pack, unpack)
    _core.note_hooked_saves(True)


def _reset_and_note() -> None:
    _reset()
    _core.note_hooked_saves(False)


def watch() -> None:
    """Notes from now on whether there are such hooks."""
    eager.register_saved_tensors_hooks = _register_and_note
    eager.reset_saved_tensors_hooks = _reset_and_note
