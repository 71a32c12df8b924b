"""[`Dim`]: an open dim of an `InputSpec` that has a name, and sizes that it may have."""

from __future__ import annotations

from typing import Any


class Dim(int):
    """An open dim, in the place of None in the shape of an `InputSpec`.

    `InputSpec([None, 3, Dim("h", min=32, multiple_of=32), Dim("w", min=32, multiple_of=32)], "float32")`

    Dims of one name have one size in each call. An export is traced with sizes that are allowed, and checked at others;
    calls of a translated function, or of the file, that do not fit raise a ValueError that names the dim.

    Args:
        name: what errors call it.
        min: the least size, 1 and more.
        max: the largest size; None: any.
        multiple_of: what the size is a multiple of.

    Raises:
        TypeError: an argument has another type.
        ValueError: no size is allowed.
    """

    name: str
    min: int
    max: int | None
    multiple_of: int

    def __new__(cls, name: str, *, min: int = 1, max: int | None = None, multiple_of: int = 1) -> Dim:
        if not isinstance(name, str) or not name:
            raise TypeError(f"name: expected a text, got {name!r}")
        for argument, value in (("min", min), ("multiple_of", multiple_of), ("max", max)):
            if type(value) is not int and not (argument == "max" and value is None):
                raise TypeError(f"{argument}: expected a whole number, got {value!r}")
            if value is not None and value < 1:
                raise ValueError(f"{argument}: expected 1 or more, got {value}")
        # What stands for an open dim.
        dim = super().__new__(cls, -1)
        dim.name, dim.min, dim.max, dim.multiple_of = name, min, max, multiple_of
        if max is not None and dim._least > max:
            raise ValueError(f"max: no multiple of {multiple_of} is between {min} and {max}")
        return dim

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.name,), {"min": self.min, "max": self.max, "multiple_of": self.multiple_of}

    def __repr__(self) -> str:
        said = [repr(self.name)]
        said += [f"min={self.min}"] * (self.min > 1) + [f"max={self.max}"] * (self.max is not None)
        said += [f"multiple_of={self.multiple_of}"] * (self.multiple_of > 1)
        return f"Dim({', '.join(said)})"

    __str__ = __repr__

    @property
    def _least(self) -> int:
        return -(-self.min // self.multiple_of) * self.multiple_of

    def allows(self, size: int) -> bool:
        """Whether a call may have this size."""
        return size >= self.min and (self.max is None or size <= self.max) and size % self.multiple_of == 0

    def example(self, number: int) -> int:
        """A size that is allowed: another for each number from 2 on, as far as there are so many."""
        least = self._least
        steps = max(least // self.multiple_of, 2) + number - 2 - least // self.multiple_of
        if self.max is not None:
            steps %= (self.max - least) // self.multiple_of + 1
        return least + steps * self.multiple_of


def common(one: Dim, other: Dim) -> Dim:
    """The dim that two of one name are.

    Raises:
        ValueError: they allow other sizes.
    """
    if (one.min, one.max, one.multiple_of) != (other.min, other.max, other.multiple_of):
        raise ValueError(f"input_spec: the dim {one.name} is given twice, as {one} and as {other}")
    return one
