"""Loops over tensors and dims whose size only the graph knows: one graph for every size, exported too."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.static import InputSpec
from support import eager_deletion

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

SPEC = [InputSpec([None, 3], "float32", "x")]
SIZES = (4, 2, 7, 3)
w = paddle.to_tensor([0.5, -1.0, 2.0], stop_gradient=False)


def rows(x):
    total = paddle.zeros([3])
    for row in x:
        total = total + row * w
    return total


def dims(x):
    total = paddle.zeros([3])
    for at in range(x.shape[0]):
        total = total * 0.5 + x[at] * at
    return total


def some_dims(x):
    total = x[0] * 0
    for at in range(1, x.shape[0] - 1):
        total = total + x[at] * x[at - 1] * w
    return total


def backwards(x):
    state = paddle.zeros([3])
    for at in range(x.shape[0] - 1, -1, -1):
        state = (state * w + x[at]).tanh()
    return state


def length(x):
    total = paddle.zeros([3])
    for at in range(len(x)):
        total = total + x[at] / len(x)
    return total


def numbered(x):
    total = paddle.zeros([3])
    for at, row in enumerate(x):
        total = total + row * at
    return total


def numbered_from(x):
    total, last = paddle.zeros([3]), 0
    for at, row in enumerate(x * 2, 3):
        total = total + row * at
        last = at
    return total, last


def pairs(x):
    total = paddle.zeros([3])
    for row, other in zip(x, x * w):
        total = total + row * other
    return total


def pairs_of_other_lengths(x):
    total = paddle.zeros([3])
    for row, other, at in zip(x, x[1:], range(100)):
        total = total + row * other * at
    return total


def numbered_pairs(x):
    total = paddle.zeros([3])
    for at, (row, other) in enumerate(zip(x, x.flip(0)), 1):
        total = total + row * at - other
    return total


def branch_inside(x):
    total = paddle.zeros([3])
    for row in x:
        if row.sum() > 0:
            total = total + row
        else:
            total = total - row * w
    return total


def loop_inside(x):
    total = paddle.zeros([3])
    for row in x:
        for other in x:
            total = total + row * other
    return total


def of_an_intermediate(x):
    total = paddle.zeros([3])
    for row in paddle.concat([x, x * 2]):
        total = total * 0.5 + row
    return total


def changed_name(x):
    first = x * 1
    for row in x:
        x = x + row
    return x * first


def in_a_callee(x):
    def add(rows):
        total = paddle.zeros([3])
        for row in rows:
            total = total + row
        return total

    return add(x) + add(x * 2)


FUNCTIONS = [
    *(rows, dims, some_dims, backwards, length, numbered, numbered_from, pairs, pairs_of_other_lengths),
    *(numbered_pairs, branch_inside, loop_inside, of_an_intermediate, changed_name, in_a_callee),
]


def made(size, grad=True):
    numbers = np.random.RandomState(size).randn(size, 3).astype("float32")
    return paddle.to_tensor(numbers, stop_gradient=not grad)


def flat(result):
    return [one.numpy() if isinstance(one, paddle.Tensor) else one for one in paddle.utils.flatten(result)]


def observe(function, size, grad):
    w.clear_gradient(set_to_zero=False)
    x = made(size, grad)
    result = function(x)
    first = paddle.utils.flatten(result)[0]
    (first * first).sum().backward()
    grads = [None if leaf.grad is None else leaf.grad.numpy() for leaf in (x, w)]
    return flat(result), grads


def same(got, want):
    for one, other in zip(got, want, strict=True):
        assert type(one) is type(other)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["paddle", "eager"])
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_one_graph_for_every_size(function, grad, backend):
    wrapped = function if grad else paddle.no_grad()(function)
    static = sot.to_static(
        wrapped, full_graph=True, input_spec=SPEC, min_graph_size=0, compile_at_call=1, backend=backend
    )
    for size in (*SIZES, *SIZES):
        if grad:
            got, want = observe(static, size, True), observe(function, size, True)
            same(got[0], want[0])
            same(got[1], want[1])
        else:
            same(flat(static(made(size, False))), flat(function(made(size, False))))
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])
    assert "while" in static.code


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_export(function, tmp_path):
    path = str(tmp_path / "saved")
    sot.save(function, path, input_spec=SPEC)
    loaded = paddle.jit.load(path)
    for size in SIZES:
        with eager_deletion():
            found = loaded(made(size, False))
        want = [np.asarray(one) for one in flat(function(made(size, False)))]
        same([np.asarray(one) for one in flat(found)], want)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_sizes_that_are_learnt(function):
    """Without a specification: the second size opens the dim; 0 and 1 stay sizes of their own."""
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0, compile_at_call=1)
    sizes = [size for size in (3, 5, 1, 4, 0, 7, 2) if size or function not in (some_dims,)]
    for size in sizes:
        same(flat(static(made(size, False))), flat(function(made(size, False))))
    stats = sot.stats(static)
    assert (stats.graph_breaks, stats.fallbacks) == ([], [])
    assert stats.graphs <= 4


def of_unknown_length(x):
    total = paddle.zeros([])
    for value in paddle.masked_select(x, x > 0):
        total = total * 0.5 + value
    return total


def indices(x):
    total = paddle.zeros([])
    for at in paddle.nonzero(x[:, 0] > 0):
        total = total + x[at].sum()
    return total


@pytest.mark.parametrize("function", [of_unknown_length, indices], ids=lambda f: f.__name__)
def test_lengths_that_nobody_knows(function):
    static = sot.to_static(function, full_graph=True, min_graph_size=0, compile_at_call=1)
    for numbers in (made(4, False), -made(4, False).abs(), made(4, False).abs(), made(4, False) * 2):
        np.testing.assert_allclose(static(numbers).numpy(), function(numbers).numpy(), rtol=1e-6)
    assert sot.stats(static).graphs == 1


class Recurrent(nn.Layer):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        state = paddle.zeros([1, 4])
        for at in range(x.shape[0]):
            _, state = self.cell(x[at].unsqueeze(0), state)
        return self.head(state)


def test_a_recurrent_network_trains_and_is_exported(tmp_path):
    paddle.seed(1)
    plain, static = Recurrent(), Recurrent()
    static.set_state_dict(plain.state_dict())
    static = sot.to_static(static, full_graph=True, input_spec=SPEC, min_graph_size=0, compile_at_call=1)
    optimizers = [paddle.optimizer.SGD(0.1, parameters=net.parameters()) for net in (plain, static)]
    for size in (*SIZES, *SIZES):
        for net, optimizer in zip((plain, static), optimizers, strict=True):
            (net(made(size, False)) ** 2).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
    for one, other in zip(plain.parameters(), static.parameters(), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
    assert sot.stats(static).graphs == 1
    sot.save(static, str(tmp_path / "net"), input_spec=SPEC)
    loaded = paddle.jit.load(str(tmp_path / "net"))
    for size in SIZES:
        with eager_deletion():
            found = loaded(made(size, False)).numpy()
        np.testing.assert_allclose(found, plain(made(size, False)).numpy(), rtol=1e-5, atol=1e-6)


def held_by_a_name(x):
    rounds = iter(range(paddle.to_tensor(5)))
    for at in rounds:
        x = x + at
        if x.sum() > 3:
            break
    for at in rounds:
        x = x * 2 + at
    return x


def taken_from_inside(x):
    rounds = iter(range(paddle.to_tensor(5)))
    for at in rounds:
        x = x * 2 + at
        for other in rounds:
            x = x + other
    return x


def rows_held_by_a_name(x):
    rest = iter(x)
    total = paddle.zeros([3])
    for row in rest:
        total = total + row
        if total.sum() > 1:
            break
    for row in rest:
        total = total - row * 2
    return total


def numbered_and_held(x):
    rest = iter(x)
    total = paddle.zeros([3])
    for at, row in enumerate(rest):
        total = total + row * at
    for _ in rest:
        total = total * 100
    return total


def list_of_rows(x):
    collected = []
    for row in x:
        collected.append(row * 2)
    return paddle.stack(collected)


def written_to(x):
    y = x * 1
    for at in range(paddle.to_tensor(2)):
        y[at] = x[at] * 2
    for at, (row, _) in enumerate(zip(x, range(1, 3))):
        y[at] = row * y[at]
    return y


def effects(x):
    seen = []
    for row in x * 2:
        seen.append(float(row.sum()))
    for at, row in enumerate(paddle.masked_select(x, x > 0), 2):
        seen.append((at, float(row)))
    return x * 2, *seen


LEFT = [held_by_a_name, taken_from_inside, rows_held_by_a_name, numbered_and_held, list_of_rows, written_to, effects]


@pytest.mark.parametrize("function", LEFT, ids=lambda f: f.__name__)
@pytest.mark.parametrize("spec", [None, SPEC], ids=["learnt", "declared"])
def test_what_the_loop_does_not_own_is_left_to_the_interpreter(function, spec):
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0, compile_at_call=1, input_spec=spec)
    for size in (*SIZES, *SIZES):
        same(flat(static(made(size, False))), flat(function(made(size, False))))
    assert sot.stats(static).fallbacks == []
