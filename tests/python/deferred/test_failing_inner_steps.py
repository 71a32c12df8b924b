"""What fails behind a step that is part of a graph: the step is done once."""

import paddle
import paddle_sot_rs as sot
import pytest
from paddle.nn import functional as F
from test_inner_steps import CALLS, plain, run

pytestmark = pytest.mark.default_python


def stepping(behind, numbers):
    """A step with this behind it, which is given a number that changes from call to call."""

    def step(pair, x, y):
        loss = plain(pair, x, y)
        with paddle.no_grad():
            return loss, behind(pair.first(x), pair.number)

    def between(number, pair):
        pair.number = numbers(number)

    return step, between


def late(usual, other):
    return lambda number: paddle.to_tensor(other if number % 4 == 3 and number > 4 else usual)


# What fails because of a number that is a tensor.
NUMBERS = {
    "ones": (lambda x, size: paddle.ones([size, 3]) + x.sum(), late(2, -1)),
    "full": (lambda x, size: paddle.full([size, 3], 2.0) + x.sum(), late(2, -1)),
    "zeros": (lambda x, size: paddle.zeros([size, 3]) + x.sum(), late(2, -1)),
    "no maximum": (lambda x, size: (paddle.full([size, 3], 2.0) + x.sum()).max(), late(2, 0)),
    "clip": (lambda x, top: x.clip(0.0, top), late(1.0, -1.0)),
    "dropout": (lambda x, rate: F.dropout(x, rate), late(0.5, 1.5)),
    "max": (lambda x, axis: x.max(axis), late(1, 3)),
    "mean": (lambda x, axis: x.mean(axis), late(1, 3)),
    "masked": (lambda x, least: paddle.masked_select(x, x > least).max(), late(-100.0, 100.0)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_in_tensors(name):
    step, between = stepping(*NUMBERS[name])
    translated = run(step, between=between)
    assert sot.stats(translated).whole_steps == 0


def sometimes(*numbers):
    return lambda number: numbers[number % len(numbers)] if number > 4 else numbers[0]


# What fails because of a number of Python's: it may be a tensor of the graph, or known by the program.
PYTHON = {
    "clip": (lambda x, top: x.clip(0, top), sometimes(2, 3, 4, -1, 5)),
    "expand": (lambda x, size: x.sum().expand([size, 2]).max(), sometimes(2, 3, 4, -1, 5)),
    "ones": (lambda x, size: paddle.ones([size, 3]) + x.sum(), sometimes(2, 3, 4, -1, 5)),
    "split": (lambda x, size: x.split(size, axis=1)[0].max(), sometimes(2, 3, 5, 4)),
}


@pytest.mark.parametrize("name", PYTHON)
def test_numbers_of_python(name):
    step, between = stepping(*PYTHON[name])
    run(step, between=between)


def test_dims_that_only_the_program_knows():
    def step(pair, x, y):
        kept = paddle.masked_select(y, y > pair.least)
        loss = plain(pair, x, y)
        with paddle.no_grad():
            return loss, kept.max(), pair.first(x)

    def between(number, pair):
        pair.least = paddle.to_tensor(100.0 if number % 4 == 3 else 0.0)

    run(step, between=between)


@pytest.mark.parametrize("size", [None, -1])
def test_a_first_run_that_fails(size):
    """Paddle infers dims that the kernel refuses: what the step updated is as it was."""

    def step(pair, x, y):
        loss = plain(pair, x, y)
        with paddle.no_grad():
            return loss, pair.first(x).sum().expand([pair.size, 2])

    def between(number, pair):
        pair.size = size if number > 2 and size else 3

    translated = run(step, between=between)
    assert sot.stats(translated).whole_steps == (2 if size else CALLS - 1)
