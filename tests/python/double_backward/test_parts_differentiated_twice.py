"""Gradients of gradients through parts of graphs that hand several tensors on to one operation."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest

pytestmark = pytest.mark.default_python


def product_of_two(x, w):
    h = x * w
    y = h.exp().sin()
    return y * h, y * 2


def product_beside_others(x, w):
    h = x @ w
    y = h + 1 + x
    return y.exp(), y.sin(), y * h, y.cos()


def quotient(x, w):
    h = x.tanh() * w
    y = (h.exp() + 2).sin() + 3
    return h / y, y.cos()


def matmul_of_two(x, w):
    h = (x * w).tanh()
    y = h.sin().exp()
    return y @ h, h * 2, y * 3


FUNCTIONS = [product_of_two, product_beside_others, quotient, matmul_of_two]


def penalty(results, given):
    gradients = paddle.grad(sum(result.sum() for result in results), given, create_graph=True)
    sum((gradient * gradient).sum() for gradient in gradients).backward()


def penalty_of_one(results, given):
    (gradient,) = paddle.grad(results[0].sum(), given[:1], create_graph=True)
    gradient.square().sum().backward()


@pytest.mark.parametrize("way", [penalty, penalty_of_one])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_penalties(function, way):
    static = sot.to_static(function, min_graph_size=0)
    seen = []
    for call in (function, static):
        numbers = np.random.default_rng(3)
        given = [paddle.to_tensor(numbers.uniform(-1, 1, (4, 4)), stop_gradient=False) for _ in range(2)]
        way(call(*given), given)
        seen.append([leaf.grad.numpy() for leaf in given])
    for plain, translated in zip(*seen, strict=True):
        np.testing.assert_allclose(translated, plain, rtol=1e-9)
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])
