"""Captured branches: `cond`, and its gradient."""

from paddle.base.libpaddle.pir import get_used_external_value

from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.blocks import branch, narrowed
from paddle_sot_rs._paddle.gradients import grad_reachability
from paddle_sot_rs._paddle.region.block import Decision, fresh, without_state
from paddle_sot_rs._paddle.region.run_again import backwards, copies, kept_values, own


class Branch:
    """A captured branch in a program: its gradient is a branch that does the chosen side again and then backwards."""

    # Its gradient takes the conditions under which gradients arrive, and gives zeros where none
    # does.
    takes_ways = True
    is_custom = False

    def __init__(self, region, condition, given, op, along, ways):
        # See `blocks.py`.
        self.along = along
        # What each result depends on, and what has to need gradients: see `grad_reachability.py`.
        self.ways, self.required = ways
        self.region = region
        self.condition = condition
        self.given = given
        self.external = tracing.current.external
        # What the blocks use, parameters that layers reach by themselves included.
        self.free = [value for value in get_used_external_value(op) if not value.is_same(condition)]
        self.kept = kept_values([condition, *self.free])

    def gradients(self, wanted, arrived, whens, branches):
        """The gradients of `wanted`; `whens` are the conditions under which the others arrive."""
        # Values that only a block uses do not go from the forward to the backward program.
        copy = copies([self.condition, *self.free], self.kept)
        condition = copy(self.condition)
        given, of, wanted = [copy(value) for value in self.given], wanted, [copy(value) for value in wanted]

        def side(block):
            def build():
                # The word of a branch follows its results.
                results = len(block.outputs)
                seeds = narrowed(arrived[:results], self.along[:results])
                found, _ = backwards(block, given, wanted, (seeds, whens), branches, (self.external, copy))
                return [own(*each) for each in zip(found, wanted, of, strict=True)]

            return build

        return list(narrowed(*branch(condition, side(self.region.then), side(self.region.otherwise))))


class If(Decision):
    """`cond`: arguments are the condition and what the blocks use."""

    def __init__(self, then, otherwise):
        self.then = then
        self.otherwise = otherwise

    def __call__(self, condition, *free):
        trace = tracing.current
        # Gradients are traced without, but for what they do again.
        notes_ways = trace.notes_ways or trace.repeats
        has_word = notes_ways and (self.then.decides or self.otherwise.decides)
        blocks = self.then, self.otherwise
        stops, sides = [None, None], [None, None]

        def run(at):
            def build():
                outputs = fresh(blocks[at].run(free), free)
                stops[at] = [value.stop_gradient for value in outputs]
                if notes_ways:
                    sides[at] = grad_reachability.Side(trace, outputs)
                return [*outputs, sides[at].word()] if has_word else outputs

            return build

        result, along = branch(condition, run(0), run(1))
        without_state(result)
        op = result[0].get_defining_op()
        word = None
        if has_word:
            *result, word = result
            word.stop_gradient = True
            along = along[:-1]
        # Paddle only looks at the side for true.
        for value, *both in zip(result, *stops, strict=True):
            value.stop_gradient = all(both)
        ways = [], []
        if notes_ways:
            required = [*sides[0].required, *sides[1].required]
            ways = grad_reachability.of_branch(trace, condition, sides, word), required
        trace.branches[result[0].id] = Branch(self, condition, free, op, along, ways)
        return narrowed(result, along)
