"""Which tensors a gradient reaches, where captured control flow decides.

Eager mode knows the way that was taken: what only the other side of a branch uses, or a loop without rounds, gets no
gradient. A program has a gradient for each of its inputs. So it also says which of them the run has reached, and the
edges of autograd to the others are cut before anybody goes backward.

Conditions are decision diagrams over bools of the program: equal ones are the same number, 1 always holds, 0 never.
"""

from functools import reduce

import paddle
from paddle import _C_ops
from paddle.base import core
from paddle.base.libpaddle import pir

from paddle_sot_rs._core import paddle_backend
from paddle_sot_rs._paddle.gradients.backward import REGIONS
from paddle_sot_rs._paddle.gradients.grad_masks import Gates
from paddle_sot_rs._paddle.gradients.stop_gradients import reached

NEVER, ALWAYS = 0, 1
# Of results that each depend on a test of its own, they are twice as many with each result.
_MOST_CONDITIONS = 1 << 14
# Bits of the word that says which conditions of a block held.
_BITS = 62


class Conditions:
    """All conditions of one trace."""

    def __init__(self):
        self.nodes = [None, None]
        self.numbers = {}
        self.chosen = {}
        self.keys = {}
        # What makes the bool of each test, in the order of the tests.
        self.makers = []

    def holds(self, value):
        """The condition that a bool of the program is true."""
        return self._test(value.id, lambda: value)

    def has_bit(self, word, bit):
        """The condition that a bit of a word is set."""
        return self._test((word.id, bit), lambda: _bit(word, bit))

    def _test(self, key, make):
        at = self.keys.setdefault(key, len(self.makers))
        if at == len(self.makers):
            self.makers.append(make)
        else:
            # An address that a Value of a call that was undone had.
            self.makers[at] = make
        return self._node(at, ALWAYS, NEVER)

    def _node(self, test, yes, no):
        if yes == no:
            return yes
        key = (test, yes, no)
        number = self.numbers.setdefault(key, len(self.nodes))
        if number == len(self.nodes):
            if number > _MOST_CONDITIONS:
                raise NotImplementedError("gradients under that many conditions")
            self.nodes.append(key)
        return number

    def choose(self, which, yes, no):
        """`yes` where `which` holds, else `no`."""
        if which <= ALWAYS:
            return yes if which else no
        if yes == no or (yes, no) == (ALWAYS, NEVER):
            return yes if yes == no else which
        key = (which, yes, no)
        if key not in self.chosen:
            test = min(self.nodes[node][0] for node in key if node > ALWAYS)
            sides = [
                self.choose(
                    *(self.nodes[node][side] if node > ALWAYS and self.nodes[node][0] == test else node for node in key)
                )
                for side in (1, 2)
            ]
            self.chosen[key] = self._node(test, *sides)
        return self.chosen[key]

    def both(self, one, other):
        return self.choose(one, other, NEVER)

    def either(self, one, other):
        return self.choose(one, ALWAYS, other)

    def write(self, condition, known):
        """Appends what computes a condition; `known` are those that are there already."""
        if condition in known:
            return known[condition]
        if condition <= ALWAYS:
            value = _C_ops.full([], bool(condition), paddle.bool, core.Place())
        else:
            test, yes, no = self.nodes[condition]
            holds = (
                self.write(self._node(test, ALWAYS, NEVER), known)
                if (yes, no) != (ALWAYS, NEVER)
                else self.makers[test]()
            )
            value = self._write_choice(holds, yes, no, known)
        known[condition] = value
        return value

    def scalar(self, condition, known):
        """The same, without dims."""
        value = self.write(condition, known)
        return value if not value.shape else _C_ops.reshape(value, [])

    def arrived(self, signal, number):
        """The condition that a gradient arrived at this output: `signal` has a bool for each."""
        return self._test((signal.id, number), lambda: _C_ops.slice(signal, [0], [number], [number + 1], [1], [0]))

    def _write_choice(self, holds, yes, no, known):
        if (yes, no) == (ALWAYS, NEVER):
            return holds
        if yes == ALWAYS:
            return _C_ops.logical_or(holds, self.write(no, known))
        if no == NEVER:
            return _C_ops.logical_and(holds, self.write(yes, known))
        fails = _C_ops.logical_not(holds)
        if (yes, no) == (NEVER, ALWAYS):
            return fails
        if no == ALWAYS:
            return _C_ops.logical_or(fails, self.write(yes, known))
        otherwise = _C_ops.logical_and(fails, self.write(no, known))
        if yes == NEVER:
            return otherwise
        return _C_ops.logical_or(_C_ops.logical_and(holds, self.write(yes, known)), otherwise)


