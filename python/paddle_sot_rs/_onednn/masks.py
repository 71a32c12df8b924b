"""Hides operations of a program from Paddle's passes, which know operations by their names only.

In the place of one that is hidden stand inputs with its results, and outputs with its operands, which
the passes keep; a copy of it waits in a program of its own.
"""

from __future__ import annotations

from typing import Any

import paddle
from paddle.base.libpaddle import pir

from paddle_sot_rs._paddle.constants import DATA

from .passes import cloned, stand_in


def is_plain(value: Any) -> bool:
    """Whether it is a tensor, or none is there."""
    return not value.initialized() or value.is_dense_tensor_type()


def can_hide(op: Any) -> bool:
    """Whether it can be: it has no blocks, and neither takes nor makes lists."""
    return not op.num_regions() and all(map(is_plain, (*op.operands_source(), *op.results())))


def keep(program: Any, op: Any, values: list[Any], prefix: str) -> list[int]:
    """Puts outputs with the values in front of an operation of a program; the answer is the id of each one's.

    Values of inputs, and those of other outputs, keep the name that they had.
    """
    block = program.global_block()
    place = next(at for at, other in enumerate(block.ops) if other.id() == op.id())
    kept = {value.id: value for value in values}
    pir.append_shadow_outputs(program, list(kept.values()), place, prefix)
    outputs = zip(kept, block.ops[place : place + len(kept)], strict=True)
    by_value = {value: output.id() for value, output in outputs}
    return [by_value[value.id] for value in values]


class Masks:
    """The hidden operations of a program."""

    def __init__(self, program: Any, operations: list[Any], prefix: str = "sot_hidden_") -> None:
        self.program = program
        # No other masks of the program may have it.
        self.prefix = prefix
        self.block = program.global_block()
        self.waiting = paddle.static.Program()
        self.hidden = [self._hide(number, op) for number, op in enumerate(operations)]

    def _hide(self, number: int, op: Any) -> tuple[str, list[Any], list[int], Any]:
        prefix = f"{self.prefix}{number}_"
        operands = [value for value in op.operands_source() if value.initialized()]
        mapping, given = pir.IrMapping(), []
        with paddle.static.program_guard(self.waiting):
            for at, value in enumerate(operands):
                given.append(stand_in(f"{prefix}waits_{at}", value))
                mapping.add(value, given[-1])
            copy = cloned(op, mapping)
        with paddle.static.program_guard(self.program):
            pir.set_insertion_point(op)
            for at, result in enumerate(op.results()):
                if result.initialized():
                    made = stand_in(f"{prefix}result_{at}", result)
                    made.stop_gradient = result.stop_gradient
                    result.replace_all_uses_with(made)
            keepers = keep(self.program, op, operands, prefix)
        self.block.remove_op(op)
        return prefix, given, keepers, copy

    def show(self) -> None:
        """Puts them back, with what their operands have become."""
        wanted = {keeper for _, _, keepers, _ in self.hidden for keeper in keepers}
        outputs: dict[int, Any] = {}
        stand_ins: dict[str, Any] = {}
        for op in self.block.ops:
            if op.id() in wanted:
                outputs[op.id()] = op
            elif op.name() == DATA and op.attrs()["name"].startswith(self.prefix):
                stand_ins[op.attrs()["name"]] = op
        with paddle.static.program_guard(self.program):
            for prefix, given, keepers, copy in self.hidden:
                mapping = pir.IrMapping()
                for value, keeper in zip(given, keepers, strict=True):
                    mapping.add(value, outputs[keeper].operand_source(0))
                made = [stand_ins.get(f"{prefix}result_{at}") for at in range(copy.num_results())]
                pir.set_insertion_point(next(op for op in made if op is not None))
                shown = cloned(copy, mapping)
                for at, op in enumerate(made):
                    if op is not None:
                        op.result(0).replace_all_uses_with(shown.result(at))
                        self.block.remove_op(op)
            for op in outputs.values():
                self.block.remove_op(op)
