"""Gradients inside of a program: `paddle.grad` in a function that is traced.

The operations of the gradient become operations of the program, in the order in which eager mode runs them. Gradients
flow through them like through any other. What `higher_derivatives.py` does not list has gradients of gradients that
eager mode refuses to make, or others than a program: there the graph breaks.
"""

from paddle import _C_ops
from paddle.base import core
from paddle.base.libpaddle import pir

from paddle_sot_rs._graph.control import begin_gradient, partial_gradients
from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.calls.call_rewrites import put_static_form
from paddle_sot_rs._paddle.gradients import backward
from paddle_sot_rs._paddle.gradients.conditional_grads import ALWAYS, Arrivals
from paddle_sot_rs._paddle.gradients.higher_derivatives import FIRST_NEEDED, SECOND_ALONE, may_differentiate
from paddle_sot_rs._paddle.gradients.stop_gradients import BEGINS, stop_where_eager_stops
from paddle_sot_rs._paddle.views import VIEWS, is_view

# Eager mode adds up gradients of halves in floats here and there.
_REFUSED = frozenset((core.DataType.FLOAT16, core.DataType.BFLOAT16, core.DataType.COMPLEX64, core.DataType.COMPLEX128))


class _Arrivals(Arrivals):
    """Eager mode adds what was there to what arrives, where the sum has a gradient of its own."""

    @staticmethod
    def plus(before, gradient):
        return _C_ops.add(gradient, before)


class _Unshared(backward._Shared):
    """Nothing has left the program, and nobody changes its inputs yet."""

    def leaves(self, value):
        pass

    def of(self, value):
        return value


class _Gradient(backward._Backward):
    def __init__(self, block, inputs, again):
        super().__init__(block, inputs, {})
        self.arrivals = _Arrivals(tracing.current.conditions)
        self.shared = _Unshared()
        # Whether its operations are differentiated, too.
        self.again = again

    def sorted(self, nodes, wanted, starts):
        order = super().sorted(nodes, wanted, starts)
        for node in order:
            _check(node.op, self.again)
            if self.again:
                self.check_first(node)
        made = (value for node in order for values in node.outputs for value in values if value.initialized())
        ids = frozenset(value.id for value in made)
        trace = tracing.current
        if ids & trace.freed:
            raise NotImplementedError("a backward through what another one has freed")
        trace.gone_through = ids | trace.freed
        return order

    def needs_first(self, node):
        return node.inputs[0][0].id in self.needs

    def differentiate(self, node):
        alone = SECOND_ALONE.get(node.op.name()) if self.again else None
        if alone is None or self.needs_first(node):
            super().differentiate(node)
            return
        gradient = self.arrivals.under(node.outputs[0][0], ALWAYS)
        if gradient is not None:
            x, y = (values[0] for values in node.inputs)
            self.arrivals.add(y, alone(x, y, gradient), ALWAYS)

    def check_first(self, node):
        """Eager mode has no second gradient of tensors that are put together and of which some have none."""
        name = node.op.name()
        if name in FIRST_NEEDED and not self.needs_first(node):
            raise NotImplementedError(f"paddle.grad() through the second operand of {name} alone")
        if name == "pd_op.concat" and len({value.stop_gradient for value in node.inputs[0]}) > 1:
            raise NotImplementedError("paddle.grad() through tensors that are put together, some without gradients")


def _check(op, again):
    if op.num_regions():
        raise NotImplementedError("paddle.grad() through nested graphs")
    if not may_differentiate(op.name(), again):
        raise NotImplementedError(f"paddle.grad() through {op.name()}, whose second gradient is eager mode's alone")
    for value in (*op.operands_source(), *op.results()):
        if not value.initialized() or not value.is_dense_tensor_type() or value.stop_gradient:
            continue
        if value.dtype in _REFUSED:
            raise NotImplementedError(f"paddle.grad() through a tensor of {value.dtype}")
        # What a normalization reserves for its gradient has such a dim, and nothing else takes it.
        if -1 in value.shape and not value.use_empty():
            raise NotImplementedError("paddle.grad() through open dims")


def grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused):
    """The static form of `paddle_sot_rs._graph.control.grad`."""
    block = tracing.current.block
    if pir.get_current_insertion_point().block() != block:
        raise NotImplementedError("paddle.grad() in a nested graph")
    if any(-1 in output.shape for output in outputs):
        raise NotImplementedError("paddle.grad() of a tensor with open dims")
    seeds = [_seed(*pair) for pair in zip(outputs, grad_outputs or [None] * len(outputs), strict=True)]
    _check_places(outputs, inputs)
    start = len(block.ops)
    gradient = _Gradient(block, inputs, create_graph)
    try:
        found, _ = gradient.run(outputs, seeds, [ALWAYS] * len(outputs))
    except backward._Unusual:
        raise NotImplementedError("paddle.grad() through an operation of an unusual kind") from None
    made = block.ops[start:]
    for op in made:
        if not create_graph:
            for value in op.results():
                value.stop_gradient = True
    stop_where_eager_stops(made)
    if any(value is None for value in found) and not allow_unused:
        raise NotImplementedError("paddle.grad() of an input that is not used")
    _check_results([value for value in found if value is not None], seeds, create_graph)
    return found


def _seed(output, given):
    if given is None:
        ones = _C_ops.full(list(output.shape), 1.0, output.dtype, core.Place())
        ones.stop_gradient = True
        return ones
    if given.dtype != output.dtype or list(given.shape) != list(output.shape):
        raise NotImplementedError("paddle.grad() with a gradient of another shape or dtype than its output")
    return given


def _check_places(outputs, inputs):
    for values in (outputs, inputs):
        if len({value.id for value in values}) < len(values):
            raise NotImplementedError("paddle.grad() of a tensor that is given twice")
    if {value.id for value in outputs} & {value.id for value in inputs}:
        raise NotImplementedError("paddle.grad() of a tensor by itself")


def _check_results(found, seeds, create_graph):
    roots = [_root(value) for value in found]
    if len({root.id for root in roots}) < len(roots) or {seed.id for seed in seeds} & {root.id for root in roots}:
        raise NotImplementedError("paddle.grad() whose results share storage")
    if create_graph and any(value.stop_gradient for value in found):
        raise NotImplementedError("paddle.grad() whose result depends on nothing that has gradients")


def _root(value):
    """What eager mode's result shares storage with: gradients of views are views."""
    while (op := value.get_defining_op()) is not None and _is_view(op):
        value = op.operand_source(op.num_operands() - 1 if op.name().endswith("_grad") else 0)
    return value


def _is_view(op):
    return is_view(op) or op.name().endswith("_grad") and op.name().removesuffix("_grad") in VIEWS


def begin(tensor):
    """The static form of `begin_gradient`."""
    result = _C_ops.assign(tensor)
    result.stop_gradient = False
    result.get_defining_op().set_bool_attr(BEGINS, True)
    return result


put_static_form(partial_gradients, grad)
put_static_form(begin_gradient, begin)
