"""Programs as they will run: what a trace has built is finished, differentiated and split."""

import functools

import paddle
from paddle import _C_ops
from paddle.base import core, framework
from paddle.base.libpaddle import pir
from paddle.jit.dy2static.utils import CUDAGraphState
from paddle.pir import get_fake_value_name, is_fake_value

from paddle_sot_rs._core import operators
from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.aliased_outputs import look_for_bases
from paddle_sot_rs._paddle.constants import GIVEN, hoist
from paddle_sot_rs._paddle.effects import first_random
from paddle_sot_rs._paddle.gradients import double_backward, grad_reachability
from paddle_sot_rs._paddle.gradients.backward import REGIONS, blocks_of, gradients, takes_none_of_several, with_inner
from paddle_sot_rs._paddle.gradients.backward_reads import read_back
from paddle_sot_rs._paddle.gradients.grad_masks import gates_of
from paddle_sot_rs._paddle.kernels import is_on_cpu, without_kernel
from paddle_sot_rs._paddle.passes import linears
from paddle_sot_rs._paddle.passes.python_numbers import share
from paddle_sot_rs._paddle.runnable import all_values, made_bytes, name_of, run_attributes, say_layout, unify_names
from paddle_sot_rs._paddle.static_mode import Window
from paddle_sot_rs._paddle.trace import Trace
from paddle_sot_rs._paddle.views import PARTS, VIEWS


class CallByCall(Exception):
    """Raised while compiling: no program does what this graph does, and it is no failure."""


# Views in eager mode, and what else hands its operand on, in a program.
SHARES_STORAGE = VIEWS | {f"pd_op.{name}" for name in operators("shares_storage")} | {*PARTS, "builtin.parameter"}


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
            given = value.get_defining_op().name() in GIVEN
            if given or len(value.all_used_ops()) < 2:
                continue
            pir.set_insertion_point(combined)
            copy = _C_ops.assign(value)
            copy.stop_gradient = value.stop_gradient
            operand.set_source(copy)
    pir.set_insertion_point_to_block_end(block)


class Role:
    """What a program is in its graph."""

    __slots__ = ("is_part", "together", "uncertain", "weights")

    def __init__(self, is_part=False, together=False, uncertain=(), weights=()):
        self.is_part = is_part
        # Gradients arrive at all of its outputs, or at none.
        self.together = together
        # Inputs, by position, that may need no gradient after all: captured control flow has made
        # them.
        self.uncertain = uncertain
        # Inputs, by position, that a call seldom finds changed; told where a lowering may ask.
        self.weights = weights


class Compiled:
    """A program as it runs, and what its runs have to know of it. Positions are among what went into the graph and came
    out of it; `Answer` in `graph.rs` takes these attributes.
    """

    __slots__ = (
        # The attribute map of `run_program`, and the forward part.
        "attributes",
        "program",
        # Constants to pass after the inputs.
        "constants",
        "trains",
        # Outputs that gradients flow through, and inputs that want a gradient but get none.
        "training",
        "without",
        # Inputs that get their gradients from operators.
        "by_operators",
        # Gates around the program, where outputs depend on different inputs.
        "gates",
        # Whether the last output says which inputs were reached, and those: see `Plan`.
        "decided",
        # Whether the backward reads from the output in front of that one at which others gradients
        # have arrived.
        "has_signal",
        # Variables that the backward takes from a run.
        "needed",
        # Variables that hold what a run gives, where it may go backward.
        "results",
        "is_random",
        # Inputs and outputs whose numbers the backward reads, and those that control flow is
        # computed again from.
        "read",
        "read_outputs",
        "computed_from",
        "outputs_again",
        "has_loops",
        # Whether its operators may write over what is not read any more.
        "in_place",
        # What is made of weights, behind the inputs: None, or what `Recipe` in `steady.rs` takes.
        "steady",
        # Bytes that it makes, None where that is not told.
        "memory",
    )


# One bit each.
_MOST_SIGNALS = 64


