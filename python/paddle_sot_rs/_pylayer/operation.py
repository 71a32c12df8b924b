"""The operator `static_pylayer` in programs: a forward block, and a backward block that its gradient runs."""

import paddle
from paddle import _C_ops

from paddle_sot_rs._paddle import tracing as _tracing
from paddle_sot_rs._paddle.blocks import in_block, marked, narrowed
from paddle_sot_rs._paddle.gradients.backward import UNVERSIONED
from paddle_sot_rs._paddle.gradients.grad_reachability import ALWAYS
from paddle_sot_rs._paddle.region import fresh

_DIFFERENTIABLE = (paddle.float16, paddle.bfloat16, paddle.float32, paddle.float64, paddle.complex64, paddle.complex128)


class CustomGradient:
    """The gradients of a custom operation: its backward block."""

    # It takes zeros for what does not arrive, as in eager mode.
    takes_ways = False
    # Zeros that arrive need not be zeros behind it.
    is_custom = True

    def __init__(self, operation, inputs, saved, along):
        self.operation = operation
        self.free = list(inputs)
        self.saved = saved
        # See `blocks.py`.
        self.along = along
        # What each result depends on: see `grad_reachability.py`.
        self.ways = [[(value, ALWAYS) for value in inputs]] * operation.outputs
        self.required = []

    def gradients(self, wanted, arrived, branches, read):
        """The gradients of `wanted`, None where the user's `backward` gives none.

        `read` says where to read the numbers of a value: as in eager mode it sees what its tensors have become.
        """
        count = self.operation.outputs
        seeds = narrowed(arrived[:count], self.along[:count])
        with marked(UNVERSIONED):
            results = self.operation.backward.run((*map(read, self.saved), *seeds))
        answer = []
        for value, at in self._places(wanted):
            gradient = None if at is None else results[at]
            if gradient is not None and (gradient.shape != value.shape or gradient.dtype != value.dtype):
                what = [f"{it.dtype.name} of shape {list(it.shape)}" for it in (gradient, value)]
                raise NotImplementedError(f"PyLayer: a gradient of {what[0]} for a tensor of {what[1]}")
            answer.append(gradient)
        return answer

    def stops(self, wanted):
        """Whether the gradients of `wanted` say that gradients stop there.

        What `backward` hands on says that they do not.
        """
        block = self.operation.backward
        arrived = block.inputs[len(block.inputs) - self.operation.outputs :]
        for _, at in self._places(wanted):
            ref = None if at is None else block.outputs[at]
            yield ref is not None and ref.stops and not any(ref is it for it in arrived)

    def _places(self, wanted):
        """Where in the results of `backward` their gradients are."""
        left = list(zip(self.free, self.operation.gradients, strict=True))
        for value in wanted:
            # A tensor that was given twice has two gradients, one after the other.
            yield value, left.pop(next(at for at, (old, _) in enumerate(left) if old.is_same(value)))[1]


class Operation:
    """`static_pylayer`: arguments are the inputs and what the forward block uses."""

    def __init__(self, forward, backward, inputs, outputs, gradients):
        self.forward = forward
        self.backward = backward
        self.inputs = inputs
        self.outputs = outputs
        self.gradients = gradients

    def __call__(self, *rest):
        given = rest[: self.inputs]
        # The outputs, and what backward uses: it is there, or a result of the operation too.
        saved = [len(rest) + at for at in range(self.outputs)]

        def build():
            values = self.forward.run(rest)
            known = [*rest, *values[: self.outputs]]
            for value in values[self.outputs :]:
                at = next((at for at, one in enumerate(known) if one.is_same(value)), len(known))
                if at == len(known):
                    known.append(value)
                saved.append(at)
            return fresh(known[len(rest) :], rest)

        result, along = in_block(given, build)
        for value in result[: self.outputs]:
            value.stop_gradient = value.dtype not in _DIFFERENTIABLE
        for value in result[self.outputs :]:
            value.stop_gradient = True
        whole = narrowed(result, along)
        for at in saved:
            if at < len(rest) and rest[at].use_empty():
                # Inputs of a program are what its forward part uses.
                _C_ops.numel(rest[at]).stop_gradient = True
        known = [*rest, *whole]
        _tracing.current.branches[result[0].id] = CustomGradient(self, given, [known[at] for at in saved], along)
        return whole[: self.outputs]
