"""Tools to test the engine itself."""

from __future__ import annotations

from types import TracebackType

from ._core import Forced, builtin_table, opcode_table

__all__ = ["builtin_table", "force_translation", "opcode_table"]


class force_translation:
    """Translates every Python frame of this thread, tensors or not.

    Frames of the engine, of Paddle and of the standard library's unittest run as they are. Functions run many
    times slower: this is for comparing the engine with plain Python.
    """

    def __init__(self, backend: str = "eager") -> None:
        self._backend = backend
        self._forced: Forced | None = None

    def __enter__(self) -> force_translation:
        self._forced = Forced(self._backend)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._forced is not None:
            self._forced.stop()

    def frames(self) -> dict[str, int]:
        """What became of the frames so far: `translated`, or the reason why they ran as they are.

        Parts of frames that follow a graph break are counted with `after a break: ` in front.
        """
        if self._forced is None:
            raise RuntimeError("force_translation: enter it first")
        return dict(self._forced.frames())

    def stats(self):
        """Counters of what was translated."""
        if self._forced is None:
            raise RuntimeError("force_translation: enter it first")
        return self._forced.stats()
