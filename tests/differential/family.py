"""What a kind of generated programs consists of."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def _itself(main: Any) -> Any:
    return main


@dataclass(frozen=True)
class Family:
    """Programs of one kind: each is `prelude`, more functions, and `main`, which is compared."""

    prelude: str
    # The source of program number `seed`.
    program: Callable[[int], str]
    # The plain arguments of each call of program number `seed`.
    calls: Callable[[int], list[dict[str, Any]]]
    # Real ones made of them, for the module that a side has.
    arguments: Callable[[types.ModuleType, dict[str, Any]], tuple[Any, ...]]
    # What a program may leave behind in its module.
    state: Callable[[types.ModuleType], Any]
    # How program number `seed` is translated.
    settings: Callable[[int], dict[str, Any]]
    # What is called, given `main` of a side; where it is another function, that goes backward by
    # itself.
    around: Callable[[Any], Any] = _itself

    # Whether the backward behind a call of program number `seed` may raise this where eager mode
    # does not.
    may_refuse: Callable[[int, dict[str, Any], str], bool] = lambda *_: False

    @property
    def goes_backward(self) -> bool:
        """Whether the calls go backward by themselves."""
        return self.around is not _itself


def family(name: str) -> Family:
    """The family with this name."""
    return importlib.import_module(name).FAMILY


NAMES = ("mixed", "nests", "between", "containers")
