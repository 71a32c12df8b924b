"""`paddle.inference` with oneDNN on: what its kernels make is not written over where blocks read it."""

import paddle
import pytest
from export.test_onednn_in_predictors import equals_eager
from paddle.nn import functional as F

pytestmark = pytest.mark.default_python

# By kernels of oneDNN.
MADE = {
    "list": lambda x: paddle.concat([x, x * 2], 1),
    "softmax": lambda x: F.softmax(x, 1),
    "product": lambda x: x @ x.transpose([0, 2, 1]),
    "transposed": lambda x: x.transpose([0, 2, 1]),
}
# They have forms in place.
WRITES = {
    "silu": F.silu,
    "cumsum": lambda y: paddle.cumsum(y, 1),
    "quotient": lambda y: y / (paddle.ones_like(y) * 2),
}


def read_in_a_loop(make, write):
    def function(x):
        y, total, i = make(x), paddle.zeros([1]), paddle.zeros([], "int64")
        while i < 3:
            total = total + write(y).sum()
            i = i + 1
        return total

    return function


def read_in_an_inner_block(make, write):
    def function(x):
        y, total, i = make(x), paddle.zeros([1]), paddle.zeros([], "int64")
        while i < 3:
            if total.sum() < 1e9:
                total = total + write(y).sum()
            i = i + 1
        return total

    return function


def alike_in_a_branch(make, write):
    def function(x):
        y = make(x)
        z = write(make(x)) if x.sum() > 0 else write(make(x)) * 2
        return z, write(y)

    return function


@pytest.mark.parametrize("reads", [read_in_a_loop, read_in_an_inner_block, alike_in_a_branch], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", MADE)
def test_results_that_blocks_read(reads, name, tmp_path):
    """A use counted once, however often its block runs; and a pass makes one of alike operations of several blocks."""
    functions = [reads(MADE[name], write) for write in WRITES.values()]
    equals_eager(
        lambda x: [function(x * (1 + at)) for at, function in enumerate(functions)],
        tmp_path,
        [(2, 4, 4), (1, 4, 4)],
        [None, 4, 4],
    )
