"""The check of an exported file: it computes at sizes that the trace did not use what the function computes there."""

from __future__ import annotations

import difflib
import logging
import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
from paddle.base import core, framework

from paddle_sot_rs._paddle.constants import DATA

from ..errors import GraphBreakError
from ..specification import Examples, example_shapes, is_small
from .saved_program import SavedProgram, may_run
from .sizes import Sizes

_log = logging.getLogger("paddle_sot_rs.export")
# Sizes that an export is run at.
_RUNS = 2
# Operators of sizes: a program with fixed sizes has others.
_OF_SIZES = (
    DATA,
    "pd_op.fetch",
    "pd_op.shape",
    "pd_op.full_",
    "pd_op.assign_value",
    "builtin.",
    "pd_op.cast",
)


def check_file(
    path: str,
    program: Any,
    entries: list[tuple[str, Any]],
    sizes: Sizes,
    trace: Callable[[list[tuple[str, Any, list[int]]], tuple[Any, ...]], Any],
    write: Callable[[Any, str], None],
) -> None:
    """Runs the saved program at two further sizes, beside a program that is traced with each of them.

    Args:
        path: directory and prefix of the files.
        program: what was saved.
        entries: the (parameter, spec) pairs of the arguments.
        sizes: what it was traced with.
        trace: captures the function for inputs and arguments.
        write: writes the files of what that answers.

    Raises:
        RuntimeError: it computes something else; the message names the first operator.
    """
    used = example_shapes(entries, sizes)
    if not may_run(program.main_program):
        return
    done = 0
    tried: list[list[tuple[int, ...]]] = []
    for others in sizes.others():
        shapes = example_shapes(entries, others)
        if shapes in tried:
            continue
        tried.append(shapes)
        if shapes == used:
            # Nothing is open.
            return
        if done == _RUNS:
            break
        if not is_small(shapes):
            continue
        examples = Examples(entries, others)
        try:
            fixed = trace([(name, tensor, []) for name, tensor, _ in examples.inputs], examples.args)
        except GraphBreakError:
            # The function does not take such sizes.
            continue
        with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as directory:
            beside = os.path.join(directory, "fixed")
            write(fixed, beside)
            done += _agree(path, beside, examples, assumes=bool(program.assumptions))
    if done < _RUNS:
        _log.warning("%s: could be compared with the function at %d of %d further sizes", path, done, _RUNS)


def _agree(path: str, beside: str, examples: Examples, assumes: bool) -> bool:
    """Whether the files could be compared at these sizes. `assumes`: some that the function takes are refused."""
    state = paddle.get_rng_state()
    place = framework._current_expected_place_()
    named = [(name, tensor) for name, tensor, _ in examples.inputs]
    feeds = [{name: _dense(fill(name, tensor), place) for name, tensor in named} for fill in (_filled, _zeros)]
    where = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in named)
    try:
        saved = SavedProgram(path, place)
        for feed in feeds:
            try:
                # Read anew: programs may write to their parameters.
                fixed = SavedProgram(beside, place)
                expected, ended = fixed.run(feed, fixed.outputs, state)
            except Exception as error:  # Whatever a kernel says of such inputs.
                _log.debug("%s: not compared with such inputs: %s", path, error)
                continue
            try:
                found, too = saved.run(feed, saved.outputs, state)
            except Exception as error:
                if not ended:
                    continue
                if assumes:
                    return False
                raise RuntimeError(
                    f"the exported program raises at {where}, where the function does not: {error}; nothing is written"
                ) from error
            if why := _differ(expected, found):
                if not (ended and too):
                    # Cut off in different rounds.
                    continue
                at = _first(fixed, saved, feed, state)
                raise RuntimeError(
                    f"the exported program differs from the function at {where}, {at}: {why}; nothing is written"
                )
            return True
    finally:
        paddle.set_rng_state(state)
    return False


def _dense(array: np.ndarray, place: Any) -> Any:
    tensor = core.DenseTensor()
    tensor.set(array, place)
    return tensor


def _filled(name: str, tensor: Any) -> Any:
    """Numbers between -1 and 1, and ones: they are indices, lengths and divisors that most functions take."""
    dtype = _dtype(tensor)
    rng = np.random.default_rng(sum(map(ord, name)))
    if dtype.kind == "f" or dtype.kind == "c":
        return rng.uniform(-1, 1, tensor.shape).astype(dtype)
    return np.ones(tensor.shape, dtype)


def _zeros(_name: str, tensor: Any) -> Any:
    return np.zeros(tensor.shape, _dtype(tensor))


def _dtype(tensor: Any) -> Any:
    return np.dtype(paddle.zeros([], tensor.dtype).numpy().dtype)


def _arrays(values: list[Any]) -> list[np.ndarray]:
    return [np.array(value) for value in values if isinstance(value, core.DenseTensor) and value._is_initialized()]


def _differ(expected: list[Any], found: list[Any]) -> str:
    """How they differ; empty where they do not."""
    one, other = _arrays(expected), _arrays(found)
    if len(one) != len(other):
        # What is made of sizes is a result of the program alone where they are open.
        one, other = ([array for array in arrays if array.ndim] for arrays in (one, other))
    if len(one) != len(other):
        return f"{len(other)} results instead of {len(one)}"
    for number, (wanted, got) in enumerate(zip(one, other, strict=True)):
        if wanted.shape != got.shape or wanted.dtype != got.dtype:
            kinds = (f"{array.dtype.name} {list(array.shape)}" for array in (got, wanted))
            return f"result {number} is " + " instead of ".join(kinds)
        if wanted.dtype.kind not in "fc":
            if not np.array_equal(wanted, got):
                return f"result {number} has other numbers"
        elif not np.allclose(wanted, got, rtol=1e-3, atol=1e-4 * _scale(wanted), equal_nan=True):
            return f"result {number} has other numbers"
    return ""


def _scale(array: np.ndarray) -> float:
    numbers = np.abs(array[np.isfinite(array)])
    return max(1.0, float(numbers.max())) if numbers.size else 1.0


def _first(fixed: SavedProgram, saved: SavedProgram, feed: dict[str, Any], state: Any) -> str:
    """Where the two programs begin to differ."""
    ways = [
        [op for op in program.global_block().ops if not op.name().startswith(_OF_SIZES) and _is_dense(op)]
        for program in (fixed.program, saved.program)
    ]
    left, right = ([op.name() for op in ops] for ops in ways)
    for one, other, length in difflib.SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks():
        for step in range(length):
            a, b = ways[0][one + step], ways[1][other + step]
            try:
                expected, _ = fixed.run(feed, a.results()[:1], state)
                found, _ = saved.run(feed, b.results()[:1], state)
            except Exception as error:  # Not every Value can be fetched.
                _log.debug("%s: not fetched: %s", a.name(), error)
                continue
            if _differ(expected, found):
                return f"from {a.name()} on"
    return "in its results"


def _is_dense(op: Any) -> bool:
    results = op.results()
    return bool(results) and results[0].initialized() and results[0].is_dense_tensor_type()
