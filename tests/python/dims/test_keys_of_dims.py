"""Open dims, and texts that show them, as keys of dicts and sets: guards say which keys are equal."""

import collections

import paddle
import paddle_sot_rs as sot
import pytest
from support import gradient_at

pytestmark = pytest.mark.default_python

SIZES = [(2, 3), (3, 5), (7, 7), (4, 4), (5, 2), (3, 8), (6, 5), (8, 3), (9, 6), (4, 7)]
OTHERS = [(1, 1), (1, 4), (6, 1), (10, 12), (0, 3), (4, 0)]
OUTSIDE = {4: 1.0, 7: 2.0, 100: 3.0}
LARGE = {size: float(size) for size in range(50)}


def both(x):
    table = {x.shape[0]: 1.0}
    table[x.shape[1]] = 2.0
    return x * table[x.shape[0]] + len(table)


def numbers_behind(x):
    table = {x.shape[0]: 1.0}
    table[4], table[True], table[2.5] = 3.0, 7.0, 8.0
    return x * table[x.shape[0]] + len(table) + table[4]


def missing(x):
    try:
        return x * {x.shape[0]: 1.0}[x.shape[1]]
    except KeyError as error:
        return x - error.args[0]


def counted(x):
    table = {}
    for size in x.shape:
        table[size] = table.get(size, 0) + 1
    return x * len(table) + sum(table.values()) + sum(table)


def removed(x):
    table = {x.shape[0]: 1.0, x.shape[1]: 2.0}
    table.pop(x.shape[0])
    return x * len(table) + (x.shape[1] in table)


def deleted(x):
    table = {x.shape[0]: 1.0, x.shape[1]: 2.0}
    del table[x.shape[1]]
    return x * (x.shape[0] in table)


def pairs(x):
    return {tuple(x.shape): x * 2, (4, 4): x}[x.shape[0], x.shape[1]]


def by_a_text(x):
    table = {f"{x.shape[0]}x{x.shape[1]}": 1.0}
    table[f"{x.shape[1]}x{x.shape[0]}"] = 2.0
    return x * table[f"{x.shape[0]}x{x.shape[1]}"] + len(table)


def known_texts_behind(x):
    table = {f"n{x.shape[0]}": 1.0}
    table["n4"], table["4"], table["n04"], table["n"] = 2.0, 3.0, 4.0, 5.0
    return x * len(table) + table["n4"]


def negative(x):
    table = {f"{x.shape[0] - 5}": 1.0, "-3": 2.0, "-0": 3.0}
    return x * len(table) + table["-3"]


def keywords(x):
    def function(**named):
        return named.get(f"w{x.shape[0]}", 7.0)

    return x * function(w4=2.0, w7=3.0)


def different_texts(x):
    table = {"a": 1.0, f"h{x.shape[0]}": 3.0, f"w{x.shape[1]}": 4.0}
    return x * table[f"h{x.shape[0]}"] + len(table) + sum(table.values())


def numbered(x):
    table = {}
    for at, size in enumerate(x.shape):
        table[f"{at}:{size}"], table[f"{at}"] = size, 1
    return x * sum(table.values()) + len(table)


def results(x):
    return {x.shape[0]: 1, x.shape[1]: 2}, {x.shape[0], x.shape[1]}, {f"out_{x.shape[0]}": x * 2, "n": x.shape[0]}


