"""What `itertools` makes is simulated, goes on natively behind a break, and may leave the function."""

import itertools
import operator
import sys
from itertools import (
    accumulate,
    chain,
    combinations,
    combinations_with_replacement,
    compress,
    count,
    cycle,
    dropwhile,
    filterfalse,
    islice,
    pairwise,
    permutations,
    product,
    repeat,
    starmap,
    takewhile,
    zip_longest,
)

import paddle
import paddle_sot_rs as sot
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


def numbers(n):
    """A generator, which is asked one by one."""
    yield from range(n)


def small(n):
    return n < 3


def odd(n):
    return n % 2


def minus(a, b):
    return a - b


MAKE = {
    "chain": lambda: chain([1, 2], (3,), [], {4: 5}),
    "chain_nothing": lambda: chain(),
    "chain_generators": lambda: chain(numbers(2), numbers(3)),
    "from_iterable": lambda: chain.from_iterable([[1, 2], (3, 4)]),
    "from_generator": lambda: chain.from_iterable(numbers(n) for n in range(4)),
    "combinations": lambda: combinations([1, 2, 3, 4], 2),
    "combinations_named": lambda: combinations(r=3, iterable=numbers(4)),
    "combinations_none": lambda: combinations([1, 2], 3),
    "combinations_empty_row": lambda: combinations([1, 2], 0),
    "with_replacement": lambda: combinations_with_replacement([1, 2, 3], 2),
    "with_replacement_of_nothing": lambda: combinations_with_replacement([], 2),
    "with_replacement_empty_row": lambda: combinations_with_replacement([], 0),
    "permutations": lambda: permutations([1, 2, 3]),
    "permutations_of_two": lambda: permutations([1, 2, 3], 2),
    "permutations_none": lambda: permutations([1, 2], 3),
    "permutations_of_nothing": lambda: permutations([]),
    "product": lambda: product([1, 2], (3, 4, 5)),
    "product_repeat": lambda: product([0, 1], repeat=3),
    "product_nothing": lambda: product(),
    "product_with_nothing": lambda: product([1, 2], []),
    "product_repeat_0": lambda: product([1, 2], repeat=0),
    "islice": lambda: islice([1, 2, 3, 4, 5], 3),
    "islice_start": lambda: islice(numbers(9), 2, 6),
    "islice_step": lambda: islice(numbers(9), 1, None, 3),
    "islice_step_stop": lambda: islice(numbers(20), 1, 8, 3),
    "islice_past": lambda: islice(numbers(3), 5, 8),
    "islice_backwards": lambda: islice(numbers(9), 5, 2),
    "islice_all": lambda: islice([1, 2], None),
    "count": lambda: zip(count(), [7, 8, 9]),
    "count_step": lambda: islice(count(5, -2), 4),
    "repeat": lambda: repeat(4, 3),
    "repeat_named": lambda: repeat(object=4, times=-1),
    "repeat_forever": lambda: zip(repeat(4), [1, 2, 3]),
    "cycle": lambda: islice(cycle([1, 2, 3]), 8),
    "cycle_nothing": lambda: cycle([]),
    "starmap": lambda: starmap(minus, [(1, 2), [5, 3]]),
    "starmap_pow": lambda: starmap(pow, zip([2, 3], [3, 2], strict=True)),
    "takewhile": lambda: takewhile(small, [1, 2, 5, 1]),
    "dropwhile": lambda: dropwhile(small, [1, 2, 5, 1]),
    "filterfalse": lambda: filterfalse(odd, numbers(6)),
    "filterfalse_none": lambda: filterfalse(None, [0, 1, "", 2, []]),
    "compress": lambda: compress([1, 2, 3, 4], [1, 0, True]),
    "accumulate": lambda: accumulate([1, 2, 3]),
    "accumulate_function": lambda: accumulate([1, 2, 3], minus),
    "accumulate_initial": lambda: accumulate([1, 2, 3], initial=10),
    "accumulate_both": lambda: accumulate(numbers(4), func=minus, initial=2),
    "accumulate_nothing": lambda: accumulate([]),
    "accumulate_none": lambda: accumulate([None, None, None, 1], operator.is_),
    "accumulate_to_none": lambda: accumulate([1, 2, 3], lambda a, b: None if b == 2 else (a, b)),
    "pairwise": lambda: pairwise([1, 2, 3, 4]),
    "pairwise_one": lambda: pairwise([1]),
    "zip_longest": lambda: zip_longest([1, 2, 3], numbers(2), [4]),
    "zip_longest_fill": lambda: zip_longest([1], [2, 3], fillvalue=-1),
    "zip_longest_nothing": lambda: zip_longest(),
    "reversed_range": lambda: reversed(range(1, 12, 3)),
    "reversed_range_down": lambda: reversed(range(5, -3, -2)),
    "reversed_range_empty": lambda: reversed(range(3, 3)),
    "reversed_text": lambda: reversed("abc"),
    "reversed_constant": lambda: reversed((1, 2, 3)),
    "reversed_list": lambda: reversed([1, 2, 3]),
    "nested": lambda: chain(islice(accumulate(count(1)), 3), map(sum, pairwise([1, 2, 3]))),
}
if sys.version_info >= (3, 12):
    MAKE["batched"] = lambda: itertools.batched([1, 2, 3, 4, 5], 2)
    MAKE["batched_generator"] = lambda: itertools.batched(numbers(4), n=2)


