"""What a program makes of its weights alone: set apart from it, and made again only when they change."""

from __future__ import annotations

import math
from typing import Any

import paddle
from paddle import _C_ops
from paddle.base import core
from paddle.base.libpaddle import pir

from paddle_sot_rs._paddle import programs
from paddle_sot_rs._paddle.constants import CONSTANTS, DATA
from paddle_sot_rs._paddle.effects import has_effects, reads_statistics, written
from paddle_sot_rs._paddle.foreign_programs import run_program
from paddle_sot_rs._paddle.gradients.backward import with_inner
from paddle_sot_rs._paddle.runnable import whole
from paddle_sot_rs._paddle.views import ASSIGN

from .passes import cloned, stand_in

# Always the same of the same, without effects.
_PURE = frozenset(
    f"pd_op.{name}"
    for name in """
    abs add assign cast clip divide exp expand flatten matmul maximum mean minimum multiply norm p_norm
    pow reshape rsqrt scale sqrt square squeeze subtract sum transpose unsqueeze
    """.split()
)


def steady_values(block: Any, weights: list[Any]) -> set[int]:
    """The ids of values that are made of weights and constants alone."""
    found = {value.id for value in weights}
    for op in with_inner(block.ops):
        operands = (value for value in op.operands_source() if value.initialized())
        if op.name() in CONSTANTS or (op.name() in _PURE and all(value.id in found for value in operands)):
            found.update(value.id for value in op.results())
    return found


def computed_once(block: Any, known: set[int]) -> list[Any]:
    """What is computed of steady values alone, and read by something else, where it takes no more room than they do.

    Nothing is where an operation writes over what it is given: that may be a view of such a value.
    """
    operations = list(with_inner(block.ops))
    if any(written(op) and not reads_statistics(op) for op in operations):
        return []
    # A copy is made in each call: it may be a result.
    copies = {op.result(0).id for op in operations if op.name() == ASSIGN}
    steady, found = known - copies, {}
    for op in operations:
        if any(result.id in steady for result in op.results() if result.initialized()):
            continue
        for value in op.operands_source():
            maker = value.get_defining_op() if value.initialized() and value.id in steady else None
            if maker is not None and maker.name() in _PURE and _takes_no_more(maker):
                found[value.id] = value
    return list(found.values())


def _takes_no_more(op: Any) -> bool:
    """Whether a result is not larger than what it is computed of."""
    given = (value for value in op.operands_source() if value.initialized())
    return _bytes(op.result(0)) <= sum(map(_bytes, given))


class Steady:
    """Values of a program that are steady, as inputs of it: see `set_apart` in `programs.py`.

    Args:
        program: it loses the operations that only they need.
        inputs: its inputs; `weights` are positions among them.
        wanted: steady values, some of which may be weights themselves.
        caches: what runs keep; it forgets before they are made again.
        frozen: whether that never happens.
    """

    def __init__(
        self, program: Any, inputs: list[Any], weights: list[int], wanted: list[Any], caches: Any, frozen: bool
    ) -> None:
        self.frozen = frozen
        needed = {value.id for value in wanted}
        moved = []
        for op in reversed(list(with_inner(program.global_block().ops))):
            made_here = (value.id for value in op.results() if value.initialized())
            if op.name() != DATA and not needed.isdisjoint(made_here):
                moved.append(op)
                needed.update(value.id for value in op.operands_source() if value.initialized())
        read = [at for at in weights if inputs[at].id in needed]
        # `Recipe` in `steady.rs` takes these, and `make`.
        self.watched = [(at, _bytes(inputs[at])) for at in read]
        self.open = [at for at, value in enumerate(inputs) if is_open(value)]
        self.enter, self.forget, self.made = caches.enter, caches.forget, caches.made
        self.has_blocks = any(op.num_regions() for op in program.global_block().ops)
        self.may_run_twice = not has_effects(program.global_block().ops)
        self.attributes: Any = None
        # A scope for its executor.
        self.scope = core.Scope()
        given = {value.id for value in (inputs[at] for at in read)}
        made = {value.id: value for value in wanted if value.id not in given}
        self.values = self._move(program, [inputs[at] for at in read], moved[::-1], list(made.values()))

    def _move(self, program: Any, weights: list[Any], moved: list[Any], made: list[Any]) -> list[Any]:
        if not made:
            return []
        apart, mapping = paddle.static.Program(), pir.IrMapping()
        copies: dict[int, Any] = {}
        with paddle.static.program_guard(apart):
            inputs = [stand_in(f"sot_w{at}", value) for at, value in enumerate(weights)]
            for value, copy in zip(weights, inputs, strict=True):
                mapping.add(value, copy)
            for op in moved:
                copy = cloned(op, mapping)
                copies.update((value.id, copy.result(at)) for at, value in enumerate(op.results()))
            outputs = [_own(copies[value.id]) for value in made]
            pir.append_shadow_outputs(apart, outputs, len(apart.global_block().ops), "output_")
            self.attributes = whole(apart, inputs, outputs)
        block = program.global_block()
        pir.set_insertion_point(block.ops[0])
        values = [stand_in(f"sot_s{at}", value) for at, value in enumerate(made)]
        for value, given in zip(made, values, strict=True):
            value.replace_all_uses_with(given)
        for op in reversed(moved):
            if all(value.use_empty() for value in op.results()):
                op.get_parent_block().remove_op(op)
        pir.set_insertion_point_to_block_end(block)
        return values

    def make(self, weights: list[Any]) -> list[Any]:
        """The tensors for `values`."""
        self.forget()
        if self.attributes is None:
            return []
        with paddle.no_grad():
            made = run_program(weights, None, [self.scope], self.attributes, programs.CUDA_GRAPH)
        for name in self.scope.local_var_names():
            # Variables would keep their storage until the next time.
            self.scope.find_var(name).get_tensor()._clear()
        return made


def _own(value: Any) -> Any:
    """A value with storage of its own: what shares that of a weight would change before anything says so."""
    shares = value.get_defining_op().name() in programs.SHARES_STORAGE
    return _C_ops.assign(value) if shares else value


def is_open(value: Any) -> bool:
    """Whether it is a tensor with open dims."""
    return value.is_dense_tensor_type() and any(dim < 0 for dim in value.shape)


def _bytes(value: Any) -> int:
    return math.prod(value.shape) * core.size_of_dtype(value.dtype)
