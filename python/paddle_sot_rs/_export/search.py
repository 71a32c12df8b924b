"""Sizes of open dims to trace a function with, one after the other, until it takes some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import GraphBreakError
from ..specification import example_shapes, is_small
from .sizes import EXAMPLES, Sizes, candidates

# Breaks that other sizes may not have: an operator or the function itself refuses these.
_OF_SIZES = {"PSR0207", "PSR0415"}


class Search:
    """Sizes, those that say most of a function first.

    Args:
        entries: the (parameter, spec) pairs of the arguments.

    Attributes:
        refused: the error that says most of those so far; None where there was none.
    """

    def __init__(self, entries: list[tuple[str, Any]]) -> None:
        self.refused: Exception | None = None
        self._entries = entries
        self._tried: list[list[tuple[int, ...]]] = []
        self._sizes = EXAMPLES[0]
        # Whether all were refused for what other sizes may not have.
        self._by_sizes = True

    def __iter__(self) -> Iterator[Sizes]:
        for sizes in candidates():
            shapes = example_shapes(self._entries, sizes)
            if shapes in self._tried or not is_small(shapes) and self._tried:
                continue
            if sizes.are_multiples and not self._by_sizes:
                break
            self._tried.append(shapes)
            self._sizes = sizes
            yield sizes

    def refuse(self, error: Exception) -> None:
        """Notes what the sizes that were given last led to."""
        # What is said of even sizes says more than that odd ones do not fit.
        if self.refused is None or (self._sizes.are_multiples and len(self._tried) <= len(EXAMPLES) + 1):
            self.refused = error
        if isinstance(error, GraphBreakError) and _OF_SIZES.isdisjoint(error.ids):
            self._by_sizes = False
