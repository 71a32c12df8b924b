"""What a gradient computes again: copies of what a block uses, the block, and the way back through it."""

from contextlib import contextmanager

import paddle
from paddle import _C_ops
from paddle.base import core, framework
from paddle.base.libpaddle import pir

from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.effects import first_random
from paddle_sot_rs._paddle.gradients import backward, grad_reachability


def copy_of(value):
    copy = _C_ops.assign(value)
    copy.stop_gradient = value.stop_gradient
    return copy


def kept_values(values):
    """Copies of those of the values that may be changed in place before the gradient uses them again, by id.

    They come from outside, and are no parameters: those are large, and the gradient refuses those that changed.
    """
    trace = tracing.current
    if not trace.notes_ways or trace.repeats or pir.get_current_insertion_point().block() != trace.block:
        return {}
    kept = {}
    for tensor, value in trace.external.values():
        if not isinstance(tensor, framework.EagerParamBase) and is_among(value, values):
            kept[value.id] = _C_ops.assign(value)
            kept[value.id].stop_gradient = True
    return kept


def copies(values, kept):
    """A function from these to copies of them (or of what was kept of them), and from other values to themselves."""
    pairs = [(value, _C_ops.assign(kept.get(value.id, value))) for value in values]
    for value, copy in pairs:
        copy.stop_gradient = value.stop_gradient
    return lambda value: next((new for old, new in pairs if old.is_same(value)), value)


def own(gradient, value, of=None):
    """What a block may return: an operation of its own, also where a gradient only passes through or is zero.

    `of`: what `value` is a copy of.
    """
    if gradient is not None:
        return _C_ops.assign(gradient)
    return nothing(value, value if of is None else of)


def nothing(value, of):
    """A gradient of zeros that changes no sum: `-0.0`, which may not be an attribute of an operation."""
    dtype, place = value.dtype, core.Place()
    maker = of.get_defining_op()
    # The zeros of one of several results are not added to anything, but seen: eager mode has `0.0`
    # for them.
    is_signed = dtype in (paddle.float32, paddle.float64) and (maker is None or len(maker.results()) == 1)
    minus = _C_ops.full([], -1.0, dtype, place) if is_signed else None
    if any(dim < 0 for dim in value.shape):
        zeros = _C_ops.full_like(value, 0.0, dtype, place)
        return _C_ops.multiply(zeros, minus) if is_signed else zeros
    if not is_signed:
        return _C_ops.full(list(value.shape), 0.0, dtype, place)
    zero = _C_ops.multiply(_C_ops.full([], 0.0, dtype, place), minus)
    return _C_ops.full_with_tensor(zero, list(value.shape), dtype)


def backwards(block, given, wanted, arrived, branches, copied):
    """Runs a block again, then backward: the gradients of `wanted`, None where none arrives, and their conditions.

    `arrived` are the gradients of its outputs, None where none arrives, and the conditions under which they do.
    `copied` are the parameters that layers find, and the function from values to their copies.
    """
    around = pir.get_current_insertion_point().block()
    with _reading(*copied):
        outputs = block.run(given)
    if name := first_random(around.ops):
        raise NotImplementedError(f"gradients through control flow with random numbers ({name})")
    known = zip(outputs, *arrived, strict=False)
    known = [(out, seed, when) for out, seed, when in known if seed is not None and not out.stop_gradient]
    if not known:
        return [None] * len(wanted), [grad_reachability.NEVER] * len(wanted)
    targets, seeds, whens = map(list, zip(*known, strict=True))
    return backward.arriving(around, wanted, targets, seeds, branches, whens)


@contextmanager
def _reading(external, copy):
    """Layers find the copies of their parameters."""
    trace = tracing.current
    before = trace.external, trace.repeats
    trace.external = {key: (tensor, copy(value)) for key, (tensor, value) in external.items()}
    # What was printed is not printed again.
    trace.repeats = True
    try:
        yield
    finally:
        trace.external, trace.repeats = before


def is_among(value, values):
    return any(value.is_same(other) for other in values)
