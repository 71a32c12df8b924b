"""A traced program as one that can be saved: named inputs, parameters by name."""

import logging
import weakref
from dataclasses import dataclass
from typing import Any

import paddle
from paddle import _C_ops
from paddle.base import core
from paddle.base.libpaddle import pir
from paddle.pir import core as pir_core

from paddle_sot_rs._graph.quantisers import OBSERVES
from paddle_sot_rs._paddle.gradients.backward import with_inner
from paddle_sot_rs._paddle.passes import alike_results
from paddle_sot_rs._paddle.passes.channels_first import keep_channels_first
from paddle_sot_rs._paddle.predictors import prepare
from paddle_sot_rs._paddle.programs import loops
from paddle_sot_rs._paddle.static_mode import Window

_log = logging.getLogger("paddle_sot_rs.backend")


@dataclass
class ConcreteProgram:
    """A captured function as one static program.

    Attributes:
        main_program: the `paddle.static.Program`.
        inputs: Values of its inputs, in order.
        outputs: Values of its outputs, in order.
        parameters: (tensors, Values) of parameters, buffers and other tensors from outside.
        startup_program: declares the parameters.
        code: the statements, as text.
        assumptions: what is taken for granted of open dims, as text.
    """

    main_program: Any
    inputs: list[Any]
    outputs: list[Any]
    parameters: tuple[list[Any], list[Any]]
    startup_program: Any
    code: str = ""
    assumptions: tuple[str, ...] = ()


def _initial(meta, block):
    # Only declares the parameter: its value is that of the tensor.
    return _C_ops.full(list(meta.shape), 0.0, meta.dtype, core.Place())


def _parameter(tensor, taken):
    name = tensor.name
    while not name or name in taken:
        name = paddle.utils.unique_name.generate("sot_tensor")
    taken.add(name)
    value = pir_core.create_parameter(
        tensor.dtype, list(tensor.shape), name=name, initializer=_initial, trainable=not tensor.stop_gradient
    )
    return value


def _remove(op):
    """Removes an operation, and those that only it uses the results of: they may read what is not made in a test.

    The answer is the ids of those that are gone: what they were asked for would be read from memory that is free.
    """
    gone = {op.id()}
    makers = [value.get_defining_op() for value in op.operands_source() if value.initialized()]
    makers = {maker.id(): maker for maker in makers if maker is not None}
    op.get_parent_block().remove_op(op)
    for name, maker in makers.items():
        if name not in gone and maker.num_operands() and all(value.use_empty() for value in maker.results()):
            gone |= _remove(maker)
    return gone


def let_go(_program):
    """The last of what pointed into it is gone."""


def export_program(trace, inputs, outputs):
    """`inputs` lists (name, tensor, open dims) of the arguments, `outputs` the Values of the result."""
    program, block = trace.program, trace.block
    known = {id(tensor): value for tensor, value in trace.external.values()}
    result = list(outputs)

    def replace(old, new):
        old.replace_all_uses_with(new)
        for at, value in enumerate(result):
            if value.is_same(old):
                result[at] = new
        # What only a loop or branch uses was seen there first.
        op = old.get_defining_op()
        op.get_parent_block().remove_op(op)

    window = Window(program, trace.startup, trace.cast)
    try:
        gone = set()
        for name, op in [(op.id(), op) for op in with_inner(block.ops) if op.has_attr(OBSERVES)]:
            # A saved program learns nothing, as its statistics stay what they are.
            if name not in gone:
                gone |= _remove(op)
        values = []
        # Each goes to the start of the program: the last one first.
        for name, tensor, dims in reversed(inputs):
            pir.reset_insertion_point_to_start()
            shape = [-1 if dim in dims else size for dim, size in enumerate(tensor.shape)]
            value = _C_ops.data(name, shape, tensor.dtype, core.Place())
            value.stop_gradient = tensor.stop_gradient
            if (old := known.pop(id(tensor), None)) is not None:
                replace(old, value)
            values.insert(0, value)
        tensors, parameters = [], []
        taken = {name for name, _, _ in inputs}
        for tensor, old in list(trace.external.values()):
            if id(tensor) not in known:
                continue
            value = _parameter(tensor, taken)
            replace(old, value)
            tensors.append(tensor)
            parameters.append(value)
        # An argument or parameter that is returned as it is needs an operation to be an output. And
        # what `scale` made would be saved as the operand where the factor is 1: Paddle does not
        # look at the summand.
        pir.set_insertion_point_to_block_end(block)
        given = [*values, *parameters]
        for at, value in enumerate(result):
            scaled = (
                not any(value.is_same(other) for other in given) and value.get_defining_op().name() == "pd_op.scale"
            )
            if scaled or any(value.is_same(other) for other in given):
                result[at] = _C_ops.assign(value)
        if loops(block) and core.globals()["FLAGS_eager_delete_tensor_gb"] < 0:
            _log.warning(
                "a loop was saved, and FLAGS_eager_delete_tensor_gb is negative: Paddle's executors compute loops "
                "wrongly then, in loaded programs too; leave it at 0 or more where this one is loaded"
            )
        prepare(block, values, result)
        keep_channels_first(block)
        alike_results.keep_apart(block, result)
        trace.external.clear()
        # A Value points into its program, and does not keep it: `static.inputs` is all that the
        # caller may have.
        for value in (*values, *result, *parameters):
            weakref.finalize(value, let_go, program).atexit = False
        return ConcreteProgram(program, values, result, (tensors, parameters), trace.startup)
    finally:
        window.close()
