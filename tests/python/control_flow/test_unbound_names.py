"""Names that captured control flow binds on one way: a read of one that is not bound raises what Python raises."""

import paddle
import paddle_sot_rs as sot
import pytest
from test_control_flow import DATA, check


def read_on_the_same_condition(x):
    if x.mean() > 0:
        scale = x.max()
    if x.mean() > 0:
        x = x * scale
    return x + 1


def read_on_a_narrower_condition(x):
    if x.sum() > 0:
        scale = x.max()
        y = x * 2
    else:
        y = x - 1
    if x.mean() > 1:
        y = y * scale
    return y


def bound_in_one_of_three_rounds(x):
    for i in range(3):
        if x[i] > 0:
            last = x[i]
        if i == 2:
            last = x[0]
    return last * 2


def deleted(x):
    if x.mean() > 0:
        scale = x.max()
    if x.mean() > 0:
        y = x * scale
        del scale
    else:
        y = x.abs()
    return y


def never_read(x):
    if x.sum() > 0:
        _unused = x * 2
    return x + 1


CAPTURED = [read_on_the_same_condition, read_on_a_narrower_condition, bound_in_one_of_three_rounds, deleted, never_read]


@pytest.mark.parametrize("function", CAPTURED, ids=lambda function: function.__name__)
def test_captured(function):
    check(function)


def read_in_any_case(x):
    if x.mean() > 0:
        scale = x.max()
    return x * scale


def deleted_in_any_case(x):
    if x.mean() > 0:
        scale = x.max()
    del scale
    return x * 2


def bound_in_rounds(x):
    i = paddle.to_tensor(0)
    while i < 3:
        if x.sum() > 0:
            y = x
        i += 1
    return y


RAISING = [read_in_any_case, deleted_in_any_case, bound_in_rounds]


@pytest.mark.parametrize("function", RAISING, ids=lambda function: function.__name__)
def test_raises(function):
    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    for numbers in (*DATA, *DATA):
        seen = []
        for run in (function, static):
            try:
                seen.append(run(paddle.to_tensor(numbers)).tolist())
            except UnboundLocalError as error:
                seen.append(str(error))
        assert seen[0] == seen[1]
    assert sot.stats(static).graphs == 1


def test_a_handler_is_followed_by_the_interpreter():
    def function(x):
        if x.mean() > 0:
            scale = x.max()
        try:
            return x * scale
        except UnboundLocalError:
            return x - 1

    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for numbers in (*DATA, *DATA):
        x = paddle.to_tensor(numbers)
        assert static(x).tolist() == function(x).tolist()
