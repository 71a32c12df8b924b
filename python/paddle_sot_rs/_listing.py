"""Entries of black lists: callables, and names of them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import paddle

# Where a bare name is looked up.
_PLACES = (
    *(paddle, paddle.Tensor, paddle.nn.functional, paddle.linalg, paddle.fft, paddle.signal, paddle.vision.ops),
    *(paddle.geometric, paddle.incubate, paddle.audio.functional, paddle.metric),
)


def split(argument: str, entries: Iterable[Any]) -> tuple[list[Any], set[str]]:
    """The callables among `entries`, and the names of Paddle functions, tensor methods and attributes.

    Raises:
        TypeError: an entry is neither a callable nor a name.
        ValueError: a name that nothing has.
    """
    callables, names = [], set()
    for entry in _entries(argument, entries):
        if isinstance(entry, str) and (bare := _bare(entry)):
            names.update(_names_of(argument, bare))
            continue
        found = _find(argument, entry) if isinstance(entry, str) else entry
        callables.append(found)
        # The method of a tensor is often the function itself.
        name = paddle_name(found)
        if name and getattr(paddle.Tensor, name, None) is found:
            names.add(name)
    return callables, names


def bare_names(argument: str, entries: Iterable[Any]) -> list[list[str]]:
    """For each entry, the bare names of the Paddle function or tensor method that it is.

    Raises:
        TypeError: an entry is neither a callable nor a name.
        ValueError: an entry is nothing of Paddle's.
    """
    groups = []
    for entry in _entries(argument, entries):
        if isinstance(entry, str) and (bare := _bare(entry)):
            groups.append(_names_of(argument, bare))
            continue
        found = _find(argument, entry) if isinstance(entry, str) else entry
        name = paddle_name(found)
        if name is None:
            raise ValueError(f"{argument}: {entry!r} is no function of Paddle's; use black_list= for others")
        groups.append([name])
    return groups


def _entries(argument: str, entries: Iterable[Any]) -> list[Any]:
    if isinstance(entries, str):
        raise TypeError(f"{argument}: expected a list of callables and names, got the string {entries!r}")
    found = list(entries)
    for entry in found:
        if not callable(entry) and not isinstance(entry, str):
            raise TypeError(f"{argument}: expected callables and names, got {entry!r}")
    return found


def _bare(entry: str) -> str | None:
    """The name of a tensor method, or of anything in one of the usual places."""
    name = entry.rpartition(".")[2]
    if name == entry or (entry in (f"paddle.Tensor.{name}", f"Tensor.{name}") and hasattr(paddle.Tensor, name)):
        return name
    return None


def paddle_name(function: Any) -> str | None:
    """The name that the engine knows a function of Paddle's by; generated ones have an underscore in front."""
    name, module = getattr(function, "__name__", None), getattr(function, "__module__", None) or ""
    if not isinstance(name, str) or module.partition(".")[0] != "paddle":
        return None
    return name[1:] if name.startswith("_") and not name.startswith("__") else name


def _names_of(argument: str, name: str) -> list[str]:
    """The name itself, and what it is an alias of."""
    found = [getattr(place, name) for place in _PLACES if hasattr(place, name)]
    if not found:
        raise ValueError(f"{argument}: Paddle has no function or tensor method named {name!r}")
    others = {paddle_name(function) for function in found} - {None, name}
    return [name, *sorted(other for other in others if other is not None)]


def _find(argument: str, path: str) -> Any:
    parts = path.split(".")
    for size in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:size]))
        except ImportError:
            continue
        try:
            for name in parts[size:]:
                found = getattr(found, name)
        except AttributeError:
            break
        if callable(found):
            return found
        break
    raise ValueError(f"{argument}: {path!r} names no callable")
