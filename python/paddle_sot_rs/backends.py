"""The registry of backends: those registered in this process, and those that installed packages announce."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from . import _core

GROUP = "paddle_sot_rs.backends"
_log = logging.getLogger("paddle_sot_rs.backend")
_loading = threading.RLock()


def _announced() -> dict[str, EntryPoint]:
    """Entry points by name; nothing of theirs is imported."""
    found: dict[str, EntryPoint] = {}
    try:
        points = list(entry_points(group=GROUP))
    except Exception as error:  # noqa: BLE001 - the metadata of some package cannot be read
        _log.warning("the entry points of group %s cannot be read: %r", GROUP, error)
        return found
    for point in points:
        first = found.setdefault(point.name, point)
        if first.value != point.value:
            _log.warning("backend %r: %s is taken, %s is not", point.name, first.value, point.value)
    return found


def list_backends() -> list[str]:
    """Names that `backend=` takes, sorted: registered ones, and those of entry points in group
    `paddle_sot_rs.backends`, which are loaded when they are first used."""
    return sorted({*_core.list_backends(), *_announced()})


def provide(name: str) -> None:
    """Loads the entry point of this name, unless a backend is registered under it.

    Raises:
        ValueError: there is no such backend, or its entry point cannot be loaded.
    """
    if name in _core.list_backends():
        return
    with _loading:
        if name in _core.list_backends():
            return
        point = _announced().get(name)
        if point is None:
            raise ValueError(f"backend: unknown backend {name!r}; known: {', '.join(list_backends())}")
        try:
            _core.register_python_backend(name, point.load())
        except Exception as error:
            package = f" of {point.dist.name}" if point.dist else ""
            raise ValueError(f"backend: {name!r} ({point.value}{package}) cannot be loaded: {error}") from error


def register_backend(name: str, compiler: Callable[..., Any] | None = None) -> Any:
    """Registers `compiler(ir, metas) -> callable` under `name`; also a decorator.

    `ir` prints as the StatementIR and runs it call by call when called with the input tensors;
    `metas` lists (shape, dtype, stop_gradient) of the inputs. The callable takes the input tensors
    and returns the output tensors, in order. `compiler` may also be the `backend` of a plug-in's extension module.

    Raises:
        TypeError: `compiler` is neither.
        ValueError: the name is taken.
        ImportError: the plug-in was built for another version of the interface.
    """

    def register(compiler: Callable[..., Any]) -> Callable[..., Any]:
        _core.register_python_backend(name, compiler)
        return compiler

    return register if compiler is None else register(compiler)


def swap_backend(name: str, compiler: Callable[..., Any]) -> None:
    """Replaces a registered backend; translated functions recompile at their next call.

    Calls that have begun end on the backend they began on.

    Raises:
        KeyError: no such backend.
    """
    _core.swap_python_backend(name, compiler)
