"""Tensors that are made of numbers inside of branches and loops."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec
from support import eager_deletion

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

DATA = ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.5, -0.25, 0.125])


def in_a_branch(x):
    if x.sum() > 0:
        y = x * paddle.to_tensor([0.5, 2.0, 1.0])
    else:
        y = x - paddle.to_tensor(3)
    return y


def counter_of_an_inner_loop(x):
    i = paddle.to_tensor(0)
    while i < 3:
        j = paddle.to_tensor(0)
        while j < i:
            x = x * 1.5 + j
            j = j + 1
        i = i + 1
    return x, i


def bound_of_an_inner_range(x):
    found = False
    for i in range(paddle.to_tensor(3)):
        for _ in range(paddle.to_tensor(2)):
            x = x * paddle.to_tensor(1.25, dtype="float32") + i
            if x.sum() > 10:
                found = True
                break
        if found:
            break
    return x, found


def index_of_a_round(x):
    rows = paddle.zeros([4, 3])
    for i in range(paddle.to_tensor(4)):
        rows = paddle.scatter(rows, paddle.to_tensor([0]) + i, (x * i).unsqueeze(0))
    return rows


FUNCTIONS = [in_a_branch, counter_of_an_inner_loop, bound_of_an_inner_range, index_of_a_round]


def observe(function, numbers, grad):
    x = paddle.to_tensor(numbers, stop_gradient=not grad)
    result = function(x)
    first, *rest = result if isinstance(result, tuple) else (result,)
    if grad:
        (first * first).sum().backward()
    rest = [one.numpy() if isinstance(one, paddle.Tensor) else one for one in rest]
    return first.numpy(), rest, x.grad.numpy() if grad else None


BACKENDS = [("paddle", True), ("paddle", False), ("eager", True), ("eager", False), ("cinn", False)]


@pytest.mark.parametrize(("backend", "grad"), BACKENDS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_one_graph(function, backend, grad):
    static = sot.to_static(function, full_graph=True, min_graph_size=0, backend=backend)
    for numbers in (*DATA, *DATA):
        got, want = observe(static, numbers, grad), observe(function, numbers, grad)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
        assert got[1] == want[1]
        if grad:
            np.testing.assert_allclose(got[2], want[2], rtol=1e-5)
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_export(function, tmp_path):
    path = str(tmp_path / "saved")
    sot.save(function, path, input_spec=[InputSpec([3], "float32", "x")])
    loaded = paddle.jit.load(path)
    for numbers in DATA:
        x = paddle.to_tensor(numbers)
        with eager_deletion():
            found = loaded(x)
        first = found[0] if isinstance(found, (list, tuple)) else found
        np.testing.assert_allclose(first.numpy(), observe(function, numbers, False)[0], rtol=1e-6)


def test_what_a_program_cannot_hold_is_left_to_the_interpreter():
    def function(x):
        if x.sum() > 0:
            x = x * paddle.to_tensor(-0.0)
        return x

    with pytest.raises(sot.GraphBreakError, match="-0.0 in a tensor operation"):
        sot.to_static(function, full_graph=True)(paddle.to_tensor(DATA[0]))
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for numbers in DATA:
        x = paddle.to_tensor(numbers)
        got, want = static(x).numpy(), function(x).numpy()
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def keys_of_results(x):
    if x.sum() > 0:
        table = {True: x * 2}
    else:
        table = {1: x}
    return table


def keys_in_tuples(x):
    if x.sum() > 0:
        return {(1.0, "a"): x * 2}
    return {(1, "a"): x}


def keys_of_what_changes(x):
    table = {1: x}
    if x.sum() > 0:
        table.pop(1)
        table[True] = x * 2
    return table


def keys_that_loops_change(x):
    table = {1: x}
    for at in range(int(abs(x.sum()))):
        del table[1]
        table[1.0] = x * at
    return table


def keys_that_loops_return(x):
    for at in range(int(abs(x.sum()))):
        if at == 1:
            return {1: x}
        if x.sum() * at > 5:
            return {True: x * 2}
    return {1.0: x}


@pytest.mark.parametrize(
    "function",
    [keys_of_results, keys_in_tuples, keys_of_what_changes, keys_that_loops_change, keys_that_loops_return],
    ids=lambda f: f.__name__,
)
def test_equal_keys_of_other_types_are_not_one(function):
    def shown(table):
        return [(repr(key), value.tolist()) for key, value in table.items()]

    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for numbers in (*DATA, [3.0, 3.0, 0.0], *DATA):
        assert shown(static(paddle.to_tensor(numbers))) == shown(function(paddle.to_tensor(numbers)))
    assert any("dict" in reason.message for reason in sot.stats(static).graph_breaks)


def test_dicts_with_the_same_keys_are_one_graph():
    def function(x):
        if x.sum() > 0:
            table = {1: x * 2, (True, "a"): x}
        else:
            table = {1: x, (True, "a"): x - 1}
        return table

    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    for numbers in DATA:
        found, expected = (run(paddle.to_tensor(numbers)) for run in (static, function))
        assert [(repr(key), value.tolist()) for key, value in found.items()] == [
            (repr(key), value.tolist()) for key, value in expected.items()
        ]
