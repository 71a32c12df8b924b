"""Side effects happen once, in order, and to the right objects."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.nn import functional as F
from support import check

X = paddle.to_tensor(np.arange(6, dtype="float32"))
COUNTER = 0
LOG = []


class State:
    def __init__(self):
        self.value = 0
        self.items = []


def append(x, items):
    items.append(x + 1)
    items[0] = len(items)
    return x * 2


def update(x, table):
    table["new"] = x + 1
    del table["old"]
    table.setdefault("other", []).append(3)
    return x


def attribute(x, state):
    state.value = x.shape[0]
    state.items.append(x)
    state.fresh = x + 1
    return x * state.value


def global_(x):
    global COUNTER
    COUNTER += 1
    LOG.append(COUNTER)
    return x + COUNTER


def effect_then_break(x, items):
    items.append(1)
    print(float(x.sum()))
    items.append(2)
    return x + len(items)


def aliased(x, a, b):
    a.append(x)
    return len(b)


def test_list():
    check(append, X, [0], graphs=1, breaks=0)


def test_dict():
    check(update, X, {"old": 1, "kept": 2}, graphs=1, breaks=0)


def test_attributes():
    check(attribute, X, State(), graphs=1, breaks=0)


def test_break_between_effects():
    check(effect_then_break, X, [])


def test_aliased_arguments_are_not_confused_with_different_ones():
    translated = sot.to_static(aliased, min_graph_size=0)
    assert translated(X, [], []) == 0
    shared = []
    assert translated(X, shared, shared) == 1
    assert len(shared) == 1
    assert translated(X, [], []) == 0


def test_globals():
    global COUNTER
    COUNTER, expected = 0, []
    translated = sot.to_static(global_, min_graph_size=0)
    for step in range(1, 4):
        expected.append(step)
        assert np.array_equal(translated(X).numpy(), X.numpy() + step)
        assert expected == LOG
        assert step == COUNTER


def test_batch_norm_statistics_move_once_per_call():
    eager, static = nn.BatchNorm1D(4), nn.BatchNorm1D(4)
    sot.to_static(static, min_graph_size=0)
    x = paddle.randn([8, 4])
    for _ in range(3):
        assert np.array_equal(eager(x).numpy(), static(x).numpy())
    assert np.array_equal(eager._mean.numpy(), static._mean.numpy())
    assert np.array_equal(eager._variance.numpy(), static._variance.numpy())


class Normalized(nn.Layer):
    def __init__(self, catches, functional):
        super().__init__()
        self.norm, self.functional, self.catches = nn.BatchNorm1D(3), functional, catches

    def forward(self, x, index):
        if self.functional:
            y = F.batch_norm(x, self.norm._mean, self.norm._variance, self.norm.weight, self.norm.bias, self.training)
        else:
            y = self.norm(x)
        if not self.catches:
            return paddle.gather(y, index)
        try:
            return paddle.gather(y, index)
        except IndexError:
            return y


@pytest.mark.parametrize("functional", [False, True], ids=["layer", "function"])
@pytest.mark.parametrize("catches", [False, True], ids=["raises", "catches"])
@pytest.mark.parametrize("good", [0, 1, 3])
def test_running_statistics_of_a_graph_that_fails_are_updated_once(good, catches, functional):
    seen = []
    for translates in (False, True):
        net = Normalized(catches, functional)
        if translates:
            sot.to_static(net, min_graph_size=0)
        x = paddle.to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        for position in [*[1] * good, 9, 9, 0]:
            try:
                net(x, paddle.to_tensor([position]))
            except IndexError:
                assert position == 9 and not catches
            seen.append((net.norm._mean.tolist(), net.norm._variance.tolist()))
    half = len(seen) // 2
    assert seen[:half] == seen[half:]
