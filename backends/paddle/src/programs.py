"""Programs as they will run: what a trace has built is finished, differentiated and split."""

import itertools
import math

import paddle
from paddle import _C_ops
from paddle.base import core, framework
from paddle.base.libpaddle import pir
from paddle.jit.dy2static.utils import CUDAGraphState
from paddle.pir import get_fake_value_name, is_fake_value
from paddle_sot_rs import _again as again
from paddle_sot_rs import _reach as reach
from paddle_sot_rs import _tracing
from paddle_sot_rs._backward import REGIONS, blocks_of, first_random, gradients, takes_none_of_several
from paddle_sot_rs._bases import look_for_bases
from paddle_sot_rs._gates import gates_of
from paddle_sot_rs._reads import read_back
from paddle_sot_rs._trace import Trace
from paddle_sot_rs._window import Window

_program_numbers = itertools.count(1)


def _new_program_id():
    """Paddle finds executors by 65 times the program's id plus a quarter of the scope's address, modulo 2**64: this far
    apart (addresses have 47 bits) no other program's id and scope come to the same sum.
    """
    spread = (next(_program_numbers) << 46) % (1 << 64)
    return spread - (1 << 64) if spread >> 63 else spread


# Attributes that name one, in the order in which Paddle looks for them.
_LAYOUTS = ("data_format", "data_layout")


class CallByCall(Exception):
    """Raised while compiling: no program does what this graph does, and it is no failure."""


def _all_values(program):
    values = {}
    for op in program.global_block().ops:
        # Operands are results of earlier operations; optional results may be absent.
        for value in op.results():
            if value.initialized():
                values.setdefault(value.id, value)
    return values.values()


# What these give is there before the run.
_GIVEN = frozenset(("pd_op.data", "builtin.parameter"))
# Of a size that is not told, and none on a CPU.
_WITH_WORK_SPACE = frozenset(("pd_op.batch_norm", "pd_op.batch_norm_"))


def _memory(programs):
    """Bytes of all that the operations make, of eight bytes a number; None where a dim is open."""
    total = 0
    for program in programs:
        for op in program.global_block().ops:
            if op.name() in _GIVEN:
                continue
            for value in op.results():
                # The values in a list are results of the operation that takes it apart.
                if value.initialized() and value.is_dense_tensor_type():
                    shape = value.shape
                    if all(dim >= 0 for dim in shape):
                        total += 8 * math.prod(shape)
                    elif op.name() not in _WITH_WORK_SPACE:
                        return None
    return total


def _unify_names(program, mapping):
    mapping = dict(mapping)
    for value in list(_all_values(program)):
        if value.has_name:
            name = mapping.get(value.name, value.name)
            mapping.update(value._rename(name, program.global_block()))
    return mapping


def _name(value):
    return get_fake_value_name() if is_fake_value(value) else value.name


_SHARES_STORAGE = frozenset(
    f"pd_op.{name}"
    for name in (
        *("data", "reshape", "reshape_", "squeeze", "unsqueeze", "flatten", "transpose", "slice", "strided_slice"),
        *("split", "split_with_num", "unbind", "unstack", "expand", "as_strided", "view_shape", "view_dtype"),
        *("tensor_unfold", "diagonal", "share_data_", "shape", "memcpy", "assign", "cast", "dropout", "real", "imag"),
    )
) | {"builtin.split", "builtin.slice", "builtin.parameter"}


def _keep_operands(block):
    """Copies operands of `einsum` that something else uses too.

    Its gradient finds them in a cache that may share their storage, which Paddle's pass for operations in place
    does not know: it would let the other one write there.
    """
    for op in block.ops:
        if op.name() != "pd_op.einsum":
            continue
        combined = op.operand_source(0).get_defining_op()
        for operand in combined.operands():
            value = operand.source()
            given = value.get_defining_op().name() in ("pd_op.data", "builtin.parameter")
            if given or len(value.all_used_ops()) < 2:
                continue
            pir.set_insertion_point(combined)
            copy = _C_ops.assign(value)
            copy.stop_gradient = value.stop_gradient
            operand.set_source(copy)
    pir.set_insertion_point_to_block_end(block)


# Larger constants are made by every run, as the program says.
_LARGEST_CONSTANT = 4096
_CONSTANTS = ("pd_op.full", "pd_op.full_int_array")
# Their results may share storage with what they are given, which operations in place do not know.
_HANDS_ON = ("pd_op.while", "pd_op.if", "cf.yield")


