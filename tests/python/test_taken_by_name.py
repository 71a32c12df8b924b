"""Functions and classes that only have the name or the module of another. See `changes.py`."""

# ruff: noqa: A001, B018, E721, UP030, UP031, UP032, UP042

import functools

import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from changes import X, cases, run_case

CASES, case = cases()


def with_globals(source, **names):
    exec(source, names)
    return names


@case
def function_that_wraps_one_of_paddle():
    scale = [1.0]

    @functools.wraps(F.relu)
    def mine(x):
        return x * scale[0]

    yield lambda x: mine(x)
    scale[0] = 5.0
    yield


@case
def function_that_wraps_one_of_paddle_below_no_grad():
    scale = [1.0]

    @paddle.no_grad()
    @functools.wraps(F.relu)
    def mine(x):
        return x * scale[0]

    yield lambda x: mine(x)
    scale[0] = 5.0
    yield


@case
def object_that_wraps_a_function_of_paddle():
    scale = [1.0]

    class Mine:
        def __init__(self):
            functools.update_wrapper(self, F.relu)

        def __call__(self, x):
            return x * scale[0]

    mine = Mine()
    yield lambda x: mine(x)
    scale[0] = 5.0
    yield


@case
def function_with_the_module_and_name_of_another():
    scale = [1.0]

    def mine(x):
        return x * scale[0]

    mine.__module__, mine.__name__ = "paddle.tensor.math", "abs"
    yield lambda x: mine(x)
    scale[0] = 5.0
    yield


@case
def function_executed_as_a_module_of_paddle():
    names = with_globals("def mine(x): return x * scale", scale=1.0, __name__="paddle.tensor.math")
    mine = names["mine"]
    yield lambda x: mine(x)
    names["scale"] = 5.0
    yield


@case
def public_function_replaced_by_one_that_wraps_it():
    old, scale = F.relu, [3.0]

    @functools.wraps(old)
    def mine(x):
        return old(x) * scale[0]

    yield lambda x: F.relu(x)
    F.relu = mine
    try:
        yield
        scale[0] = 4.0
        yield
    finally:
        F.relu = old
    yield


@case
def method_of_tensors_from_a_module_that_begins_like_paddle():
    old = paddle.Tensor.abs
    names = with_globals("def mine(self): return self * scale", scale=3.0, __name__="paddlenlp.utils")
    yield lambda x: x.abs()
    paddle.Tensor.abs = names["mine"]
    try:
        yield
        names["scale"] = 4.0
        yield
    finally:
        paddle.Tensor.abs = old
    yield


@case
def method_of_tensors_that_wraps_the_old_one():
    old, scale = paddle.Tensor.abs, [3.0]

    @functools.wraps(old)
    def mine(self):
        return old(self) * scale[0]

    yield lambda x: x.abs()
    paddle.Tensor.abs = mine
    try:
        yield
        scale[0] = 4.0
        yield
    finally:
        paddle.Tensor.abs = old
    yield


@case
def forward_that_wraps_the_old_one():
    relu, old, scale = paddle.nn.ReLU(), paddle.nn.ReLU.forward, [3.0]

    @functools.wraps(old)
    def mine(self, x):
        return old(self, x) * scale[0]

    yield lambda x: relu(x)
    paddle.nn.ReLU.forward = mine
    try:
        yield
        scale[0] = 4.0
        yield
    finally:
        paddle.nn.ReLU.forward = old
    yield


@pytest.mark.parametrize("steps", CASES)
def test_change(steps):
    run_case(steps)


def test_functions_of_paddle_are_in_the_graph():
    def f(x):
        x = F.softmax(paddle.nn.ReLU()(x.abs()), axis=-1)
        return paddle.linalg.norm(paddle.concat([x, paddle.matmul(x, x.T).sum() + x]))

    translated = sot.to_static(f, min_graph_size=0)
    assert translated(X).item() == f(X).item()
    assert sot.stats(translated).graph_breaks == []
