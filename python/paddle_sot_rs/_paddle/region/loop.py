"""Captured loops: `while_loop`, and its gradient."""

from functools import reduce

from paddle import _C_ops
from paddle.base import core
from paddle.base.libpaddle import pir
from paddle.base.libpaddle.pir import get_used_external_value
from paddle.static.nn import control_flow

from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.blocks import take_back
from paddle_sot_rs._paddle.gradients import grad_reachability
from paddle_sot_rs._paddle.region.block import Decision, fresh, without_state
from paddle_sot_rs._paddle.region.run_again import backwards, copies, copy_of, is_among, kept_values, nothing, own
from paddle_sot_rs._paddle.value_patches import dims


class While(Decision):
    """`while_loop`: arguments are the condition, the first values of the variables, and what the body uses."""

    def __init__(self, body, carried, differentiable):
        self.body = body
        self.carried = carried
        self.differentiable = differentiable

    def __call__(self, condition, *rest):
        first, free = rest[: self.carried], rest[self.carried :]
        variables = [_C_ops.assign(value) for value in (condition, *first)]
        for variable, ref in zip(variables[1:], self.body.inputs, strict=False):
            variable.stop_gradient = ref.stops
            _open(variable, ref.shape)
        # One row for each value that a variable ever has: the gradient goes through the rounds
        # again.
        histories = [_row(value) for value in variables[1:]] if self.differentiable else []
        variables += histories
        trace = tracing.current
        flows = [at for at, ref in enumerate(self.body.inputs[: self.carried]) if not ref.stops]
        notes_ways = (trace.notes_ways or trace.repeats) and self.differentiable
        block = pir.get_current_insertion_point().block()
        start = len(block.ops)
        words = _first_words(flows) if notes_ways and self.body.decides else []
        operation, made = self._append([*variables, *words], len(words), free, flows, notes_ways)
        if notes_ways and not words and not made.is_steady():
            take_back(block, start)
            words = _first_words(flows)
            operation, made = self._append([*variables, *words], len(words), free, flows, notes_ways)
        result = tuple(operation.results())
        without_state(result)
        last = 1 + self.carried
        for value, ref in zip(result[1:last], self.body.inputs, strict=False):
            value.stop_gradient = ref.stops
        if self.differentiable:
            inner = [value for value in get_used_external_value(operation) if not is_among(value, [*variables, *words])]
            rows, answers = result[last : last + len(histories)], result[last + len(histories) :]
            for value in answers:
                value.stop_gradient = True
            ways = grad_reachability.of_loop(trace, condition, first, made, answers) if notes_ways else []
            required = list(made.requires(first)) if notes_ways else []
            trace.branches[result[0].id] = Loop(self, first, free, inner, rows, (ways, required, made))
        return result[1:last]

    def _append(self, variables, words, free, flows, notes_ways):
        """Appends the loop; the variables end with words. The answer is the operation and the ways through a round."""
        made = None
        trace = tracing.current

        def body(_, *values):
            nonlocal made
            now, known = values[: self.carried], values[self.carried : len(values) - words]
            if notes_ways:
                for value, ref in zip(now, self.body.inputs, strict=False):
                    value.stop_gradient = ref.stops
            given = (*now, *free)
            after = fresh(self.body.run(given), given)
            if trace.computes or trace.asks:
                # Nobody compares what a round is made of.
                raise NotImplementedError("computing with an open dim inside of a loop")
            for before, value, ref in zip(now, after[1:], self.body.inputs, strict=False):
                _refuse_emptied(before, value, ref.shape)
            # That looked at open dims itself.
            trace.computes = trace.asks = False
            rows = [_C_ops.concat([rows, _row(value)], 0) for rows, value in zip(known, after[1:], strict=bool(known))]
            for row in rows:
                row.stop_gradient = True
            if not notes_ways:
                return [*after, *rows]
            made = grad_reachability.Round(trace, flows, now, after[1:])
            return [*after, *rows, *(made.words(values[len(values) - words :]) if words else [])]

        return _while_loop(body, variables), made


def _open(value, shape):
    """Opens the dims of a first value that later ones may have others of: code of Paddle's looks at them in a round."""
    if -1 in shape and (known := dims(value)) != shape:
        opened = [-1 if dim < 0 else size for dim, size in zip(shape, known, strict=True)]
        value.set_type(pir.create_shaped_type(value.type(), opened))


def _refuse_emptied(before, value, shape):
    """Fails at run time where a variable of open dims has no items left, and had other dims before.

    Paddle hands no tensor without memory from one round to the next: the variable would stay what it was.
    """
    if -1 not in shape:
        return
    nothing = _C_ops.full([], 0, core.DataType.INT64, core.CPUPlace())
    has_items = _C_ops.greater_than(_C_ops.numel(value), nothing)
    same = _C_ops.all(_C_ops.equal(_C_ops.shape64(before), _C_ops.shape64(value)), [], False)
    control_flow.Assert(_C_ops.logical_or(has_items, same))


