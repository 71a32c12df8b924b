"""Example sizes of open dims: what a function is traced with when it is exported, and checked with afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23)
# How open dims are filled in: each with a number of its own; where the function wants some to be
# equal, those at the same place of their tensors are, or all.
_BY_COUNT: Callable[[int, int], int] = lambda count, _: count  # noqa: E731
_ALIKE: tuple[Callable[[int, int], int], ...] = (_BY_COUNT, lambda _, place: place, lambda *_: 1)
# Factors of the dims at place 0, often a batch, and of the others: halves, strides, windows of 7.
_FACTORS = ((1, 1), (1, 2), (1, 8), (1, 32), (2, 2), (8, 8), (1, 7), (7, 7), (1, 224), (32, 32), (224, 224))
# Numbers that no trace takes, the first even and odd: the last of several pieces may be shorter.
# Where a function wants others, later rows have them.
_OTHERS = ((2, 4, 6, 8, 9, 10, 12, 14), (9, 10, 12, 14, 15, 16, 18, 20), (4, 6, 8, 9, 10, 12, 14, 16))


class Sizes(NamedTuple):
    """The sizes of open dims, from how many there were before and the place of each in its tensor."""

    numbers: tuple[int, ...] = _PRIMES
    alike: Callable[[int, int], int] = _BY_COUNT
    first: int = 1
    rest: int = 1

    def __call__(self, count: int, place: int) -> int:
        return self.number(count, place) * (self.rest if place else self.first)

    def number(self, count: int, place: int) -> int:
        """The same without its factor."""
        return self.numbers[self.alike(count, place) % len(self.numbers)]

    @property
    def are_multiples(self) -> bool:
        """Whether functions are meant that do not take any size."""
        return (self.first, self.rest) != (1, 1)

    def others(self) -> Iterator[Sizes]:
        """Sizes that the same functions take, and that are not these."""
        for numbers in _OTHERS:
            yield self._replace(numbers=numbers)
        if self.alike is _BY_COUNT:
            # Eager mode may take unequal dims without a word, and read behind the end of one.
            for numbers in _OTHERS:
                yield self._replace(numbers=numbers, alike=_ALIKE[1])


EXAMPLES: tuple[Sizes, ...] = tuple(Sizes(alike=alike) for alike in _ALIKE)


def candidates() -> Iterator[Sizes]:
    """Sizes to try one by one, those that say most of a function first."""
    for first, rest in _FACTORS:
        for sizes in EXAMPLES:
            yield sizes._replace(first=first, rest=rest)
