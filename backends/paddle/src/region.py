"""Nested graphs inside of `cond`, `while_loop` and `static_pylayer`."""

from contextlib import contextmanager

from paddle import _C_ops
from paddle.base import core, framework
from paddle.base.libpaddle import pir
from paddle.base.libpaddle.pir import get_used_external_value
from paddle.static.nn import control_flow
from paddle_sot_rs import _backward, _bridge

Value = pir.Value


class Ref:
    """A symbol of a block."""

    __slots__ = ("number", "stops")

    def __init__(self, number, stops):
        self.number = number
        self.stops = stops


class Constant:
    """A Python value that is passed as it is."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Made:
    """A named tuple."""

    __slots__ = ("items", "kind")

    def __init__(self, kind, items):
        self.kind = kind
        self.items = items


class Block:
    """A nested graph: inputs, outputs, and steps (kind, target, args, kwargs, output)."""

    __slots__ = ("inputs", "outputs", "steps")

    def __init__(self, inputs, outputs, steps):
        self.inputs = inputs
        self.outputs = outputs
        self.steps = steps

    def run(self, given):
        """Appends the block to the current one; the answer is the Values of its outputs."""
        values = {ref.number: value for ref, value in zip(self.inputs, given, strict=True)}
        for kind, target, args, kwargs, output in self.steps:
            arguments = [_value(values, item) for item in args]
            named = {name: _value(values, item) for name, item in kwargs.items()}
            if kind == "method":
                result = _bridge.call_method(arguments[0], target, arguments[1:], named)
            elif kind == "attribute":
                result = getattr(arguments[0], target)
            elif kind == "layer":
                result = _call_layer(target, arguments[1:], named)
            else:
                function, arguments, named = _bridge._as_traced(target, arguments, named)
                result = function(*arguments, **named)
            _define(values, output, result)
        return [values[ref.number] for ref in self.outputs]


def _call_layer(layer, args, kwargs):
    variables = framework.global_var
    before, variables._in_to_static_mode_ = variables._in_to_static_mode_, True
    try:
        return layer.forward(*args, **kwargs)
    finally:
        variables._in_to_static_mode_ = before


def _value(values, item):
    kind = type(item)
    if kind is Ref:
        return values[item.number]
    if kind is Constant:
        return item.value
    if kind is list:
        return [_value(values, part) for part in item]
    if kind is tuple:
        return tuple([_value(values, part) for part in item])
    if kind is dict:
        return {key: _value(values, part) for key, part in item.items()}
    if kind is slice:
        return slice(*(_value(values, part) for part in (item.start, item.stop, item.step)))
    if kind is Made:
        return item.kind(*(_value(values, part) for part in item.items))
    return item


def _define(values, output, result):
    kind = type(output)
    if kind is Ref:
        if output.stops:
            result.stop_gradient = True
        values[output.number] = result
    elif kind in (list, tuple):
        for part, item in zip(output, result, strict=True):
            _define(values, part, item)
    elif kind is Made:
        for part, item in zip(output.items, result, strict=True):
            _define(values, part, item)
    elif kind is dict:
        for key, part in output.items():
            _define(values, part, result[key])


def fresh(values, given):
    # What a block returns as it was given needs an operation of the block, and two results may not share memory:
    # one may be changed in place afterwards.
    taken = {value.id for value in given}
    fresh = []
    for value in values:
        fresh.append(_C_ops.assign(value) if value.id in taken else value)
        taken.add(value.id)
    return fresh


def _without_state(results):
    """Refuses blocks with operations that change what they are given: running statistics."""
    for inner in _backward.inner_operations(results[0].get_defining_op()):
        name = inner.name()
        if name.endswith("_") and name not in _HARMLESS:
            raise NotImplementedError(f"{name} inside of control flow")


_HARMLESS = frozenset(("pd_op.assign_value_", "pd_op.assign_out_", "pd_op.increment_"))

_RANDOM = frozenset(
    f"pd_op.{name}"
    for name in (
        *("dropout", "uniform", "gaussian", "randint", "bernoulli", "multinomial", "randperm", "poisson", "rrelu"),
        *("gumbel_softmax", "exponential_", "truncated_gaussian_random", "standard_gamma", "binomial", "dirichlet"),
        *("class_center_sample", "fused_dropout_add", "flash_attn", "nce", "random_routing", "top_p_sampling"),
    )
)


def _copy(value):
    copy = _C_ops.assign(value)
    copy.stop_gradient = value.stop_gradient
    return copy


class Branch:
    """A captured branch in a program: its gradients are built by Paddle for the simple cases only."""

    def __init__(self, region, condition, given, op):
        self.region = region
        self.condition = condition
        self.given = given
        self.external = _bridge.current.external
        # What the blocks use, parameters that layers reach by themselves included.
        self.free = [value for value in get_used_external_value(op) if not value.is_same(condition)]

    def gradients(self, wanted, arrived, branches):
        """The gradients of `wanted`, by a branch that does the chosen side again and then backwards."""
        # Values that only a block uses do not go from the forward to the backward program.
        condition = _copy(self.condition)
        copies = [(value, _copy(value)) for value in self.free]

        def copy(value):
            return next((new for old, new in copies if old.is_same(value)), value)

        given, wanted = [copy(value) for value in self.given], [copy(value) for value in wanted]

        def side(block):
            def build():
                around = pir.get_current_insertion_point().block()
                with _reading(self.external, copy):
                    outputs = block.run(given)
                for op in around.ops:
                    if op.name() in _RANDOM:
                        raise NotImplementedError(f"gradients through a branch with {op.name()}")
                pairs = [(out, seed) for out, seed in zip(outputs, arrived, strict=True) if not out.stop_gradient]
                targets, seeds = [out for out, _ in pairs], [seed for _, seed in pairs]
                found = _backward.gradients(around, wanted, targets, seeds, branches) if pairs else [None] * len(wanted)
                # A gradient that only passes through needs an operation of the block.
                return [
                    _C_ops.full_like(value, 0.0, value.dtype, core.Place())
                    if gradient is None
                    else _C_ops.assign(gradient)
                    for value, gradient in zip(wanted, found, strict=True)
                ]

            return build

        result = control_flow.cond(condition, side(self.region.then), side(self.region.otherwise))
        return list(result) if isinstance(result, (list, tuple)) else [result]


@contextmanager
def _reading(external, copy):
    """Layers find the copies of their parameters."""
    trace = _bridge.current
    before = trace.external
    trace.external = {key: (tensor, copy(value)) for key, (tensor, value) in external.items()}
    try:
        yield
    finally:
        trace.external = before


class If:
    """`cond`: arguments are the condition and what the blocks use."""

    def __init__(self, then, otherwise):
        self.then = then
        self.otherwise = otherwise

    def __call__(self, condition, *free):
        def run(block):
            return lambda: fresh(block.run(free), free)

        result = control_flow.cond(condition, run(self.then), run(self.otherwise))
        result = tuple(result) if isinstance(result, (list, tuple)) else (result,)
        _without_state(result)
        op = result[0].get_defining_op()
        _bridge.current.branches[result[0].id] = Branch(self, condition, free, op)
        return result


class While:
    """`while_loop`: arguments are the condition, the first values of the variables, and what the body uses."""

    def __init__(self, body, carried):
        self.body = body
        self.carried = carried

    def __call__(self, condition, *rest):
        first, free = rest[: self.carried], rest[self.carried :]
        variables = [_C_ops.assign(value) for value in (condition, *first)]
        for variable, ref in zip(variables[1:], self.body.inputs, strict=False):
            variable.stop_gradient = ref.stops

        def body(_, *values):
            given = (*values, *free)
            return fresh(self.body.run(given), given)

        control_flow.while_loop(lambda condition, *_: condition, body, variables)
        # Read from the operation: the Values that Paddle answers with may lie in memory that is free already.
        operation = pir.get_current_insertion_point().block().ops[-1]
        result = tuple(operation.results())
        if operation.name() != "pd_op.while" or len(result) != len(variables):
            raise NotImplementedError("a loop with a variable that stays as it is")
        _without_state(result)
        return tuple(result[1:])
