"""Operations whose kernels keep something for their gradients (masks, indices, statistics, factors), and what their
arguments, views of them and their results become before `backward()`: what eager mode gives, or refuses."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, translate
from paddle import nn
from paddle.nn import functional as F

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

BACKENDS = ["paddle", "cinn"]


def whole(*numbers):
    return paddle.to_tensor(numbers)


def batch_norm(training):
    def function(x, weight, bias):
        mean, variance = paddle.zeros([4]), paddle.ones([4])
        return F.batch_norm(x, mean, variance, weight, bias, training=training)

    return function


paddle.seed(0)
LSTM, CELL = nn.LSTM(4, 4), nn.LSTMCell(4, 4)
# A function, and the shapes of what it takes.
OPERATIONS = {
    "addmm": (paddle.addmm, (4, 4), (4, 4), (4, 4)),
    "alpha_dropout": (lambda x: F.alpha_dropout(x, 0.5), (4, 4)),
    "batch_norm": (batch_norm(True), (4, 4), (4,), (4,)),
    "batch_norm_eval": (batch_norm(False), (4, 4), (4,), (4,)),
    "cross_entropy": (lambda x: F.cross_entropy(x, whole(0, 1, 2, 3)), (4, 4)),
    "cummax": (lambda x: paddle.cummax(x, axis=0), (4, 4)),
    "cumprod": (lambda x: paddle.cumprod(x, 0), (4, 4)),
    "dropout": (lambda x: F.dropout(x, 0.5), (4, 4)),
    "eigh": (lambda x: paddle.linalg.eigh(x @ x.T), (4, 4)),
    "elu": (F.elu, (4, 4)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, weight=w, bias=b), (2, 4, 3, 3), (4,), (4,)),
    "gumbel_softmax": (F.gumbel_softmax, (4, 4)),
    "heaviside": (paddle.heaviside, (4, 4), (4, 4)),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (2, 4, 3, 3), (4,), (4,)),
    "kthvalue": (lambda x: paddle.kthvalue(x, 2), (4, 4)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, 4, w, b), (4, 4), (4,), (4,)),
    "lstm": (LSTM, (2, 3, 4)),
    "lstm_cell": (lambda x, h, c: CELL(x, (h, c)), (2, 4), (2, 4), (2, 4)),
    "lu": (lambda x: paddle.linalg.lu(x)[0], (4, 4)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, return_mask=True), (1, 2, 4, 4)),
    "median": (lambda x: paddle.median(x, 0), (4, 4)),
    "mode": (paddle.mode, (4, 4)),
    "prelu": (F.prelu, (1, 2, 3, 3), (2,)),
    "put_amax": (lambda x, u: paddle.put_along_axis(x, whole([0], [1]), u, 1, "amax"), (2, 4), (2, 1)),
    "put_mean": (lambda x, u: paddle.put_along_axis(x, whole([0], [1]), u, 1, "mean"), (2, 4), (2, 1)),
    "quantile": (lambda x: paddle.quantile(x, 0.3, 0), (4, 4)),
    "rrelu": (F.rrelu, (4, 4)),
    "smooth_l1": (F.smooth_l1_loss, (4, 4), (4, 4)),
    "svd": (lambda x: paddle.linalg.svd(x)[1], (4, 3)),
    "topk": (lambda x: paddle.topk(x, 2), (4, 4)),
}
GIVEN = {
    "arguments": lambda x: x,
    "views": lambda x: x.unsqueeze(0)[0],
    "views inside": lambda x: paddle.stack([x, x])[0],
}
CHANGES = ["nothing", "set_value", "add_"]


def tensors(result):
    if isinstance(result, paddle.Tensor):
        return [result]
    return [found for item in result for found in tensors(item)]


def changed(how, tensor):
    with paddle.no_grad():
        number = paddle.full(tensor.shape, 0.37).astype(tensor.dtype)
        getattr(tensor, how)(number)


def outcome(function, numbers, how, which):
    """Which tensors are one, results, and gradients, after `how` was done to the tensor that `which` counts."""
    paddle.seed(1)
    leaves = [paddle.to_tensor(array) for array in numbers]
    for leaf in leaves:
        leaf.stop_gradient = False
    given = [leaf * 1.0 for leaf in leaves]
    results, inner = function(*given)
    results = tensors(results)
    everything = [*given, *inner, *results]
    if how != "nothing":
        if which >= len(everything):
            return None
        changed(how, everything[which])
    names = [[other is one for other in everything].index(True) for one in everything]
    loss = 0
    for result in results:
        if not result.stop_gradient:
            weights = paddle.arange(result.size, dtype=result.dtype)
            loss = loss + (result * weights.reshape(result.shape)).sum()
    try:
        loss.backward()
    except (RuntimeError, ValueError):
        return "refused"
    gradients = [leaf.grad.numpy() for leaf in leaves if leaf.grad is not None]
    return names, [result.numpy() for result in results], gradients


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_kept_changes(name, given, backend):
    operation, *shapes = OPERATIONS[name]
    view = GIVEN[given]

    def function(*arguments):
        views = [view(argument) for argument in arguments]
        return operation(*views), views

    random = np.random.default_rng(0)
    numbers = [random.uniform(-1, 1, shape).astype("float32") for shape in shapes]
    translated = translate(function, backend=backend)
    compared = 0
    for how in CHANGES:
        for which in range(1 if how == "nothing" else 9):
            expected, found = (outcome(called, numbers, how, which) for called in (function, translated))
            if expected is None:
                break
            compared += expected != "refused"
            assert (found == "refused") == (expected == "refused"), (how, which)
            if expected == "refused":
                continue
            assert found[0] == expected[0], (how, which)
            for one, other in zip(found[1:], expected[1:], strict=True):
                assert len(one) == len(other)
                assert all(np.allclose(a, b, 1e-3, 1e-4, equal_nan=True) for a, b in zip(one, other, strict=True))
    assert compared
    assert IDENTITY or sot.stats(translated).graphs


@pytest.mark.parametrize("backend", BACKENDS)
def test_singular_values_that_are_equal(backend):
    """No gradient arrives at the factors: with zeros instead the kernel would divide by the difference."""
    gradients = []
    for function in (paddle.linalg.svd, translate(lambda x: paddle.linalg.svd(x), backend=backend)):
        x = paddle.eye(3)
        x.stop_gradient = False
        function(x)[1].sum().backward()
        gradients.append(x.grad)
    assert np.array_equal(gradients[0].numpy(), np.eye(3))
    assert bool((gradients[0] == gradients[1]).all())


def test_a_tensor_that_a_layer_returns_twice_is_one():
    function = lambda x, h, c: CELL(x, (h, c))  # noqa: E731
    given = [paddle.rand([2, 4]) for _ in range(3)]
    for called in (function, translate(function)):
        output, (hidden, cell) = called(*given)
        assert output is hidden and hidden is not cell
