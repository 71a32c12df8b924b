"""Dicts and lists that threads share: what another thread writes while a graph runs stays, as in plain Python."""

import collections
import dis
import threading

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate


def in_threads(function, count=4, calls=100):
    errors = []

    def work(number):
        try:
            for call in range(calls):
                function(paddle.ones([2]), number * 1000 + call)
        except Exception as error:  # noqa: BLE001 - said by the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    return count * calls


class Results(dict):
    """One of the user's."""


@pytest.mark.parametrize(
    "made", [dict, Results, collections.OrderedDict, collections.Counter, lambda: collections.defaultdict(int)]
)
def test_keys_of_others_stay(made):
    results = made()

    def function(x, number):
        results[number] = 1
        return x * 2

    assert in_threads(translate(function)) == len(results)


def test_values_of_others_stay():
    results = dict.fromkeys([number * 1000 + call for number in range(4) for call in range(12)], 0)

    def function(x, number):
        results[number] = 1
        return x * 2

    in_threads(translate(function), calls=12)
    assert set(results.values()) == {1}


def test_items_of_others_stay():
    results = [0] * 48

    def function(x, number):
        results[number // 1000 * 12 + number % 1000] = 1
        return x * 2

    in_threads(translate(function), calls=12)
    assert results == [1] * 48


def test_keys_that_go_and_come_again():
    held: dict[str, int] = {}

    def function(x, number):
        held[f"a{number}"] = 1
        held[f"b{number}"] = held.pop(f"a{number}") + 1
        return x * 2

    assert in_threads(translate(function), calls=10) == len(held) and set(held.values()) == {2}


CHANGES = {
    "a value": lambda held, x: held.update(a=5),
    "the same value": lambda held, x: held.update(a=1, b=2),
    "a value of another key": lambda held, x: held.update(a=held["b"], b=held["a"]),
    "a new key": lambda held, x: held.update(z=x),
    "a key that goes": lambda held, x: held.pop("a"),
    "a key that moves": lambda held, x: held.update(a=held.pop("a")),
    "all": lambda held, x: held.clear(),
    "all, and again": lambda held, x: (held.clear(), held.update(b=3, a=4)),
    "a number for a key": lambda held, x: (held.pop(1, None), held.setdefault(True, "true")),
}


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize(
    "made",
    [
        lambda: {"a": 1, "b": 2, "c": 3},
        lambda: {"c": 3, "b": 2, "a": 7, 1: "one"},
        lambda: {"b": 2, "a": None, (1, 2): 4},
    ],
)
def test_what_is_left_is_what_is_left_in_plain_python(kind, made):
    change = CHANGES[kind]

    def function(x, held):
        change(held, 5)
        return x * 2

    translated = translate(function)
    for _ in range(3):
        for first in (1, 2, 1):
            expected, found = made(), made()
            expected["a"] = found["a"] = first
            function(paddle.ones([2]), expected)
            translated(paddle.ones([2]), found)
            assert list(found.items()) == list(expected.items())
            assert list(map(type, found)) == list(map(type, expected))


def one_key(x, held):
    held["a"] = x
    return x + 1


def one_place(x, held):
    held[1] = x
    return x + 1


@pytest.mark.default_python
@pytest.mark.parametrize(
    ("function", "made"),
    [
        (one_key, lambda size: {"a": 0, **{f"k{at}": at for at in range(size)}}),
        (one_key, lambda size: collections.OrderedDict(a=0, **{f"k{at}": at for at in range(size)})),
        (one_place, lambda size: list(range(size))),
    ],
)
def test_what_a_replay_sets_does_not_grow_with_what_it_leaves_alone(function, made):
    small, large = (sot.explain(function, min_graph_size=0)(paddle.ones([2]), made(size)) for size in (5, 500))
    codes = [[each.opname for each in dis.get_instructions(of.graphs[0].code)] for of in (small, large)]
    assert codes[0] == codes[1]
