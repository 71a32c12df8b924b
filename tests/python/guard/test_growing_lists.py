"""Lists and caches that grow from call to call, and from round to round of a loop that breaks the graph."""

import sys

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import _Picture, apart, check, difference, tensor

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

LOG = []


class Recorder:
    def __init__(self):
        self.seen = []


def ones():
    return paddle.to_tensor([1.0, 2.0])


def decode(x, rounds):
    outputs = []
    for _ in range(rounds):
        x = x * 1.5 + 1
        outputs.append(x)
        if x.sum() > 1e9:
            break
    return outputs


def cached(x, rounds):
    cache = {"k": None}
    for _ in range(rounds):
        x = x * 1.5 + 1
        cache["k"] = x if cache["k"] is None else paddle.concat([cache["k"], x])
        if x.sum() > 1e9:
            break
    return cache["k"]


@pytest.mark.parametrize(("function", "most"), [(decode, 4), (cached, 6)], ids=["decode", "cached"])
def test_a_loop_that_breaks_each_round_is_not_translated_for_each(function, most):
    static = sot.to_static(function, min_graph_size=0)
    for rounds in (12, 12):
        want, got = function(ones(), rounds), static(ones(), rounds)
        assert len(want) == len(got)
        for a, b in zip(want, got, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert sot.stats(static).translations <= most
    assert sot.stats(static).fallbacks == []


def by_number(x, rounds):
    parts = [x * k for k in range(rounds)]
    for at in range(rounds):
        x = x + parts[at]
        if x.sum() > 1e9:
            break
    return x


def rows(x, rounds):
    table = paddle.ones([rounds, 2])
    for at in range(rounds):
        x = x + table[at]
        if x.sum() > 1e9:
            break
    return x


def the_newest(x, rounds):
    tokens = [1]
    for _ in range(rounds):
        x = paddle.tanh(x + tokens[-1])
        tokens.append(int(x.argmax()))
    return x, tokens


def by_name(x, rounds):
    made = {}
    for at in range(rounds):
        made[f"part {at}"] = x * at
        if made[f"part {at}"].sum() > 1e9:
            break
    return made


def comprehended(x, rounds):
    return [x * at for at in range(rounds) if (x + at).sum() > 0]


def named(x, rounds):
    return {at % 40: x * at for at in range(rounds) if (x + at).sum() > 0}


def last_first(x, rounds):
    left = [x * k for k in range(rounds)]
    while left:
        x = x + left.pop()
        if x.sum() > 1e9:
            break
    return x


def changing_places(x, rounds):
    parts = [x * k for k in range(rounds)]
    for at in range(rounds // 2):
        parts[at], parts[-1 - at] = parts[-1 - at], parts[at]
        if parts[at].sum() > 1e9:
            break
    return parts


def remainders(x, rounds):
    seen = set()
    for _ in range(rounds):
        key = int(x.sum()) % 31
        x = x + (1 if key in seen else 2)
        seen.add(key)
    return x, seen


def in_a_callee(x, rounds):
    def part_of(parts, at):
        part = parts[at]
        return part - 1 if part.sum() > 4 else part

    parts = [x * k for k in range(rounds)]
    for at in range(rounds):
        x = x + part_of(parts, at)
    return x


LOOKING = [
    (by_number, 10),
    (rows, 10),
    (the_newest, 13),
    (by_name, 16),
    # Before 3.12 a comprehension is a function of its own.
    (comprehended, 7 if sys.version_info >= (3, 12) else 8),
    (named, 9),
    (last_first, 20),
    (changing_places, 30),
    (remainders, 14),
    (in_a_callee, 15),
]


@pytest.mark.parametrize(("function", "most"), LOOKING, ids=[function.__name__ for function, _ in LOOKING])
def test_what_differs_in_each_round_takes_a_few_translations(function, most):
    made = []
    for rounds in (60, 100):
        static = sot.to_static(apart(function), min_graph_size=0)
        for _ in range(2):
            x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
            check_x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
            got, want = static(x, rounds), function(check_x, rounds)
            # The same tensor twice in a result is one tensor here too.
            assert (found := difference(_Picture().of(want), _Picture().of(got), close=False)) is None, found
            sums = [sum(t.sum() for t in paddle.utils.flatten(r) if isinstance(t, paddle.Tensor)) for r in (got, want)]
            for total in sums:
                total.backward()
            np.testing.assert_array_equal(x.grad.numpy(), check_x.grad.numpy())
        record = sot.stats(static)
        made.append(record.translations)
        assert record.fallbacks == []
    assert made[0] == made[1] <= most, made


def test_rounds_that_have_a_translation_of_their_own_use_it():
    static = sot.to_static(by_number, min_graph_size=0)
    static(ones(), 4)
    record = sot.stats(static)
    static(ones(), 4)
    hits = sot.stats(static).cache_hits - record.cache_hits
    # Translations for all values are made now; the first rounds are not taken apart for that.
    for _ in range(2):
        static(ones(), 30)
    before = sot.stats(static)
    assert (static(ones(), 4) == by_number(ones(), 4)).all()
    after = sot.stats(static)
    assert after.translations == before.translations
    assert after.cache_hits - before.cache_hits == hits


def to_an_argument(x, seen):
    seen.append(x.shape[0])
    seen.append(2)
    return x * 2


def to_a_global(x, seen):
    LOG.append(seen)
    return x * 2


def to_an_attribute(x, seen):
    seen.recorder.seen.extend([1, 2])
    seen.recorder.seen.append(3)
    return x + 1


def the_same_list_twice(x, seen):
    a, b = seen["a"], seen["b"]
    a.append(1)
    b.append(2)
    a.append(3)
    return x + 1


def bound(x, seen):
    add = seen.append
    add(1)
    add(2)
    return x + 1


@pytest.mark.parametrize("function", [to_an_argument, to_a_global, bound], ids=lambda f: f.__name__)
def test_how_long_a_list_is_does_not_matter_to_append(function):
    static = sot.to_static(function, min_graph_size=0)
    LOG.clear()
    seen, expected = [], []
    for _ in range(5):
        static(ones(), seen)
        function(ones(), expected)
        assert seen == expected
    if function is to_a_global:
        assert len(LOG) == 10
        assert all(LOG[at] is (seen, expected)[at % 2] for at in range(10))
    stats = sot.stats(static)
    assert (stats.translations, stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, 1, [], [])


def test_a_list_of_an_attribute():
    static = sot.to_static(to_an_attribute, min_graph_size=0)
    holder = Recorder()
    holder.recorder = Recorder()
    for _ in range(4):
        static(ones(), holder)
    assert holder.recorder.seen == [1, 2, 3] * 4
    assert sot.stats(static).translations == 1


def test_two_names_of_one_list():
    static = sot.to_static(the_same_list_twice, min_graph_size=0)
    one, other = [], []
    static(ones(), {"a": one, "b": other})
    assert (one, other) == ([1, 3], [2])
    static(ones(), {"a": one, "b": one})
    assert one == [1, 3, 1, 2, 3]
    static(ones(), {"a": one, "b": other})
    assert (one, other) == ([1, 3, 1, 2, 3, 1, 3], [2, 2])


def reads_after(x, seen):
    seen.append(5)
    n = len(seen)
    seen.append(n)
    return x * n + seen[0], list(seen)


def reads_before(x, seen):
    n = len(seen)
    seen.append(n)
    return x * n + seen[-1], seen


def changes_after(x, seen):
    seen.append(1)
    seen.insert(0, 7)
    seen.append(2)
    seen.sort()
    return x + seen.index(7), seen


def passes_on(x, seen):
    seen.append(x)
    return sum(item.sum() for item in seen)


def extends_by_itself(x, seen):
    seen.append(1)
    seen.extend(seen)
    return x * len(seen)


def by_an_iterator(x, seen):
    seen.extend(item * 2 for item in (1, 2, 3))
    seen += [9]
    return x * len(seen)


def raises_half_way(x, seen):
    seen.append(1)
    if len(seen) > 2:
        raise ValueError(str(seen))
    seen.append(2)
    return x


READERS = [reads_after, reads_before, changes_after, passes_on, extends_by_itself, by_an_iterator, raises_half_way]


def run(function, x, seen):
    try:
        result = function(x, seen)
    except ValueError as error:
        return str(error), seen
    parts = result if isinstance(result, tuple) else (result,)
    assert all(part is seen for part in parts[1:] if function in (reads_before, changes_after))
    return [np.asarray(part).tolist() if isinstance(part, paddle.Tensor) else part for part in parts], seen


@pytest.mark.parametrize("function", READERS, ids=lambda f: f.__name__)
def test_what_is_read_after_all_is_right(function):
    static = sot.to_static(function, min_graph_size=0)
    kept, expected = [], []
    for start in ([], [4, 5], None, None, [3]):
        if start is not None:
            kept, expected = list(start), list(start)
        if function is passes_on:
            kept, expected = [paddle.to_tensor(1.0 + at) for at in kept if isinstance(at, int)], list(expected)
            expected = list(kept)
        want, got = run(function, ones(), expected), run(static, ones(), kept)
        if function is passes_on:
            assert want[0] == got[0]
            assert len(kept) == len(expected)
        else:
            assert want == got


def test_containers_too_long_to_look_into():
    def function(x, items, table, row):
        total = sum(items) + len(table) + row[3]
        squares = [item * item for item in items]
        items.append(total)
        table["sum"] = total
        return x + total, squares[-1], items[-1], table["sum"], 7 in items

    def arguments():
        return tensor(2), list(range(5000)), {str(key): key for key in range(5000)}, tuple(range(5000))

    check(function, *arguments(), calls=[arguments(), arguments()], fallbacks=None)


def test_a_list_that_grows_by_doubling():
    def function(x, items):
        for _ in range(5):
            items *= 2
            print(len(items))
            x = x + len([a + v for a, v in enumerate(items)])
        return x, items[-1]

    check(function, tensor(2), [1, 2], calls=[(tensor(2), [3] * size) for size in (3, 100, 400)], fallbacks=None)


def test_a_long_list_that_is_appended_to_and_read():
    def function(x, log):
        log.append(x.shape[0])
        y = x * 2
        log.append(7)
        return y, log[-1], log[-2], len(log)

    check(function, tensor(2), [0] * 5000, calls=[(tensor(2), [0] * 6000), (tensor(3), [1] * 3)], fallbacks=None)
