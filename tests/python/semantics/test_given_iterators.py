"""`next()` of iterators that exist before the call: what they give is guarded, that it is taken is a side effect."""

import collections
import functools
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import paddle
import pytest
from harness import translate
from support import same, snapshot


def tensors(*numbers):
    return [paddle.to_tensor([number, 1.0]) for number in numbers]


def twice(x, it):
    y = x * next(it)
    return y + next(it)


def with_default(x, it):
    return x * next(it, 1.0), next(it, None)


def by_method(x, it):
    return x + it.__next__()


def fails_behind(x, it):
    a = next(it)
    if isinstance(a, float) and a == 3.0:
        raise ValueError(a)
    return x * a


def calls(function: Callable[..., Any], made: Callable[[], Any], times: int) -> list[Any]:
    """What each call with one iterator answers or raises, and what is left at the end."""
    given = made()
    seen: list[Any] = []
    for _ in range(times):
        try:
            seen.append(snapshot(function(paddle.to_tensor([1.0, 2.0]), given)))
        except (StopIteration, ValueError) as error:
            seen.append((type(error), error.args))
    seen.append(snapshot(list(itertools.islice(given, 3))))
    return seen


def unused(x, it):
    ended = []
    try:
        next(it)
    except StopIteration:
        ended.append("end")
    return x * 2, ended


MADE: dict[str, Callable[[], Iterator[Any]]] = {
    "list": lambda: iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
    "tuple": lambda: iter((1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)),
    "reversed": lambda: reversed([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
    "tensors": lambda: iter(tensors(1.0, 2.0, 4.0, 5.0, 6.0, 7.0)),
    "kinds": lambda: iter([1, 2.5, True, paddle.ones([2]), 2**40, 0.0, -0.0, 3]),
    "range": lambda: iter(range(2, 30, 3)),
    "backwards": lambda: iter(range(9, -9, -2)),
    "count": lambda: itertools.count(4),
    "negative count": lambda: itertools.count(-3),
    "count by floats": lambda: itertools.count(1.5, 0.5),
    "largest count": lambda: itertools.count(2**63 - 4),
    "cycle of a list": lambda: itertools.cycle([1.0, 2.0, 3.0]),
    "cycle of a tuple": lambda: itertools.cycle((1.0, 2.0, 3.0, 4.0, 5.0)),
    "cycle of one": lambda: itertools.cycle([2.0]),
    "cycle of a range": lambda: itertools.cycle(range(3)),
    "cycle of tensors": lambda: itertools.cycle(tensors(1.0, 2.0, 4.0)),
    "map": lambda: map(float, range(9)),
    "zip": lambda: (a + b for a, b in zip(range(9), range(9), strict=True)),
    "empty": lambda: iter([]),
}


@pytest.mark.parametrize("function", [twice, with_default, by_method, fails_behind, unused])
@pytest.mark.parametrize("kind", MADE)
def test_they_give_what_they_give_in_plain_python(kind, function):
    if kind == "largest count" and function is not by_method:
        return
    expected, actual = calls(function, MADE[kind], 6), calls(translate(function), MADE[kind], 6)
    assert same(expected, actual), (expected, actual)


# Workers of pytest-xdist have a thread of their own beside the one that runs tests.
ALONE = """
import itertools
import paddle
import paddle_sot_rs as sot

def tensors(*numbers):
    return [paddle.to_tensor([number, 1.0]) for number in numbers]

def twice(x, it):
    y = x * next(it)
    return y + next(it)

numbers = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
for given in (iter(numbers), iter(tuple(numbers)), reversed(numbers), iter(tensors(*numbers)), itertools.count(4),
              itertools.cycle([1.0, 2.0, 3.0]), itertools.cycle(tensors(1.0, 2.0, 4.0))):
    function = sot.to_static(lambda x, it: twice(x, it), min_graph_size=0)
    for _ in range(3):
        function(paddle.ones([2]), given)
    record = sot.stats(function)
    assert not record.graph_breaks and record.graphs == record.translations <= 3, (given, record)

function = sot.to_static(twice, min_graph_size=0)
given = itertools.cycle(tensors(1.0, 2.0, 3.0))
for _ in range(9):
    function(paddle.ones([2]), given)
assert sot.stats(function).translations == 1
given = itertools.count()
for at in range(9):
    assert function(paddle.ones([2]), given).tolist() == [4.0 * at + 1] * 2
assert sot.stats(function).translations <= 3

# Whoever has what a cycle goes over takes what it would give.
def two(x, a, b):
    return x * next(a), next(b), next(a)

def of_a_cycle(make):
    given = iter(numbers * 2)
    return make(given)

for make in (lambda given: (itertools.cycle(given), given), lambda given: (given, itertools.cycle(given)),
             lambda given: (itertools.cycle(given), itertools.cycle(given))):
    seen = []
    for function in (two, sot.to_static(lambda x, a, b: two(x, a, b), min_graph_size=0)):
        a, b = of_a_cycle(make)
        found = [function(paddle.ones([]), a, b) for _ in range(4)]
        seen.append([[float(item) for item in items] for items in found])
    assert seen[0] == seen[1], seen
"""


def test_next_is_part_of_the_graph():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_threads_take_each_item_once():
    numbers, taken = itertools.count(), []
    function = translate(lambda x: x * next(numbers))

    def work():
        for _ in range(100):
            taken.append(int(function(paddle.ones([]))))

    function(paddle.ones([]))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, 401))