def _hoist_constants(block, kept, forward_end, start, place):
    """Makes inputs of the numbers that the program would write to memory in every run.

    The forward part ends at `forward_end`, the backward part starts at `start`. The answer is the new
    inputs, what makes each of them in eager mode, and how many operations the forward part has won.
    """
    values, recipes, removed = [], [], 0
    operations = block.ops
    # Constants have no operands: none of their uses is in front of this operation.
    anchor = next((op for op in operations if op.name() not in _CONSTANTS), None)
    if anchor is None or not place.is_cpu_place():
        return values, recipes, 0
    known = {}
    for index, op in enumerate(operations):
        name = op.name()
        if name not in _CONSTANTS:
            continue
        if forward_end <= index < start:
            continue
        value = op.results()[0]
        attributes = op.attrs()
        number = attributes["value"]
        whole = name == "pd_op.full_int_array"
        uses = [use.name() for use in value.all_used_ops()]
        if value.id in kept or not uses or any(use.endswith("_") or use in _HANDS_ON for use in uses):
            continue
        if not whole and (isinstance(number, complex) or math.prod(attributes["shape"]) > _LARGEST_CONSTANT):
            continue
        where = attributes["place"] if attributes["place"].is_cpu_place() else place
        # repr: 0.0 and -0.0 are equal.
        key = (whole, repr(number), tuple(value.shape), str(value.dtype), str(where))
        constant = known.get(key)
        if constant is None:
            recipes.append(
                (_C_ops.full_int_array, (number, value.dtype, where))
                if whole
                else (_C_ops.full, (attributes["shape"], number, value.dtype, where))
            )
            pir.set_insertion_point(anchor)
            constant = known[key] = _C_ops.data(f"sot_c{len(values)}", value.shape, value.dtype, where)
            constant.stop_gradient = True
            values.append(constant)
        value.replace_all_uses_with(constant)
        block.remove_op(op)
        removed += index < forward_end
    pir.set_insertion_point_to_block_end(block)
    return values, recipes, len(values) - removed


def _say_layout(block):
    """Before each run on a CPU Paddle goes through operations until one of them names a layout: so the first does."""
    operations = block.ops
    if not operations:
        return
    named = (op.attrs().get(name) for op in operations for name in _LAYOUTS if op.has_attr(name))
    if not any(operations[0].has_attr(name) for name in _LAYOUTS):
        operations[0].set_str_attr(_LAYOUTS[0], "NHWC" if next(named, None) == "NHWC" else "NCHW")
    for op in operations:
        for inner in blocks_of(op):
            _say_layout(inner)


class Role:
    """What a program is in its graph."""

    __slots__ = ("is_part", "together", "uncertain")

    def __init__(self, is_part=False, together=False, uncertain=()):
        self.is_part = is_part
        # Gradients arrive at all of its outputs, or at none.
        self.together = together
        # Inputs, by position, that may need no gradient after all: captured control flow has made them.
        self.uncertain = uncertain


# One bit each.
_MOST_SIGNALS = 64


def compile_graph(trace, inputs, outputs, grad, lowering=None, role=None):
    """The attribute map of `run_program`, the forward program, whether it trains, which inputs
    want a gradient but get none, gates around the program, what its runs need to go backward again (outputs that
    train, variables, whether it draws random numbers, inputs and outputs that its backward reads), whether it has
    loops, whether its last output says which inputs it has reached, and those inputs (see `Plan`), the bytes that it
    makes, whether the backward reads from an output in front of that one at which others gradients have arrived, and
    constants to pass after the inputs.

    `inputs` and `outputs` are Values; every input goes in as an `x` of the program. `lowering` rewrites the
    program on its way: see `Lowering`.
    """
    place = framework._current_expected_place()
    if grad and trace.branches:
        # It tries how edges are cut, in eager mode, the first time that it is asked.
        reach.can_cut()
    with _tracing.building(trace):
        answer, recipes = _compile(trace, inputs, outputs, grad, place, lowering or Lowering(), role or Role())
    with paddle.no_grad():
        constants = [make(*arguments) for make, arguments in recipes]
    return (*answer, constants)


class Lowering:
    """What another backend may do to a program while it is compiled: here, nothing.

    A lowering replaces Values; `kept` are the ones the compilation goes on with, the answer is what they became.
    """

    rewrites = False

    def before_backward(self, program, kept, trains):
        return kept

    def backward(self, block, inputs, targets, seeds, branches, whens):
        return gradients(block, inputs, targets, seeds, branches, whens)

    def after_backward(self, program, kept, forward_end, start):
        """The answer is (kept, forward_end, start)."""
        return kept, forward_end, start

    def finish(self, forward, backward):
        """The two programs as they will run."""


