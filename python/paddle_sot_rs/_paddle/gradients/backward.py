"""The backward part of a program: one pass over the operations that matter.

Paddle's own construction (`paddle.autograd.ir_backward`) does the same for any program and takes
most of a first training step; it is asked where this one does not apply (operations of unusual kinds).
"""

from collections import deque
from itertools import repeat

import paddle
from paddle import _C_ops
from paddle.autograd import ir_backward
from paddle.autograd.backward_utils import ValueDict
from paddle.base import core
from paddle.base.libpaddle import pir

from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.constants import DATA
from paddle_sot_rs._paddle.copied_operations import copied
from paddle_sot_rs._paddle.gradients.alike_gradients import AlikeGradients
from paddle_sot_rs._paddle.gradients.conditional_grads import ALWAYS, NEVER, Arrivals
from paddle_sot_rs._paddle.gradients.higher_derivatives import RULES, TAKE_NONE, ZEROS_FIRST
from paddle_sot_rs._paddle.gradients.unread_operands import apart
from paddle_sot_rs._paddle.views import ASSIGN, PARTS, SHARES, is_view

# Operations that have blocks, or change what they are given, need the general construction.
_SPECIAL = frozenset(
    f"pd_op.{name}"
    for name in ("if", "while", "pylayer", "array_read", "array_write_", "assign_out_", "increment_", "full_like")
) | frozenset(("cf.tuple_push", "cf.tuple_pop", "cf.yield"))

# Appends the gradient operations of one operation; a backend may put another one here while it
# compiles.
call_vjp = core.call_vjp

# Their kernels give a scale and a shift their gradients where both want one, in eager mode too.
_BOTH_OR_NEITHER = frozenset(("pd_op.batch_norm", "pd_op.batch_norm_", "pd_op.instance_norm"))

# Their gradients take none where none arrives, in eager mode too: with zeros in its place the
# kernel computes what is not a number (of singular values that are equal).
_TAKE_NONE = frozenset(("pd_op.svd",)) | TAKE_NONE

# Take one list, and their rules say that its gradients are of float32. Kernels make those of the
# dtype of the operands.
_SAY_FLOATS = frozenset(("pd_op.multi_dot", "pd_op.multiplex"))

# A PyLayer, or a block of `recompute`.
CUSTOM = "pd_op.pylayer"
REGIONS = ("pd_op.if", "pd_op.while", CUSTOM)

# On operations of a gradient that does not look after what it keeps.
UNVERSIONED = "sot_unversioned"
# On operations of a gradient whose names do not say so.
GRADIENT = "sot_gradient"


def is_gradient(op):
    """Whether it is of a gradient, not one of those that compute again what a gradient needs."""
    return op.name().endswith("_grad") or op.has_attr(GRADIENT)


def gives_neither(op, values):
    """Whether it gives no gradients to a scale and a shift, behind the first of these operands: one wants none."""
    if op.name() not in _BOTH_OR_NEITHER:
        return False
    return any(not value.initialized() or value.stop_gradient for value in values[1:])


def takes_none_of_several(operations):
    """Whether one of them would have to be told at which of its results gradients arrive."""
    found = (op for op in with_inner(operations) if op.name() in _TAKE_NONE)
    return any(sum(not value.use_empty() for value in op.results()) > 1 for op in found)


def _say_dtypes(gradients):
    """Gives the list that these are parts of the types that the list of operands has."""
    for gradient in gradients:
        if gradient is not None:
            whole = gradient.get_defining_op().operand_source(0)
            whole.set_type(whole.get_defining_op().operand_source(0).type())
            return


class _Unusual(Exception):
    """The program has something that only the general construction knows."""


class _Node:
    """An operation with its operands and results; a list operand is replaced by its parts."""

    __slots__ = ("branch", "inputs", "op", "outputs", "semantics", "waiting")

    def __init__(self, op, inputs, outputs, branch=None):
        self.branch = branch
        self.op = op
        self.inputs = inputs
        self.outputs = outputs
        # For each operand whether gradients go to it; None: to all.
        self.semantics = None
        self.waiting = 0

    def sources(self):
        """What gradients go to."""
        semantics = self.semantics or [True] * len(self.inputs)
        for values, takes_gradient in zip(self.inputs, semantics, strict=True):
            if takes_gradient:
                yield from (value for value in values if value.initialized())


def gradients(block, inputs, targets, seeds, branches, whens):
    """Appends the gradient operations of `targets` (with gradients `seeds`) to `block`.

    `branches` knows the captured branches of the program, by the first of their results; `whens` are the conditions
    under which the seeds arrive. The answer has one Value per entry of `inputs`, zeros where
    no gradient arrives, None where that is known.
    """
    return arriving(block, inputs, targets, seeds, branches, whens)[0]