class Loader:
    """Starts anew at its end."""

    identities = itertools.count()

    def __init__(self, items):
        self.items, self.position = items, iter(items)
        self.name = next(Loader.identities)

    def next(self):
        try:
            return next(self.position)
        except StopIteration:
            self.position = iter(self.items)
            return next(self.position)


def from_loader(x, loader):
    return x * loader.next() + loader.next(), Loader([x]).name - loader.name


def test_iterators_in_attributes_and_classes():
    seen = []
    for function in (from_loader, translate(from_loader)):
        loader = Loader(tensors(1.0, 2.0, 3.0))
        found = [snapshot(function(paddle.ones([2]), loader)) for _ in range(5)]
        loader.items = tensors(7.0, 8.0)
        seen.append(found + [snapshot(function(paddle.ones([2]), loader)) for _ in range(5)])
    assert same(*seen), seen


def changes_behind(x, items, it, at):
    a = next(it)
    items[at] = 100.0
    items.append(a)
    return x * a + next(it)


def changes_in_front(x, items, it, at):
    items[at] = items[at] + 0.5
    items.pop()
    return x * next(it)


@pytest.mark.parametrize("function", [changes_behind, changes_in_front])
def test_lists_that_the_frame_changes(function):
    seen = []
    for each in (function, translate(function)):
        others, items = [1.0, 2.0, 3.0, 4.0, 5.0], [float(at) for at in range(20)]
        it = iter(items)
        found = []
        for given, at in [(others, 0), (others, 1), (items, 1), (items, 5), (others, 0), (items, 6)]:
            found.append(snapshot(each(paddle.ones([2]), given, it, at)))
            found.append((list(others), list(items), it.__length_hint__()))
        seen.append(found)
    assert same(*seen), seen


def two(x, a, b):
    return x * next(a) - next(b) + next(a)


def test_one_iterator_by_two_names():
    seen = []
    for function in (two, translate(two)):
        a, b = iter([float(at) for at in range(30)]), itertools.count(100)
        order = [(a, b), (b, a), (a, a), (a, b), (b, b), (a, b)]
        seen.append([snapshot(function(paddle.ones([2]), *given)) for given in order] + [next(a), next(b)])
    assert same(*seen), seen


def changes_items(x, it):
    a, b = next(it), next(it)
    a.append(len(b))
    b.append(x)
    return a is b, a, b


def test_items_that_the_frame_changes():
    seen = []
    for function in (changes_items, translate(changes_items)):
        shared: list[Any] = [1]
        items = [[1], [2], shared, shared, [3], [4], shared, [5]]
        it = iter(items)
        found = [snapshot(function(paddle.ones([2]), it)) for _ in range(4)]
        seen.append([found, snapshot(items)])
    assert same(*seen), seen


def hands_on(x, it, holder):
    y = x * next(it)
    holder.append(it)
    return y, it, enumerate(it), type(it).__name__, bool(it)


def test_they_leave_as_themselves():
    function = translate(hands_on)
    holder: list[Any] = []
    it = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    for at in range(3):
        _, same_one, counted, name, truth = function(paddle.ones([2]), it, holder)
        assert same_one is it and holder[-1] is it and name == "list_iterator" and truth
        assert next(counted) == (0, 2.0 * at + 2.0)


def in_control_flow(x, it):
    if x.sum() > 0:
        x = x + next(it)
    else:
        x = x - next(it) * 2
    while x.sum() < 10:
        x = x + next(it)
    return x


@pytest.mark.parametrize("capture", [False, True])
def test_in_control_flow_on_tensors(capture):
    seen = []
    for function in (in_control_flow, translate(in_control_flow, capture_control_flow=capture)):
        it = itertools.count(1)
        found = [snapshot(function(paddle.to_tensor([number]), it)) for number in (1.0, -1.0, 2.0, -3.0)]
        seen.append([found, next(it)])
    assert same(*seen), seen


COUNT = itertools.count(3)
FOUND = collections.defaultdict(itertools.count().__next__)


def of_the_module(x, key):
    return x * functools.partial(next, COUNT)() + FOUND[key]


def test_counters_of_a_module():
    global COUNT
    seen = []
    for function in (of_the_module, translate(of_the_module)):
        COUNT = itertools.count(3)
        FOUND.clear()
        FOUND.default_factory = itertools.count().__next__
        seen.append([snapshot(function(paddle.ones([2]), key)) for key in "abacb"] + [repr(COUNT), dict(FOUND)])
    assert same(*seen), seen
