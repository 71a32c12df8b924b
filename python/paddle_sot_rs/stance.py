"""`set_stance`: what calls of translated functions do."""

from __future__ import annotations

import threading
from types import TracebackType

from . import _core
from .settings import SETTINGS

STANCES = ("default", "eager", "fail_on_recompile")
# The one that holds is the last: blocks that are open, each with what was set inside of it.
_active: list[set_stance] = []
_lock = threading.Lock()


class set_stance:
    """Sets what calls of translated functions do, in the whole process; also a context manager.

    - `"default"`: they are translated, and run from the cache.
    - `"eager"`: they run as they are, in the interpreter. Translations stay for later.
    - `"fail_on_recompile"`: a call that would be translated once more raises `RecompileError`, which names the guard
      that failed. First translations are made, and so are those of the other side of a branch.

    It holds for all threads from the next call on; calls that run end as they began. As a context manager it holds
    until the block ends. Blocks may end in any order: the newest open one holds.

    Args:
        stance: one of these names.

    Raises:
        ValueError: there is no such stance.
    """

    def __init__(self, stance: str) -> None:
        if stance not in STANCES:
            known = ", ".join(map(repr, STANCES))
            raise ValueError(f"stance: expected one of {known}, got {stance!r}")
        self.stance = stance
        self._is_block = False
        self._before: list[set_stance] = []
        with _lock:
            # What was set without a block is over with the next one.
            while _active and not _active[-1]._is_block:
                self._before.append(_active.pop())
            _active.append(self)
            _apply()

    def __enter__(self) -> set_stance:
        with _lock:
            if self._is_block:
                raise RuntimeError("set_stance: this block is open already")
            # What it replaced holds again when the block ends.
            if self in _active:
                at = _active.index(self)
                _active[at:at] = reversed(self._before)
            else:
                _active.append(self)
            self._is_block, self._before = True, []
            _apply()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _lock:
            if self in _active:
                at = _active.index(self)
                inside = at + 1
                while inside < len(_active) and not _active[inside]._is_block:
                    inside += 1
                del _active[at:inside]
            self._is_block = False
            _apply()

    def __repr__(self) -> str:
        return f"set_stance({self.stance!r})"


def _apply() -> None:
    _core.set_stance(STANCES.index(_active[-1].stance) if _active else 0)


def set_by_environment() -> None:
    """Does what `PADDLE_SOT_STANCE` says.

    Raises:
        ImportError: it is no stance.
    """
    setting = SETTINGS["stance"]
    if (stance := setting.from_environment()) is not None:
        try:
            set_stance(stance)
        except ValueError as error:
            raise ImportError(f"{setting.variable}: {error}") from None