def arriving(block, inputs, targets, seeds, branches, whens):
    """The same, and the conditions under which the gradients arrive."""
    size = len(block.ops)
    try:
        return _Backward(block, inputs, branches).run(targets, seeds, whens)
    except _Unusual:
        for op in reversed(block.ops[size:]):
            block.remove_op(op)
    # Paddle's construction loses memory on the way through a loop, and gradients on the way through
    # a branch.
    for op in block.ops:
        if op.name() in REGIONS and any(not value.stop_gradient for value in op.results()):
            raise NotImplementedError("gradients through nested graphs next to an operation of an unusual kind")
        if op.name() in _SAY_FLOATS and not op.result(0).stop_gradient and op.result(0).dtype != paddle.float32:
            raise NotImplementedError("gradients of a list of doubles next to an operation of an unusual kind")
    if any(when != ALWAYS for when in whens):
        raise NotImplementedError("gradients of one way only next to an operation of an unusual kind")
    # Its maps from values to values are default arguments: they would hold those of programs that
    # are gone, under addresses that are used again.
    construct = ir_backward.append_backward_ops
    construct.__defaults__ = tuple(ValueDict() for _ in construct.__defaults__)
    found = ir_backward.grad(inputs=inputs, outputs=targets, grad_outputs=seeds)
    return found, [NEVER if gradient is None else ALWAYS for gradient in found]


def ways_back(block, inputs, targets, branches, is_program=False):
    """The operations that gradients of targets go back through, in order, each with what it gives gradients to.

    The order is that of eager mode, or that of `gradients`, where what makes several results begins with the last.

    None where the program has something that only the general construction knows.
    """
    backward = _Backward(block, inputs, branches)
    try:
        starts = {value.id: at for at, value in enumerate(targets) if not value.stop_gradient}
        order = backward.order(set(starts), starts, max if is_program else min)
    except _Unusual:
        return None
    return [(node.op, [value for value in node.sources() if value.id in backward.needs]) for node in order]


def has_gradient(op):
    return op.name() in RULES or core.has_vjp(op)


def semantics_of(op):
    """For each operand of an operation that has a gradient whether one goes to it."""
    rule = RULES.get(op.name())
    return op.get_input_grad_semantics() if rule is None else rule.semantics


def blocks_of(op):
    # Most have none, and the end of Paddle's iterator is an exception of C++.
    return op.blocks() if op.num_regions() else ()


def inner_operations(op):
    """All operations in the blocks of one."""
    for block in blocks_of(op):
        yield from with_inner(block.ops)


def with_inner(operations):
    """The operations and those in their blocks, each behind the one that it is in."""
    for op in operations:
        yield op
        yield from inner_operations(op)


