"""What happens to a program between the trace and the executor: primitive operators, and the checks."""

import contextlib
import functools
import math
import time
from collections import Counter

import paddle
from paddle.base import core
from paddle.base.libpaddle import pir
from paddle.pir import is_fake_value

from paddle_sot_rs._cinn.kept import (
    KEPT,
    dims_of,
    is_empty,
    is_list,
    kept_where,
    of_kernels,
    parts_of,
    reading_otherwise,
    with_gradients,
)
from paddle_sot_rs._listing import paddle_name
from paddle_sot_rs._paddle import programs, tracing
from paddle_sot_rs._paddle.calls.argument_checks import BlackListed
from paddle_sot_rs._paddle.constants import DATA
from paddle_sot_rs._paddle.gradients import backward
from paddle_sot_rs._paddle.gradients.backward import GRADIENT, gradients, with_inner
from paddle_sot_rs._paddle.strides import mark_copies

_MOST_ROUNDS = 8
_COMPLEX = (paddle.complex64, paddle.complex128)
# Paddle's primitive rules for their gradients compute with the -1 of an open dim, and forget axes
# without items.
_OF_KNOWN_DIMS = frozenset(("pd_op.slice", "pd_op.concat"))
# Why Paddle's primitive rules for their gradients are not used.
_WRONG_RULES = {
    **dict.fromkeys(
        ("pd_op.max", "pd_op.min", "pd_op.amax", "pd_op.amin", "pd_op.p_norm"),
        "it has no slope where something is no number",
    ),
    **dict.fromkeys(("pd_op.prod", "pd_op.cumprod"), "it divides by what may be infinite or no number"),
    "pd_op.abs": "it has a slope for what is infinite",
    "pd_op.elementwise_pow": "it multiplies 0 with what is infinite for a base of 0",
    "pd_op.index_put": "it takes a mask for an index, and gives a value the shape of what it fills",
    "pd_op.leaky_relu": "it takes 0 for a negative number",
    "pd_op.pow": "it multiplies an exponent of 0 with what is infinite for a base of 0",
}
# Paddle's primitive rules take the index for a list of several.
_BY_INDEX = frozenset(("pd_op.gather", "pd_op.scatter"))


class GivenUp(Exception):
    """This graph is not compiled; the message says why."""


@contextlib.contextmanager
def _primitives():
    """Paddle's switch for primitive operators is one per process: it goes back to what it was."""
    forward, backward = core._is_fwd_prim_enabled(), core._is_bwd_prim_enabled()
    core._set_prim_forward_enabled(True)
    core._set_prim_backward_enabled(True)
    try:
        yield
    finally:
        core._set_prim_forward_enabled(forward)
        core._set_prim_backward_enabled(backward)


def _has_open_dim(value):
    return any(dim < 0 for dim in dims_of(value))


def _may_be_empty(value):
    return any(dim <= 0 for dim in dims_of(value))


def _is_open(value):
    return _has_open_dim(value) and not value.use_empty()


def _seen(op):
    """Its results but for the work space of a batch norm, whose size is not told."""
    results = op.results()
    return results[:-1] if op.name() in ("pd_op.batch_norm", "pd_op.batch_norm_") else results


def _values_in(result):
    if isinstance(result, pir.Value):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    return [value for item in result for value in _values_in(item)] if isinstance(result, (list, tuple)) else []


def _opens_dims(op, returned):
    """Whether a result that anyone sees has an unknown dim although all operands are static.

    Nobody sees the work space of a batch norm.
    """
    seen = [value for value in op.results() if _has_open_dim(value)]
    if not any(not value.use_empty() or value.id in returned for value in seen):
        return False
    given = [part for value in op.operands_source() if value.initialized() for part in parts_of(value)]
    return not any(_has_open_dim(value) for value in given)


def _refuse_single_numbers(operations):
    """The kernel of a batch norm leaves a channel of one number as it is; in primitive operators it would be 0."""
    for op in operations:
        if op.name() == "pd_op.batch_norm_" and not op.attrs()["is_test"]:
            if math.prod(dims_of(op.operand_source(0))) == math.prod(dims_of(op.operand_source(1))):
                raise NotImplementedError("batch_norm of one number for each channel")