def loops(block):
    """Whether there is a loop in it, or in a block of it."""
    inner = (op for op in block.ops if op.name() in REGIONS)
    return any(op.name() == "pd_op.while" or any(map(loops, op.blocks())) for op in inner)


def _compile(trace, inputs, outputs, grad, place, lowering, role):
    program, block = trace.program, trace.block
    window = Window(program, trace.startup, trace.cast)
    try:
        if grad:
            _keep_operands(block)
        # A kernel may write its result into the storage it shares with another output or an input.
        produced = []
        for value in outputs:
            copies = grad or lowering.rewrites
            if not copies and value.use_empty() and value.get_defining_op().name() not in _SHARES_STORAGE:
                produced.append(value)
                continue
            copy = _C_ops.assign(value)
            copy.stop_gradient = value.stop_gradient
            produced.append(copy)
        trains = grad and any(not value.stop_gradient for value in produced)
        whole = [], [], [], []
        if trains and lowering.rewrites and not trace.branches:
            whole = _read_by_kernels(program, inputs, produced)
        produced = lowering.before_backward(program, produced, trains)
        plan, never = reach.plan(trace, block.ops, inputs, produced, role) if trains else (None, [])
        trace.notes_ways = False
        training = [at for at, value in enumerate(produced) if trains and not value.stop_gradient]
        if len(training) > 1 and not role.together and takes_none_of_several(block.ops):
            raise CallByCall
        # Who goes backward from some of the results only is told apart where ways differ.
        has_signal = len(training) > 1 and not role.together and bool(trace.branches or role.is_part)
        if has_signal:
            if len(training) > _MOST_SIGNALS:
                raise CallByCall
            signal = _C_ops.full([len(training)], True, paddle.bool, core.Place())
            produced = [*produced, signal]
        if plan is not None:
            if not reach.can_cut():
                raise CallByCall
            if plan.flags is not None:
                produced = [*produced, plan.flags]
        pir.append_shadow_outputs(program, produced, len(block.ops), "output_")
        forward_end = len(block.ops)
        x_grads, out_grads, without, gates = [], [], [], None
        read = [], [], [], []
        between = 0
        if trains:
            for value in produced:
                if value.stop_gradient:
                    out_grads.append(pir.fake_value())
                else:
                    out_grads.append(_C_ops.full_like(value, 1.0, value.dtype, core.Place()))
            pir.append_shadow_outputs(program, out_grads, len(block.ops), "grad_input_")
            between = len(block.ops) - forward_end
            last = block.ops[forward_end - 1]
            targets, seeds = [produced[at] for at in training], [out_grads[at] for at in training]
            whens = [reach.ALWAYS] * len(training)
            if has_signal:
                whens = [trace.conditions.arrived(signal, number) for number in range(len(training))]
            x_grads = list(lowering.backward(block, inputs, targets, seeds, trace.branches, whens))
            # The gradient of a branch has zeros for what its operators give no gradient to.
            for at in never:
                x_grads[at] = None
            for index, op in enumerate(block.ops):
                if op == last:
                    forward_end = index + 1
                    break
            without = [
                index
                for index, (gradient, value) in enumerate(zip(x_grads, inputs, strict=True))
                if gradient is None and not value.stop_gradient
            ]
            if plan is not None:
                gates = plan.gates(without)
            elif not role.together:
                gates = gates_of(block.ops[:forward_end], inputs, produced[: len(outputs)])
            if gates is not None and again.is_expected():
                raise CallByCall
            start = forward_end + between
            look_for_bases(block.ops, forward_end, start, inputs, produced[: len(outputs)], role.is_part)
            if trace.branches:
                # What runs in the end may no longer say what of it is computed again.
                read = read_back(block.ops, forward_end, start, inputs, produced[: len(outputs)])
            live = [value for value in x_grads if value is not None]
            after, forward_end, start = lowering.after_backward(program, [*produced, *live], forward_end, start)
            produced, live = after[: len(produced)], iter(after[len(produced) :])
            x_grads = [pir.fake_value() if value is None else next(live) for value in x_grads]
            pir.append_shadow_outputs(program, x_grads, len(block.ops), "grad_output_")
        else:
            start = forward_end
            look_for_bases(block.ops, forward_end, start, inputs, produced, role.is_part)
        kept = {value.id for value in (*produced, *x_grads, *out_grads) if not is_fake_value(value)}
        constants, recipes, moved = _hoist_constants(block, kept, forward_end, start, place)
        forward_end, start = forward_end + moved, start + moved
        if trains and not trace.branches:
            read = read_back(block.ops, forward_end, start, inputs, produced[: len(outputs)])
            # Eager mode refuses changes of what its kernels read.
            (inner, outer, again_in, again_out), (more_in, more_out, *more_again) = read, whole
            again_in, again_out = map(_either, (again_in, again_out), more_again)
            read = sorted({*inner, *more_in}), sorted({*outer, *more_out}), again_in, again_out
        inputs = [*inputs, *constants]
        if trains:
            x_grads = [*x_grads, *(pir.fake_value() for _ in constants)]
        is_random = trains and first_random(block.ops[:forward_end]) is not None
        (forward, backward), attributes = pir.split_program(
            program, inputs, [], produced, x_grads, [], out_grads, (0, forward_end), (start, len(block.ops))
        )
        lowering.finish(forward, backward)
        for part in (forward, backward):
            _say_layout(part.global_block())
        by_name = {name: value for value in _all_values(forward) for name in value._names}
        names = {key: [_name(value) for value in values] for key, values in attributes.items()}
        mapping = _unify_names(backward, _unify_names(forward, {}))
        # A value that is also known under another name must keep its buffer.
        renamed = {name for pair in mapping.items() for name in pair}
        names["no_need_buffers"] = [name for name in names["no_need_buffers"] if name not in renamed]
        results = [by_name.get(name, pir.fake_value()) for name in names["fo"]]
        for value, original in zip(results, produced, strict=True):
            if not is_fake_value(value):
                value.stop_gradient = original.stop_gradient
        description = {
            "forward_program": forward,
            "backward_program": backward,
            "is_test": not trains,
            "program_id": _new_program_id(),
            "in_sot_mode": True,
            "fo_values": results,
        }
        for key, list_ in names.items():
            description[key + "_names"] = [mapping.get(name, name) for name in list_]
        attribute_map = core.construct_program_attribute_map(description)
        needed = []
        if trains:
            taken = (mapping.get(name, name) for key in ("bx", "bp", "bm", "bo") for name in names[key])
            needed = sorted({name for name in taken if name != get_fake_value_name()})
        # The backward part has loops where this one has.
        has_loops = loops(forward.global_block())
        if has_loops and trains:
            again.loops = True
        decided = None
        if plan is not None:
            decided = plan.flags is not None, [row for row in plan.rows if row[0] not in without], plan.loose
        again_ = (training, needed, is_random, *read)
        executor = (has_loops, decided, _memory((forward, backward)), has_signal)
        return (attribute_map, forward, trains, without, gates, again_, executor), recipes
    finally:
        window.close()


