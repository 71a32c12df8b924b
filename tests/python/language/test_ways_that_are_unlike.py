"""Captured branches and loops that leave values which no operation chooses between: what follows is simulated on either
way, up to where the frame or the round of a loop ends."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec
from support import eager_deletion
from test_loop_variables import DATA, observe, same, w

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


def none_on_one_way(x):
    y = None
    if x.sum() > 0:
        y = x * w
    if y is not None:
        return y * 2
    return x - w


def none_of_two(x):
    first = second = None
    if x.sum() > 0:
        first = x * w
    if x.max() > 2:
        second = x + w
    if first is None:
        return x if second is None else second
    return first if second is None else first * second


def a_text_says_which(x):
    kind = "added" if x.sum() > 0 else "multiplied"
    y = x * 2
    if kind == "added":
        return y + w
    return y * w


def a_list_of_other_lengths(x):
    kept = [x * w]
    if x.sum() > 0:
        kept.append(x + 1)
    if x.max() > 2:
        kept.append(x * 2)
    return paddle.stack(kept).sum(0)


def a_row_or_a_matrix(x):
    y = x.reshape([1, 3]) * w if x.sum() > 0 else x * w
    return y.sum()


def another_dtype(x):
    y = x > 0 if x.sum() > 0 else x * w
    return (y.astype("float32") * w).sum()


def bound_on_one_way(x):
    wide = x.sum() > 0
    if wide:
        y = x * w
    z = x + 1
    if wide:
        z = z * y
    return z


def a_number_in_front(x):
    total = 0
    for at in range(paddle.to_tensor(3)):
        total = total + x * w * at
    return total + x


def a_number_in_front_of_a_while(x):
    total = 0
    while x.sum() < 10:
        total = total + x * w
        x = x + 2
    return total + x


def the_last_round_is_kept(x):
    last = None
    while x.sum() < 10:
        last = x * w
        x = x + 2
    return x if last is None else last


def none_in_the_first_round(x):
    before = None
    for at in range(paddle.to_tensor(3)):
        now = x * w + at
        before = now if before is None else before * 0.5 + now
    return x if before is None else before


def in_an_inner_function(x):
    def scaled(y):
        scale = None
        if y.sum() > 0:
            scale = y.max()
        return y * w if scale is None else y * scale

    return scaled(x) + scaled(-x)


def in_rounds_of_a_loop(x):
    for _ in range(paddle.to_tensor(3)):
        add = None
        if x.sum() > 0:
            add = x * w
        x = x - 1 if add is None else x * 0.5 + add
    return x


def a_tuple_that_is_longer_behind_a_round(x):
    state = (x,)
    while state[0].sum() < 10:
        state = ((state[0] * w).abs() + 1, x)
    return state[0]


def two_names_for_a_new_list(x):
    if x.sum() > 0:
        a = b = [x]
    else:
        a = b = [x * 2]
    a.append(x)
    return b[0] * len(b) + b[1]


FUNCTIONS = [
    *(none_on_one_way, none_of_two, a_text_says_which, a_list_of_other_lengths, a_row_or_a_matrix, another_dtype),
    *(bound_on_one_way, a_number_in_front, a_number_in_front_of_a_while, the_last_round_is_kept),
    *(
        none_in_the_first_round,
        a_tuple_that_is_longer_behind_a_round,
        two_names_for_a_new_list,
        in_an_inner_function,
        in_rounds_of_a_loop,
    ),
]


@pytest.mark.parametrize("backend", ["paddle", "eager"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_one_graph(function, backend):
    static = sot.to_static(function, full_graph=True, min_graph_size=0, backend=backend)
    for grad in (True, False):
        for numbers in (*DATA, *DATA):
            same(observe(static, numbers, grad), observe(function, numbers, grad))
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (2, [], [])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_export(function, tmp_path):
    path = str(tmp_path / "saved")
    sot.save(function, path, input_spec=[InputSpec([3], "float32", "x")])
    loaded = paddle.jit.load(path)
    for numbers in DATA:
        with eager_deletion():
            found = loaded(paddle.to_tensor(numbers))
        want = observe(function, numbers, grad=False)[1][0]
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-5, atol=1e-6)


def unlike_results(x):
    return x * w if x.sum() > 0 else "nothing"


def many_in_a_row(x):
    kept = []
    for at in range(8):
        if x.sum() > at:
            kept.append(x + at)
    return len(kept)


def a_list_that_leaves(x):
    kept = [x]
    if x.sum() > 0:
        kept.append(x * 2)
    return kept


def test_what_leaves_has_to_be_alike():
    static = sot.to_static(unlike_results, full_graph=True)
    with pytest.raises(sot.GraphBreakError, match="on one way"):
        static(paddle.to_tensor(DATA[0]))


@pytest.mark.parametrize("function", [many_in_a_row, a_list_that_leaves], ids=lambda f: f.__name__)
def test_a_list_of_another_length_is_rows_of_a_tensor(function):
    static = sot.to_static(function, full_graph=True)
    for numbers in (*DATA, *DATA):
        got, want = (f(paddle.to_tensor(numbers)) for f in (static, function))
        flat = [paddle.utils.flatten([value]) for value in (got, want)]
        for one, other in zip(*flat, strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])


@pytest.mark.parametrize("function", [unlike_results, many_in_a_row, a_list_that_leaves], ids=lambda f: f.__name__)
def test_what_is_unlike_is_left_to_the_interpreter_or_equal(function):
    broken = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for numbers in (*DATA, *DATA):
        got, want = (f(paddle.to_tensor(numbers)) for f in (broken, function))
        flat = [paddle.utils.flatten([value]) for value in (got, want)]
        for one, other in zip(*flat, strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
