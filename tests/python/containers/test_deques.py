"""`collections.deque`, `defaultdict`, `Counter` and `OrderedDict` that exist: read and changed in the graph."""

import collections
import copy

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, translate


class Held:
    def __init__(self, most=None):
        self.recent = collections.deque([1, 2, 3], maxlen=most)
        self.groups = collections.defaultdict(list, a=[1])
        self.counts = collections.Counter("aab")
        self.order = collections.OrderedDict(a=1, b=2, c=3)


def reads(held, x):
    y = x * held.recent[0] + held.recent[-1] + len(held.recent)
    if 2 in held.recent and held.recent:
        y = y + held.recent.count(2) + held.recent.index(3)
    for item in held.recent:
        y = y + item
    return y + sum(held.recent), held.recent.maxlen


def changes(held, x):
    held.recent.append(4)
    y = x * held.recent.popleft()
    held.recent.appendleft(9)
    held.recent.extend([7, 8])
    held.recent.extendleft(iter((5, 6)))
    held.recent.rotate(2)
    del held.recent[0]
    if 7 in held.recent:
        held.recent.remove(7)
    return y + held.recent.pop(), list(held.recent)


def sets(held, x):
    made = collections.deque(held.recent)
    made[0] = 11
    made.reverse()
    return x * made.pop(), made


def sets_what_exists(held, x):
    held.recent[0] += 11
    held.recent.reverse()
    return x * held.recent.pop()


def clears(held, x):
    held.recent.clear()
    return x * 2, not held.recent


def inserts(held, x):
    held.recent.insert(1, 5)
    return x * held.recent[1]


def window_of_tensors(held, x):
    window = collections.deque(maxlen=2)
    for k in range(4):
        window.append(x * k)
    held.recent = window
    return sum(window) + len(window), window.maxlen, type(window) is collections.deque


def breadth_first(held, x):
    queue = collections.deque([(0, x)])
    total = x * 0
    while queue:
        depth, value = queue.popleft()
        total = total + value
        if depth < 2:
            queue.append((depth + 1, value * 2))
            queue.append((depth + 1, value * 3))
    return total


def returned(held, x):
    made = collections.deque([x, x + 1], 3)
    twin = made.copy()
    twin.append(x + 2)
    return made, twin, made.maxlen, made is twin


def missing_keys(held, x):
    held.groups["a"].append(2)
    held.groups["b"].append(x * 2)
    return x * len(held.groups["c"]), list(held.groups)


def counted(held, x):
    held.counts["a"] += 1
    held.counts["new"] += 2
    return x * held.counts["a"] + held.counts["none"]


def moved(held, x):
    held.order.move_to_end("a")
    held.order.move_to_end("c", last=False)
    return x * held.order["a"], list(held.order)


def popped(held, x):
    made = collections.OrderedDict(a=x, b=x + 1, c=x + 2)
    first = made.popitem(last=False)
    last = made.popitem()
    return first, last, made


