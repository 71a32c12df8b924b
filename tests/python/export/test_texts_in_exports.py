"""Texts of open dims and shapes in exports, where they reach nothing but names, messages and exceptions.

PYTEST_DONT_REWRITE: assertions that pytest rewrites show more than their messages."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import check
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

# ruff: noqa: UP031, UP032

SPEC = [InputSpec([None, None], "float32", "x")]
SIZES = [[2, 3], [1, 1], [4, 5], [0, 3], [3, 0], [7, 2]]


def formatted(x):
    name = f"block {x.shape} of {x.shape[0]:>4} {list(x.shape)!r:>30}"
    return x * len([name])


def shown(x):
    names = [str(x.shape), repr(x.shape), str(x.shape[1:]), f"{list(x.shape)}", f"{tuple(x.shape)}"]
    return x * len(names)


def by_patterns(x):
    names = "%s" % x.shape, "%s of %d" % (x.shape, x.shape[0]), "{}: {}".format(x.shape, x.shape[1])
    return x + len(names)


def asserted(x):
    assert x.shape[1] < 50, f"too many columns: {x.shape}"
    return x - 1


def raised(x):
    if x.shape[0] > 50:
        raise ValueError(f"too many rows: {x.shape[0]} of {x.shape}")
    return x + 1


FUNCTIONS = [formatted, shown, by_patterns, asserted, raised]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_exports(function, tmp_path):
    prefix = str(tmp_path / "net")
    sot.save(function, prefix, SPEC)
    loaded = paddle.jit.load(prefix)
    for shape in SIZES:
        x = paddle.ones(shape)
        np.testing.assert_array_equal(loaded(x).numpy(), function(x).numpy())


def texts_of_shapes(x):
    shape = x.shape
    text = f"{shape} {shape[1:]} {list(shape)}"
    more = "%s of %d %s" % (shape, shape[0], [shape[1], 2]), "{}|{}".format(shape, shape[0]), str(shape), repr(shape)
    kept = [shape[0], 1]
    before = f"{kept}"
    kept[1] = 2
    return x * 2, text, more, before, f"{kept}", "%r" % (shape,), "%5s|" % (shape,), f"{[]}"


def test_texts_are_those_of_the_interpreter():
    """Of open dims: the text of each call, and of what a list held when it was shown."""
    calls = [(paddle.ones(shape),) for shape in SIZES[:3] + [[6, 2], [9, 4]]]
    check(texts_of_shapes, *calls[0], calls=calls[1:], breaks=0, dynamic=True)


class Text:
    def __init__(self, shape):
        self.shape = shape

    def __str__(self):
        return f"<{self.shape}>"


def texts_of_others(x):
    return x + 1, f"{Text(x.shape)}", f"{[x.shape[0], 'a', 1.5, True]}", "%s%%" % (x.shape[0],)


def test_lists_of_other_things():
    calls = [(paddle.ones(shape),) for shape in SIZES[1:3] + [[6, 2], [9, 4]]]
    check(texts_of_others, paddle.ones([2, 3]), calls=calls, dynamic=True)