def word(number):
    """A constant word."""
    return _C_ops.full([], number, paddle.int64, core.Place())


def _bit(value, bit):
    return _C_ops.not_equal(_C_ops.bitwise_and(value, word(1 << bit)), word(0))


def _where(value, holds):
    """A word where a bool holds, else none of its bits."""
    return _C_ops.multiply(_C_ops.cast(holds, paddle.int64), value)


def _any_of(words):
    """A new word with the bits of all."""
    found = words[0] if words else word(0)
    for other in words[1:]:
        found = _C_ops.bitwise_or(found, other)
    return found if len(words) > 1 else _C_ops.assign(found)


class Ways:
    """What the values of a block depend on, differentiably: values from outside of it, each under a condition."""

    def __init__(self, trace, operations):
        self.conditions = trace.conditions
        self.branches = trace.branches
        self.outside = []
        self.numbers = {}
        # For each value of the block: sets of values from outside (one bit each), by condition.
        self.known = {}
        # Values from outside, of each of which lists one has to need a gradient.
        self.required = []
        for op in operations:
            self._follow(op)

    def sources(self, value):
        """Pairs of a value from outside and the condition under which a gradient reaches it."""
        found = {}
        for condition, mask in self._of(value).items():
            for at, source in enumerate(self.outside):
                if mask >> at & 1:
                    before = found.get(source.id, (source, NEVER))[1]
                    found[source.id] = (source, self.conditions.either(before, condition))
        return list(found.values())

    def _of(self, value):
        if not value.initialized():
            return {}
        known = self.known.get(value.id)
        if known is None:
            known = {}
            if not value.stop_gradient:
                number = self.numbers.setdefault(value.id, len(self.outside))
                if number == len(self.outside):
                    self.outside.append(value)
                known = {ALWAYS: 1 << number}
            self.known[value.id] = known
        return known

    def _add(self, found, more, under=ALWAYS):
        for condition, mask in more.items():
            condition = self.conditions.both(under, condition)
            if condition != NEVER:
                found[condition] = found.get(condition, 0) | mask
        always = found.get(ALWAYS, 0)
        for condition in [one for one in found if one != ALWAYS]:
            found[condition] &= ~always
            if not found[condition]:
                del found[condition]

    def _follow(self, op):
        results = op.results()
        name = op.name()
        if name in REGIONS:
            branch = self.branches.get(results[0].id)
            ways = [[]] * len(results) if branch is None else branch.ways
            for values in () if branch is None else branch.required:
                self._require(values)
            for result, sources in zip(results, ways, strict=False):
                found = {}
                if not result.stop_gradient:
                    for source, condition in sources:
                        self._add(found, self._of(source), condition)
                self.known[result.id] = found
            return
        if not op.num_operands():
            # Inputs and parameters come from outside.
            return
        found = {}
        for value in reached(op):
            self._add(found, self._of(value))
        for result in results:
            if result.initialized():
                flows = result.is_combine() or not result.stop_gradient
                self.known[result.id] = found if flows else {}

    def _require(self, values):
        """Refuses values none of which needs a gradient on some ways."""
        found = {}
        for value in values:
            self._add(found, self._of(value))
        if reduce(self.conditions.either, found, NEVER) != ALWAYS:
            raise NotImplementedError("recompute of what needs gradients on some ways only")
        # Those that do so on different ways all have to need one.
        for mask in [found[ALWAYS]] if ALWAYS in found else found.values():
            self.required.append([value for at, value in enumerate(self.outside) if mask >> at & 1])


def _current_block():
    return pir.get_current_insertion_point().block()


