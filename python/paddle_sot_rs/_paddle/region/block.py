"""A nested graph, and how its steps are appended to the block that is being built."""

import paddle
from paddle import _C_ops
from paddle.base import framework

from paddle_sot_rs._graph.control import show
from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.calls.call_rewrites import call_method, constant
from paddle_sot_rs._paddle.effects import reads_statistics
from paddle_sot_rs._paddle.gradients import backward
from paddle_sot_rs._paddle.open_sizes import of_open_sizes


class Ref:
    """A symbol of a block."""

    __slots__ = ("number", "shape", "stops")

    def __init__(self, number, stops, shape):
        self.number = number
        self.stops = stops
        # -1 for what is open.
        self.shape = shape


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


class Decision:
    """Captured control flow: what a block of a program does depends on a tensor."""


class Block:
    """A nested graph: inputs, outputs, and steps (kind, target, args, kwargs, output)."""

    __slots__ = ("inputs", "outputs", "steps")

    def __init__(self, inputs, outputs, steps):
        self.inputs = inputs
        self.outputs = outputs
        # Constants are made here: where the block runs, Paddle is in static mode.
        self.steps = [_with_constant(step) for step in steps]

    @property
    def decides(self):
        """Whether there is captured control flow in it."""
        return any(isinstance(target, Decision) for _, target, *_ in self.steps)

    def run(self, given):
        """Appends the block to the current one; the answer is the Values of its outputs."""
        values = {ref.number: value for ref, value in zip(self.inputs, given, strict=True)}
        for kind, target, args, kwargs, output in self.steps:
            if target is show and tracing.current.repeats:
                continue
            arguments = [_value(values, item) for item in args]
            named = {name: _value(values, item) for name, item in kwargs.items()}
            if kind in ("api", "method"):
                target = of_open_sizes(target, arguments, named)
            if type(target) is str and kind == "method":
                result = call_method(arguments[0], target, arguments[1:], named)
            elif kind == "attribute":
                result = getattr(arguments[0], target)
            elif kind == "layer":
                result = _call_layer(target, arguments[1:], named)
            else:
                result = target(*arguments, **named)
            _define(values, output, result)
        return [values[ref.number] for ref in self.outputs]


def _with_constant(step):
    kind, target, args, kwargs, output = step
    if target is not paddle.to_tensor:
        return step
    named = {name: _value({}, item) for name, item in kwargs.items()}
    array = constant(*(_value({}, item) for item in args), **named)
    return kind, paddle.assign, [Constant(array)], {}, output


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
    # What a block returns as it was given needs an operation of the block, and two results may not
    # share memory: one may be changed in place afterwards.
    taken = {value.id for value in given}
    fresh = []
    for value in values:
        fresh.append(_C_ops.assign(value) if value.id in taken else value)
        taken.add(value.id)
    return fresh


def without_state(results):
    """Refuses blocks with operations that change what they are given: running statistics."""
    for inner in backward.inner_operations(results[0].get_defining_op()):
        name = inner.name()
        if name.endswith("_") and name not in _HARMLESS and not reads_statistics(inner):
            raise NotImplementedError(f"{name} inside of control flow")


_HARMLESS = frozenset(("pd_op.assign_value_", "pd_op.assign_out_", "pd_op.increment_"))
