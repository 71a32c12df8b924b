"""Paddle's functions warn of what they find in programs: nobody has asked for those."""

import warnings

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

pytestmark = pytest.mark.default_python

LIKE = {
    # What nobody has written may be no number.
    "empty_like": lambda x: paddle.isnan(paddle.empty_like(x)).astype(x.dtype) * 0,
    "full_like": lambda x: paddle.full_like(x, 2.0),
    "ones_like": paddle.ones_like,
    "rand_like": lambda x: paddle.rand_like(x) * 0,
    "randn_like": lambda x: paddle.randn_like(x) * 0,
    "zeros_like": paddle.zeros_like,
}


@pytest.mark.parametrize("name", LIKE)
def test_none_is_seen(name):
    def function(x):
        return LIKE[name](x) + x

    translated, x = translate(function), paddle.ones([2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert translated(x).tolist() == function(x).tolist()
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])