def shown(value):
    if isinstance(value, paddle.Tensor):
        return value.numpy().tolist()
    if isinstance(value, collections.deque):
        return "deque", value.maxlen, [shown(item) for item in value]
    if isinstance(value, dict):
        return type(value).__name__, [(key, shown(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [shown(item) for item in value]
    return value


def state(held):
    return {name: shown(value) for name, value in vars(held).items()}


CAPTURED = [
    *(reads, changes, sets, clears, window_of_tensors, breadth_first, returned, missing_keys, counted, moved, popped),
]


@pytest.mark.parametrize("most", [None, 3, 8])
@pytest.mark.parametrize("function", [*CAPTURED, inserts, sets_what_exists], ids=lambda function: function.__name__)
def test_they_are_captured(function, most):
    translated = translate(function)
    one, other = Held(most), Held(most)
    for step in range(4):
        x = paddle.full([2], float(step + 1))
        try:
            expected = shown(function(other, x))
        except (IndexError, ValueError) as error:
            with pytest.raises(type(error), match=str(error)):
                translated(one, x)
            break
        assert shown(translated(one, x)) == expected
        assert state(one) == state(other)
    if function in CAPTURED:
        assert sot.stats(translated).graph_breaks == []


def changed_while_gone_over(held, x):
    for item in held.recent:
        x = x + item
        held.recent.append(1)
    return x


def broken_in_the_round(held, x):
    total = 0.0
    for item in held.recent:
        total += float((x * item).sum())
        sot.graph_break()
    return total


def broken_while_alive(held, x):
    window = collections.deque([x, x * 2, x * 3], maxlen=3)
    over = iter(window)
    y = next(over)
    sot.graph_break()
    window[0] = x
    return y + next(over), list(over), window


def changed_behind_a_break(held, x):
    window = collections.deque([1, 2])
    for item in window:
        sot.graph_break()
        window.append(item)
    return x


def from_an_empty_one(held, x):
    held.recent.clear()
    return held.recent.popleft()


def into_itself(held, x):
    held.recent.extend(held.recent)
    held.recent.extend(item + 1 for item in held.recent)
    return x


def sliced(held, x):
    return held.recent[0:1]


def with_an_own_class(held, x):
    class Window(collections.deque):
        def append(self, item):
            super().append(item * 2)

    window = Window([1])
    window.append(3)
    return x * window[1], list(window)


def asked_of_a_dict(held, x):
    try:
        return collections.defaultdict(list, a=[1]).popitem(True), x
    except TypeError:
        return "refused", x * 2


def no_factory(held, x):
    held.groups.default_factory = None
    return x * held.groups["none"]


@pytest.mark.parametrize(
    "function",
    [
        *(changed_while_gone_over, broken_in_the_round, broken_while_alive, changed_behind_a_break),
        *(from_an_empty_one, into_itself, sliced, with_an_own_class, asked_of_a_dict, no_factory),
    ],
    ids=lambda function: function.__name__,
)
def test_others_are_as_in_plain_python(function):
    translated = translate(function)
    one, other = Held(), Held()
    for _ in range(3):
        x = paddle.ones([2])
        outcomes = []
        for run, held in ((translated, one), (function, other)):
            try:
                outcomes.append(shown(run(held, x)))
            except Exception as error:
                outcomes.append((type(error), str(error)))
        assert outcomes[0] == outcomes[1]
        assert state(one) == state(other)


def test_other_deques_are_guarded():
    def function(recent, x):
        recent.append(1)
        return x * len(recent) + recent[0]

    translated = translate(function)
    for made in ([1, 2], [1, 2, 3], [5, 6]):
        for most in (None, 2, 3):
            one = collections.deque(made, most)
            other = copy.copy(one)
            x = paddle.ones([2])
            np.testing.assert_array_equal(translated(one, x).numpy(), function(other, x).numpy())
            assert one == other
    assert sot.stats(translated).graph_breaks == []


def test_what_it_holds_may_change_outside():
    held = Held()
    held.recent = collections.deque([paddle.ones([2]), paddle.zeros([2])], maxlen=2)
    translated = translate(reads_tensors := lambda held, x: sum(held.recent) * x)
    for step in range(4):
        held.recent.append(paddle.full([2], float(step)))
        x = paddle.ones([2])
        np.testing.assert_array_equal(translated(held, x).numpy(), reads_tensors(held, x).numpy())
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


def counts(held, x):
    held.counts.update("abc")
    held.counts.subtract("a")
    made = collections.Counter("aab") + collections.Counter(b=2)
    return x * held.counts["a"] + made.total(), made, held.counts


def own_factory(held, x):
    made = collections.defaultdict(int)
    for letter in "aab":
        made[letter] += 1
    return x * made["a"], made.default_factory


def joined(held, x):
    made = collections.deque([1, 2], maxlen=3)
    same = made.copy()
    made += [3, 4]
    both = made + same
    return x * len(both), both, made == same, made != same, same == collections.deque([1, 2]), both.maxlen


def joined_with_what_exists(held, x):
    before = held.recent
    held.recent += held.recent.copy()
    return x * len(held.recent), before is held.recent, held.recent == collections.deque([1, 2, 3, 1, 2, 3])


@pytest.mark.parametrize("function", [counts, own_factory, joined, joined_with_what_exists])
def test_counted_and_joined(function):
    check(function, Held(), paddle.ones([2]), graphs=1, breaks=0)


def test_others_are_left_to_python():
    def function(x):
        made = collections.deque([1])
        try:
            made + [2]
        except TypeError:
            x = x + 1
        return x, made == [1], made != 1, made == made

    check(function, paddle.ones([2]))


def test_methods_with_too_many_arguments():
    def function(held, x):
        for call in (lambda: held.recent.__delitem__(0, 1), lambda: held.recent.__getitem__(0, 1)):
            try:
                call()
            except TypeError:
                x = x + 1
        return x, held.recent

    check(function, Held(), paddle.ones([2]))


def turns(held, x):
    held.recent.reverse()
    held.recent[1] = held.recent[0] * 10
    return x * held.recent[1]


def turns_back(held, x):
    held.recent.reverse()
    held.recent.reverse()
    return x * held.recent[0]


def turns_what_moved(held, x):
    held.recent.append(held.recent.popleft())
    held.recent.reverse()
    return x * held.recent[0]


def moves_and_back(held, x):
    held.recent.rotate(1)
    held.recent.rotate(-1)
    return x * held.recent[0]


def adds_nothing(held, x):
    held.recent.extend([])
    held.recent += ()
    return x * held.recent[0]


ITERATED = [turns, turns_back, turns_what_moved, moves_and_back, adds_nothing]


@pytest.mark.parametrize("function", ITERATED, ids=lambda function: function.__name__)
def test_iterators_of_others_notice_what_they_notice_in_plain_python(function):
    seen = []
    translated = translate(function)
    for call in (function, translated, translated):
        held = Held(None)
        held.recent.extend([1, 2, 3])
        others = iter(held.recent)
        next(others)
        call(held, paddle.ones([2]))
        try:
            seen.append(list(others))
        except RuntimeError as error:
            seen.append(str(error))
    assert seen[1:] == [seen[0]] * 2
    assert sot.stats(translated).graph_breaks == []
