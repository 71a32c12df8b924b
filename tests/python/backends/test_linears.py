"""Linear layers as one operation of a program: equal to eager mode to the last bit, with all that may stand around."""

import itertools

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import _C_ops
from paddle_sot_rs._paddle.passes import linears

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

F = paddle.nn.functional
FUSED = "pd_op.fc"


def program_of(static):
    (graph,) = sot.report.static_function(static).graphs()
    return graph.program


def bits(tensor):
    return tensor.shape, tensor.numpy().tobytes()


def numbers(*dims, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(dims).astype(dtype)


def is_equal(function, *arrays, graphs=1, **settings):
    """One function with these arguments in both modes, results and gradients; the translated function."""
    static = sot.to_static(function, min_graph_size=0, **settings)
    for _ in range(3):
        answers = []
        for call in (function, static):
            given = [paddle.to_tensor(array, stop_gradient=array.dtype.kind != "f") for array in arrays]
            results = call(*given)
            results = results if isinstance(results, tuple) else (results,)
            found = [bits(result) for result in results]
            if not all(result.stop_gradient for result in results):
                sum((result * result).sum() for result in results).backward()
                found += [None if tensor.grad is None else bits(tensor.grad) for tensor in given]
            answers.append(found)
        assert answers[0] == answers[1]
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (graphs, [], [])
    return static


SPECIAL = {
    "plain": lambda x, w, b: None,
    "zeros": lambda x, w, b: (np.copyto(x, 0.0, where=x < 0), np.negative(w, out=w), b.fill(-0.0)),
    "a bias that is none": lambda x, w, b: b.__setitem__(slice(None, None, 2), np.nan),
    "infinite": lambda x, w, b: (x.flat.__setitem__(0, np.inf), b.__setitem__(slice(None, None, 3), -np.inf)),
}


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch", [(1,), (5,), (0,), (2, 3), (2, 1, 7)])
def test_bits(batch, dtype, special):
    def linear(x, w, b):
        return F.relu(F.linear(x, w, b))

    static = sot.to_static(linear, min_graph_size=0, dynamic=False)
    for depth, width in itertools.product((1, 3, 17, 64, 129), (1, 2, 8, 65, 128)):
        given = [numbers(*dims, dtype=dtype) for dims in ((*batch, depth), (depth, width), (width,))]
        if given[0].size:
            SPECIAL[special](*given)
        given = [paddle.to_tensor(array) for array in given]
        assert bits(static(*given)) == bits(linear(*given))
    assert all(FUSED in graph.program for graph in sot.report.static_function(static).graphs())


def mlp(x, w, b):
    for _ in range(3):
        x = F.gelu(x @ w + b)
    return x


CASES = {
    "several": (mlp, [(4, 8), (8, 8), (8,)], 3),
    "a tanh of it": (lambda x, w, b: paddle.tanh(F.linear(x, w, b)), [(4, 8), (8, 6), (6,)], 1),
    "it is returned": (lambda x, w, b: F.linear(x, w, b), [(4, 8), (8, 6), (6,)], 1),
    "it is used twice": (lambda x, w, b: (y := x @ w + b) * y.sum() + y, [(4, 8), (8, 6), (6,)], 1),
    "a view of its weight": (lambda x, w, b: x @ w.t() + b, [(4, 8), (6, 8), (6,)], 1),
    "a column of a bias": (lambda x, w, b: x @ w + b[:, 1], [(4, 8), (8, 6), (6, 3)], 1),
    "every other row": (lambda x, w, b: x[::2] @ w + b, [(4, 8), (8, 6), (6,)], 1),
    "one bias for two": (lambda x, w, b: (x @ w + b) * (x @ (2 * w) + b), [(4, 8), (8, 6), (6,)], 2),
    "a product with itself": (lambda x, w, b: (x @ x + b) @ w + b, [(6, 6), (6, 6), (6,)], 2),
    "with itself behind another": (lambda x, w, b: (y := x @ w + b) @ y + b, [(6, 6), (6, 6), (6,)], 2),
    "with itself twice": (lambda x, w, b: (y := x @ x + b) @ y + b, [(6, 6), (6, 6), (6,)], 2),
    "a residual": (lambda x, w, b: x + F.dropout(x @ w + b, 0.0), [(4, 6), (6, 6), (6,)], 1),
    "the product too": (lambda x, w, b: ((y := x @ w) + b, y), [(4, 8), (8, 6), (6,)], 0),
    "a sum with itself": (lambda x, w, b: (y := x @ w) + y + b, [(4, 8), (8, 6), (6,)], 0),
    "the bias in front": (lambda x, w, b: b + x @ w, [(4, 8), (8, 6), (6,)], 0),
    "a weight on its side": (lambda x, w, b: paddle.matmul(x, w, transpose_y=True) + b, [(4, 8), (6, 8), (6,)], 0),
    "a bias of one": (lambda x, w, b: x @ w + b, [(4, 8), (8, 6), (1,)], 0),
    "a bias of each row": (lambda x, w, b: x @ w + b, [(4, 8), (8, 6), (4, 6)], 0),
    "weights of a batch": (lambda x, w, b: x @ w + b, [(3, 4, 8), (3, 8, 6), (6,)], 0),
    "one row without a batch": (lambda x, w, b: x @ w + b, [(8,), (8, 6), (6,)], 0),
    "no columns": (lambda x, w, b: x @ w + b, [(4, 0), (0, 6), (6,)], 0),
    "nothing to give": (lambda x, w, b: x @ w + b, [(4, 8), (8, 0), (0,)], 0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("trains", [False, True])
def test_what_becomes_one(name, trains):
    function, dims, count = CASES[name]
    arrays = [numbers(*one, seed=at) for at, one in enumerate(dims)]
    if trains:
        static = is_equal(function, *arrays)
    else:
        with paddle.no_grad():
            static = is_equal(function, *arrays)
    assert program_of(static).count(FUSED) == count


def test_open_dims():
    static = sot.to_static(mlp, min_graph_size=0, dynamic=True)
    w, b = (paddle.to_tensor(numbers(*dims), stop_gradient=False) for dims in ((8, 8), (8,)))
    for rows in (3, 4, 5, 6):
        x = paddle.to_tensor(numbers(rows, 8))
        assert bits(static(x, w, b)) == bits(mlp(x, w, b))
    record = sot.stats(static)
    assert record.translations == 2 and not record.graph_breaks
    assert all(graph.program.count(FUSED) == 3 for graph in sot.report.static_function(static).graphs())


def test_an_open_depth_stays_apart():
    def flat(x, w, b):
        return x.flatten(1) @ w + b

    static = sot.to_static(flat, min_graph_size=0)
    w, b = (paddle.to_tensor(numbers(*dims), stop_gradient=False) for dims in ((8, 6), (6,)))
    for rows in (3, 4, 5):
        x = paddle.to_tensor(numbers(rows, 2, 4))
        assert bits(static(x, w, b)) == bits(flat(x, w, b))
    record = sot.stats(static)
    assert (record.translations, record.graphs, record.fallbacks) == (2, 2, [])


@pytest.mark.parametrize("trains", [False, True])
def test_captured_control_flow(trains):
    def branch(x, w, b):
        if x.sum() > 0:
            return F.linear(x, w, b)
        return F.linear(-x, w, b).tanh()

    arrays = [numbers(4, 8, seed=2), numbers(8, 6), numbers(6)]
    with gradients_unless(not trains):
        static = is_equal(branch, *arrays, capture_control_flow=True)
        is_equal(branch, -arrays[0], *arrays[1:], capture_control_flow=True)
    assert program_of(static).count(FUSED) == (0 if trains else 2)


def gradients_unless(stops):
    return paddle.no_grad() if stops else paddle.enable_grad()


def test_gradients_of_gradients():
    def slope(x, w, b):
        y = F.linear(x, w, b).tanh().sum()
        return paddle.grad(y, x, create_graph=True)[0]

    is_equal(slope, numbers(4, 8), numbers(8, 6), numbers(6))


@pytest.mark.parametrize("count", [0, 1])
def test_what_is_written_in_between_stays_apart(count):
    paddle.enable_static()
    try:
        program = paddle.static.Program()
        with paddle.static.program_guard(program):
            x, w, b, new = (paddle.static.data(f"v{at}", dims) for at, dims in enumerate([[4, 8], [8, 6], [6], [8, 6]]))
            product = paddle.matmul(x, w)
            if count:
                product = product + b
            _C_ops.assign_out_(new, w)
            product = product + b
        assert linears.Fusion().block(program.global_block()) == count
        assert str(program).count(FUSED) == count
    finally:
        paddle.disable_static()


def test_networks_train_equally():
    def losses(translated):
        paddle.seed(3)
        network = paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 2))
        updates = paddle.optimizer.AdamW(0.01, parameters=network.parameters())
        call = sot.to_static(network, min_graph_size=0) if translated else network
        for step in range(6):
            loss = (call(paddle.to_tensor(numbers(5, 8, seed=step))) ** 2).mean()
            loss.backward()
            updates.step()
            updates.clear_grad()
            yield bits(loss)

    assert list(losses(True)) == list(losses(False))
