"""What Python computes of dims that differ between calls stays open: at most three translations over ten sizes."""

import math

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812
import paddle_sot_rs as sot
import pytest
from harness import translate

pytestmark = pytest.mark.default_python

SIZES = [(4, 6), (6, 4), (3, 8), (5, 6), (8, 10), (7, 4), (2, 6), (9, 8), (10, 12), (12, 6)]

PROGRAMS = [
    lambda x: x * math.sqrt(x.shape[0]),
    lambda x: x * (x.shape[0] / x.shape[1]),
    lambda x: x * int(x.shape[0] * 0.5),
    lambda x: x * max(x.shape),
    lambda x: x * abs(x.shape[0] - 5),
    lambda x: x * (x.shape[0] ** 0.5),
    lambda x: x * round(x.shape[0] / 3),
    lambda x: x * divmod(x.shape[0], 3)[1] + divmod(x.shape[1], 4)[0],
    lambda x: x * math.ceil(x.shape[0] / 2),
    lambda x: x * math.log2(x.shape[0] + 1),
    lambda x: x * math.prod(x.shape),
    lambda x: x * x.size,
    lambda x: x.sum() / x.size + x.size // 2,
    lambda x: x.reshape([x.size]),
    lambda x: x.reshape([x.shape[0], 2, x.shape[1] // 2]),
    lambda x: x[: x.shape[0] // 2],
    lambda x: paddle.arange(x.shape[0], dtype="float32") / x.shape[0],
    lambda x: paddle.tile(x, [x.shape[0], 1]),
    lambda x: paddle.topk(x, k=max(1, x.shape[1] // 2))[0],
    lambda x: paddle.split(x, [2, x.shape[1] - 2], axis=1)[1],
    lambda x: F.interpolate(x.unsqueeze(0).unsqueeze(0), size=[x.shape[0] * 2, x.shape[1] * 2]),
    lambda x: F.softmax(x @ x.t() / math.sqrt(x.shape[1]), -1),
    lambda x: paddle.to_tensor(x.shape),
    lambda x: paddle.to_tensor([x.shape[0], x.shape[1] * 2]),
    lambda x: paddle.to_tensor(x.shape[0], dtype="float32") * x,
    lambda x: paddle.to_tensor([x.shape[0] / 2, 0.5]),
]


@pytest.mark.parametrize("function", PROGRAMS)
def test_at_most_three(function):
    compiled = translate(function)
    for sizes in SIZES:
        x = paddle.to_tensor(np.random.default_rng(0).standard_normal(sizes).astype("float32"))
        wanted, found = function(x), compiled(x)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
    stats = sot.stats(compiled)
    assert stats.translations <= 3
    assert (stats.graph_breaks, stats.fallbacks) == ([], [])


def test_a_size_is_the_object_of_paddle_where_it_is_seen():
    def sizes(x):
        return x.size, type(x.size).__name__, x.size == x.shape[0] * 3, x * 2

    def called(x):
        return x.size(), x * 2

    for function in (sizes, called):
        compiled = translate(function)
        for rows in (4, 5, 6, 7):
            x = paddle.ones([rows, 3])
            wanted, found = function(x), compiled(x)
            assert [type(it) for it in found] == [type(it) for it in wanted]
            assert [list(it) if isinstance(it, paddle.Size) else it for it in found[:-1]] == [
                list(it) if isinstance(it, paddle.Size) else it for it in wanted[:-1]
            ]
