"""Instances of subclasses of `dict`, `list` and `tuple` that exist: what is read of them by the methods of those
classes is in the graph, with a guard on what was read; what the subclass overrides is what runs."""

import collections

import paddle
import paddle_sot_rs as sot
import pytest


class Config(dict):
    """Attributes are items, as configurations of many projects have it."""

    def __getattr__(self, name):
        return self[name]

    def __setattr__(self, name, value):
        self[name] = value


class Stack(list):
    def top(self):
        return self[-1]


class Pair(tuple):
    __slots__ = ()

    def swapped(self):
        return self[1], self[0]


READS = {
    "attribute": (lambda c: c.a, Config(a=2, b=3)),
    "nested": (lambda c: c.inner.width, Config(inner=Config(width=4))),
    "item": (lambda c: c["a"], Config(a=2, b=3)),
    "get": (lambda c: c.get("a", 5) + c.get("z", 7), Config(a=2)),
    "contains": (lambda c: 2 if "a" in c else 3, Config(a=2)),
    "items": (lambda c: sum(v for k, v in c.items() if k != "z"), Config(a=2, b=3)),
    "copied": (lambda c: len({**c, "z": 0}) + len(dict(c)) + len(list(c)), Config(a=2, b=3)),
    "keywords": (lambda c: (lambda a, b: a * b)(**c), Config(a=2, b=3)),
    "counter": (lambda c: c["a"] + len(c), collections.Counter("aab")),
    "defaultdict": (lambda c: c["a"] if c else 0, collections.defaultdict(int, a=4)),
    "top": (lambda c: c.top() + c[0], Stack([1, 2, 3])),
    "loop": (lambda c: sum(x for x in c) + len(c) + c.index(2) + c.count(3), Stack([1, 2, 3])),
    "slice": (lambda c: c[1:][0], Stack([1, 2, 3])),
    "unpacked": (lambda c: (lambda a, *b: a + len(b))(*c), Stack([1, 2, 3])),
    "swapped": (lambda c: c.swapped()[0] * c[0], Pair([2, 3])),
}


@pytest.mark.parametrize("name", READS)
def test_reads_are_in_the_graph(name):
    read, container = READS[name]

    def function(c, x):
        return x * 2 + read(c)

    static = sot.to_static(function, min_graph_size=0)
    x = paddle.ones([2])
    for _ in range(2):
        assert static(container, x).tolist() == function(container, x).tolist()
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks, stats.translations) == (1, [], [], 1)


class Reads(paddle.nn.Layer):
    def __init__(self, config):
        super().__init__()
        self.config, self.linear = config, paddle.nn.Linear(2, 2)

    def forward(self, x):
        y = self.linear(x)
        return y * self.config.scale if self.config.kind == "scaled" else y


CHANGES = {
    "value": lambda c: c.update(scale=5.0),
    "another way": lambda c: c.update(kind="plain"),
    "new key": lambda c: c.update(other=1),
    "order": lambda c: c.update(scale=c.pop("scale")),
    "attribute": lambda c: vars(c).update(kind="plain"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_read_is_guarded(name):
    layer = Reads(Config(scale=2.0, kind="scaled"))
    x = paddle.ones([1, 2])
    static = sot.to_static(Reads.forward, min_graph_size=0)
    for _ in range(3):
        assert static(layer, x).tolist() == layer(x).tolist()
    CHANGES[name](layer.config)
    for _ in range(2):
        assert static(layer, x).tolist() == layer(x).tolist()
    assert (sot.stats(static).translations, sot.stats(static).graph_breaks) == (2, [])


OVERRIDES = {
    "__getitem__": lambda self, key: 7,
    "__missing__": lambda self, key: 8,
    "__iter__": lambda self: iter(["z"]),
    "__len__": lambda self: 9,
    "__contains__": lambda self, key: True,
    "__bool__": lambda self: False,
    "keys": lambda self: ["q"],
    "get": lambda self, key, default=None: 10,
    "items": lambda self: [("q", 11)],
}


@pytest.mark.parametrize("name", OVERRIDES)
@pytest.mark.parametrize("later", [False, True], ids=["from the start", "later"])
def test_overridden_methods_run(name, later):
    """Those written in C ask them where Python's do: `{**c}` takes items past `__getitem__`, `dict(c)` past `keys`."""

    def function(c, x):
        found = [
            c["a"],
            c.get("a"),
            len(c),
            "z" in c,
            list(c),
            {**c},
            dict(c),
            list(c.items()),
            list(c.keys()),
            bool(c),
        ]
        try:
            found.append(c["z"])
        except KeyError as error:
            found.append(error.args)
        return found, x * 2

    class Own(dict):
        pass

    container = Own(a=1, b=2)
    static = sot.to_static(function, min_graph_size=0)
    x = paddle.ones([2])
    if later:
        for _ in range(2):
            assert static(container, x)[0] == function(container, x)[0]
    setattr(Own, name, OVERRIDES[name])
    for _ in range(2):
        assert static(container, x)[0] == function(container, x)[0]


def test_writes_break_the_graph_and_are_made_once():
    class Noted(dict):
        def __setitem__(self, key, value):
            log.append(key)
            super().__setitem__(key, value)

    def function(c, x):
        c["n"] = c["n"] + 1
        return x * c["n"], len(c)

    found, log = [], []
    for run in (function, sot.to_static(function, min_graph_size=0)):
        log.clear()
        container = Noted(n=1)
        results = [(y.tolist(), n) for y, n in (run(container, paddle.ones([2])) for _ in range(3))]
        found.append((results, dict(container), list(log)))
    assert found[0] == found[1]