class Side:
    """The ways through one side of a branch; called where the side is built."""

    def __init__(self, trace, outputs):
        ways = Ways(trace, _current_block().ops)
        self.conditions = trace.conditions
        self.ways = [ways.sources(value) for value in outputs]
        self.required = ways.required
        self.bits = {}

    def word(self):
        """Which conditions of the side held."""
        for sources in self.ways:
            for _, condition in sources:
                if condition != ALWAYS:
                    self.bits.setdefault(condition, len(self.bits))
        if len(self.bits) > _BITS:
            raise NotImplementedError("gradients through a branch with that many conditions")
        known = {}
        return _any_of([_where(word(1 << bit), self.conditions.write(one, known)) for one, bit in self.bits.items()])

    def outside(self, at, answer):
        """The ways of an output as the block around sees them: `answer` is the word of the branch."""
        found = {}
        for source, condition in self.ways[at]:
            if condition != ALWAYS:
                condition = self.conditions.has_bit(answer, self.bits[condition])
            found[source.id] = (source, condition)
        return found


def of_branch(trace, condition, sides, answer):
    """The ways through a branch, for each of its results."""
    conditions, which = trace.conditions, trace.conditions.holds(condition)
    result = []
    for at in range(len(sides[0].ways)):
        then, otherwise = (side.outside(at, answer) for side in sides)
        result.append(
            [
                (
                    source,
                    conditions.choose(
                        which,
                        then.get(name, (source, NEVER))[1],
                        otherwise.get(name, (source, NEVER))[1],
                    ),
                )
                for name, (source, _) in {**then, **otherwise}.items()
            ]
        )
    return result


class Round:
    """The ways through one round of a loop; called where the body is built.

    `flows` are the places of the variables that gradients flow through, among `now` (before the round) and
    `after` it.
    """

    def __init__(self, trace, flows, now, after):
        ways = Ways(trace, _current_block().ops)
        self.conditions = trace.conditions
        self.flows = flows
        places = {now[at].id: at for at in range(len(now))}
        # For each variable: conditions by the variable it depends on, and by the value from outside
        # of the loop.
        self.inner, self.outer, self.values = [], [], {}
        for at in flows:
            inner, outer = {}, {}
            for source, condition in ways.sources(after[at]):
                place = places.get(source.id)
                if place is None:
                    outer[source.id] = condition
                    self.values[source.id] = source
                elif place in flows:
                    inner[place] = condition
            self.inner.append(inner)
            self.outer.append(outer)
        self.bits = {}
        self.required = [[places.get(value.id, value) for value in values] for values in ways.required]

    def is_steady(self):
        """Whether later rounds reach nothing that the first one does not."""
        if any(condition != ALWAYS for part in (*self.inner, *self.outer) for condition in part.values()):
            return False
        by_place = dict(zip(self.flows, zip(self.inner, self.outer, strict=True), strict=True))
        for inner, outer in by_place.values():
            twice = set().union(*(by_place[place][0] for place in inner))
            if twice != set(inner) or any(not by_place[place][1].keys() <= outer.keys() for place in inner):
                return False
        return True

    def behind(self, places):
        """The variables that these may be computed from in any number of rounds, themselves included."""
        inner = dict(zip(self.flows, self.inner, strict=True))
        found = list(places)
        for at in found:
            found += [place for place in inner[at] if place not in found]
        return found

    def requires(self, first):
        """The values outside of which one has to need a gradient, given the first values of the variables."""
        for values in self.required:
            for at in values:
                # A variable that needs one in each round needs one in the next.
                if type(at) is int and (at not in self.flows or self.inner[self.flows.index(at)].get(at) != ALWAYS):
                    raise NotImplementedError("recompute of what needs gradients in some rounds only")
            yield [first[at] if type(at) is int else at for at in values]

    def backwards(self, whens):
        """The variables that gradients go to, from those after the last round at which they arrive under these
        conditions; and those of them at which some arrive in each round."""
        inner = dict(zip(self.flows, self.inner, strict=True))
        found = self.behind(at for at in self.flows if whens[at] != NEVER)
        sure, before = {at for at in found if whens[at] == ALWAYS}, None
        while sure != before:
            before = sure
            sure = {at for at in before if any(inner[other].get(at) == ALWAYS for other in before)}
        return sorted(found), sure

    def words(self, words):
        """What each variable has been computed from after the round, one bit each; `words` are those before it."""
        before = dict(zip(self.flows, words, strict=True))
        classes = {}
        for name in self.values:
            column = tuple(outer.get(name, NEVER) for outer in self.outer)
            self.bits[name] = classes.setdefault(column, len(self.flows) + len(classes))
        if len(self.flows) + len(classes) > _BITS:
            raise NotImplementedError("gradients through a loop with that many variables")
        known = {}

        def under(value, condition):
            return value if condition == ALWAYS else _where(value, self.conditions.write(condition, known))

        result = []
        for number, inner in enumerate(self.inner):
            parts = [under(before[place], condition) for place, condition in inner.items()]
            for column, bit in classes.items():
                if column[number] != NEVER:
                    parts.append(under(word(1 << bit), column[number]))
            result.append(_any_of(parts))
        return result


