"""What gets other numbers before gradients of gradients compute a program again: an error, never wrong numbers."""

import itertools

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import REFUSED, translate

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


def _exponential(x, weight):
    return ((x * weight + 0.1) * 0.9 - 0.05).sin().exp()


def _row(x, weight):
    return _exponential(x, weight)[1]


def _several(x, weight):
    made = _exponential(x, weight)
    return made.reshape([-1]), (made * weight).sum()


def _linear(x, weight):
    return ((x * x * weight).tanh() * 2 - weight) * 0.5


FUNCTIONS = [_exponential, _row, _several, _linear]


def _step(weight):
    weight.grad = paddle.ones_like(weight)
    paddle.optimizer.SGD(0.125, parameters=[weight]).step()
    weight.clear_gradient()


CHANGES = {
    "nothing": lambda result, x, weight: None,
    "result": lambda result, x, weight: result.set_value(result.detach() * 0.5 + 0.125),
    "step": lambda result, x, weight: _step(weight),
    "argument": lambda result, x, weight: x.set_value(x.detach() + 0.25),
    "in place": lambda result, x, weight: result.scale_(0.5),
    "argument in place": lambda result, x, weight: x.detach().scale_(0.5),
}


def _before(result, x, weight, change):
    change(result, x, weight)
    (gradient,) = paddle.grad((result * 2).sum(), [x], create_graph=True)
    (gradient * gradient).sum().backward()
    return gradient


def _behind(result, x, weight, change):
    (gradient,) = paddle.grad((result * 2).sum(), [x], create_graph=True, retain_graph=True)
    change(result, x, weight)
    (gradient * gradient).sum().backward()
    return gradient


def _outcome(function, use, change):
    x = paddle.to_tensor(np.random.RandomState(1).rand(3, 2))
    weight = paddle.to_tensor(np.random.RandomState(2).rand(3, 2))
    x.stop_gradient = weight.stop_gradient = False
    result = function(x, weight)
    result = result[0] if isinstance(result, tuple) else result

    def changed(*tensors):
        with paddle.no_grad():
            CHANGES[change](*tensors)

    try:
        gradient = use(result, x, weight, changed)
    except RuntimeError as error:
        assert "has been modified by an inplace" in str(error) or "other numbers than when" in str(error)
        return REFUSED
    return [it.numpy() for it in (gradient, x.grad, weight.grad)]


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
@pytest.mark.parametrize("use", [_before, _behind])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_changes(function, use, backend):
    run = translate(function, backend=backend)
    for change in CHANGES:
        expected = _outcome(function, use, change)
        for _ in range(2):
            found = _outcome(run, use, change)
            if found is REFUSED:
                assert change != "nothing"
                continue
            if expected is REFUSED:
                # Results of primitive operators are counted otherwise: nothing that is read has
                # changed.
                expected = _outcome(function, use, "nothing")
            assert all(itertools.starmap(np.allclose, zip(found, expected, strict=True))), change
    assert sot.stats(run).graphs == 1
    assert not sot.stats(run).graph_breaks


def test_a_result_that_changes_in_place_behind_its_gradient():
    run = translate(_linear)
    found = [_outcome(function, _before, "in place") for function in (_linear, run)]
    assert REFUSED not in found
    assert all(itertools.starmap(np.allclose, zip(*found, strict=True)))


def test_the_error_says_what_to_do():
    run = translate(_exponential)
    x, weight = paddle.rand([2, 3]), paddle.rand([2, 3])
    x.stop_gradient = weight.stop_gradient = False
    result = run(x, weight)
    _step(weight)
    with pytest.raises(RuntimeError, match="gradients of gradients compute it again. Ask for them before that changes"):
        paddle.grad(result.sum(), [x], create_graph=True)
    # Others go on.
    result = run(x, weight)
    (gradient,) = paddle.grad(result.sum(), [x], create_graph=True)
    assert gradient.shape == [2, 3]