class _Backward:
    def __init__(self, block, inputs, branches):
        self.branches = branches
        self.block = block
        self.inputs = inputs
        self.arrivals = Arrivals(tracing.current.conditions)
        self.zeros = {}
        self.made = []
        self.shared = _Shared()
        # What a lowering differentiates in its own way depends on more.
        self.alike = AlikeGradients(tracing.current.alike.models if call_vjp is core.call_vjp else {})

    def run(self, targets, seeds, whens):
        for value, seed, when in zip(targets, seeds, whens, strict=True):
            self.arrivals.add(value, seed, when)
            self.shared.leaves(value)
        # What no gradient flows through leaves the program, too.
        for op in self.block.ops:
            if op.name() == "builtin.shadow_output":
                self.shared.leaves(op.operand_source(0))
        order = self.order({value.id for value in targets})
        for node in order:
            self.differentiate(node)
        result = [self.arrivals.under(value, ALWAYS) for value in self.inputs]
        whens = [self.arrivals.when(value) for value in self.inputs]
        for value in self.made:
            if value.use_empty():
                self.block.remove_op(value.get_defining_op())
        self.shared.remove_unused(self.block)
        return result, whens

    def order(self, wanted, starts=None, of_several=min):
        """The operations between the inputs and the targets, results first, breadth first as in eager mode.

        `starts`: the targets by number, if they begin in this order; `of_several`: where what makes several does.
        """
        self.needs = needs = {value.id for value in self.inputs if not value.stop_gradient}
        nodes = []
        parts, whole = {}, {}
        for op in self.block.ops:
            name = op.name()
            if name in REGIONS:
                # What its blocks use are no operands.
                results = op.results()
                if all(value.stop_gradient for value in results):
                    continue
                branch = self.branches.get(results[0].id)
                if branch is None:
                    raise _Unusual
                if any(value.id in needs for value in branch.free):
                    nodes.append(_Node(op, [[value] for value in branch.free], [[value] for value in results], branch))
                    needs.update(value.id for value in results if not value.stop_gradient)
                continue
            operands = op.operands_source()
            if name == "builtin.combine":
                result = op.results()[0]
                parts[result.id] = operands
                if any(value.id in needs for value in operands):
                    needs.add(result.id)
                continue
            if name == "builtin.split":
                source = operands[0].id
                # The parts of what no gradient goes through are of no interest.
                if source in whole:
                    outputs = whole[source].outputs
                    outputs[outputs.index(source)] = op.results()
                    needs.update(value.id for value in op.results() if not value.stop_gradient)
                continue
            if not operands:
                continue
            if not any(value.initialized() and value.id in needs for value in operands):
                continue
            results = op.results()
            outputs = []
            node = _Node(op, [parts.get(value.id) if value.initialized() else None for value in operands], outputs)
            node.inputs = [
                [value] if found is None else found for value, found in zip(operands, node.inputs, strict=True)
            ]
            for value in results:
                if value.initialized() and value.is_combine():
                    outputs.append(value.id)
                    whole[value.id] = node
                    needs.add(value.id)
                else:
                    outputs.append([value])
                    if value.initialized() and not value.stop_gradient:
                        needs.add(value.id)
            nodes.append(node)
        self.of_several = of_several
        return self.sorted(nodes, wanted, starts)

    def sorted(self, nodes, wanted, starts):
        effective, producer = [], {}
        for node in reversed(nodes):
            if any(type(values) is not list for values in node.outputs):
                raise _Unusual
            outputs = [value.id for values in node.outputs for value in values if value.initialized()]
            if not any(name in wanted and name in self.needs for name in outputs):
                continue
            if node.branch is not None:
                pass
            elif node.op.name() in _SPECIAL or node.op.num_regions() or not has_gradient(node.op):
                raise _Unusual
            else:
                node.semantics = semantics_of(node.op)
            effective.append(node)
            producer.update(dict.fromkeys(outputs, node))
            wanted.update(value.id for value in node.sources() if value.id in self.needs)
        for node in effective:
            for source in self.sources(node, producer):
                source.waiting += 1
        # In program order, as far as nothing waits.
        ready = [node for node in reversed(effective) if not node.waiting]
        if starts is not None:
            known = {
                node: [starts[it.id] for values in node.outputs for it in values if it.id in starts] for node in ready
            }
            ready.sort(key=lambda node: self.of_several(known[node], default=len(starts)))
        queue = deque(ready)
        order = []
        while queue:
            node = queue.popleft()
            order.append(node)
            for source in self.sources(node, producer):
                source.waiting -= 1
                if not source.waiting:
                    queue.append(source)
        return order

    @staticmethod
    def sources(node, producer):
        for value in node.sources():
            if (found := producer.get(value.id)) is not None:
                yield found

    def zero(self, value):
        """No gradient arrives at this result, but the operation takes one."""
        if not value.initialized():
            return pir.fake_value()
        shape = tuple(value.shape)
        # Some of Paddle's rules multiply with the -1 of an open dim.
        if any(dim < 0 for dim in shape):
            like = _C_ops.full_like(value, 0.0, value.dtype, core.Place())
            self.made += [like, like.get_defining_op().operands_source()[1]]
            return like
        key = (shape, value.dtype.value)
        if key not in self.zeros:
            self.zeros[key] = _C_ops.full(list(shape), 0.0, value.dtype, core.Place())
            self.made.append(self.zeros[key])
        return self.zeros[key]

    def differentiate(self, node):
        op, arrivals = node.op, self.arrivals
        when = NEVER
        for values in node.outputs:
            for value in values:
                when = arrivals.conditions.either(when, arrivals.when(value))
        if when == NEVER:
            return
        if node.branch is not None and node.branch.takes_ways:
            self.follow(node)
            return
        none = pir.fake_value if op.name() in _TAKE_NONE else None
        given = [[self.given(value, when, none) for value in values] for values in node.outputs]
        if op.name() in ZEROS_FIRST:
            given[0] = [self.given(value, when, None) for value in node.outputs[0]]
        if node.branch is not None:
            wanted = [value for value in node.branch.free if value.id in self.needs]
            found = node.branch.gradients(wanted, [gradient for (gradient,) in given], self.branches, self.shared.of)
            stops = node.branch.stops(wanted) if node.branch.is_custom else repeat(False)
            for value, gradient, stop in zip(wanted, found, stops, strict=False):
                if gradient is not None:
                    if stop and not arrivals.has(value):
                        tracing.current.stopping.add(value.id)
                    arrivals.add(value, gradient, when)
            return
        rule = RULES.get(op.name())
        stops, taken = [], []
        for values, takes_gradient in zip(node.inputs, node.semantics, strict=True):
            if takes_gradient:
                stops.append([not value.initialized() or value.id not in self.needs for value in values])
                taken.append(values)
        if gives_neither(op, [values[0] for values in taken]):
            stops[1:] = [True], [True]
        if all(stop for values in stops for stop in values):
            return
        read = apart(op, [[self.shared.of(value) for value in values] for values in node.inputs])
        made = [[self.shared.of(value) for value in values] for values in node.outputs]
        if rule is not None:
            answer = rule.gradients(op, read, made, given, stops)
        else:
            answer = self.alike.of(op, read, made, given, stops, call_vjp)
        if op.name() in _SAY_FLOATS:
            _say_dtypes(answer[0])
        for values, stopped, found in zip(taken, stops, answer, strict=True):
            for value, stop, gradient in zip(values, stopped, found, strict=True):
                if not stop and gradient is not None and not pir.is_fake_value(gradient):
                    arrivals.add(value, gradient, when)

    def given(self, value, when, none):
        """What an operation that goes backward under the condition takes for this result; `none` makes what it takes
        where no gradient arrives, if not zeros."""
        gradient = self.arrivals.under(value, when)
        if gradient is not None:
            return gradient
        return self.zero(value) if none is None else none()

    def follow(self, node):
        """Goes backward through control flow, from those of its results that a gradient arrives at."""
        arrivals, branch = self.arrivals, node.branch
        results = [value for (value,) in node.outputs]
        whens = [arrivals.when(value) for value in results]
        # Under which conditions something arrives at what it uses.
        reached = {}
        for when, ways in zip(whens, branch.ways, strict=False):
            for source, way in ways:
                way = arrivals.conditions.both(when, way)
                if way != NEVER:
                    reached[source.id] = arrivals.conditions.either(reached.get(source.id, NEVER), way)
        wanted = [value for value in branch.free if value.id in self.needs and value.id in reached]
        if not wanted:
            return
        seeds, flags = [arrivals.under(value, ALWAYS) for value in results], [arrivals.flag(when) for when in whens]
        for value, gradient in zip(wanted, branch.gradients(wanted, seeds, flags, self.branches), strict=True):
            if gradient is not None:
                arrivals.add(value, gradient, reached[value.id], is_clean=True)


