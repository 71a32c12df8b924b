"""`explain SCRIPT`: what became of a run, in the terminal."""

from __future__ import annotations

import os
import shutil
import textwrap
from typing import Any, TextIO

from .. import blas
from .data import Function, Place, functions_of, losses_of, seconds_text, share
from .recording import Recording

# Of SGR, the sequences that terminals take colours from.
_BOLD, _DIM, _RED, _GREEN = "1", "2", "31", "32"
_COUNTED = list(zip("call graph break recompile fallback".split(), ("", _GREEN, _RED, _RED, _RED), strict=True))
_NARROWEST = 40
# What costs less than the first of these is counted.
_SHOWN = 10


class explained(Recording):
    """Records a block, and says in this stream what became of it."""

    what = "an explanation"

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def _write(self, recorded: list[dict[str, Any]], calls: list[tuple[Place, float, float]], whole: float) -> None:
        print(Text(*_terminal(self._out)).of(functions_of(recorded, calls), whole), end="", file=self._out)


def _terminal(out: TextIO) -> tuple[int, bool]:
    """Its width, and whether it takes colours: not where `NO_COLOR` is set (no-color.org)."""
    if not out.isatty():
        return 100, False
    colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return max(shutil.get_terminal_size().columns, _NARROWEST), colours


class Text:
    """The short form of a report, as lines of at most `width` columns where words allow it."""

    def __init__(self, width: int, colours: bool) -> None:
        self.width, self.colours = width, colours

    def of(self, functions: list[Function], whole: float) -> str:
        """All of it."""
        if not functions:
            return "No function was translated: decorate one with `to_static`, or wrap it.\n"
        count = f"{len(functions)} translated function{'s' if functions[1:] else ''}"
        lines = [self._styled(f"{count} in {seconds_text(whole)}", _BOLD), ""]
        for function in functions:
            lines += self._function(function)
        losses = losses_of(functions)
        lines += ["", self._styled("What to change first" if losses else "Nothing to change: no graph broke", _BOLD)]
        for number, loss in enumerate(losses[:_SHOWN], 1):
            lines += self._loss(number, loss)
        if losses[_SHOWN:]:
            lines.append(f"and {len(losses) - _SHOWN} more: `run --report FOLDER` shows all")
        if advice := blas.advice():
            lines += ["", *textwrap.wrap(advice, self.width)]
        return "\n".join(lines) + "\n"

    def _function(self, it: Function) -> list[str]:
        stats = it.stats
        broken = sum(reason.count for reason in stats.graph_breaks)
        fallen = sum(reason.count for reason in stats.fallbacks)
        counts = [len(it.calls), stats.graphs, broken, len(stats.recompiles), fallen]
        told = [
            self._styled(f"{count} {what}{'s' * (count != 1)}", style)
            for count, (what, style) in zip(counts, _COUNTED, strict=True)
            if count or not style
        ]
        place = self._styled(f"{os.path.relpath(it.file)}:{it.line}", _DIM)
        phases = [f"{name} {share(spent, it.total)}" for name, spent in it.phases() if it.total and spent]
        spent = f"{seconds_text(it.total)}: {', '.join(phases)}" if phases else seconds_text(it.total)
        return [
            f"{self._styled(it.name, _BOLD)}  {place}",
            f"  {', '.join(told)}",
            *textwrap.wrap(spent, self.width, initial_indent="  ", subsequent_indent="    "),
        ]

    def _loss(self, number: int, loss: dict[str, Any]) -> list[str]:
        head = f"{number:>2}. {seconds_text(loss['seconds'])} {loss['share']}".rstrip()
        place = f"{loss['place']} in {loss['function']}"
        message = f"{loss['id']} {loss['what']}: {loss['message']}"
        indent = " " * 4
        return [
            f"{self._styled(head, _BOLD)}  {place}",
            *(self._styled(line, _RED) for line in self._wrapped(message, indent)),
            *(f"{indent}    {line}"[: self.width] for line in loss.get("excerpt", [])),
            *self._wrapped(loss["hint"], indent),
            f"{indent}{self._styled(loss['link'], _DIM)}",
        ]

    def _wrapped(self, text: str, indent: str) -> list[str]:
        return textwrap.wrap(text, self.width, initial_indent=indent, subsequent_indent=indent, break_long_words=False)

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self.colours and style else text
