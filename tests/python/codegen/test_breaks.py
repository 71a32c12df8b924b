"""Graph breaks: the number of sub-graphs is part of each test."""

import numpy as np
import paddle
import pytest
from support import check

X = paddle.to_tensor(np.arange(12, dtype="float32").reshape(3, 4) - 3)


def branch(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def branch_without_return(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    else:
        y = y - 1
    return y * x


def numpy_round_trip(x):
    y = (x + 1).numpy()
    return paddle.to_tensor(y) * x


def prints(x):
    y = x + 1
    print("sum", y.sum().item())
    return y * 2


def item(x):
    scale = x.max().item()
    return x * scale


def in_loop(x):
    for i in range(3):
        x = x + i
        if x.sum() > 5:
            x = x * 0.5
    return x


def in_with(x):
    with paddle.no_grad():
        y = x * 2
        print(float(y.sum()))
        z = y + 1
    return z + x


def in_try(x):
    try:
        y = x + 1
        value = int(y.sum())
        return y * value
    except ValueError:
        return x
    finally:
        print("done")


def raises_in_try(x):
    y = x + 1
    try:
        z = int(str(float(y.sum())) + "!")
    except ValueError as error:
        print(type(error).__name__)
        z = 2
    return y * z


def raises(x):
    y = x + 1
    raise RuntimeError(f"sum is {float(y.sum())}")


def bad_shape(x):
    return x + 1 + paddle.ones([7, 7])


def callee_breaks(x):
    return helper(x + 1) + 1


def helper(x):
    print(float(x.sum()))
    return x * 2


def while_loop(x):
    steps = 0
    while x.sum() < 100 and steps < 6:
        x = x * 2 + 1
        steps += 1
    return x, steps


def stack_values(x):
    return [x + 1, x * float(x.sum()), {"k": (x - 1).sum().item()}]


def cells(x):
    total = x.sum()

    def scaled(y):
        return y * total

    print(float(total))
    return scaled(x)


def assert_on_tensor(x):
    y = x + 1
    assert y.sum() > 0, "negative"
    return y * 2


def boolean_operators(x):
    return x + (1 if (x.sum() > 0 and x.max() > 0) else 2)


def setitem(x):
    y = x * 1
    y[0] = 7.0
    return y + 1


def inplace(x):
    y = x * 1
    y.add_(x)
    return y + 1


def inplace_through_a_view(x):
    y = x * 1
    y[0].add_(paddle.ones([4]))
    return y


@pytest.mark.parametrize(
    "function",
    [
        branch, branch_without_return, numpy_round_trip, prints, item, in_loop, in_with, in_try, raises_in_try, raises,
        bad_shape, callee_breaks, while_loop, stack_values, cells, assert_on_tensor, boolean_operators, setitem,
        inplace, inplace_through_a_view,
    ],
)  # fmt: skip
def test_equals_eager_on_both_sides_of_every_branch(function):
    check(function, X, again=(X - 20,), fallbacks=None)


@pytest.mark.parametrize(
    ("function", "graphs", "breaks"),
    [(branch, 2, 1), (prints, 2, 2), (item, 2, 1), (numpy_round_trip, 2, 1), (cells, 2, 2)],
)
def test_keeps_the_graphs_around_a_break(function, graphs, breaks):
    check(function, X, graphs=graphs, breaks=breaks)