def of_loop(trace, condition, first, made, answers):
    """The ways through a loop, for each result of its operation: the first is its condition.

    `answers` are the last words, none where the loop is steady.
    """
    conditions = trace.conditions
    result = [[]]
    runs = conditions.holds(condition)
    for at, value in enumerate(first):
        if at not in made.flows:
            result.append([])
            continue
        number = made.flows.index(at)
        if answers:
            behind = made.behind([at])
            outer = {name for place in behind for name in made.outer[made.flows.index(place)]}
            bits = [(first[place], bit) for bit, place in enumerate(made.flows) if place in behind]
            bits += [(source, made.bits[name]) for name, source in made.values.items() if name in outer]
            sources = [(source, conditions.has_bit(answers[number], bit)) for source, bit in bits]
        else:
            sources = [(first[place], runs) for place in made.inner[number] if place != at]
            stays = at in made.inner[number]
            sources.append((value, ALWAYS if stays else conditions.choose(runs, NEVER, ALWAYS)))
            sources += [(made.values[name], runs) for name in made.outer[number]]
        result.append(sources)
    return result


# Cuts edges of autograd: whether that is possible.
can_cut = paddle_backend.can_cut


class Plan:
    """What a run says about its inputs.

    `flags` is an output of the program, one bool for each condition, None where there is none to tell. `rows` are
    inputs and, for each output that gradients flow through, the flag that says whether the input is reached from it: -1
    always, -2 never. `loose` are those outputs from which nothing may be reached, `entering` are inputs that not all
    outputs reach, with a bit for each output that does.
    """

    __slots__ = ("entering", "flags", "loose", "rows")

    def __init__(self, flags, entering, rows, loose):
        self.entering = entering
        self.flags = flags
        self.loose = loose
        self.rows = rows

    def gates(self, without):
        """The gates that the program needs; the inputs `without` get no gradient anyhow."""
        entering = [(at, mask) for at, mask in self.entering if at not in without]
        return Gates(*map(list, zip(*entering, strict=True))) if entering else None


def plan(trace, operations, inputs, outputs, role):
    """The plan for a program, None where nothing decides what is reached; and inputs that never are."""
    uncertain = frozenset(role.uncertain)
    if not trace.branches and not uncertain:
        return None, []
    ways = Ways(trace, operations)
    leaving = [
        dict((source.id, one) for source, one in ways.sources(value)) for value in outputs if not value.stop_gradient
    ]
    columns = {
        at: [found.get(value.id, NEVER) for found in leaving]
        for at, value in enumerate(inputs)
        if not value.stop_gradient
    }
    for values in ways.required:
        sources = {value.id for value in values}
        if all(at in uncertain for at, value in enumerate(inputs) if value.id in sources):
            raise NotImplementedError("recompute of what needs gradients in some runs only")
    decided = {one: None for column in columns.values() for one in column if one > ALWAYS}
    never = [at for at, column in columns.items() if not any(column)]
    entering = [
        (at, sum((one != NEVER) << number for number, one in enumerate(column)))
        for at, column in columns.items()
        if len(set(column)) > 1 and not role.together
    ]
    if not decided and not uncertain and not entering:
        return None, never
    flags = None
    if decided:
        known = {}
        written = [_C_ops.reshape(trace.conditions.write(one, known), [1]) for one in decided]
        flags = _C_ops.concat(written, 0) if len(written) > 1 else _C_ops.assign(written[0])
        flags.stop_gradient = True
    codes = {ALWAYS: -1, NEVER: -2, **{one: at for at, one in enumerate(decided)}}
    told = NEVER if uncertain else ALWAYS
    rows = [(at, [codes[one] for one in column]) for at, column in columns.items() if any(one > told for one in column)]
    sure = [column for at, column in columns.items() if at not in uncertain]
    loose = [number for number in range(len(leaving)) if all(column[number] != ALWAYS for column in sure)]
    return Plan(flags, entering, rows, loose), never