def inspector(removed):
    """Refuses calls that make an unknown dim out of known ones, but those whose name is in `removed`."""

    def inspect(callee, operations, result):
        _refuse_single_numbers(operations)
        is_method = type(callee) is str
        name = callee if is_method else paddle_name(callee)
        function = getattr(paddle.Tensor, callee, None) if is_method else callee
        if not removed.isdisjoint((name, paddle_name(function))):
            return
        returned = {value.id for value in _values_in(result)}
        for op in operations:
            if _opens_dims(op, returned):
                raise BlackListed(f"{name or op.name()}(): a dim of its result is unknown until it runs ({op.name()})")

    return inspect


def of_unknown_dims(callee, operations, result):
    """Refuses what Paddle's rules for primitive operators cannot take: a product of dims with the -1 of an open one."""
    _refuse_single_numbers(operations)
    for op in operations:
        if any(dim < -1 for value in op.results() for dim in dims_of(value)):
            raise NotImplementedError(f"a dim of {op.name()} that Paddle does not infer")


def _short(name):
    return name.rpartition(".")[2]


def _takes_without_gradient(op):
    """Whether an operand has a gradient, but gets none from this operator: in primitive ones it would."""
    if not core.has_decomp_rule(op) or not core.has_vjp(op):
        return False
    pairs = zip(op.operands_source(), op.get_input_grad_semantics(), strict=True)
    return any(
        not has_gradient and value.initialized() and any(not part.stop_gradient for part in parts_of(value))
        for value, has_gradient in pairs
    )


def _is_complex(op):
    values = [
        part for value in (*op.operands_source(), *op.results()) if value.initialized() for part in parts_of(value)
    ]
    return any(value.is_dense_tensor_type() and value.dtype in _COMPLEX for value in values)


def _has_wrong_rule(op, inputs, outputs):
    """Whether Paddle's primitive rule for the gradient of this operator answers wrongly."""
    name = op.name()
    if name in _WRONG_RULES:
        return True
    if any(is_empty(value) for values in (*inputs, *outputs) for value in values):
        # Some divide by the length of an axis (`kron`).
        return True
    if name == "pd_op.sum" and outputs[0][0].dtype != inputs[0][0].dtype:
        # It forgets that the sum has another dtype.
        return True
    if name == "pd_op.scale":
        # It rounds the factor to a float.
        return any(value.initialized() and value.dtype == paddle.float64 for values in inputs for value in values)
    if name in _OF_KNOWN_DIMS:
        return any(_may_be_empty(value) for values in (*inputs, *outputs) for value in values)
    if all(value.initialized() and value.shape == [] for values in (inputs[0], *outputs) for value in values):
        # It takes the axis of a tensor without dims for one of more (`sum`, `argsort`), or gives it
        # a dim (`maximum`).
        return True
    if name in _BY_INDEX:
        return any(value.initialized() and value.shape == [] for value in op.operands_source())
    return False


def _vjp(whole, op, inputs, outputs, given, stops):
    """The gradient operations of `op`: primitive ones where Paddle's rule is sound and it is not left `whole`."""
    # The rules for complex numbers forget to conjugate.
    if op.name() in whole or _is_complex(op) or _has_wrong_rule(op, inputs, outputs):
        return core.call_vjp(op, inputs, outputs, given, stops)
    with _primitives():
        answer = core.call_vjp(op, inputs, outputs, given, stops)
    known = {value.id for values in (*inputs, *outputs, *given) for value in values if value.initialized()}
    arrived = {value.id for values in given for value in values if value.initialized()}
    semantics = op.get_input_grad_semantics()
    taken = [values for values, has_gradient in zip(inputs, semantics, strict=True) if has_gradient]
    made = {}
    sound = True
    for values, stopped, found in zip(taken, stops, answer, strict=True):
        for value, stop, gradient in zip(values, stopped, found, strict=True):
            if gradient is None or is_fake_value(gradient):
                sound = sound and stop
                continue
            reached = _reaches(gradient, known, arrived, made)
            fits = gradient.dtype == value.dtype and list(gradient.shape) == list(value.shape)
            sound = sound and (stop or (reached and fits))
    if sound:
        for op in made.values():
            op.set_bool_attr(GRADIENT, True)
        return answer
    # Some rules forget the gradient that arrives (`slice` down to one number), or the broadcast of
    # an operand.
    _remove(made)
    return core.call_vjp(op, inputs, outputs, given, stops)


