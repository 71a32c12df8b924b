"""`paddle.where` of tensors and numbers: dims that differ between calls take no translation for each, and zeros keep
their signs."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, tensor

CHOICES = {
    "tensors": lambda x, v: paddle.where(x > 0, x, x * 2),
    "a number": lambda x, v: paddle.where((x > 0) & ~paddle.isnan(x), x, -1e4),
    "numbers": lambda x, v: paddle.where(paddle.logical_not(x < 0), 1.0, float("-inf")),
    "a number that differs": lambda x, v: (paddle.where(x > 0, x, v), paddle.where(x > 0, v, x)),
    "zeros": lambda x, v: paddle.where(x == 0, paddle.zeros_like(x), x + 1),
    "parts": lambda x, v: paddle.where(paddle.concat([x, x]) > 0, paddle.concat([x, x]), 0.5),
    "filled": lambda x, v: put(x * 2, v),
    "wide": lambda x, v: paddle.where(x > 0, x.astype("float64"), x),
}


def put(y, v):
    y[y > 0] = v
    at = paddle.arange(y.shape[0])
    square = paddle.zeros([y.shape[0], y.shape[0], 2])
    square[at, at] = paddle.ones([2]).expand([y.shape[0], -1])
    return y, square


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
@pytest.mark.parametrize("name", CHOICES)
def test_dims_that_differ(name, backend):
    calls = [(tensor(size, 4, seed=size, grad=True), 1.5) for size in (5, 7, 4, 9, 12)]
    open_dims = {"dynamic": True} if backend == "paddle" else {}
    check(
        CHOICES[name],
        *(tensor(3, 4, grad=True), 1.5),
        calls=calls,
        **{"translations": 2, "graphs": 2, "breaks": 0} if open_dims else {},
        backend=backend,
        close=backend == "cinn",
        **open_dims,
    )


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
@pytest.mark.parametrize("name", ["a number that differs", "filled"])
def test_signs_of_zeros(name, backend):
    x = tensor(2, 3, grad=True)
    check(CHOICES[name], x, 1.5, calls=[(x, v) for v in (2.5, -0.0, 0.0, -0.0, 3.5)], backend=backend, fallbacks=None)


@pytest.mark.parametrize("rows", [1, 2])
def test_operands_that_do_not_fit(rows):
    """Eager mode takes one row for all, and refuses two."""

    def function(x, y):
        return paddle.where(x > 0, x, y)

    static = sot.to_static(function, min_graph_size=0, dynamic=True)
    for size in (4, 5, 6, 7):
        assert static(tensor(size, 3), tensor(size, 3, seed=1)).shape == [size, 3]
    for _ in range(2):
        x, y = tensor(6, 3), tensor(rows, 3, seed=1)
        if rows == 1:
            assert static(x, y).tolist() == function(x, y).tolist()
            continue
        with pytest.raises(ValueError) as expected:
            function(x, y)
        with pytest.raises(ValueError) as raised:
            static(x, y)
        assert type(raised.value) is type(expected.value)
