"""The CINN-prim backend next to eager mode: what is no number, infinite, or has no dims."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

NAN, INF = float("nan"), float("inf")
VALUES = {
    "no number": [NAN, -1.0, 2.0],
    "only no number": [NAN],
    "infinite": [INF, -INF, 0.5],
    "zeros": [0.0, 0.0, 1.5],
    "without dims": 2.0,
}
CASES = {
    "abs": paddle.abs,
    "amax": lambda x: x.amax(),
    "amin": lambda x: x.amin(),
    "clip": lambda x: x.clip(0.0, 1.0),
    "clip below": lambda x: x.clip(0.0),
    "clip to tensors": lambda x: x.clip(paddle.to_tensor(0.0), paddle.to_tensor(1.0)),
    "cross entropy": lambda x: F.binary_cross_entropy_with_logits(x, paddle.ones_like(x)),
    "cumprod": lambda x: x.cumprod(0),
    "heaviside": lambda x: paddle.heaviside(x, x * 0),
    "kl_div": lambda x: F.kl_div(x, x * 2),
    "lerp": lambda x: x.lerp(x.flip([0] * (x.ndim > 0)), 0.3),
    "logaddexp": lambda x: paddle.logaddexp(x, x),
    "max": lambda x: x.max(),
    "maximum": lambda x: paddle.maximum(x, x * 1),
    "minimum": lambda x: paddle.minimum(x, x * 0 + 1),
    "norm": lambda x: x.norm(),
    "power of zero": lambda x: x**0,
    "power": lambda x: x**2,
    "prod": lambda x: x.prod(),
    "ranking": lambda x: F.margin_ranking_loss(x, x * 0, x.sign()),
    "relu": F.relu,
    "smooth l1": lambda x: F.smooth_l1_loss(x, x * 0 + 2, reduction="none"),
    "sort": lambda x: x.sort(0),
    "sum": lambda x: x.sum(0),
    "sum of squares": lambda x: x.square().sum(-1, keepdim=True),
}


def outcome(run, values):
    x = paddle.to_tensor(np.asarray(values, "float32"), stop_gradient=False)
    result = run(x)
    result.sum().backward()
    return result, x.grad


@pytest.mark.parametrize("name", CASES)
def test_is_what_eager_mode_makes_of_it(name):
    function = CASES[name]

    def run(x):
        # Nothing that is in front of it or behind it can be seen.
        return function(x * 1.0) * 1.0

    static = sot.to_static(run, backend="cinn", min_graph_size=0)
    for kind, values in VALUES.items():
        if kind == "without dims" and name == "cumprod":
            continue
        for want, got in zip(outcome(run, values), outcome(static, values), strict=True):
            assert want.shape == got.shape, kind
            np.testing.assert_allclose(want.numpy(), got.numpy(), rtol=1e-5, err_msg=kind)
    assert (sot.stats(static).graph_breaks, sot.stats(static).fallbacks) == ([], [])


LARGE = float(2**40)
MATRIX = [[0.5, -1.75, 1.0], [-0.25, 0.75, -3.0]]
KEPT = {
    # name of the kept operator, function, values
    "largest": ("p_norm", lambda x: paddle.linalg.norm(x, INF, 1), MATRIX),
    "smallest": ("p_norm", lambda x: paddle.linalg.norm(x, -INF, 1), MATRIX),
    "smallest of all": ("p_norm", lambda x: paddle.linalg.norm(x, -INF), MATRIX),
    "mean without dims": ("mean", lambda x: x.mean(0), -0.75),
    "mean of the last axis without dims": ("mean", lambda x: x.mean(-1, keepdim=True), -0.75),
    "mean of whole numbers": ("mean", lambda x: (x * LARGE).astype("int64").mean(), [[-7, -1, 0, 1], [3, 7, 5, -4]]),
    "squares of whole numbers": ("square", lambda x: (x * LARGE).astype("int64").square(), [1.0, 3.0, 2.0]),
    "products and nothing": (
        "addmm",
        lambda x: paddle.addmm(paddle.full([1, 2], NAN), x, x.T, beta=0.0),
        MATRIX,
    ),
    "nothing of products": ("addmm", lambda x: paddle.addmm(x[:, :2], x / 0, x.T, alpha=0.0), MATRIX),
    "batched products and nothing": (
        "baddbmm",
        lambda x: paddle.baddbmm(paddle.full([1, 1, 2], INF), x.unsqueeze(0), x.T.unsqueeze(0), beta=0.0),
        MATRIX,
    ),
    "count": ("p_norm", lambda x: paddle.linalg.norm(x, 0, -1), [[NAN, 0.0, 1.0], [0.0, 2.0, 3.0]]),
    "leaky relu that turns": ("leaky_relu", lambda x: 1 / F.leaky_relu(x, -0.5), [0.0, -2.0, 3.0]),
    "leaky relu that ends": ("leaky_relu", lambda x: F.leaky_relu(x, 0.0), [0.0, -2.0, INF, -INF, NAN]),
    "log_softmax": ("log_softmax", lambda x: F.log_softmax(x, -1), [[0.0, -70.0, -100.0]]),
    "likelihood": (
        "log_softmax",
        lambda x: F.nll_loss(F.log_softmax(30 * x, -1), paddle.to_tensor([0, 1])),
        [[0.0, -7.0, -10.0], [4.0, 0.0, 1.0]],
    ),
    "diagonal of no columns": ("diag", lambda x: paddle.diag(x, 1), np.zeros([3, 0])),
}


@pytest.mark.parametrize("name", KEPT)
def test_stays_where_the_decomposed_form_has_other_numbers(name):
    operator, function, values = KEPT[name]

    def run(x):
        return function(x * 1.0) * 1

    static = sot.to_static(run, backend="cinn", min_graph_size=0)

    def whole(run):
        x = paddle.to_tensor(np.asarray(values, "float32"), stop_gradient=False)
        result = run(x)
        if not result.stop_gradient:
            result.sum().backward()
        with paddle.no_grad():
            return result, run(x), x.grad

    for want, got in zip(whole(run), whole(static), strict=True):
        if want is None or got is None:
            assert want is got
            continue
        assert (want.shape, want.dtype) == (got.shape, got.dtype)
        np.testing.assert_allclose(want.numpy(), got.numpy(), rtol=1e-5)
        if want.dtype == paddle.float32:
            np.testing.assert_array_equal(np.signbit(want.numpy()), np.signbit(got.numpy()))
    assert (sot.stats(static).graph_breaks, sot.stats(static).fallbacks) == ([], [])
    text = str(sot.explain(run, backend="cinn", min_graph_size=0)(paddle.to_tensor(np.asarray(values, "float32"))))
    (kept,) = (line for line in text.splitlines() if "composite operators kept" in line)
    assert f" {operator} 1" in kept


def test_refuses_what_is_no_probability():
    static = sot.to_static(lambda x, y: F.binary_cross_entropy(x * 1.0, y), backend="cinn", min_graph_size=0)
    y = paddle.to_tensor([0.0, 1.0])
    for values in ([1.5, 0.5], [-0.5, 0.5]):
        with pytest.raises(ValueError, match="x_data"):
            static(paddle.to_tensor(values), y)
    np.testing.assert_allclose(
        static(paddle.to_tensor([0.25, 0.5]), y).numpy(),
        F.binary_cross_entropy(paddle.to_tensor([0.25, 0.5]), y).numpy(),
        rtol=1e-6,
    )


@pytest.mark.parametrize("shapes", [((0, 4), (2, 4)), ((2, 4), (0, 4)), ((3, 0), (2, 2))])
def test_kron_without_items(shapes):
    static = sot.to_static(lambda x, y: paddle.kron(x * 1, y * 1) * 1, backend="cinn", min_graph_size=0)
    x, y = (paddle.ones(shape) for shape in shapes)
    x.stop_gradient = y.stop_gradient = False
    result = static(x, y)
    assert result.shape == paddle.kron(x, y).shape
    result.sum().backward()
    assert (x.grad.shape, y.grad.shape) == (x.shape, y.shape)
    for gradient in (x.grad, y.grad):
        np.testing.assert_array_equal(gradient.numpy(), np.zeros(gradient.shape))
    assert sot.stats(static).fallbacks == []
