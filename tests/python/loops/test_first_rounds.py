"""First rounds of loops over open dims, which are simulated by themselves where others begin with something else."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec

ONE = paddle.ones([1])


def rows(n):
    return paddle.to_tensor(np.random.RandomState(n).uniform(-1, 1, [n, 4]).astype("float32"))


def counted_from_two(x):
    total = 0.0
    for i, value in enumerate(x.sum(1), 2):
        total = total + value * i
    return ONE * total


def counted_below_zero(x):
    total = 0
    for i, k in enumerate(range(x.shape[0]), -3):
        total = x[k] * i + total
    return ONE * total


def counted_twice(x):
    total = 0.0
    for i, (j, row) in enumerate(enumerate(x, 5), 1):
        total = total + row * i - row.mean() * j
    return ONE * total


def counted_next_to_others(x):
    total = 0.0
    for (i, row), k in zip(enumerate(x, 3), range(100)):
        total = total + row * i * k
    return ONE * total


ENUMERATIONS = [counted_from_two, counted_below_zero, counted_twice, counted_next_to_others]


@pytest.mark.parametrize("function", ENUMERATIONS, ids=lambda it: it.__name__)
def test_enumerations_begin_where_they_should(function):
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for n in (2, 3, 4, 5, 6, 7, 1, 4):
        x = rows(n)
        np.testing.assert_allclose(static(x).numpy(), function(x).numpy(), rtol=1e-5, atol=1e-6)


def broken_behind_the_first(x):
    total = 0.0
    for i, k in enumerate(range(x.shape[0]), 2):
        total = total + x[k] * i
        sot.graph_break()
    return ONE * total


def test_what_is_left_of_an_enumeration_goes_on():
    static = sot.to_static(broken_behind_the_first, capture_control_flow=True, min_graph_size=0)
    for n in (2, 3, 4, 5, 6):
        x = rows(n)
        np.testing.assert_allclose(static(x).numpy(), broken_behind_the_first(x).numpy(), rtol=1e-5, atol=1e-6)


def total_of_rows(x):
    total = 0
    for row in x:
        total = total + row.sum()
    return total


def total_of_totals(x):
    total = 0.0
    for row in x:
        part = 0.0
        for value in row:
            part = part + value * value
        total = total + part
    return total


def another_than_the_one_before(x):
    before, out = -1, []
    for index in x.argmax(-1):
        if index != before and index != 0:
            out.append(index)
        before = index
    return paddle.stack(out) if len(out) > 0 else paddle.zeros([0], "int64")


def products_with_the_one_before(x):
    before, out = -1.0, []
    for i in range(x.shape[0]):
        value = x[i].sum()
        out.append(value * before)
        before = value
    return paddle.stack(out), before


NUMBERS = [*ENUMERATIONS, total_of_rows, total_of_totals, another_than_the_one_before, products_with_the_one_before]


@pytest.mark.parametrize("function", NUMBERS, ids=lambda it: it.__name__)
def test_numbers_that_become_tensors_are_in_files(function, tmp_path):
    path = str(tmp_path / "f")
    sot.save(function, path, [InputSpec([None, 4], "float32", "x")])
    loaded = paddle.jit.load(path)
    for n in (2, 3, 5, 1, 7):
        x = rows(n)
        for got, want in zip(*map(paddle.utils.flatten, (loaded(x), function(x))), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


def test_such_a_file_fails_without_a_round(tmp_path):
    """Where Python has the number."""
    path = str(tmp_path / "f")
    sot.save(total_of_rows, path, [InputSpec([None, 4], "float32", "x")])
    with pytest.raises(ValueError, match="InvalidArgumentError"):
        paddle.jit.load(path)(paddle.zeros([0, 4]))