@pytest.fixture(params=MAKE, name="make")
def _make(request):
    return MAKE[request.param]


def plain(value):
    """Tensors as numbers, inside of containers too."""
    if isinstance(value, paddle.Tensor):
        return value.numpy().tolist()
    if isinstance(value, list | tuple):
        return type(value)(plain(item) for item in value)
    return value


def weigh(x, item):
    for number in item if isinstance(item, tuple) else (item,):
        if isinstance(number, int):
            x = x * 0.5 + number
    return x


def test_all_of_it_is_in_the_graph(make):
    def function(x):
        seen = []
        for item in make():
            x = weigh(x, item)
            seen.append(item)
        return x, seen, list(make())

    ours = sot.to_static(function, min_graph_size=0)
    x = paddle.ones([2])
    for _ in range(2):
        assert plain(ours(x)) == plain(function(x))
    stats = sot.stats(ours)
    assert (stats.graph_breaks, stats.fallbacks, stats.translations) == ([], [], 1)


def test_a_break_in_each_round(make):
    def function(x):
        seen = []
        for item in make():
            x = weigh(x, item)
            seen.append((item, float(x.sum())))
        return x, seen

    ours = sot.to_static(function, min_graph_size=0)
    x = paddle.ones([2])
    for _ in range(2):
        assert plain(ours(x)) == plain(function(x))


@pytest.mark.parametrize("begun", [0, 1, 2, 3])
def test_it_leaves_the_function(make, begun):
    def function(x):
        it = make()
        taken = [next(it, "none") for _ in range(begun)]
        return x * 2, taken, it

    ours = sot.to_static(function, min_graph_size=0)
    x = paddle.ones([2])
    for _ in range(2):
        (_, expected, other), (_, taken, it) = function(x), ours(x)
        assert taken == expected
        assert type(it) is type(other)
        assert [next(it, "end") for _ in range(12)] == [next(other, "end") for _ in range(12)]


def test_shared_iterators_advance_together():
    def function(x):
        source = iter([1, 2, 3, 4, 5, 6, 7, 8])
        first = list(islice(source, 2))
        odd_ones = takewhile(small, source)
        rest = list(odd_ones)
        return x + sum(first), rest, list(source), next(odd_ones, None)

    ours = sot.to_static(function, min_graph_size=0)
    x = paddle.ones([2])
    assert plain(ours(x)) == plain(function(x))
    assert sot.stats(ours).graph_breaks == []


def test_tensors_go_through():
    def function(x, y):
        rows = [a * b for a, b in combinations([x, y, x + y], 2)]
        sums = list(accumulate(rows, lambda a, b: a.sin() + b))
        pairs = [paddle.dot(a, b) for a, b in product([x, y], sums)]
        return paddle.stack(pairs), starmap(paddle.add, pairwise(rows))

    ours = sot.to_static(function, min_graph_size=0)
    x, y = paddle.rand([4]), paddle.rand([4])
    ours(x, y)
    (stacked, added), (other, expected) = ours(x, y), function(x, y)
    assert plain(stacked) == plain(other)
    assert plain(list(added)) == plain(list(expected))
    assert sot.stats(ours).graphs >= 1


