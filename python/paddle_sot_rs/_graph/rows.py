"""Lists that grow in a captured loop: their tensors are rows of one in a program. Each works in eager mode too."""

from __future__ import annotations

from typing import Any

import paddle

# Marks operations on rows that come and go, as `blocks.py` does: what is there may be empty.
ROWS = "sot_rows"

__all__ = [
    "append_row",
    "concat_rows",
    "empty_rows",
    "has_rows",
    "row_at",
    "row_of",
    "rows_of",
    "some_rows",
    "stack_rows",
]


def empty_rows(dims: list[int], dtype: str) -> Any:
    """No rows yet; what is open of their dims is 0 until the first one comes."""
    return paddle.zeros([0, *(max(dim, 0) for dim in dims)], dtype)


def rows_of(items: list[Any]) -> Any:
    """The tensors that a list had before."""
    return paddle.stack(items)


def row_of(item: Any) -> Any:
    """A tensor as a row. What oneDNN has made is in a layout that only operations of the same block know: a copy."""
    return paddle.assign(paddle.stack([item]))


def append_row(rows: Any, row: Any) -> Any:
    """One row more, which has the dims of the others: the program fails where it has not."""
    return paddle.concat([rows, row])


def has_rows(rows: Any) -> Any:
    """Whether there is one: eager mode puts no empty lists together."""
    return paddle.shape(rows)[0] > 0


def row_at(rows: Any, place: Any) -> Any:
    """The tensor at a place that there is, counted from either end."""
    place = place.astype("int64")
    size = paddle.shape(rows)[0].astype("int64")
    return paddle.gather(rows, paddle.where(place < 0, place + size, place))


def some_rows(rows: Any, start: int | None, stop: int | None, step: int | None) -> Any:
    """`rows[start:stop:step]`, which may be none."""
    some = rows[start:stop:step]
    if not paddle.in_dynamic_mode() and some is not rows:
        some.get_defining_op().set_bool_attr(ROWS, True)
    return paddle.assign(some)


def stack_rows(rows: Any, axis: int) -> Any:
    """`paddle.stack` of the list."""
    axis %= len(rows.shape)
    return paddle.assign(rows) if axis == 0 else paddle.transpose(rows, _moved(rows, axis))


def concat_rows(rows: Any, axis: int) -> Any:
    """`paddle.concat` of the list."""
    axis %= len(rows.shape) - 1
    moved = rows if axis == 0 else paddle.transpose(rows, _moved(rows, axis))
    return paddle.flatten(moved, axis, axis + 1)


def _moved(rows: Any, axis: int) -> list[int]:
    others = list(range(1, len(rows.shape)))
    return [*others[:axis], 0, *others[axis:]]
