"""Sums of gradients that come from several parts of a graph: see `src/ir/ordered_sums.rs`."""

import paddle
from paddle import _C_ops

from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.gradients.backward import ways_back

_DIFFERENTIABLE = frozenset(
    (paddle.float16, paddle.bfloat16, paddle.float32, paddle.float64, paddle.complex64, paddle.complex128)
)


def aliases(tensor, number, leaves):
    """So many aliases of a tensor, in a list: what arrives at them is added in their order.

    Each is a view of the one behind it, so that no more than two gradients meet: what arrived at those in front, and
    its own. One that leaves the graph has gradients from outside too: autograd adds all of them, one for each alias.
    """
    if not paddle.in_dynamic_mode():
        return [_C_ops.assign(tensor) for _ in range(number)]
    if leaves or tensor.stop_gradient or not paddle.is_grad_enabled():
        return [tensor] * number
    found = [tensor]
    while len(found) < number - 1:
        # A view that can be differentiated any number of times.
        found.append(_C_ops.transpose(found[-1], list(range(tensor.ndim))))
    return [found[-1], *reversed(found)]


def arrivals(trace, values, inputs, outputs):
    """What comes to each of the values on the way back from outputs: see `Arrivals`.

    Values are named by their positions. The answer is None where the program has what only Paddle's construction of a
    backward part knows.
    """
    known = {value.id: at for at, value in enumerate(values)}
    # Whole numbers say that they need a gradient, and get none.
    floats = {value.id: at for at, value in enumerate(values) if value.dtype in _DIFFERENTIABLE}
    makers = _makers(trace.block, known)
    with tracing.building(trace):
        ways = ways_back(trace.block, [values[at] for at in inputs], [values[at] for at in outputs], trace.branches)
    if ways is None:
        return None
    found = {}
    for op, sources in ways:
        made = makers.get(op.id())
        for source in sources:
            at = floats.get(source.id)
            if at is not None and made is not None:
                found.setdefault(at, []).append(made)
    return [(at, made) for at, made in found.items() if len(made) > 1]


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
