"""What plain Python asks, or says, in each call, and not in the first one only."""

import warnings

import paddle
import paddle_sot_rs as sot
import pytest


def placeholder(x):
    return x * 2 if NotImplemented else x


def no_placeholder(x):
    if not NotImplemented:
        return x
    return x * 2


@pytest.mark.parametrize("function", [placeholder, no_placeholder])
def test_warnings_of_operators(function):
    translated = sot.to_static(function, min_graph_size=0)
    for _ in range(3):
        with pytest.warns(DeprecationWarning, match="NotImplemented"):
            assert translated(paddle.ones([1])).item() == 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(DeprecationWarning):
                translated(paddle.ones([1]))