def compile_graph(trace, inputs, outputs, grad, lowering=None, role=None):
    """The `Compiled` program of a trace.

    `inputs` and `outputs` are Values; every input goes in as an `x` of the program. `lowering` rewrites the
    program on its way: see `Lowering`.
    """
    place = framework._current_expected_place()
    if grad and trace.branches:
        # It tries how edges are cut, in eager mode, the first time that it is asked.
        grad_reachability.can_cut()
    compilation = _Compilation(trace, inputs, outputs, lowering or Lowering(), role or Role())
    with tracing.building(trace):
        compiled, recipes = compilation.run(grad, place)
    with paddle.no_grad():
        compiled.constants = [make(*arguments) for make, arguments in recipes]
    return compiled


class Lowering:
    """What another backend may do to a program while it is compiled: here, nothing.

    A lowering replaces Values; `kept` are the ones the compilation goes on with, the answer is what they became.
    """

    rewrites = False
    # Paddle's pass for that does not see who reads what oneDNN has made.
    in_place = True
    # Whether constants are made once, and passed to each run. Passes look for those in the program.
    hoists = True

    def before_backward(self, program, kept, trains):
        return kept

    def set_apart(self, program, inputs, weights):
        """What is made of weights alone, by a lowering of a program without a backward: None, or an object with its
        `values`, which become inputs, and with what `Recipe` in `steady.rs` takes. `weights`: positions among `inputs`.
        """
        return None

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


