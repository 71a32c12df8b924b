"""Nested graphs inside of `cond`, `while_loop` and `static_pylayer`."""

from contextlib import contextmanager
from functools import reduce

import paddle
from paddle import _C_ops
from paddle.base import core, framework
from paddle.base.libpaddle import pir
from paddle.base.libpaddle.pir import get_used_external_value
from paddle.static.nn import control_flow

from paddle_sot_rs._graph.control import show
from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.blocks import branch, in_block, narrowed, take_back
from paddle_sot_rs._paddle.call_rewrites import call_method, constant
from paddle_sot_rs._paddle.effects import first_random, reads_statistics
from paddle_sot_rs._paddle.gradients import backward, grad_reachability
from paddle_sot_rs._paddle.open_sizes import of_open_sizes
from paddle_sot_rs._paddle.value_patches import dims

Value = pir.Value


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
        return any(isinstance(target, (If, While)) for _, target, *_ in self.steps)

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


def _without_state(results):
    """Refuses blocks with operations that change what they are given: running statistics."""
    for inner in backward.inner_operations(results[0].get_defining_op()):
        name = inner.name()
        if name.endswith("_") and name not in _HARMLESS and not reads_statistics(inner):
            raise NotImplementedError(f"{name} inside of control flow")


_HARMLESS = frozenset(("pd_op.assign_value_", "pd_op.assign_out_", "pd_op.increment_"))


def _copy(value):
    copy = _C_ops.assign(value)
    copy.stop_gradient = value.stop_gradient
    return copy


def _kept(values):
    """Copies of those of the values that may be changed in place before the gradient uses them again, by id.

    They come from outside, and are no parameters: those are large, and the gradient refuses those that changed.
    """
    trace = tracing.current
    if not trace.notes_ways or trace.repeats or pir.get_current_insertion_point().block() != trace.block:
        return {}
    kept = {}
    for tensor, value in trace.external.values():
        if not isinstance(tensor, framework.EagerParamBase) and _is_among(value, values):
            kept[value.id] = _C_ops.assign(value)
            kept[value.id].stop_gradient = True
    return kept


def _copies(values, kept):
    """A function from these to copies of them (or of what was kept of them), and from other values to themselves."""
    copies = [(value, _C_ops.assign(kept.get(value.id, value))) for value in values]
    for value, copy in copies:
        copy.stop_gradient = value.stop_gradient
    return lambda value: next((new for old, new in copies if old.is_same(value)), value)


def _own(gradient, value, of=None):
    """What a block may return: an operation of its own, also where a gradient only passes through or is zero.

    `of`: what `value` is a copy of.
    """
    if gradient is not None:
        return _C_ops.assign(gradient)
    return _nothing(value, value if of is None else of)


def _nothing(value, of):
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
        self.kept = _kept([condition, *self.free])

    def gradients(self, wanted, arrived, whens, branches):
        """The gradients of `wanted`; `whens` are the conditions under which the others arrive."""
        # Values that only a block uses do not go from the forward to the backward program.
        copy = _copies([self.condition, *self.free], self.kept)
        condition = copy(self.condition)
        given, of, wanted = [copy(value) for value in self.given], wanted, [copy(value) for value in wanted]

        def side(block):
            def build():
                # The word of a branch follows its results.
                results = len(block.outputs)
                seeds = narrowed(arrived[:results], self.along[:results])
                found, _ = _backwards(block, given, wanted, (seeds, whens), branches, (self.external, copy))
                return [_own(*each) for each in zip(found, wanted, of, strict=True)]

            return build

        return list(narrowed(*branch(condition, side(self.region.then), side(self.region.otherwise))))


def _backwards(block, given, wanted, arrived, branches, copied):
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
        copy = _copies(self.free, {value.id: read(value) for value in self.free})
        given, wanted = [copy(value) for value in self.given], [copy(value) for value in wanted]
        answer = [None] * len(wanted)
        reached = []

        def build():
            seeds = narrowed(arrived, self.along)
            whens = [grad_reachability.ALWAYS] * len(seeds)
            found, _ = _backwards(self.region.body, given, wanted, (seeds, whens), branches, (self.external, copy))
            reached[:] = [at for at, gradient in enumerate(found) if gradient is not None]
            return [_own(found[at], wanted[at]) for at in reached]

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
        parameters = any(not _is_among(source, given) for sources in found for source, _ in sources)
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
        _without_state(result)
        op = result[0].get_defining_op()
        _without_random(op)
        for value, stop in zip(result, stops, strict=True):
            value.stop_gradient = stop
        tracing.current.branches[result[0].id] = Again(self, free, op, along, ways)
        return narrowed(result, along)


class If:
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
        _without_state(result)
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


class While:
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
        _without_state(result)
        last = 1 + self.carried
        for value, ref in zip(result[1:last], self.body.inputs, strict=False):
            value.stop_gradient = ref.stops
        if self.differentiable:
            inner = [
                value for value in get_used_external_value(operation) if not _is_among(value, [*variables, *words])
            ]
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


def _is_among(value, values):
    return any(value.is_same(other) for other in values)


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
            if not _is_among(value, self.free):
                self.free.append(value)
        self.kept = _kept(inner)

    def gradients(self, wanted, arrived, whens, branches):
        """The gradients of `wanted`; `whens` are the conditions under which the others arrive."""
        histories = [_copy(value) for value in self.histories]
        copy = _copies(self.inner, self.kept)
        given = [copy(value) for value in self.given]
        inner = [value for value in wanted if _is_among(value, self.inner)]
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
            found, reached = _backwards(body, given_now, sources, (seeds, under), branches, (self.external, copy))
            if any(reached[number] != grad_reachability.ALWAYS for number, at in enumerate(flows) if at in sure):
                raise NotImplementedError("gradients through a loop whose rounds go other ways when done again")
            before, after = found[: len(flows)], found[len(flows) :]
            next_seeds = [_own(gradient, values[at]) for at, gradient in zip(flows, before, strict=True)]
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
        seeds = [_own(arrived[at], self.first[at]) for at in flows]
        known = [_C_ops.assign(conditions.scalar(whens[at], {})) for at in unsure]
        totals = [_nothing(copy(value), value) for value in inner]
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
