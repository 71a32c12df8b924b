"""The order in which `list.sort` compares objects that compare themselves."""

from __future__ import annotations


class _Asked(Exception):
    """The comparison of these two is not known."""


class _Place:
    __slots__ = ("answers", "at")

    def __init__(self, at: int, answers: list[bool]) -> None:
        self.at = at
        self.answers = answers

    def __lt__(self, other: _Place) -> bool:
        if not self.answers:
            raise _Asked(self.at, other.at)
        return self.answers.pop()


def sort(count: int, answers: list[bool], reverse: bool) -> tuple[list[int], bool]:
    """Where CPython puts this many objects, and whether that is known.

    `answers` are those to its comparisons, in the order in which it makes them. Where there are too few, the answer is
    the pair that it compares next.
    """
    left = answers[::-1]
    places = [_Place(at, left) for at in range(count)]
    try:
        places.sort(reverse=reverse)
    except _Asked as asked:
        return list(asked.args), False
    return [place.at for place in places], True
