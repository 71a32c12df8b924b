"""Blocks that are computed again on the way back."""

from paddle.base.libpaddle import pir
from paddle.base.libpaddle.pir import get_used_external_value

from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.blocks import in_block, narrowed
from paddle_sot_rs._paddle.effects import first_random
from paddle_sot_rs._paddle.gradients import grad_reachability
from paddle_sot_rs._paddle.region.block import fresh, without_state
from paddle_sot_rs._paddle.region.run_again import backwards, copies, is_among, own


def _without_random(op):
    if name := first_random([op]):
        raise NotImplementedError(f"{name} inside of recompute")


class Again:
    """What a program computes again on the way back."""

    # It takes zeros for what does not arrive, as in eager mode.
    takes_ways = False
    is_custom = False

    def __init__(self, region, given, op, along, ways):
        self.region = region
        # What each result depends on, and what has to need gradients: see `grad_reachability.py`.
        self.ways, self.required = ways
        # See `blocks.py`.
        self.along = along
        self.given = given
        self.external = tracing.current.external
        # Parameters that layers reach by themselves included.
        self.free = list(get_used_external_value(op))

    def gradients(self, wanted, arrived, branches, read):
        """The gradients of `wanted`, None where none arrives; `read` says where to read the numbers of a value.

        As in eager mode the block sees what its tensors have become.
        """
        copy = copies(self.free, {value.id: read(value) for value in self.free})
        given, wanted = [copy(value) for value in self.given], [copy(value) for value in wanted]
        answer = [None] * len(wanted)
        reached = []

        def build():
            seeds = narrowed(arrived, self.along)
            whens = [grad_reachability.ALWAYS] * len(seeds)
            found, _ = backwards(self.region.body, given, wanted, (seeds, whens), branches, (self.external, copy))
            reached[:] = [at for at, gradient in enumerate(found) if gradient is not None]
            return [own(found[at], wanted[at]) for at in reached]

        # A block waits for the gradients that arrive: all that is computed again would be there at
        # once otherwise.
        results = narrowed(*in_block([*given, *arrived], build))
        for at, gradient in zip(reached, results, strict=True):
            answer[at] = gradient
        return answer


class Recompute:
    """A block whose gradient runs it again: arguments are what it uses.

    `given` are the places of those of them that the results need gradients for, None where they do so for all.
    """

    def __init__(self, body, given):
        self.body = body
        self.given = given

    def _ways(self, outputs, free):
        trace = tracing.current
        if not (trace.notes_ways or trace.repeats):
            return [], []
        ways = grad_reachability.Ways(trace, pir.get_current_insertion_point().block().ops)
        found = [ways.sources(value) for value in outputs]
        if self.given is None:
            return found, ways.required
        given = [free[at] for at in self.given if not free[at].stop_gradient]
        always = [(value, grad_reachability.ALWAYS) for value in given]
        parameters = any(not is_among(source, given) for sources in found for source, _ in sources)
        required = [given] if parameters else []
        # Zeros stand for what does not arrive: gradients of one result go through all of the block.
        through = [*always, *(source for sources in found for source in sources)]
        return [through for _ in found], [*ways.required, *required]

    def __call__(self, *free):
        stops, ways = [], ([], [])

        def build():
            nonlocal ways
            outputs = fresh(self.body.run(free), free)
            stops[:] = [value.stop_gradient for value in outputs]
            ways = self._ways(outputs, free)
            return outputs

        result, along = in_block(free, build)
        without_state(result)
        op = result[0].get_defining_op()
        _without_random(op)
        for value, stop in zip(result, stops, strict=True):
            value.stop_gradient = stop
        tracing.current.branches[result[0].id] = Again(self, free, op, along, ways)
        return narrowed(result, along)