def _reaches(gradient, known, arrived, made):
    """Whether the gradient is made of one that arrived; what makes it is added to `made`."""
    waiting, seen, reached = [gradient], set(), False
    while waiting:
        value = waiting.pop()
        if not value.initialized() or value.id in seen:
            continue
        seen.add(value.id)
        if value.id in known:
            reached = reached or value.id in arrived
            continue
        op = value.get_defining_op()
        if op is None:
            continue
        made.update((result.id, op) for result in op.results() if result.initialized())
        waiting += op.operands_source()
    return reached


def _remove(made):
    left = list(made.values())
    while left:
        unused = [op for op in left if all(not value.initialized() or value.use_empty() for value in op.results())]
        if not unused:
            return
        for op in unused:
            if op in left:
                left = [other for other in left if other != op]
                op.get_parent_block().remove_op(op)


def _operations(programs):
    return [op for program in programs for op in with_inner(program.global_block().ops)]


def _histogram(programs):
    names = (op.name() for op in _operations(programs))
    return Counter(_short(name) for name in names if name.startswith("pd_op.") and name != DATA)


def _text(counts):
    if not counts:
        return "none"
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _decompose(program, values, black, composite, start, end):
    """Decomposes the operations from `start` to `end` but those named in `black`; the answer is what `values` became.

    With an operation that makes a list Paddle removes what takes the list apart, and then reads it where it is next in
    turn: those go alone, and stay where they are in a block.
    """
    lists = {op.name() for op in composite if any(is_list(value) for value in op.results())}
    block = program.global_block()
    tail = len(block.ops) - end
    with _primitives():
        values = core.sinking_decomp(program, values, black | lists, set(), start, end)
        operations = block.ops
        for at in reversed(range(start, len(operations) - tail)):
            if operations[at].name() in lists:
                values = core.sinking_decomp(program, values, black, set(), at, at + 1)
    return values