def _either(one, other):
    """Pairs of what is in one of two lists of pairs, with True where one of them says so."""
    return sorted((at, (at, True) in one or (at, True) in other) for at in {*dict(one), *dict(other)})


def _read_by_kernels(program, inputs, outputs):
    """What `read_back` finds for this program before it is rewritten. The backward part for that is removed again."""
    block = program.global_block()
    size = len(block.ops)
    pir.append_shadow_outputs(program, outputs, size, "output_")
    forward_end = len(block.ops)
    targets = [value for value in outputs if not value.stop_gradient]
    seeds = [_C_ops.full_like(value, 1.0, value.dtype, core.Place()) for value in targets]
    start = len(block.ops)
    gradients(block, inputs, targets, seeds, {}, [reach.ALWAYS] * len(targets))
    found = read_back(block.ops, forward_end, start, inputs, outputs)
    for op in reversed(block.ops[size:]):
        block.remove_op(op)
    return found


CUDA_GRAPH = {"cuda_graph_state": CUDAGraphState.DISABLE, "cuda_graph_dispatch_key": 0}


def _put_zeros_first():
    """Paddle keeps one attribute for numbers that are equal, the first it meets: 0.0, before some program has -0.0."""
    trace = Trace()
    window = Window(trace.program, trace.startup, trace.cast)
    try:
        _C_ops.scale(_C_ops.full([1], 0.0, paddle.float32, core.Place()), 0.0, 0.0, True)
    finally:
        window.close()


_put_zeros_first()
