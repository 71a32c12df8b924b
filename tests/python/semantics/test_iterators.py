"""Iterators that leave a function: of the type they have in plain Python, where they are, at their end too."""

from __future__ import annotations

from collections import OrderedDict

import paddle
import paddle_sot_rs as sot
import pytest

LAYERS = paddle.nn.LayerList([paddle.nn.Linear(2, 2), paddle.nn.ReLU(), paddle.nn.Tanh()])
ROW = paddle.nn.Sequential(paddle.nn.Linear(2, 2), paddle.nn.ReLU(), paddle.nn.Tanh())
PARAMETERS = paddle.nn.ParameterList([paddle.create_parameter([2], "float32") for _ in range(3)])
KNOWN = {1, 2, 3}

ITERATORS = {
    "tensor": lambda x: iter(x),
    "made tensor": lambda x: iter(x * 2),
    "layers": lambda x: iter(LAYERS),
    "sequential": lambda x: iter(ROW),
    "part of a sequential": lambda x: iter(ROW[:2]),
    "parameters": lambda x: iter(PARAMETERS),
    "list": lambda x: iter([1, x, 3]),
    "tuple": lambda x: iter((1, x, 3)),
    "dict": lambda x: iter({1: x, 2: x}),
    "items": lambda x: iter({1: x, 2: x}.items()),
    "ordered": lambda x: iter(OrderedDict(a=1, b=2).values()),
    "set": lambda x: iter({1, 2}),
    "set from outside": lambda x: iter(KNOWN),
    "frozenset": lambda x: iter(frozenset([1, 2])),
    "text": lambda x: iter("ab"),
    "letters": lambda x: iter("éß"),
    "bytes": lambda x: iter(b"ab"),
    "range": lambda x: iter(range(3)),
    "reversed list": lambda x: reversed([1, 2]),
    "reversed tuple": lambda x: reversed((1, 2)),
    "enumerate": lambda x: enumerate(x),
    "zip": lambda x: zip(x, [1, 2, 3], strict=False),
    "map": lambda x: map(str, [1, 2]),
}


def picture(items):
    return [
        item.tolist() if isinstance(item, paddle.Tensor) else picture(item) if isinstance(item, tuple) else item
        for item in items
    ]


@pytest.mark.parametrize("taken", [0, 1, 9])
@pytest.mark.parametrize("name", ITERATORS)
def test_leaves_as_it_is(name, taken):
    make = ITERATORS[name]

    def run(x):
        iterator = make(x)
        for _ in range(taken):
            if next(iterator, None) is None:
                break
        return x + 1, iterator

    x = paddle.arange(6.0).reshape([3, 2])
    translated = sot.to_static(run, min_graph_size=0)
    for _ in range(2):
        expected, actual = run(x)[1], translated(x)[1]
        assert type(actual) is type(expected)
        assert picture(actual) == picture(expected)
    assert sot.stats(translated).graphs == 1
    assert not sot.stats(translated).graph_breaks


def test_has_let_go_of_a_list_at_its_end():
    def run(x, items):
        iterator = iter(items)
        for _ in iterator:
            x = x + 1
        items.append(3)
        return x, iterator

    translated = sot.to_static(run, min_graph_size=0)
    for function in (run, translated):
        items = [1, 2]
        x, iterator = function(paddle.zeros([2]), items)
        assert x.tolist() == [2.0, 2.0]
        assert (list(iterator), items) == ([], [1, 2, 3])
    assert not sot.stats(translated).graph_breaks


@pytest.mark.parametrize("at", ["first", "last"])
def test_layers_that_change_during_iteration(at):
    def run(x, layers):
        for index, layer in enumerate(layers):
            x = layer(x)
            if index == (0 if at == "first" else len(layers) - 1):
                layers.append(paddle.nn.Tanh())
        return x

    def outcome(function):
        layers = paddle.nn.LayerList([paddle.nn.ReLU(), paddle.nn.ReLU()])
        try:
            answer = function(paddle.ones([2]), layers).tolist()
        except RuntimeError as error:
            answer = str(error)
        return answer, len(layers)

    translated = sot.to_static(run, min_graph_size=0)
    for _ in range(2):
        assert outcome(translated) == outcome(run)
    assert isinstance(outcome(run)[0], str) == (at == "first")


def test_a_break_between_layers_of_a_part():
    def run(x):
        for layer in ROW[:2]:
            x = layer(x)
            if x.sum() > 1000:
                x = x + 1
        return x

    translated = sot.to_static(run, min_graph_size=0)
    x = paddle.ones([2, 2])
    for _ in range(2):
        assert translated(x).tolist() == run(x).tolist()
    assert sum(reason.count for reason in sot.stats(translated).graph_breaks) == 3


@pytest.mark.parametrize(
    "collect",
    [
        lambda: list(range(10**6)),
        lambda: tuple(iter(range(10**6))),
        lambda: set(range(10**6)),
        lambda: list(map(abs, range(10**6))),
        lambda: sum(range(10**6)),
    ],
)
def test_very_many_items_are_left_to_the_interpreter(collect):
    """It raises `MemoryError` where they do not fit, and is the faster one where they do."""

    def run(x):
        items = collect()
        return x + 1, items

    translated = sot.to_static(run, min_graph_size=0)
    x = paddle.ones([2])
    for _ in range(2):
        assert translated(x)[1] == run(x)[1]
    assert sum(it.count for it in sot.stats(translated).graph_breaks) == 1
