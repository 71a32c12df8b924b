"""Blocks of control flow as programs of their own, while Paddle's passes rewrite a program.

Passes go into blocks by themselves, but what is hidden from them (`Masks`) and what is named for them is
hidden and named in a program only. In a block that is outlined stand inputs with what it gives; outputs
of the program around it keep what it takes.
"""

from __future__ import annotations

from typing import Any

import paddle
from paddle import _C_ops
from paddle.base.libpaddle import pir
from paddle.base.libpaddle.pir import get_used_external_value

from paddle_sot_rs._paddle.constants import DATA
from paddle_sot_rs._paddle.gradients.backward import REGIONS, blocks_of, with_inner

from .masks import is_plain, keep
from .passes import cloned, stand_in

_RECOMPUTED = "pd_op.pylayer"
_END = "cf.yield"


def refusal(block: Any) -> str | None:
    """Why the blocks in this one cannot be outlined; None where they can."""
    for op in block.ops:
        for inner in blocks_of(op):
            if (reason := _refusal_of(inner)) is not None:
                return reason
    return None


def _refusal_of(block: Any) -> str | None:
    for op in with_inner(block.ops):
        # Such an operation has functions beside its block, which a copy does not get.
        if op.name() == _RECOMPUTED:
            return "the program has recompute inside of control flow"
        if op.name().startswith("cf.") and op.name() != _END:
            return "the program has control flow that goes backward"
    ends = block.ops[-1:]
    given = (*get_used_external_value(block), *block.args(), *(value for op in ends for value in op.operands_source()))
    if not ends or ends[0].name() != _END or not all(map(is_plain, given)):
        return "the program has control flow with lists"
    return None


class Outlined:
    """One block of an operation of a program.

    Args:
        around: the program.
        op: an operation of its outermost block.
        block: one of the blocks of that.
        number: of the block, in the program.
    """

    def __init__(self, around: Any, op: Any, block: Any, number: int) -> None:
        self.around = around
        self.block = block
        self.prefix = f"sot_block_{number}_"
        self.program = paddle.static.Program()
        # Paddle tells those of blocks in this one again.
        used = (value for value in get_used_external_value(block) if value.initialized())
        self.outer = list({value.id: value for value in used}.values())
        # A pass may replace them.
        self.outer_ids = [value.id for value in self.outer]
        mapping = pir.IrMapping()
        with paddle.static.program_guard(self.program):
            # What stands for values from outside, and for arguments.
            self.given = [
                stand_in(f"{self.prefix}given_{at}", value) for at, value in enumerate((*self.outer, *block.args()))
            ]
            for value, copy in zip((*self.outer, *block.args()), self.given, strict=True):
                mapping.add(value, copy)
            inner = block.ops[:-1]
            for each in inner:
                cloned(each, mapping)
            made = self._made(inner)
            copies = [mapping.look_up(value) for value in made]
            inside = self.program.global_block()
            size = len(inside.ops)
            pir.append_shadow_outputs(self.program, copies, size, f"{self.prefix}made_")
            # The outputs with what the block gives.
            self.results = [output.id() for output in inside.ops[size:]]
        self._empty(op, inner, made)

    def _made(self, inner: list[Any]) -> list[Any]:
        """What the block gives and makes."""
        own = {value.id for each in inner for value in each.results() if value.initialized()}
        given = self.block.ops[-1].operands_source()
        return list({value.id: value for value in given if value.id in own}.values())

    def _empty(self, op: Any, inner: list[Any], made: list[Any]) -> None:
        with paddle.static.program_guard(self.around):
            pir.set_insertion_point(self.block.ops[-1])
            for at, value in enumerate(made):
                value.replace_all_uses_with(stand_in(f"{self.prefix}result_{at}", value))
            for each in reversed(inner):
                self.block.remove_op(each)
            # The outputs with what the block takes: passes replace the values.
            self.keepers = keep(self.around, op, self.outer, f"{self.prefix}outer_")
            pir.set_insertion_point_to_block_end(self.around.global_block())

    def show(self) -> None:
        """Puts the operations back."""
        whole = self.around.global_block()
        keepers = {each.id(): each for each in whole.ops if each.id() in self.keepers}
        values = (*(keepers[keeper].operand_source(0) for keeper in self.keepers), *self.block.args())
        given = {f"{self.prefix}given_{at}": value for at, value in enumerate(values)}
        mapping, made = pir.IrMapping(), {}
        stand_ins = self.block.ops[:-1]
        with paddle.static.program_guard(self.around):
            pir.set_insertion_point(self.block.ops[-1])
            for each in self.program.global_block().ops:
                if each.id() in self.results:
                    made[each.id()] = mapping.look_up(each.operand_source(0))
                elif each.name() == DATA and each.attrs()["name"] in given:
                    mapping.add(each.result(0), given[each.attrs()["name"]])
                else:
                    cloned(each, mapping)
            for each, result in zip(stand_ins, self.results, strict=True):
                each.result(0).replace_all_uses_with(made[result])
                self.block.remove_op(each)
            for each in keepers.values():
                whole.remove_op(each)
            pir.set_insertion_point_to_block_end(whole)


def outlined(program: Any) -> list[Outlined]:
    """All blocks of operations of a program's outermost block."""
    operations = [(op, block) for op in program.global_block().ops if op.name() in REGIONS for block in blocks_of(op)]
    return [Outlined(program, op, block, number) for number, (op, block) in enumerate(operations)]


def lay_out_plainly(program: Any, results: list[int]) -> None:
    """Copies what oneDNN has made where nobody knows its layout: in front of blocks, and behind one.

    Args:
        program: after its operations were placed.
        results: its outputs that a block gives, by the ids of operations.
    """
    with paddle.static.program_guard(program):
        for op in program.global_block().ops:
            for operand in op.operands() if op.id() in results or op.name() in REGIONS else ():
                maker = operand.source().get_defining_op()
                # Of lists that oneDNN makes, the items are results of another operation.
                if maker is not None and not maker.name().startswith("pd_op."):
                    pir.set_insertion_point(op)
                    operand.set_source(_C_ops.memcpy(operand.source(), 0))
        pir.set_insertion_point_to_block_end(program.global_block())
