"""Branches on open dims in exports: both sides are part of the program, or one is assumed. (PYTEST_DONT_REWRITE)"""

import os

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.nn import functional as F
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

IMAGE = [InputSpec([None, 3, None, None], "float32", "image")]
SIZES = [[2, 3, 8, 6], [1, 3, 7, 9], [1, 3, 12, 11], [3, 3, 11, 12], [2, 3, 5, 5], [1, 3, 2, 13]]


def pad_odd(x):
    h, w = x.shape[2:]
    if h % 2 == 1 or w % 2 == 1:
        x = F.pad(x, [0, w % 2, 0, h % 2])
    return x * 2


def pad_where_it_does_not_fit(x):
    h = x.shape[2]
    return F.pad(x, [0, 0, 0, 4 - h % 4 if h % 4 else 0])


def returns_early(x):
    h, w = x.shape[2:]
    if h > w:
        return x.transpose([0, 1, 3, 2])
    return x * 2


def crops(x):
    if x.shape[2] > 10:
        x = x[:, :, :10]
    return x * 2


def single(x):
    y = x.mean()
    if x.shape[0] == 1:
        y = y + 100
    return y


def chooses(x):
    h, w = x.shape[2:]
    if h == 7:
        y = x + 1
    elif h in (8, 11):
        y = x + 2
    elif (h, w) == (12, 11):
        y = x + 3
    else:
        y = x + 4
    return y * (2 if 5 < h < 12 else 3) + (h and w) + (h % 2 or 5)


def asserts(x):
    h = x.shape[2]
    assert h > 1, f"too low: {h}"
    if x.shape[3] > 100:
        raise ValueError(f"too wide: {x.shape[3]}")
    return x + h


def is_no_none(x):
    h = x.shape[2]
    return x + 1 if h is not None and h != None else x  # noqa: E711


def pools(x):
    while x.shape[2] > 4:
        x = F.max_pool2d(x, 2, 2)
    return x


def returns_early_inside(x):
    h, w = x.shape[2:]
    if h % 2:
        if w > 6:
            return x * 3
        x = x + 1
    y = x[:, :, : max(1, h % 5)]
    if h > w:
        y = y * 2
        if h > 2 * w:
            return y - 1
    return y.sum(axis=2, keepdim=True)


def has_no_round_where_it_is_traced(x):
    y = x
    for i in range(x.shape[2] // 8):
        y = y * 0.5 + i
    if x.shape[2] * 0.5 > 0.25:
        y = y[:, :, : max(1, int(float(x.shape[3])) % 5)]
    y = y.sum(axis=2)
    return y


def changes_the_list(x):
    found = [x]
    if x.shape[2] > 10:
        found.append(x * 2)
    return sum(found)


FUNCTIONS = [
    changes_the_list,
    returns_early_inside,
    has_no_round_where_it_is_traced,
    pad_odd,
    pad_where_it_does_not_fit,
    returns_early,
    crops,
    single,
    chooses,
    asserts,
    is_no_none,
    pools,
]


def images(sizes=SIZES):
    paddle.seed(3)
    return [paddle.randn(size) for size in sizes]


def same(found, expected):
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_both_sides_are_in_the_program(function, tmp_path):
    assert sot.save(function, tmp_path / "net", IMAGE) == []
    loaded = paddle.jit.load(str(tmp_path / "net"))
    for x in images():
        if function is not pools or x.shape[3] > 4:
            same(loaded(x), function(x))


def test_what_is_asserted_fails_in_the_program(tmp_path):
    sot.save(asserts, tmp_path / "net", IMAGE)
    loaded = paddle.jit.load(str(tmp_path / "net"))
    for size in ([1, 3, 1, 4], [1, 3, 4, 101]):
        with pytest.raises((AssertionError, ValueError), match="too"):
            asserts(paddle.randn(size))
        with pytest.raises(Exception, match="Assert"):
            loaded(paddle.randn(size))


def computes_with_the_batch(x):
    # Paddle's function divides by the batch, which is -1 where it is open.
    if x.shape[0] == 1:
        return F.kl_div(x, x * 2, reduction="batchmean")
    return x.mean()


@pytest.mark.parametrize("function", [computes_with_the_batch], ids=lambda it: it.__name__)
def test_what_cannot_be_in_a_branch_is_refused(function, tmp_path):
    with pytest.raises(sot.GraphBreakError, match=function.__name__):
        sot.save(function, tmp_path / "net", IMAGE)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("function", [crops, changes_the_list], ids=lambda it: it.__name__)
def test_one_side_is_assumed(function, tmp_path):
    (said,) = sot.save(function, tmp_path / "net", IMAGE, on_branch="assume")
    assert said.startswith("image.shape[2] <= 10 (") and __file__ in said and function.__name__ in said
    loaded = paddle.jit.load(str(tmp_path / "net"))
    for x in images():
        if x.shape[2] <= 10:
            same(loaded(x), function(x))
        else:
            with pytest.raises(Exception, match="Assert"):
                loaded(x)


class Crops(paddle.nn.Layer):
    def forward(self, x):
        return crops(x)


def test_assumptions_of_layers_name_the_input(tmp_path):
    (said,) = sot.save(Crops(), tmp_path / "net", IMAGE, on_branch="assume")
    assert said.startswith("image.shape[2] <= 10 (")


def test_other_words_for_it(tmp_path):
    with pytest.raises(ValueError, match="expected one of capture, assume"):
        sot.save(crops, tmp_path / "net", IMAGE, on_branch="guess")
