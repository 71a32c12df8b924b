"""Gradients of gradients through a captured `PyLayer`: those of the user's `backward`."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.autograd import PyLayer
from paddle.autograd.py_layer import once_differentiable

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

BACKENDS = {
    "paddle": {"backend": "paddle"},
    "eager": {"backend": "eager"},
    "pylayer": {"backend": "pylayer"},
    "cinn": {"backend": "cinn"},
}


class Cube(PyLayer):
    """Its backward says twice the truth."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensor()
        return dy * 6 * x * x


class Product(PyLayer):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, dy):
        a, b = ctx.saved_tensor()
        return dy * b * 3, dy * a


class Quiet(Cube):
    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensor()
        with paddle.no_grad():
            slope = x * 6
        return dy * slope * x


class Switched(Cube):
    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensor()
        with paddle.set_grad_enabled(False):
            return dy * 6 * x


class Once(Cube):
    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        (x,) = ctx.saved_tensor()
        return dy * 6 * x


class AsksTheMode(Cube):
    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensor()
        return dy * x * (100 if paddle.is_grad_enabled() else 2)


class AsksWhatItMakes(Cube):
    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensor()
        slope = x * 6
        return dy * slope * (100 if slope.stop_gradient else 2)


class AsksWhatItIsGiven(Cube):
    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensor()
        return dy * x * (100 if x.stop_gradient or dy.stop_gradient else 2)


class Inner(Cube):
    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensor()
        return dy * Cube.apply(x)


class Clipped(Cube):
    """What it makes of zeros is not zeros."""

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensor()
        return dy.clip(0.5, 1.0) * x


class Regular(Cube):
    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensor()
        return dy + x


def penalty(function):
    """The result, its gradients, and those of a penalty on them."""
    x = paddle.to_tensor([0.5, -1.5, 2.0], stop_gradient=False)
    w = paddle.to_tensor([1.5, 0.5, -1.0], stop_gradient=False)
    result = function(x, w)
    first = paddle.grad(result.sum(), [x, w], create_graph=True)
    sum((grad * grad).sum() for grad in first).backward()
    return [it.numpy() for it in (result, *first, x.grad, w.grad)]


FUNCTIONS = {
    "one": lambda x, w: Cube.apply(x * w) * w,
    "two": lambda x, w: Product.apply(x, w) * x,
    "the same twice": lambda x, w: Product.apply(x, x) * w * w,
    "zeros are clipped": lambda x, w: Clipped.apply(x * w) * w,
    "adds to zeros": lambda x, w: Regular.apply(Clipped.apply(x) * w).sin(),
    "one after the other": lambda x, w: Cube.apply(Product.apply(x, w)) + w,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_those_of_eager_mode(name, backend):
    function = FUNCTIONS[name]
    static = sot.to_static(function, min_graph_size=0, **BACKENDS[backend])
    for _ in range(2):
        for want, got in zip(penalty(function), penalty(static), strict=True):
            np.testing.assert_allclose(want, got, rtol=1e-5)
    assert sot.stats(static).graph_breaks == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_one_of_several_results(backend):
    """What arrives at one result only, in a program with others."""

    def function(x, w):
        made = Clipped.apply(x * w)
        return made * w, Regular.apply(made), (w * 2).sin()

    static = sot.to_static(function, min_graph_size=0, **BACKENDS[backend])
    for at in (0, 1, 0):
        expected, found = (penalty(lambda x, w, run=run: run(x, w)[at]) for run in (function, static))  # noqa: B023
        for want, got in zip(expected, found, strict=True):
            np.testing.assert_allclose(want, got, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [Quiet, Once, Inner])
def test_raise_where_they_are_not_known(kind, backend):
    def function(x, w):
        return kind.apply(x * w) * w

    static = sot.to_static(function, min_graph_size=0, **BACKENDS[backend])
    first = []
    for run in (function, static):
        x, w = (paddle.to_tensor([0.5, -1.5], stop_gradient=False) for _ in range(2))
        run(x, w).sum().backward()
        first.append([x.grad.numpy(), w.grad.numpy()])
    np.testing.assert_allclose(first[0], first[1], rtol=1e-6)
    with pytest.raises((RuntimeError, OSError), match="gradients of gradients through a PyLayer"):
        penalty(static)
    paddle.base.framework._dygraph_tracer()._has_grad = True


@pytest.mark.parametrize(
    ("kind", "is_refused"),
    [(AsksTheMode, True), (Switched, True), (AsksWhatItMakes, True), (AsksWhatItIsGiven, False)],
)
def test_what_a_backward_asks_of_gradients_is_what_eager_mode_says(kind, is_refused):
    """For who asks for gradients of gradients they are on in there."""

    def function(x, w):
        return kind.apply(x * w) * w

    def first(run, **settings):
        x, w = (paddle.to_tensor([0.5, -1.5], stop_gradient=False) for _ in range(2))
        return [it.numpy() for it in paddle.grad(run(x, w).sum(), [x, w], **settings)]

    static = sot.to_static(function, min_graph_size=0)
    for settings in ({}, {"create_graph": True}, {}):
        for want, got in zip(first(function, **settings), first(static, **settings), strict=True):
            np.testing.assert_allclose(want, got, rtol=1e-6)
    reasons = [reason.message for reason in sot.stats(static).graph_breaks]
    assert ("PyLayer: backward reads what needs gradients" in reasons) == is_refused
