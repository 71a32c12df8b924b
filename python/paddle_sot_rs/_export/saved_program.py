"""A program as it is in its files, run with numbers that nobody chose: loops end, and nothing is printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import paddle
from paddle import _C_ops
from paddle.base import core, framework
from paddle.base.libpaddle import pir

# Rounds that all loops of a program take together, and numbers of a tensor that one hands on.
_MOST_ROUNDS = 2000
_MOST_NUMBERS = 2.0**20
# Programs that are not run: others see what these do.
_NOT_RUN = ("pd_op.py_func", "pd_op.all_", "pd_op.c_", "pd_op.p_", "pd_op.barrier")


def may_run(program: Any) -> bool:
    """Whether nobody sees that it runs."""
    return not any(op.name().startswith(_NOT_RUN) for op in _operations(program.global_block()))


# Kernels that do not compare the dims of their first two operands: they read and write behind the
# end.
_TRUSTING = ("pd_op.put_along_axis", "pd_op.put_along_axis_", "pd_op.take_along_axis")


def _is_outside(op: Any) -> bool:
    """Whether it is such a kernel, and its indices have more rows than what they index."""
    if op.name() not in _TRUSTING:
        return False
    of, indices = (op.operand_source(at).shape for at in (0, 1))
    axis = op.attrs()["axis"] % max(len(of), 1)
    return len(of) != len(indices) or any(
        there > size >= 0 for at, (size, there) in enumerate(zip(of, indices, strict=True)) if at != axis
    )


class SavedProgram:
    """What was read from files.

    Attributes:
        program: the `paddle.static.Program`, changed so that it ends.
        outputs: Values of its results.
    """

    def __init__(self, path: str, place: Any) -> None:
        from .._paddle.static_mode import alone_in_static_mode

        self.scope = core.Scope()
        with alone_in_static_mode(), paddle.static.scope_guard(self.scope):
            executor = paddle.static.Executor(place)
            self.program, *_ = paddle.static.load_inference_model(path, executor)
            with paddle.static.program_guard(self.program):
                block = self.program.global_block()
                self.outputs = _without_fetches(block)
                _hush(block)
                self._rounds = _bound(block)
            if any(map(_is_outside, _operations(block))):
                raise ValueError("the function does not take such sizes")

    def run(self, feed: dict[str, Any], outputs: list[Any], state: Any) -> tuple[list[Any], bool]:
        """The values of `outputs` with this random state, and whether all loops came to their own ends."""
        from .._paddle.static_mode import alone_in_static_mode

        paddle.set_rng_state(state)
        rounds = [] if self._rounds is None else [self._rounds]
        with alone_in_static_mode(), paddle.static.scope_guard(self.scope):
            executor = paddle.static.Executor(framework._current_expected_place_())
            # A copy of the program each time: what is fetched is part of it.
            found = executor.run(self.program, feed=feed, fetch_list=[*outputs, *rounds], return_numpy=False)
        if self._rounds is None:
            return found, True
        *found, taken = found
        return found, int(np.array(taken)) < _MOST_ROUNDS


def _operations(block: Any) -> Iterator[Any]:
    for op in block.ops:
        yield op
        for inner in op.blocks():
            yield from _operations(inner)


def _without_fetches(block: Any) -> list[Any]:
    """The results: other Values are fetched under the numbers of those."""
    fetches = [op for op in block.ops if op.name() == "pd_op.fetch"]
    outputs = [op.operand_source(0) for op in fetches]
    for op in fetches:
        block.remove_op(op)
    return outputs


def _hush(block: Any) -> None:
    for op in [op for op in _operations(block) if op.name() == "pd_op.print"]:
        op.result(0).replace_all_uses_with(op.operand_source(0))
        op.get_parent_block().remove_op(op)


def _bound(block: Any) -> Any:
    """Has all loops end after some rounds; answers with how many there were, `None` without loops."""
    loops = [op for op in _operations(block) if op.name() == "pd_op.while"]
    if not loops:
        return None
    pir.reset_insertion_point_to_start()
    rounds = _number(0)
    for loop in loops:
        for inner in loop.blocks():
            end = inner.ops[-1]
            pir.set_insertion_point(end)
            goes_on, *handed_on = end.operands_source()
            bounded = _C_ops.logical_and(goes_on, _may_go_on(_C_ops.increment_(rounds, 1.0), handed_on))
            # One that is cut off counts more than there may be.
            cut = _C_ops.cast(_C_ops.logical_and(goes_on, _C_ops.logical_not(bounded)), paddle.int64)
            more = _C_ops.multiply(_C_ops.reshape(cut, []), _number(_MOST_ROUNDS))
            _C_ops.assign_out_(_C_ops.add(rounds, more), rounds)
            end.operand(0).set_source(bounded)
    pir.set_insertion_point_to_block_end(block)
    return _C_ops.assign(rounds)


def _may_go_on(rounds: Any, handed_on: list[Any]) -> Any:
    may = _C_ops.less_than(rounds, _number(_MOST_ROUNDS))
    for value in handed_on:
        if value.initialized() and value.is_dense_tensor_type() and -1 in value.shape:
            may = _C_ops.logical_and(may, _C_ops.less_than(_C_ops.numel(value), _number(_MOST_NUMBERS)))
    return may


def _number(number: float) -> Any:
    return _C_ops.full([], float(number), paddle.int64, core.CPUPlace())