# Each is translated once with known sizes, then once for each of the ways in which keys are equal.
PROGRAMS = {
    "a key": (2, lambda x: {x.shape[0]: x * 2}[x.shape[0]]),
    "a set": (3, lambda x: x * len({x.shape[0], x.shape[1]})),
    "a set with a number": (5, lambda x: x * len({x.shape[0], x.shape[1], 4})),
    "numbers in front": (3, lambda x: x * {2: 1.0, 4: 2.0}.get(x.shape[0], 5.0)),
    "a dict from outside": (4, lambda x: x * OUTSIDE.get(x.shape[0], 0.5)),
    "in a set of numbers": (4, lambda x: x * (x.shape[0] in {2, 4, 8})),
    "what is computed": (3, lambda x: x * {x.shape[0] * 2: 1.0, sum(x.shape): 2.0}[2 * x.shape[0]]),
    "a union": (5, lambda x: x * len({x.shape[0]} | {x.shape[1], 7})),
    "a difference": (5, lambda x: x * len({x.shape[0], 5} - {x.shape[1]})),
    "a frozenset": (3, lambda x: x * len(frozenset(x.shape))),
    "fromkeys": (3, lambda x: x * len(dict.fromkeys(x.shape))),
    "equal dicts": (3, lambda x: x * ({x.shape[0]: 1} == {x.shape[1]: 1})),
    "Counter": (3, lambda x: x * len(collections.Counter(x.shape))),
    "a set of texts": (5, lambda x: x * len({str(x.shape[0]), repr(x.shape[1]), "7"})),
    "a text as a key": (2, lambda x: {f"{x.shape[0]}": x * 2}[str(x.shape[0])]),
    "texts in front": (3, lambda x: x * {"n4": 1.0, "o": 3.0, "n04": 5.0}.get(f"n{x.shape[0]}", 2.0)),
    **{function.__name__: (3, function) for function in (both, numbers_behind, missing, counted, removed, deleted)},
    **{function.__name__: (3, function) for function in (by_a_text, known_texts_behind, negative, different_texts)},
    **{function.__name__: (3, function) for function in (numbered, results)},
    "pairs": (5, pairs),
    "keywords": (4, keywords),
}
# Static: the order of a set is that of the numbers, a large table is not compared number by number, and one number
# may go on in the next.
STATIC = {
    "the order of a set": lambda x: x * list({x.shape[0], x.shape[1], 3})[0],
    "the sum of a set": lambda x: x * sum({x.shape[0], x.shape[1]}),
    "a large table": lambda x: x * LARGE[x.shape[0]],
    "a table without it": lambda x: x * OUTSIDE[x.shape[0]],
    "numbers next to each other": lambda x: x * {f"{x.shape[0]}{x.shape[1]}": 1.0}.get("44", 3.0),
    "the text of a tuple": lambda x: x * {str(tuple(x.shape)): 1.0}.get("(4, 4)", 3.0),
    "texts that may be alike": lambda x: x * len({f"{x.shape[0]}", f"{x.shape[1]}0"}),
}


def picture(value):
    if isinstance(value, paddle.Tensor):
        return value.dtype, tuple(value.shape), value.numpy().tobytes()
    if isinstance(value, dict):
        return [(key, picture(item)) for key, item in value.items()]
    return tuple(map(picture, value)) if isinstance(value, tuple) else (type(value), value)


def outcome(function, size):
    paddle.seed(7)
    try:
        return picture(function(paddle.randn(size)))
    except KeyError as error:
        return error.args


@pytest.mark.parametrize("options", [{}, {"capture_control_flow": True}], ids=["", "control flow"])
@pytest.mark.parametrize("name", [*PROGRAMS, *STATIC])
def test_keys(name, options):
    most, function = PROGRAMS.get(name) or (None, STATIC[name])
    translated = sot.to_static(function, min_graph_size=0, compile_at_call=1, **options)
    for size in SIZES:
        assert outcome(translated, size) == outcome(function, size), size
    if most is not None:
        stats = sot.stats(translated)
        assert (stats.translations <= most, stats.graph_breaks, stats.fallbacks) == (True, [], [])
    for size in [*OTHERS, *reversed(SIZES), *OTHERS]:
        assert outcome(translated, size) == outcome(function, size), size


def test_a_cache_that_grows():
    cache = {}

    def function(x):
        if x.shape[0] not in cache:
            cache[x.shape[0]] = float(x.shape[0])
        return x * cache[x.shape[0]]

    translated = sot.to_static(function, min_graph_size=0, compile_at_call=1)
    for size in [*SIZES, *OTHERS, *SIZES]:
        before = dict(cache)
        wanted, grown = outcome(function, size), dict(cache)
        cache.clear()
        cache.update(before)
        assert outcome(translated, size) == wanted
        assert list(cache.items()) == list(grown.items())


@pytest.mark.parametrize("name", ["a key", "both", "by_a_text"])
def test_gradients(name):
    _, function = PROGRAMS[name]
    translated = sot.to_static(function, min_graph_size=0, compile_at_call=1)
    for size in [*SIZES, *OTHERS[:4]]:
        assert gradient_at(translated, size) == gradient_at(function, size)
