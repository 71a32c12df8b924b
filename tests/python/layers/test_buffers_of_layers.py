"""Tensors that a layer's `forward` keeps: `Layer.__setattr__` makes them buffers, which are not in its dictionary."""

import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, difference, pictured, tensor, translate
from paddle import nn

X = tensor(2, 3)
CASES = []


def case(graphs, breaks):
    """A class of layers, and what its calls take: the first one makes the buffer."""

    def add(of):
        CASES.append(pytest.param(of, graphs, breaks, id=of.__name__))
        return of

    return add


@case(2, 0)
class AttributeOfTheClass(nn.Layer):
    cache = None

    def forward(self, x):
        self.cache = x * 2
        return x + 1, self.cache is None, getattr(self, "cache", 1), hasattr(self, "cache")


@case(2, 0)
class AttributeOfTheInstance(nn.Layer):
    def __init__(self):
        super().__init__()
        self.cache = None

    def forward(self, x):
        if self.cache is not None:
            x = x + self.cache
        self.cache = x * 2
        return x + self.cache, self.cache is None


@case(2, 0)
class Twice(nn.Layer):
    def forward(self, x):
        self.h = x * 2
        self.h = self.h + 1
        return self.h


@case(2, 0)
class NotInTheDictionary(nn.Layer):
    def __init__(self):
        super().__init__()
        self.kept = 1

    def forward(self, x):
        self.kept = 2
        self.h = x * 2
        return x, "h" in self.__dict__, self.__dict__.get("h"), self.__dict__["kept"]


@case(2, 2)
class ThenANumber(nn.Layer):
    def forward(self, x):
        self.h = x * 2
        y = self.h + 1
        self.h = 5
        return y


@case(2, 2)
class ThenNone(nn.Layer):
    def __init__(self):
        super().__init__()
        self.h = None

    def forward(self, x):
        self.h = x * 2
        y = self.h + 1
        self.h = None
        return y, self.h


def results(of, wrap):
    net = of()
    function = wrap(net.forward)
    found = []
    for _ in range(3):
        found.append(pictured(function, X))
        found.append([sorted(vars(net)), sorted(net._buffers), sorted(net._sub_layers), sorted(net.state_dict())])
    return found, function


@pytest.mark.parametrize(("of", "graphs", "breaks"), CASES)
def test_equals_eager(of, graphs, breaks):
    expected, _ = results(of, lambda function: function)
    actual, translated = results(of, translate)
    assert difference(expected, actual, close=False) is None
    if not IDENTITY:
        record = sot.stats(translated)
        assert (record.graphs, sum(it.count for it in record.graph_breaks)) == (graphs, breaks), record
