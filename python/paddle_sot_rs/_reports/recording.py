"""`record`: what happens in a run, written down as one page to look at."""

from __future__ import annotations

import atexit
import importlib.util
import os
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from .. import _core
from ..settings import SETTINGS

if TYPE_CHECKING:
    from .data import Place

_active: list[Recording] = []


def _check_jinja() -> None:
    if importlib.util.find_spec("jinja2") is None:
        raise ImportError("a report needs jinja2: pip install 'paddle-sot-rs[report]'")


class Recording:
    """A block that is recorded. Its heirs write down what was. One block is open at a time."""

    # What a message calls it.
    what: str
    _start = 0.0
    _process = 0

    def __enter__(self) -> Self:
        if _active:
            raise RuntimeError(f"record: {_active[-1].what} is being recorded already")
        _active.append(self)
        self._start, self._process = time.perf_counter(), os.getpid()
        _core.record(True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _active.remove(self)
        _core.record(False)
        self._write(*_core.recorded(), time.perf_counter() - self._start)

    def _write(self, recorded: list[dict[str, Any]], calls: list[tuple[Place, float, float]], whole: float) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        # A process that was forked meanwhile is another run.
        if self in _active and os.getpid() == self._process:
            self.__exit__(None, None, None)


class record(Recording):
    """`with record("folder"): ...` writes a report of the block into this folder: one HTML file that needs no network.

    It shows each translated function: its source with what was captured and what was not, graphs, guards that failed,
    what was translated again and why, where the time went, and what to change first. One block is open at a time.

    Args:
        folder: where to; it is made. An earlier report there stays.

    Attributes:
        path: of the file, once the block has ended.

    Raises:
        ImportError: jinja2 is missing: `pip install 'paddle-sot-rs[report]'`.
        RuntimeError: another block is open.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        _check_jinja()
        self.folder = Path(folder)
        self.path: Path | None = None
        self.what = f"a report for {self.folder}"

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            _active.remove(self)
            _core.record(False)
            raise
        return self

    def _write(self, recorded: list[dict[str, Any]], calls: list[tuple[Place, float, float]], whole: float) -> None:
        from .data import page

        text = page(recorded, calls, whole)
        self.path = self._free()
        self.path.write_text(text, encoding="utf-8")

    def _free(self) -> Path:
        """A name that no earlier report has."""
        path, number = self.folder / "report.html", 1
        while path.exists():
            number += 1
            path = self.folder / f"report-{number}.html"
        return path


def record_all(folder: str | os.PathLike[str]) -> None:
    """Records until the process ends."""
    atexit.register(record(folder).__enter__()._end)


def record_by_environment() -> None:
    """Does what `PADDLE_SOT_REPORT` says.

    Raises:
        ImportError: jinja2 is missing.
    """
    if folder := SETTINGS["report"].from_environment():
        record_all(folder)
