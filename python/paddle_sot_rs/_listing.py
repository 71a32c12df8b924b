"""Entries of black lists: callables, and names of them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import paddle

# Where a bare name is looked up.
_PLACES = (paddle, paddle.Tensor, paddle.nn.functional, paddle.linalg, paddle.fft, paddle.signal, paddle.vision.ops)


def split(argument: str, entries: Iterable[Any]) -> tuple[list[Any], set[str]]:
    """The callables among `entries`, and the names of Paddle functions, tensor methods and attributes.

    Raises:
        TypeError: an entry is neither a callable nor a name.
        ValueError: a name that nothing has.
    """
    if isinstance(entries, str):
        raise TypeError(f"{argument}: expected a list of callables and names, got the string {entries!r}")
    callables, names = [], set()
    for entry in entries:
        if callable(entry):
            callables.append(entry)
        elif not isinstance(entry, str):
            raise TypeError(f"{argument}: expected callables and names, got {entry!r}")
        elif "." not in entry:
            if not any(hasattr(place, entry) for place in _PLACES):
                raise ValueError(f"{argument}: Paddle has no function or tensor method named {entry!r}")
            names.add(entry)
        elif entry.startswith(("paddle.Tensor.", "Tensor.")) and hasattr(paddle.Tensor, entry.rpartition(".")[2]):
            names.add(entry.rpartition(".")[2])
        else:
            found = _find(argument, entry)
            callables.append(found)
            # The method of a tensor is often the function itself.
            name = entry.rpartition(".")[2]
            if getattr(paddle.Tensor, name, None) is found:
                names.add(name)
    return callables, names


def bare_names(argument: str, entries: Iterable[Any]) -> list[str]:
    """The bare names of Paddle functions and tensor methods, given as such or as callables.

    Raises:
        TypeError: an entry is neither a callable nor a name.
        ValueError: an entry is nothing of Paddle's.
    """
    callables, names = split(argument, entries)
    for entry in callables:
        name, module = getattr(entry, "__name__", None), getattr(entry, "__module__", None) or ""
        if not isinstance(name, str) or module.partition(".")[0] != "paddle":
            raise ValueError(f"{argument}: {entry!r} is no function of Paddle's; use black_list= for others")
        names.add(name)
    return sorted(names)


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
