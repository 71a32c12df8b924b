"""Sums of gradients that come from several parts of a graph: see `src/ir/ordered_sums.rs`."""

import itertools
import weakref

import paddle
from paddle import _C_ops
from paddle.base.libpaddle import eager

from paddle_sot_rs._core import paddle_backend
from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.gradients.backward import ways_back, with_inner
from paddle_sot_rs._paddle.gradients.double_backward import note_reusable
from paddle_sot_rs._paddle.trace import NO_WORK

_DIFFERENTIABLE = frozenset(
    (paddle.float16, paddle.bfloat16, paddle.float32, paddle.float64, paddle.complex64, paddle.complex128)
)


describe = paddle_backend.describe
# What Paddle's kernel for those that go backward again computes exactly.
_SCALED = frozenset((paddle.float32, paddle.float64))


def aliases(tensor, number, leaves, again, together):
    """So many aliases of a tensor, in a list: what arrives at them is added in their order.

    Each is a view of the one behind it, so that no more than two gradients meet: what arrived at those in front, and
    its own. `together`: several meet at the first one, before others do. One that leaves the graph has gradients from
    outside too: autograd adds all of them, one for each alias. `again`: several passes may go through them.
    """
    if not paddle.in_dynamic_mode():
        return [_C_ops.assign(tensor) for _ in range(number)]
    if leaves or tensor.stop_gradient or not paddle.is_grad_enabled() or (again and tensor.dtype not in _SCALED):
        return [tensor] * number
    if again:
        # What comes out of these nodes says nothing of gradients, as what programs make.
        describe(tensor)
    found = [tensor]
    while len(found) < number - (not together):
        found.append(_reusable(found[-1]) if again else _view(found[-1]))
    return found[::-1] if together else [found[-1], *reversed(found)]


def chained(tensor):
    """A tensor for the parts behind this one: the sum of what they give it comes first of its gradients."""
    return tensor if paddle.in_dynamic_mode() else _C_ops.assign(tensor)


def _view(tensor):
    """A view that can be differentiated any number of times."""
    return _C_ops.transpose(tensor, list(range(tensor.ndim)))


def _reusable(tensor):
    """An alias whose node goes backward any number of times; those of operations do so once."""
    alias = eager.scale(tensor, 1.0, -0.0, True, True)
    tensor._share_underline_tensor_to(alias)
    note_reusable(alias, tensor, _view)
    return alias


def place_of(layer, tensor):
    """Where a layer has a parameter: names of layers below it, and its own. None: nowhere, or in several places."""
    found = [*_places(layer, tensor, ())]
    return found[0] if len(found) == 1 else None


def _places(layer, tensor, way):
    for name, parameter in layer._parameters.items():
        if parameter is tensor:
            yield *way, name
    for name, part in layer._sub_layers.items():
        if part is not None:
            yield from _places(part, tensor, (*way, name))


class WithAliases:
    """Stands for a layer of Paddle's in one call: it takes aliases of parameters, and has them in these places."""

    def __init__(self, layer, places):
        self._of, self._places = weakref.ref(layer), places

    def __getattr__(self, name):
        return getattr(self._of(), name)

    def forward(self, aliases, *args, **kwargs):
        return _given(self._of(), dict(zip(self._places, aliases, strict=True))).forward(*args, **kwargs)


def _given(layer, others):
    """A layer like this one with other parameters in these places. The real one is seen by other threads."""
    parameters, parts = layer._parameters.copy(), layer._sub_layers.copy()
    below = {}
    for (name, *way), alias in others.items():
        if way:
            below.setdefault(name, {})[*way,] = alias
        else:
            parameters[name] = alias
    for name, given in below.items():
        parts[name] = _given(parts[name], given)
    made = object.__new__(type(layer))
    vars(made).update(vars(layer), _parameters=parameters, _sub_layers=parts)
    return made


def arrivals(trace, values, inputs, outputs, is_program):
    """What comes to each of the values on the way back from outputs, and from how far: see `Arrivals`. With it for each
    value how many operations the call that made it has.

    Values are named by their positions. The order is that of eager mode, or of the program of this trace. The answer is
    None where the program has what only Paddle's construction of a backward part knows.
    """
    known = {value.id: at for at, value in enumerate(values)}
    # Whole numbers say that they need a gradient, and get none.
    floats = {value.id: at for at, value in enumerate(values) if value.dtype in _DIFFERENTIABLE}
    makers = _makers(trace.block, known)
    with tracing.building(trace):
        ways = ways_back(
            trace.block, [values[at] for at in inputs], [values[at] for at in outputs], trace.branches, is_program
        )
    if ways is None:
        return None
    found, levels = {}, {}
    for op, sources in ways:
        made = makers.get(op.id())
        level = 1 + max(levels.get(value.id, 0) for value in op.results() if value.initialized())
        for source in sources:
            levels[source.id] = max(level, levels.get(source.id, 0))
            at = floats.get(source.id)
            if at is not None and made is not None:
                found.setdefault(at, []).append((made, level))
    return [(at, made) for at, made in found.items() if len(made) > 1], _operations(trace, values)


def _operations(trace, values):
    """For each value how many operations the call that made it has."""
    works = [op.name() not in NO_WORK for op in with_inner(trace.block.ops)]
    before = [0, *itertools.accumulate(works)]
    calls = [trace.calls.get(value.id, (0, 0)) for value in values]
    return [before[end] - before[start] for start, end, *_ in calls]


def _makers(block, known):
    """For each operation one of the values that its call has made: itself, or by what takes its results."""
    makers, taken = {}, {}
    for op in reversed(block.ops):
        made = None
        for value in op.results():
            if value.initialized():
                made = known.get(value.id, taken.get(value.id))
                if made is not None:
                    break
        if made is None:
            continue
        makers[op.id()] = made
        for value in op.operands_source():
            if value.initialized():
                taken.setdefault(value.id, made)
    return makers