def stops(n):
    if n == 2:
        raise StopIteration(n)
    return True


@pytest.mark.parametrize(
    "make",
    [
        lambda: map(stops, [0, 1, 2, 3]),
        lambda: filter(stops, [0, 1, 2, 3]),
        lambda: takewhile(stops, [0, 1, 2, 3]),
        lambda: filterfalse(stops, [0, 1, 2, 3]),
        lambda: dropwhile(stops, [0, 1, 2, 3]),
        lambda: starmap(stops, [(0,), (2,), (1,)]),
        lambda: accumulate([1, 0, 2, 1], lambda a, b: stops(b) and b),
    ],
    ids=["map", "filter", "takewhile", "filterfalse", "dropwhile", "starmap", "accumulate"],
)
def test_a_function_that_raises_stop_iteration_ends_the_loop(make):
    def function(x):
        seen = []
        try:
            for item in make():
                seen.append(item)
            seen.append("ended")
        except StopIteration:
            seen.append("caught")
        it = make()
        try:
            while True:
                seen.append(next(it))
        except StopIteration as stop:
            seen.append(stop.value)
        return x * 2, seen

    ours = sot.to_static(function, min_graph_size=0)
    x = paddle.ones([2])
    for _ in range(2):
        assert plain(ours(x)) == plain(function(x))


@pytest.mark.parametrize(
    "make",
    [
        lambda: chain([1], 2, [3]),
        lambda: islice([1], -1),
        lambda: combinations([1, 2], -1),
        lambda: product([1], repeat=-1),
        lambda: starmap(minus, [1]),
        lambda: repeat(),
        lambda: zip_longest([1], fill=2),
        lambda: accumulate([1, "a"]),
        lambda: map(minus, [1]),
        lambda: reversed(frozenset([1])),
        lambda: reversed({1, 2}),
    ],
)
def test_errors_are_python_s(make):
    def function(x):
        seen = []
        it = None
        try:
            it = make()
            for item in it:
                seen.append(item)
        except (TypeError, ValueError) as error:
            seen.append(str(error))
        return x + 1, seen, None if it is None else next(it, "end")

    ours = sot.to_static(function, min_graph_size=0)
    x = paddle.ones([2])
    for _ in range(2):
        assert plain(ours(x)) == plain(function(x))


class Source:
    """Raises once, and goes on."""

    def __init__(self):
        self.asked = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.asked += 1
        if self.asked == 3:
            raise ValueError("once")
        if self.asked > 6:
            raise StopIteration
        return self.asked


AFTER_AN_EXCEPTION = {
    "islice": lambda source: islice(source, 10),
    "islice with a step": lambda source: islice(source, 1, 10, 2),
    "islice of map": lambda source: islice(map(operator.neg, source), 10),
    "pairwise": pairwise,
    "zip_longest": lambda source: zip_longest(source, [1, 2, 3, 4]),
    "chain": lambda source: chain(source, [1]),
    "cycle": cycle,
    "accumulate": accumulate,
}
if sys.version_info >= (3, 12):
    AFTER_AN_EXCEPTION["batched"] = lambda source: __import__("itertools").batched(source, 2)


@pytest.mark.parametrize("name", AFTER_AN_EXCEPTION)
def test_what_follows_an_exception_of_the_source(name):
    make = AFTER_AN_EXCEPTION[name]

    def function(x):
        source = Source()
        tool = make(source)
        seen = []
        for _ in range(6):
            try:
                seen.append(next(tool, "end"))
            except ValueError as error:
                seen.append(str(error))
        return x + 1, seen, source.asked

    ours = sot.to_static(function, min_graph_size=0)
    x = paddle.ones([2])
    for _ in range(2):
        assert plain(ours(x)) == plain(function(x))


def test_a_sum_that_is_at_its_end_asks_again_behind_a_break():
    def function(x, source):
        sums = accumulate(source)
        seen = [next(sums), next(sums)]
        seen.append(x.sum().item())
        for _ in range(8):
            try:
                seen.append(next(sums, "end"))
            except ValueError as error:
                seen.append(str(error))
        return x + 1, seen, source.asked

    ours = sot.to_static(function, min_graph_size=0)
    x = paddle.ones([2])
    for _ in range(2):
        assert plain(ours(x, Source())) == plain(function(x, Source()))
