"""Conditions of many tests: `and`, `or` and `not` in branches, loops and asserts, in one graph. PYTEST_DONT_REWRITE"""

import paddle
import paddle_sot_rs as sot
import pytest
from test_control_flow import DATA, check

SWEEP = [[float(value)] * 3 for value in (-20, -9, -7, -6, -4, -2.5, -1, 0, 1, 2, 3.5, 9, 10, 12, 40)]


def ten_terms(x):
    s = x.sum()
    if (s > 1 and s < 3) or (s > 5 and s < 9) or (s < -8 and s > -30) or (s > -3 and s < -2) or s == 0 or s > 100:
        y = x * x
    else:
        y = x * 3
    return y


def clauses(x):
    s = x.mean()
    if (s > 1 or s < -5) and (s > 3 or s < -2) and (s < 20 or s > 30) and (s != 4 or s < 9) and not (s > 8 and s < 9.5):
        return x * x
    return x + 1


def branches_in_the_body(x):
    if x.sum() > 0 and x.mean() < 5:
        if x.max() > 2:
            y = x * 2
    else:
        x = x * x
    y = x + 1
    return y


def condition_in_front_of_condition(x):
    if x.sum() > 0 or x.mean() < -5:
        if x.max() > 2 or x.min() < -8:
            return x * 2
    return x * 4


def chain(x):
    s = x.sum()
    if s > 30 or s < -30:
        y = x * 2
    elif s > 10 and s < 20:
        y = x * x
    elif (s > 4 or s == -3) and not s == 6:
        y = x - 1
    else:
        y = x + 1
    return y


def known_tests(x, flag=True, none=None):
    if x.sum() > 0 and flag and none is None or x.mean() < -4 and none is not None:
        return x * 2
    return x - 1


def loop_of_many_tests(x):
    i = paddle.zeros([])
    v = x.mean()
    while v <= -1 or v < -3 or (v < -7 or v < -5) or (v >= 0 and v < 10):
        i = i + v
        v = v + 1
    return i, v


def loop_with_and(x):
    n = paddle.zeros([])
    y = x
    while n < 6 and y.sum() < 30 and (y.min() > -9 or n > 3):
        y = y * 1.5
        n = n + 1
    return y, n


def leaves_the_loop(x):
    n = paddle.zeros([])
    y = x
    while n < 8:
        n = n + 1
        if y.sum() > 20 or y.sum() < -20 and n > 2:
            break
        if n == 2 or n == 4:
            continue
        y = y * 2
    return y, n


def asserts(x):
    assert x.sum() < 1000 and (x.sum() > -1000 or x.mean() > 0)
    return x * 2


def helper(x):
    return x.sum() > 0 and x.mean() < 3 or x.min() < -6 and x.max() < -4


def in_a_callee(x):
    return x * x if helper(x) and not helper(x + 4) else x - 2


def not_reached(x):
    if x.shape[0] == 3 and x.sum() > 0 and x[1] > 1 and (x / x.sum()).max() > 0.1:
        return x / x.sum()
    return x * 0


@pytest.mark.parametrize(
    "function",
    [
        ten_terms,
        clauses,
        branches_in_the_body,
        condition_in_front_of_condition,
        chain,
        known_tests,
        asserts,
        in_a_callee,
        not_reached,
    ],
    ids=lambda function: function.__name__,
)
def test_conditions(function):
    check(function, data=[*DATA, *SWEEP])


@pytest.mark.parametrize(
    "function", [loop_of_many_tests, leaves_the_loop, loop_with_and], ids=lambda function: function.__name__
)
def test_conditions_of_loops(function):
    check(function, data=[*DATA, *SWEEP], grad=False)


def test_gradients_through_loops():
    check(loop_with_and, data=[*DATA, *SWEEP[5:10]])


def test_one_branch_for_each_test():
    """Not one for each way through the tests."""
    static = check(clauses, data=SWEEP)
    (graph,) = static.graphs()
    assert graph.ir.count("cond") < 24


def test_a_test_that_changes_something():
    seen = []

    def note(x):
        seen.append(1)
        return x.sum() > 0

    def function(x):
        if x.mean() > -1 and note(x):
            return x * 2
        return x

    static = sot.to_static(function, full_graph=True)
    with pytest.raises(sot.errors.GraphBreakError):
        static(paddle.ones([3]))
    assert seen == []


def either_end(x, y):
    if x > 1 or y is None or y > 1:
        return x - 1
    return x + 1


def nested_ends(x, y):
    if x > 0 and (y is None or (y > 2 and x < 3)) or (y is None and x < -2):
        return x * 7
    return x


def in_a_loop(x, y):
    rounds = 0
    while x < 10 and (y is None or rounds < y) and rounds < 20:
        x = x + 1
        rounds += 1
    return x


def in_an_expression(x, y):
    return x * 2 if (x > 1 or y is None) and not (y is not None and y > 5) else x


def asserted(x, y):
    assert x > -100 or y is None or y > 1
    return x + 0


@pytest.mark.parametrize("is_tensor", [False, True])
@pytest.mark.parametrize("function", [either_end, nested_ends, in_a_loop, in_an_expression, asserted])
def test_a_test_behind_one_that_is_known(function, is_tensor):
    """Where `y is None` holds, `y > 1` is never asked, and raises nothing."""
    translated = sot.to_static(function, full_graph=True)
    for x in (-3, 0, 1, 2, 4, 7):
        for y in (None, 1, 2, 3, 6):
            y = paddle.to_tensor(y) if is_tensor and y is not None else y
            assert translated(paddle.to_tensor(x), y).item() == function(paddle.to_tensor(x), y).item()
    assert sot.stats(translated).graphs == sot.stats(translated).translations
