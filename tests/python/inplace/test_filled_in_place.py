"""`fill_` and `zero_` of tensors that a function made and that gradients flow to: part of the graph, with the
zeros that eager mode's gradient has in front of them."""

import paddle
import pytest
from harness import Programs, check, tensor

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

programs = Programs()
X = tensor(3, 4, grad=True)
MANY = tensor(3, 4, grad=True, dtype="float64")


@programs(X, graphs=1, breaks=0)
def filled(x):
    y = x * 2
    y.fill_(3.0)
    return y + x


@programs(X, graphs=1, breaks=0)
def zeroed(x):
    y = x * 2
    same = y.zero_()
    return y * x, same is y


@programs(X, graphs=1, breaks=0)
def only_zeros_go_back(x):
    y = x * 2
    y.zero_()
    return y


@programs(X, graphs=1, breaks=0)
def used_before_and_behind(x):
    y = x * 2
    z = y + 1
    y.fill_(2)
    y += x
    return y, z


@programs(MANY, graphs=1, breaks=0)
def doubles(x):
    y = x * 2
    y.fill_(0.5)
    return y + x


@programs(X, graphs=1, breaks=0)
def in_a_list(x):
    parts = [x * 2, x * 3]
    parts[1].zero_()
    return sum(parts)


@programs(X, breaks=2)
def without_gradients_of_its_own(x):
    """Eager mode goes on with the history of what it was."""
    y = x * 2
    with paddle.no_grad():
        y.zero_()
    return y + x


@programs(X, breaks=1, backward=False)
def kept_for_a_gradient(x):
    y = x * 2
    z = y * y
    y.zero_()
    return z


@programs(MANY, breaks=1)
def a_number_that_a_program_rounds(x):
    y = x * 2
    y.fill_(0.1)
    return y + x


@programs(X, breaks=1)
def a_row(x):
    """Paddle's autograd does not follow it."""
    y = x * 2
    y[0].zero_()
    return y + x


@pytest.mark.parametrize("backend", ["paddle", "cinn", "eager"])
@pytest.mark.parametrize("function, args, takes", programs)
def test_filled_tensors(function, args, takes, backend):
    check(function, *args, backend=backend, **takes)
