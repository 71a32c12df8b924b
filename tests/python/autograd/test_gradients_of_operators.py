"""Each operation whose gradients of gradients are captured, against eager mode: alone and with frozen operands, for
gradients of all operands or of one, twice and as often as eager mode can."""

import numpy
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle.nn import functional as F

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

# By name: the function, the shapes of its arguments, and how often it is differentiated.
OPERATIONS = {
    "tanh": (paddle.tanh, [(3, 4)], 4),
    "sigmoid": (F.sigmoid, [(3, 4)], 3),
    "exp": (paddle.exp, [(3, 4)], 4),
    "sin": (paddle.sin, [(3, 4)], 3),
    "cos": (paddle.cos, [(3, 4)], 3),
    "silu": (F.silu, [(3, 4)], 4),
    "square": (paddle.square, [(3, 4)], 2),
    "a power": (lambda x: x**3, [(3, 4)], 3),
    "a broken power": (lambda x: x**2.5, [(3, 4)], 3),
    "sqrt": (paddle.sqrt, [(3, 4)], 2),
    "rsqrt": (paddle.rsqrt, [(3, 4)], 2),
    "abs": (paddle.abs, [(3, 4)], 2),
    "relu": (F.relu, [(3, 4)], 2),
    "leaky_relu": (F.leaky_relu, [(3, 4)], 2),
    "softplus": (F.softplus, [(3, 4)], 2),
    "elu": (F.elu, [(3, 4)], 2),
    "celu": (F.celu, [(3, 4)], 2),
    "scale": (lambda x: 3 * x + 1, [(3, 4)], 4),
    "a difference of a number": (lambda x: 1 - x, [(3, 4)], 3),
    "sum": (lambda x: x.sum(1), [(3, 4)], 4),
    "a sum that keeps": (lambda x: x.sum([0], keepdim=True), [(3, 4)], 4),
    "mean": (lambda x: x.mean(1), [(3, 4)], 4),
    "reshape": (lambda x: x.reshape([4, 3]), [(3, 4)], 4),
    "transpose": (lambda x: x.transpose([1, 0]), [(3, 4)], 4),
    "squeeze": (lambda x: x.squeeze(1), [(3, 1, 4)], 3),
    "unsqueeze": (lambda x: x.unsqueeze(1), [(3, 4)], 3),
    "expand": (lambda x: x.expand([3, 4]), [(1, 4)], 4),
    "tile": (lambda x: paddle.tile(x, [2, 1]), [(3, 4)], 4),
    "slice": (lambda x: x[:, 1:3], [(3, 4)], 4),
    "row": (lambda x: x[1], [(3, 4)], 3),
    "index_select": (lambda x: paddle.index_select(x, paddle.to_tensor([0, 2]), axis=1), [(3, 4)], 3),
    "gather": (lambda x: paddle.gather(x, paddle.to_tensor([0, 2, 0])), [(3, 4)], 3),
    "flip": (lambda x: paddle.flip(x, [0]), [(3, 4)], 3),
    "clone": (lambda x: x.clone(), [(3, 4)], 3),
    "add": (paddle.add, [(3, 4), (3, 4)], 4),
    "add a row": (paddle.add, [(3, 4), (4,)], 4),
    "add to a column": (paddle.add, [(3, 1), (3, 4)], 3),
    "subtract": (paddle.subtract, [(3, 4), (3, 4)], 4),
    "subtract a row": (paddle.subtract, [(3, 4), (4,)], 4),
    "subtract from a column": (paddle.subtract, [(3, 1), (3, 4)], 3),
    "multiply": (paddle.multiply, [(3, 4), (3, 4)], 4),
    "multiply by a row": (paddle.multiply, [(3, 4), (4,)], 4),
    "multiply a column": (paddle.multiply, [(3, 1), (3, 4)], 3),
    "divide": (paddle.divide, [(3, 4), (3, 4)], 2),
    "divide by a row": (paddle.divide, [(3, 4), (4,)], 2),
    "maximum": (paddle.maximum, [(3, 4), (3, 4)], 3),
    "minimum": (paddle.minimum, [(3, 4), (4,)], 3),
    "matmul": (paddle.matmul, [(3, 4), (4, 5)], 4),
    "matmul, first transposed": (lambda x, y: paddle.matmul(x, y, transpose_x=True), [(4, 3), (4, 5)], 3),
    "matmul, second transposed": (lambda x, y: paddle.matmul(x, y, transpose_y=True), [(3, 4), (5, 4)], 4),
    "matmul, both transposed": (lambda x, y: paddle.matmul(x, y, True, True), [(4, 3), (5, 4)], 3),
    "matmul of several": (paddle.matmul, [(2, 3, 4), (2, 4, 5)], 3),
    "matmul that repeats": (paddle.matmul, [(2, 3, 4), (4, 5)], 3),
    "bmm": (paddle.bmm, [(2, 3, 4), (2, 4, 5)], 3),
    "linear": (F.linear, [(3, 4), (4, 5), (5,)], 4),
    "concat": (lambda x, y: paddle.concat([x, y], 1), [(3, 4), (3, 2)], 3),
    "conv2d": (F.conv2d, [(2, 3, 6, 6), (4, 3, 3, 3)], 2),
    "conv2d with a bias": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1),
        [(2, 3, 6, 6), (4, 3, 3, 3), (4,)],
        2,
    ),
    "layers that share weights": (
        lambda x, w, b: F.tanh(F.linear(F.tanh(F.linear(x, w, b)), w, b)),
        [(3, 4), (4, 4), (4,)],
        3,
    ),
}