def _first_words(flows):
    words = [_C_ops.assign(grad_reachability.word(1 << bit)) for bit in range(len(flows))]
    for value in words:
        value.stop_gradient = True
    return words


def _row(value):
    row = _C_ops.unsqueeze(value, [0])
    row.stop_gradient = True
    return row


def _while_loop(body, variables):
    """Appends the loop; the first variable is the condition. The answer is the operation."""
    control_flow.while_loop(lambda condition, *_: condition, body, variables)
    # Read from the operation: the Values that Paddle answers with may lie in memory that is free
    # already.
    operation = pir.get_current_insertion_point().block().ops[-1]
    if operation.name() != "pd_op.while" or len(operation.results()) != len(variables):
        raise NotImplementedError("a loop with a variable that stays as it is")
    return operation


class Loop:
    """A captured loop in a program: its gradient is a loop over the rounds from the last to the first.

    Each round is done again from the values it started with, and then backwards.
    """

    takes_ways = True
    is_custom = False

    def __init__(self, region, first, given, inner, histories, ways):
        # What each result depends on, what has to need gradients, and each variable in a round:
        # see `grad_reachability.py`.
        self.ways, self.required, self.round = ways
        self.region = region
        self.first = list(first)
        self.given = given
        self.inner = inner
        self.histories = histories
        self.external = tracing.current.external
        self.free = []
        for value in (*first, *inner):
            if not is_among(value, self.free):
                self.free.append(value)
        self.kept = kept_values(inner)

    def gradients(self, wanted, arrived, whens, branches):
        """The gradients of `wanted`; `whens` are the conditions under which the others arrive."""
        histories = [copy_of(value) for value in self.histories]
        copy = copies(self.inner, self.kept)
        given = [copy(value) for value in self.given]
        inner = [value for value in wanted if is_among(value, self.inner)]
        arrived, whens = arrived[1:], whens[1:]
        flows, sure = self.round.backwards(whens)
        unsure = [at for at in flows if at not in sure]
        conditions = tracing.current.conditions

        def round_(_, at, *sums):
            seeds, sums = sums[: len(flows)], sums[len(flows) :]
            known, totals = dict(zip(unsure, sums, strict=False)), sums[len(unsure) :]
            values = []
            for number, rows in enumerate(histories):
                value = _C_ops.squeeze(_C_ops.gather(rows, at, 0), [0])
                value.stop_gradient = number not in flows
                values.append(value)
            into = dict(zip(flows, seeds, strict=True))
            # The next condition is the first output.
            seeds = [None, *(into.get(at) for at in range(len(histories)))]
            under = [
                conditions.holds(known[at]) if at in known else grad_reachability.ALWAYS for at in range(len(histories))
            ]
            sources = [values[at] for at in flows] + [copy(value) for value in inner]
            body, under = self.region.body, [grad_reachability.NEVER, *under]
            given_now = (*values, *given)
            found, reached = backwards(body, given_now, sources, (seeds, under), branches, (self.external, copy))
            if any(reached[number] != grad_reachability.ALWAYS for number, at in enumerate(flows) if at in sure):
                raise NotImplementedError("gradients through a loop whose rounds go other ways when done again")
            before, after = found[: len(flows)], found[len(flows) :]
            next_seeds = [own(gradient, values[at]) for at, gradient in zip(flows, before, strict=True)]
            next_known = [
                _C_ops.assign(conditions.scalar(reached[number], {})) for number, at in enumerate(flows) if at in known
            ]
            next_totals = [
                _C_ops.assign(total) if gradient is None else _C_ops.add(total, gradient)
                for total, gradient in zip(totals, after, strict=True)
            ]
            earlier = _C_ops.subtract(at, _C_ops.full_like(at, 1, at.dtype, core.Place()))
            return [_is_a_round(earlier), earlier, *next_seeds, *next_known, *next_totals]

        # The last row is what the loop ends with.
        rounds = _C_ops.slice(_C_ops.shape64(histories[0]), [0], [0], [1], [1], [])
        last = _C_ops.subtract(rounds, _C_ops.full_like(rounds, 2, rounds.dtype, core.Place()))
        seeds = [own(arrived[at], self.first[at]) for at in flows]
        known = [_C_ops.assign(conditions.scalar(whens[at], {})) for at in unsure]
        totals = [nothing(copy(value), value) for value in inner]
        variables = [_is_a_round(last), _C_ops.assign(last), *seeds, *known, *totals]
        for value in variables:
            value.stop_gradient = True
        done = _while_loop(round_, variables).results()[2:]
        seeds, totals = done[: len(flows)], done[len(flows) + len(unsure) :]
        answer = []
        for value in wanted:
            parts = [seed for at, seed in zip(flows, seeds, strict=True) if self.first[at].is_same(value)]
            parts += [total for other, total in zip(inner, totals, strict=True) if other.is_same(value)]
            answer.append(reduce(_C_ops.add, parts) if parts else None)
        return answer


def _is_a_round(at):
    return _C_ops.reshape(_C_ops.greater_equal(at, _C_ops.full_like(at, 0, at.dtype, core.Place())), [])
