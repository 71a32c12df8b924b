"""Assertions of an exported program: open dims with names have sizes that are allowed."""

from __future__ import annotations

import weakref
from typing import Any

import paddle
from paddle import _C_ops
from paddle.base import core
from paddle.base.libpaddle import pir
from paddle.static.nn import control_flow

from paddle_sot_rs._paddle.constants import GIVEN

from .._paddle.export import let_go
from .._paddle.static_mode import alone_in_static_mode
from .._paddle.value_patches import raw_dims
from ..dims import Dim


def assert_ranges(program: Any, dims: list[tuple[str, list[tuple[int, Dim]]]]) -> None:
    """Puts the assertions in front of all that the program computes of these inputs.

    Args:
        program: a `ConcreteProgram`.
        dims: for each input, its name and its named dims: pairs of a place and a `Dim`.
    """
    named = dict(dims)
    block = program.main_program.global_block()
    with alone_in_static_mode(), paddle.static.program_guard(program.main_program, program.startup_program):
        pir.set_insertion_point(next(op for op in block.ops if op.name() not in GIVEN))
        known: dict[str, tuple[str, Any]] = {}
        asked: list[tuple[Any, str]] = []
        inputs = []
        for at, old in enumerate(program.inputs):
            name = old.get_defining_op().attrs()["name"]
            # Another one in its place, in the same order: what used the old one will wait for the
            # assertions.
            value = _C_ops.data(name, raw_dims(old), old.dtype, core.Place())
            value.stop_gradient = old.stop_gradient
            sizes = _sizes(value, named[name])
            for place, dim in named[name]:
                asked += _asked(known, f"{name}.shape[{place}]", dim, sizes[place])
            inputs.append((at, old, value, sizes))
        one = _C_ops.cast(_asserted(asked), paddle.int64) if asked else None
        for at, old, value, sizes in inputs:
            checked = value
            if asked and sizes:
                # The executor runs operations in any order in which none is ahead of its operands.
                place, size = next(iter(sizes.items()))
                checked = paddle.strided_slice(value, [place], [0], [_C_ops.multiply(size, one)], [1])
            old.replace_all_uses_with(checked)
            block.remove_op(old.get_defining_op())
            program.inputs[at] = value
            weakref.finalize(value, let_go, program.main_program).atexit = False


def _asked(known: dict[str, tuple[str, Any]], place: str, dim: Dim, size: Any) -> list[tuple[Any, str]]:
    """Conditions and their texts. `known`: the first place of each dim, and its size there."""
    if dim.name in known:
        where, other = known[dim.name]
        return [(_C_ops.equal(size, other), f"{place} is {dim!r}, and as {where}")]
    known[dim.name] = place, size
    if (dim.min, dim.max, dim.multiple_of) == (1, None, 1):
        # Nothing is said of it.
        return []
    fits = _C_ops.greater_equal(size, _number(dim.min))
    if dim.max is not None:
        fits = _C_ops.logical_and(fits, _C_ops.less_equal(size, _number(dim.max)))
    if dim.multiple_of > 1:
        rest = _C_ops.remainder(size, _number(dim.multiple_of))
        fits = _C_ops.logical_and(fits, _C_ops.equal(rest, _number(0)))
    return [(fits, f"{place} is {dim!r}")]


def _asserted(asked: list[tuple[Any, str]]) -> Any:
    """A true value that is there when all was checked.

    The executor's error has the name of the condition. `paddle.jit.load` takes names off outside of branches, and
    `paddle.inference` removes branches whose results nobody wants.
    """
    fit = asked[0][0]
    for other, _ in asked[1:]:
        fit = _C_ops.logical_and(fit, other)

    def asserts() -> Any:
        for fits, text in asked:
            # The same again: what is computed outside, too, would be taken from there, without
            # a name.
            condition = _C_ops.logical_or(fits, fit)
            _C_ops.set_persistable_value(condition, text)
            control_flow.Assert(condition)
        return condition

    return control_flow.cond(_C_ops.logical_not(fit), asserts, lambda: _C_ops.full([], True, paddle.bool, core.Place()))


def _sizes(value: Any, named: list[tuple[int, Dim]]) -> dict[int, Any]:
    """The sizes of dims with names, by their places."""
    if not named:
        return {}
    # The operator takes all dtypes but this one.
    shape = _C_ops.shape64(_C_ops.cast(value, paddle.int32) if value.dtype == paddle.int16 else value)
    shape.stop_gradient = True
    return {at: _C_ops.slice(shape, [0], [at], [at + 1], [1], [0]) for at, _ in named}


def _number(number: int) -> Any:
    return _C_ops.full([], number, paddle.int64, core.Place())
