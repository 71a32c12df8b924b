"""Gates around a program whose outputs depend on different inputs.

`run_program` is one node of autograd: a backward through one output gives every input a gradient, zeros where that
output does not depend on it. Eager mode gives those inputs none, and an optimizer sees the difference. Hooks note
which outputs a gradient arrives at, the gate withholds the zeros. Where one of those inputs is no leaf, the graph runs
call by call.
"""

from paddle import _C_ops
from paddle.autograd import PyLayer
from paddle.base.libpaddle.pir import get_used_external_value

from paddle_sot_rs._paddle.gradients.backward import REGIONS
from paddle_sot_rs._paddle.gradients.double_backward import asks_only


def _alias(tensor):
    # Not `detach`: a PyLayer takes what shares its description with an input for a result of an
    # in-place operation.
    return _C_ops.as_strided(tensor, tensor.shape, tensor.strides, tensor.offset)


class _Enter(PyLayer):
    @staticmethod
    def forward(ctx, call, *tensors):
        ctx.call = call
        return tuple(map(_alias, tensors))

    @staticmethod
    def backward(ctx, *gradients):
        arrived = ctx.call
        mask_of_arrived, masks = arrived
        if not asks_only():
            # Autograd cannot come here again: it lets go of the context of a PyLayer.
            arrived[0] = -1
        # The tensors are leaves: operations take no absent gradients.
        found = tuple(
            gradient if mask & mask_of_arrived else None for gradient, mask in zip(gradients, masks, strict=True)
        )
        return found if len(found) > 1 else found[0]


def note(arrived, number, gradient):
    """A gradient arrived at an output, or none did; the outputs come in order."""
    if arrived[0] < 0:
        raise RuntimeError(
            "translated code with outputs that depend on different parameters can go backward once: "
            "use backend='eager' for it, or add the losses up"
        )
    if number == 0:
        arrived[0] = 0
    if gradient:
        arrived[0] |= 1 << number


class Gates:
    """Which inputs of a program pass a gate, and which outputs each of them needs."""

    __slots__ = ("inputs", "masks")

    def __init__(self, inputs, masks):
        self.inputs = inputs
        self.masks = masks

    def enter(self, tensors):
        """Replaces tensors of the list; the answer is what `note` takes."""
        arrived = [0, self.masks]
        for at, tensor in zip(self.inputs, _Enter.apply(arrived, *[tensors[at] for at in self.inputs]), strict=True):
            tensors[at] = tensor
        return arrived

    def narrow(self, arrived, masks):
        """What the run has reached: for inputs where control flow decides, one bool for each output."""
        narrowed = {at: sum(holds << number for number, holds in enumerate(outputs)) for at, outputs in masks.items()}
        arrived[1] = [narrowed.get(at, mask) for at, mask in zip(self.inputs, self.masks, strict=True)]


def _uses(op):
    # What a nested graph uses is no operand.
    inner = get_used_external_value(op) if op.name() in REGIONS else []
    return [*op.operands_source(), *inner]


def gates_of(operations, inputs, outputs):
    """The gates that a program needs; None where every output depends on the same inputs."""
    leaving = [at for at, value in enumerate(outputs) if not value.stop_gradient]
    if len(leaving) < 2:
        return None
    reached = {value.id: 1 << at for at, value in enumerate(inputs) if not value.stop_gradient}
    for op in operations:
        found = 0
        for value in _uses(op):
            if value.initialized():
                found |= reached.get(value.id, 0)
        if found:
            for value in op.results():
                if value.initialized() and (value.is_combine() or not value.stop_gradient):
                    reached[value.id] = reached.get(value.id, 0) | found
    depends = [reached.get(outputs[at].id, 0) for at in leaving]
    everywhere, somewhere = depends[0], 0
    for mask in depends:
        everywhere &= mask
        somewhere |= mask
    entering = [at for at in range(len(inputs)) if somewhere >> at & 1 and not everywhere >> at & 1]
    if not entering:
        return None
    masks = [sum(1 << number for number, mask in enumerate(depends) if mask >> at & 1) for at in entering]
    return Gates(entering, masks)
