"""`reversed` of objects and layers: their `__reversed__`, or their items by their places."""

import collections
from typing import Any

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn

LOG: list[Any] = []


class Places:
    def __init__(self, items):
        self.items = items

    def __len__(self):
        LOG.append("len")
        return len(self.items)

    def __getitem__(self, at):
        LOG.append(at)
        if at == 7:
            raise IndexError(at)
        if at == 8:
            raise KeyError(at)
        return self.items[at]


class Own(Places):
    def __reversed__(self):
        LOG.append("reversed")
        return iter(self.items[::-1])


class Refused(Places):
    __reversed__ = None


class Keys(dict):
    pass


def loop(x, it):
    seen = []
    for item in reversed(it):
        seen.append(item)
        x = x * 2
    return x.tolist(), seen


def loop_with_a_break(x, it):
    seen = []
    for item in reversed(it):
        seen.append(item)
        sot.graph_break()
        x = x * 2
    return x.tolist(), seen


def changed_meanwhile(x, it):
    seen = []
    for item in reversed(it):
        if isinstance(it, Places):
            it.items[0] = 50.0
            it.items.pop()
        seen.append(item)
    return x.tolist(), seen


def left(x, it):
    found = reversed(it)
    first = next(found, None)
    return x.tolist(), first, type(found).__name__, list(found)


def at_its_end(x, it):
    found, seen = reversed(it), []
    for _ in range(4):
        try:
            seen.append(next(found))
        except KeyError:
            seen.append("missing")
        except StopIteration:
            seen.append("end")
    rest = [*found, *found]
    found = None
    return x.tolist(), seen, rest


OBJECTS = {
    "places": lambda: Places([1.0, 2.0, 3.0]),
    "none": lambda: Places([]),
    "an error": lambda: Places([1.0] * 9),
    "an end": lambda: Places([1.0] * 8),
    "own": lambda: Own([1.0, 2.0]),
    "refused": lambda: Refused([1.0]),
    "keys": lambda: Keys(a=1),
    "a list of the user's": lambda: collections.UserList([1.0, 2.0]),
    "a deque": lambda: collections.deque([1.0, 2.0]),
    "a number": lambda: 5,
}


def observed(function, made):
    LOG.clear()
    try:
        answer = function(paddle.ones([2]), made)
    except (TypeError, KeyError, IndexError) as error:
        answer = type(error), str(error)
    return answer, list(LOG)


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("function", [loop, loop_with_a_break, changed_meanwhile, left, at_its_end])
def test_it_is_what_it_is_in_plain_python(function, kind):
    translated = translate(function)
    for _ in range(3):
        assert observed(translated, OBJECTS[kind]()) == observed(function, OBJECTS[kind]())


def test_layers():
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.parts = nn.LayerList([nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)])

        def forward(self, x):
            for part in reversed(self.parts):
                x = part(x)
            return x

    net = Net()
    plain = lambda x: net(x)  # noqa: E731
    translated = translate(plain)
    changes = [
        lambda: None,
        lambda: net.parts.append(nn.Tanh()),
        lambda: net.parts.insert(0, nn.Sigmoid()),
        lambda: setattr(net, "parts", net.parts[1:]),
    ]
    for change in changes:
        change()
        x = paddle.rand([3, 2])
        assert bool((translated(x) == plain(x)).all())
    record = sot.stats(translated)
    assert (record.graph_breaks, record.graphs) == ([], len(changes)), record


def test_a_reversed_method_that_comes_later():
    class Later(Places):
        pass

    translated = translate(loop)
    for _ in range(2):
        assert observed(translated, Later([1.0, 2.0])) == observed(loop, Later([1.0, 2.0]))
        Later.__reversed__ = lambda self: iter([5.0])