class Lowering(programs.Lowering):
    """The lowering of one graph."""

    rewrites = True

    def __init__(self, open_dims, budget, with_cinn):
        self.open_dims = open_dims
        self.budget = budget
        self.with_cinn = with_cinn
        self.began = time.perf_counter()
        self.custom = frozenset()
        self.whole = frozenset()
        self.before = Counter()
        self.report = []

    def in_time(self, stage):
        seconds = time.perf_counter() - self.began
        if self.budget is not None and seconds > self.budget:
            raise GivenUp(f"compiling took longer than compile_budget_s={self.budget:g}: {seconds:.3f} s after {stage}")

    def before_backward(self, program, kept, trains):
        self.before = _histogram([program])
        block = program.global_block()
        if trains:
            names = reading_otherwise(block.ops, kept) | of_kernels(with_inner(block.ops))
            self.whole = with_gradients(names | kept_where(with_inner(block.ops)))
            if tracing.current.branches:
                # What is known of nested graphs names values of the program as it is: all is
                # decomposed afterwards.
                return kept
            # Their gradients have rules of their own, written for the whole operator.
            with _primitives():
                self.custom = frozenset(
                    op.name() for op in block.ops if core.has_custom_vjp(op) or _takes_without_gradient(op)
                )
        kept, _ = self.decompose(program, kept, 0, len(block.ops), leave=self.custom)
        if trains:
            # Primitive operators have lost the marks, which only gradients look at.
            mark_copies(block.ops)
        self.in_time("decomposing forward")
        return kept

    def backward(self, block, inputs, targets, seeds, branches, whens):
        backward.call_vjp = functools.partial(_vjp, self.whole)
        try:
            found = gradients(block, inputs, targets, seeds, branches, whens)
        finally:
            backward.call_vjp = core.call_vjp
        self.in_time("building backward")
        return found

    def after_backward(self, program, kept, forward_end, start):
        block = program.global_block()
        between = start - forward_end
        kept, forward_end = self.decompose(program, kept, 0, forward_end)
        start = forward_end + between
        kept, _ = self.decompose(program, kept, start, len(block.ops))
        self.in_time("decomposing backward")
        return kept, forward_end, start

    def decompose(self, program, kept, start, end, leave=frozenset()):
        """Decomposes the operations from `start` to `end` until nothing changes.

        The answer is what `kept` became, and the new end.
        """
        block = program.global_block()
        for _ in range(_MOST_ROUNDS):
            operations = block.ops
            tail = len(operations) - end
            part = list(with_inner(operations[start:end]))
            self.whole |= with_gradients(kept_where(part))
            black = {*core.prim_config["forward_blacklist"], *KEPT, *leave, *self.whole}
            composite = [op for op in part if core.has_decomp_rule(op) and op.name() not in black]
            if not composite:
                return kept, end
            names = [op.name() for op in with_inner(operations)]
            # What replaces a value that stops gradients has to stop them too.
            watched = {value.id: value for value in kept}
            for op in composite:
                for value in op.results():
                    # Lists of values are taken apart: what they become is not known.
                    if value.initialized() and value.stop_gradient and not value.use_empty() and not is_list(value):
                        watched.setdefault(value.id, value)
            stops = [value.stop_gradient for value in watched.values()]
            became = _decompose(program, list(watched.values()), black, composite, start, end)
            for value, stop in zip(became, stops, strict=True):
                value.stop_gradient = stop
            replaced = dict(zip(watched, became, strict=True))
            kept = [replaced[value.id] for value in kept]
            operations = block.ops
            end = len(operations) - tail
            if [op.name() for op in with_inner(operations)] == names:
                return kept, end
        raise GivenUp(f"still not in primitive operators after {_MOST_ROUNDS} rounds")

    def finish(self, forward, backward):
        programs = [forward, backward]
        operations = _operations(programs)
        opened = Counter(_short(op.name()) for op in operations if any(_is_open(value) for value in _seen(op)))
        if opened and not self.open_dims:
            raise GivenUp(f"dims of -1 are left (pass dynamic=True to let them through): {_text(opened)}")
        left = Counter(op.name() for op in operations if core.has_decomp_rule(op))
        chosen = Counter({name: count for name, count in left.items() if name in KEPT or name in self.whole})
        left -= chosen
        after = _histogram(programs)
        gradients_left = {name: count for name, count in after.items() if name.rstrip("_").endswith("_grad")}
        self.report = [
            f"operators before decomposition: {sum(self.before.values())}: {_text(self.before)}",
            f"operators after decomposition: {sum(after.values())}: {_text(after)}",
            f"composite operators kept: {_text({_short(name): count for name, count in chosen.items()})}",
            f"composite operators that Paddle's rules leave: {_text({_short(name): n for name, n in left.items()})}",
            f"gradient operators without a primitive form: {_text(gradients_left)}",
            f"operators with dims of -1: {_text(opened)}",
        ]
        if self.with_cinn:
            self.compile_with_cinn(forward, backward)
            self.in_time("the CINN passes")

    def compile_with_cinn(self, forward, backward):
        pir.apply_cinn_pass(forward)
        if backward.global_block().ops:
            pir.apply_cinn_pass(backward)

    def finished(self):
        """The report, once the graph is ready to run."""
        self.in_time("compiling")
        seconds = time.perf_counter() - self.began
        where = "CINN" if self.with_cinn else "the executor (Paddle is built without CINN)"
        return [*self.report, f"runs on {where}; compiled in {seconds:.3f} s"]


def has_cinn():
    return bool(paddle.is_compiled_with_cinn())