class _Compilation:
    """A program on its way, step by step."""

    def __init__(self, trace, inputs, outputs, lowering, role):
        self.trace = trace
        self.program = trace.program
        self.block = trace.block
        self.inputs = inputs
        self.outputs = outputs
        self.lowering = lowering
        self.role = role
        # What the program gives: the outputs, then whatever its own backward needs.
        self.produced = []
        # Gradients of inputs and of what it gives.
        self.x_grads = []
        self.out_grads = []
        # Operations in front of the first one are its forward part, those from the second one on
        # its backward part.
        self.forward_end = self.start = 0

    def run(self, grad, place):
        """The `Compiled` program without its constants, and how those are made."""
        trace, role = self.trace, self.role
        window = Window(self.program, trace.startup, trace.cast)
        compiled = Compiled()
        try:
            if grad:
                _keep_operands(self.block)
            self.copy_outputs(grad)
            trains = compiled.trains = grad and any(not value.stop_gradient for value in self.produced)
            by_kernels = None
            if trains and self.lowering.rewrites and not trace.branches:
                by_kernels = _read_by_kernels(self.program, self.inputs, self.produced)
            self.produced = self.lowering.before_backward(self.program, self.produced, trains)
            plan, never = None, []
            if trains:
                plan, never = grad_reachability.plan(trace, self.block.ops, self.inputs, self.produced, role)
            trace.notes_ways = False
            signal = None
            compiled.training = [at for at, value in enumerate(self.produced) if trains and not value.stop_gradient]
            if compiled.training:
                signal = self.signal(compiled.training)
            compiled.has_signal = signal is not None
            if plan is not None:
                if not grad_reachability.can_cut():
                    raise CallByCall
                if plan.flags is not None:
                    self.produced = [*self.produced, plan.flags]
            pir.append_shadow_outputs(self.program, self.produced, len(self.block.ops), "output_")
            self.forward_end = self.start = len(self.block.ops)
            compiled.without, compiled.by_operators, compiled.gates = [], [], None
            if trains:
                self.differentiate(compiled.training, signal, never)
                compiled.without = [
                    index
                    for index, (gradient, value) in enumerate(zip(self.x_grads, self.inputs, strict=True))
                    if gradient is None and not value.stop_gradient
                ]
                if all(gradient is None for gradient in self.x_grads):
                    # Eager mode's results are no leaves; those of a program without inputs that
                    # train would be.
                    raise CallByCall
                compiled.by_operators = self.by_operators()
                compiled.gates = self.gates(plan, compiled.without)
            results = self.produced[: len(self.outputs)]
            look_for_bases(self.block.ops, self.forward_end, self.start, self.inputs, results, role.is_part)
            read = [], [], [], []
            if trains:
                if trace.branches:
                    # What runs in the end may no longer say what of it is computed again.
                    read = self.read_back()
                self.finish_backward()
                if not trace.branches:
                    read = self.read_back(by_kernels)
            compiled.read, compiled.read_outputs, compiled.computed_from, compiled.outputs_again = read
            compiled.steady, steady = None, []
            if not trains and (apart := self.lowering.set_apart(self.program, self.inputs, role.weights)):
                compiled.steady, steady = apart, apart.values
                self.forward_end = self.start = len(self.block.ops)
            if not self.lowering.rewrites and is_on_cpu():
                self.fuse_linears(trains)
            constants, recipes = self.hoist_constants(place)
            if trace.has_numbers():
                self.share_numbers(constants)
            inputs = [*self.inputs, *steady, *constants]
            if trains:
                self.x_grads = [*self.x_grads, *(pir.fake_value() for _ in constants)]
            compiled.is_random = trains and first_random(self.block.ops[: self.forward_end]) is not None
            forward, backward = self.split(inputs, compiled)
            compiled.in_place = self.lowering.in_place
            # The backward part has loops where this one has.
            compiled.has_loops = loops(forward.global_block())
            if compiled.has_loops and trains:
                double_backward.loops = True
            compiled.decided = None
            if plan is not None:
                rows = [row for row in plan.rows if row[0] not in compiled.without]
                compiled.decided = plan.flags is not None, rows, plan.loose
            compiled.memory = made_bytes((forward, backward), compiled.trains)
            return compiled, recipes
        finally:
            window.close()

    def copy_outputs(self, grad):
        """A kernel may write its result into the storage it shares with another output or an input."""
        for value in self.outputs:
            copies = grad or self.lowering.rewrites
            if not copies and value.use_empty() and value.get_defining_op().name() not in SHARES_STORAGE:
                self.produced.append(value)
                continue
            copy = _C_ops.assign(value)
            copy.stop_gradient = value.stop_gradient
            self.produced.append(copy)

    def are_told_apart(self, training):
        """Whether it matters at which of the results gradients arrive."""
        return len(training) > 1 and not self.role.together

    def signal(self, training):
        """An output that says at which others gradients have arrived; None where it makes no difference."""
        # What a PyLayer makes of zeros is taken away where gradients of gradients let zeros flow:
        # see `double_backward.py`.
        is_needed = any(branch.is_custom for branch in self.trace.branches.values())
        if self.are_told_apart(training):
            if takes_none_of_several(self.block.ops):
                raise CallByCall
            # Who goes backward from some of the results only is told apart where ways differ.
            is_needed = is_needed or self.trace.branches or self.role.is_part
        if not is_needed:
            return None
        if len(training) > _MOST_SIGNALS:
            raise CallByCall
        signal = _C_ops.full([len(training)], True, paddle.bool, core.Place())
        self.produced = [*self.produced, signal]
        return signal

    def differentiate(self, training, signal, never):
        """Appends the backward part."""
        block, produced = self.block, self.produced
        for value in produced:
            if value.stop_gradient:
                self.out_grads.append(pir.fake_value())
            else:
                self.out_grads.append(_C_ops.full_like(value, 1.0, value.dtype, core.Place()))
        pir.append_shadow_outputs(self.program, self.out_grads, len(block.ops), "grad_input_")
        between = len(block.ops) - self.forward_end
        last = block.ops[self.forward_end - 1]
        targets, seeds = [produced[at] for at in training], [self.out_grads[at] for at in training]
        whens = [grad_reachability.ALWAYS] * len(training)
        if signal is not None:
            conditions = self.trace.conditions
            whens = [conditions.arrived(signal, number) for number in range(len(training))]
            if not self.are_told_apart(training):
                whens = [functools.reduce(conditions.either, whens)] * len(training)
        backward = self.lowering.backward
        self.x_grads = list(backward(block, self.inputs, targets, seeds, self.trace.branches, whens))
        # The gradient of a branch has zeros for what its operators give no gradient to.
        for at in never:
            self.x_grads[at] = None
        # The forward part may have grown.
        for index, op in enumerate(block.ops):
            if op == last:
                self.forward_end = index + 1
                break
        self.start = self.forward_end + between
        if is_on_cpu():
            for op in with_inner(block.ops[self.start :]):
                if (dtype := without_kernel(op)) is not None:
                    raise NotImplementedError(f"{op.name()} of {dtype}, which a CPU has no kernel for")

    def by_operators(self):
        """Inputs with gradients that do not say that they stop, as operators' do not."""
        pairs = enumerate(zip(self.x_grads, self.inputs, strict=True))
        return [at for at, (gradient, value) in pairs if gradient is not None and value.id not in self.trace.stopping]

    def gates(self, plan, without):
        gates = None
        if plan is not None:
            gates = plan.gates(without)
        elif not self.role.together:
            gates = gates_of(self.block.ops[: self.forward_end], self.inputs, self.produced[: len(self.outputs)])
        if gates is not None and double_backward.is_expected():
            raise CallByCall
        return gates

    def read_back(self, by_kernels=None):
        """What the backward part reads, with what eager mode's kernels read: changes of that are refused, too."""
        results = self.produced[: len(self.outputs)]
        found = read_back(self.block.ops, self.forward_end, self.start, self.inputs, results)
        if by_kernels is None:
            return found
        (inner, outer, *ours), (more_in, more_out, *theirs) = found, by_kernels
        return sorted({*inner, *more_in}), sorted({*outer, *more_out}), *map(_either, ours, theirs)

    def finish_backward(self):
        live = [value for value in self.x_grads if value is not None]
        kept = [*self.produced, *live]
        kept, self.forward_end, self.start = self.lowering.after_backward(
            self.program, kept, self.forward_end, self.start
        )
        self.produced, live = kept[: len(self.produced)], iter(kept[len(self.produced) :])
        self.x_grads = [pir.fake_value() if value is None else next(live) for value in self.x_grads]
        pir.append_shadow_outputs(self.program, self.x_grads, len(self.block.ops), "grad_output_")

    def fuse_linears(self, trains):
        fusion = linears.Fusion()
        count = fusion.block(self.block, self.forward_end)
        if not trains:
            for op in with_inner(self.block.ops):
                for inner in blocks_of(op):
                    fusion.block(inner)
        self.forward_end -= count
        self.start -= count
        became = fusion.became
        self.produced = [became.get(value.id, value) for value in self.produced]

    def hoist_constants(self, place):
        """The constants that become inputs, and how they are made."""
        if not self.lowering.hoists:
            return [], []
        values = (*self.produced, *self.x_grads, *self.out_grads)
        kept = {value.id for value in values if not is_fake_value(value)}
        constants, recipes, moved = hoist(self.block, kept, self.forward_end, self.start, place)
        self.forward_end += moved
        self.start += moved
        return constants, recipes

    def share_numbers(self, constants):
        values = (*self.produced, *self.x_grads, *self.out_grads)
        kept = {value.id for value in values if not is_fake_value(value)}
        gone = share(self.block, self.forward_end, constants, kept)
        self.forward_end -= gone
        self.start -= gone

    def split(self, inputs, compiled):
        """The forward and the backward program; `compiled` learns how they are run."""
        (forward, backward), attributes = pir.split_program(
            self.program,
            inputs,
            [],
            self.produced,
            self.x_grads,
            [],
            self.out_grads,
            (0, self.forward_end),
            (self.start, len(self.block.ops)),
        )
        # A lowering may replace what is in between: nothing looks at those Values afterwards.
        names = {key: [name_of(value) for value in values] for key, values in attributes.items()}
        self.lowering.finish(forward, backward)
        for part in (forward, backward):
            say_layout(part.global_block())
        by_name = {name: value for value in all_values(forward) for name in value._names}
        mapping = unify_names(backward, unify_names(forward, {}))
        # A value that is also known under another name must keep its buffer.
        renamed = {name for pair in mapping.items() for name in pair}
        names["no_need_buffers"] = [name for name in names["no_need_buffers"] if name not in renamed]
        results = [by_name.get(name, pir.fake_value()) for name in names["fo"]]
        for value, original in zip(results, self.produced, strict=True):
            if not is_fake_value(value):
                value.stop_gradient = original.stop_gradient
        listed = {key: [mapping.get(name, name) for name in list_] for key, list_ in names.items()}
        compiled.attributes = run_attributes(forward, backward, listed, results, compiled.trains)
        compiled.program = forward
        compiled.needed, compiled.results = [], []
        if compiled.trains:
            taken = (mapping.get(name, name) for key in ("bx", "bp", "bm", "bo") for name in names[key])
            compiled.needed = sorted({*taken} - {get_fake_value_name()})
            compiled.results = sorted({*listed["fo"]} - {get_fake_value_name()})
        return forward, backward


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
    gradients(block, inputs, targets, seeds, {}, [grad_reachability.ALWAYS] * len(targets))
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