class _Shared:
    """What the backward part reads in place of values that the program has copies of and eager mode has not.

    Views of inputs are made again, and results are read from what left the program. So an optimizer's step or
    `set_value` in between is seen as in eager mode, and no copy is kept until then.
    """

    def __init__(self):
        self.known = {}
        self.left = {}
        self.made = []

    def leaves(self, value):
        """A result of the program."""
        op = value.get_defining_op()
        while op is not None and op.name() == ASSIGN:
            source = op.operand_source(0)
            self.left.setdefault(source.id, value)
            # What was detached is the same storage under another name.
            op = source.get_defining_op()
            if op is not None and not op.has_attr(SHARES):
                break

    def of(self, value):
        """The value to read for this one: itself, most times."""
        if not value.initialized():
            return value
        found = self.known.get(value.id)
        if found is None:
            found = self.known[value.id] = self._again(value)
        return found

    def _again(self, value):
        op = value.get_defining_op()
        if op is None:
            # An argument of a block.
            return value
        chain = [op]
        if op.name() in PARTS:
            op = op.operand_source(0).get_defining_op()
            chain = [op, *chain]
        if not is_view(op):
            return self.left.get(value.id, value)
        source = op.operand_source(0)
        above = self.of(source)
        if above.id == source.id and not _comes_in(source):
            return self.left.get(value.id, value)
        with_above = pir.IrMapping()
        for operand in op.operands_source():
            with_above.add(operand, operand)
        with_above.add(source, above)
        for one in chain:
            results = one.results()
            copies = copied(one, with_above).results()
            self.made.append((results, copies))
            for old, new in zip(results, copies, strict=True):
                new.stop_gradient = old.stop_gradient
                with_above.add(old, new)
        return with_above.look_up(value)

    def remove_unused(self, block):
        """Removes those whose numbers nothing reads."""
        for values, copies in reversed(self.made):
            for value, copy in zip(values, copies, strict=True):
                if not _is_read(copy):
                    copy.replace_all_uses_with(value)
            if all(copy.use_empty() for copy in copies):
                block.remove_op(copies[0].get_defining_op())


def _comes_in(value):
    op = value.get_defining_op()
    return op is not None and op.name() == DATA


def _is_read(value):
    """Whether an operation needs its numbers, not its shape alone."""
    for op in value.all_used_ops():
        if op.name() == "builtin.combine":
            if _is_read(op.results()[0]):
                return True
        elif not op.is_no_need_buffer(value):
            return True
    return False
