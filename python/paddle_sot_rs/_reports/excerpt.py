"""The source lines of a message, with carets under the expression."""

from __future__ import annotations

import linecache


def _characters(line: str, column: int) -> int:
    """A column in bytes of UTF-8, as CPython counts, in characters."""
    return len(line.encode()[:column].decode(errors="surrogateescape"))


def of(file: str, line: int, end_line: int, start: int, end: int) -> list[str]:
    """The line, and carets below it where the columns are known; nothing where the source is not known."""
    text = linecache.getline(file, line).rstrip("\n") if line else ""
    shown = text.strip()
    if not shown:
        return []
    if not end:
        return [shown]
    left = len(text) - len(text.lstrip())
    first = max(_characters(text, start), left)
    # An expression over several lines is marked to the end of its first.
    last = _characters(text, end) if end_line == line else len(text.rstrip())
    if last <= first or not text[first:last].isascii():
        return [shown]
    if (first, last) == (left, len(text.rstrip())):
        # The whole line is meant.
        return [shown]
    return [shown, " " * (first - left) + "^" * (last - first)]
