"""Steps of optimizers inside of a program, while it is built: leaves of autograd begin behind them.

What was computed from the parameters before is refused behind a step where eager mode finds that they have changed, or
sees the new numbers in what shares their storage.
"""

from paddle import _C_ops

from paddle_sot_rs._graph import inner_steps, step_recipes
from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.calls.call_rewrites import put_static_form
from paddle_sot_rs._paddle.gradients.stop_gradients import BEGINS
from paddle_sot_rs._paddle.views import ASSIGN, is_view


class Renewal:
    """What a step makes of parameters, and what was made of them before."""

    __slots__ = ("before", "carrying", "freed", "size", "stale")

    def __init__(self, trace, old):
        # How many operations there are behind it.
        self.size = 0
        self.before = []
        self.freed = trace.freed
        # What shares their storage, and what gradients go from to them.
        self.stale = {value.id for value in old}
        self.carrying = set(self.stale)
        for op in trace.block.ops:
            operands = [value.id for value in op.operands_source() if value.initialized()]
            if not operands:
                continue
            if operands[0] in self.stale and (is_view(op) or op.name() == ASSIGN):
                self.stale.update(value.id for value in op.results())
            if not self.carrying.isdisjoint(operands):
                self.carrying.update(value.id for value in op.results() if not value.stop_gradient)

    def check(self, operations):
        """Raises where one of these operations computes with what is not so any more."""
        for op in operations:
            operands = [value.id for value in op.operands_source() if value.initialized()]
            if not self.stale.isdisjoint(operands):
                raise NotImplementedError("what a parameter was before a step of its optimizer")
            flows = any(value.initialized() and not value.stop_gradient for value in op.results())
            if flows and not self.carrying.isdisjoint(operands):
                raise NotImplementedError("gradients of what was computed before a step of an optimizer")


def _renewed(old, step):
    trace = tracing.current
    renewal, new = Renewal(trace, old), step()
    for value in new:
        value.stop_gradient = False
        value.get_defining_op().set_bool_attr(BEGINS, True)
        # Paddle's pass for that may not write what is computed from it in its place.
        value.persistable = True
    renewal.size = trace.size()
    trace.renew(renewal, old, new)
    return new


def begin(parameters, gradients):
    """The static form of `inner_steps.begin`."""
    old = list(parameters)
    return _renewed(old, lambda: [_C_ops.assign(value) for value in old])


def renew(recipes, parameters, gradients, rate, states):
    """The static form of `inner_steps.renew`."""
    old = list(parameters)
    given = recipes, list(old), list(gradients), rate, list(states)
    return _renewed(old, lambda: step_recipes.updated(*given))


put_static_form(inner_steps.begin, begin)
put_static_form(inner_steps.renew, renew)
