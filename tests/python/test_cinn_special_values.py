"""The CINN-prim backend next to eager mode: what is no number, infinite, or has no dims."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest

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