# Operands that are differentiated by, those whose gradients are used, and those that are frozen.
WAYS = {
    "all": (slice(None), slice(None), []),
    "the first": ([0], slice(None), []),
    "the second": ([1], slice(None), []),
    "all, and the first is used": (slice(None), [0], []),
    "all, and the second is used": (slice(None), [1], []),
    "the first alone": ([0], slice(None), [1, 2]),
    "the second alone": ([1], slice(None), [0]),
}

# Eager mode has no gradient of it, or a program none that is equal.
LEFT = {
    "concat": ("the first alone", "the second alone"),
    "conv2d": ("the second", "the second alone"),
    "conv2d with a bias": ("the second", "the second alone"),
    "divide": ("the second", "the second alone"),
    "divide by a row": ("the second", "the second alone"),
}

CASES = [
    (name, way, times)
    for name, (_, shapes, most) in OPERATIONS.items()
    for way in (WAYS if len(shapes) > 1 else ["all"])
    for times in range(2, most + 1)
    if way not in LEFT.get(name, ())
]


def picked(items, which):
    return items[which] if isinstance(which, slice) else [items[at] for at in which]


def is_close(found, expected):
    return numpy.allclose(found, expected, rtol=0, atol=1e-6 * numpy.abs(expected).max())


def differentiated(function, way, times, weights, given):
    """A number that is made of derivatives of a function, between two others."""
    by, used, _ = WAYS[way]
    found = F.tanh(function(*[F.tanh(x) for x in given]))
    for _ in range(times - 1):
        gradients = paddle.grad([found], picked(given, by), create_graph=True, allow_unused=True)
        pairs = picked(list(zip(gradients, picked(weights, by), strict=True)), used)
        found = sum((gradient * weight).sum() for gradient, weight in pairs if gradient is not None)
    return found


@pytest.mark.parametrize(("name", "way", "times"), CASES)
def test_gradients_of_gradients(name, way, times):
    function, shapes, _ = OPERATIONS[name]
    paddle.seed(3)
    given = [paddle.rand(shape) * 0.7 + 0.2 for shape in shapes]
    weights = [paddle.rand(shape) - 0.5 for shape in shapes]
    for at, x in enumerate(given):
        x.stop_gradient = at in WAYS[way][2]

    def run(*given):
        return differentiated(function, way, times, weights, list(given))

    translated = translate(lambda *given: run(*given), min_graph_size=0)
    results = []
    for one in (run, translated, translated):
        found = one(*given)
        assert (found.grad_fn.name() == "Dy2StGradNode") == (one is translated)
        found.backward()
        results.append([found.item(), *(None if x.grad is None else x.grad.tolist() for x in given)])
        for x in given:
            x.clear_gradient(set_to_zero=False)
    if times < 4:
        assert results[0] == results[1] == results[2]
    for one in results[1:]:
        for found, expected in zip(one, results[0], strict=True):
            assert (found is None) == (expected is None)
            assert found is None or is_close(found, expected)
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])
