"""`paddle.where` of tensors and numbers: dims that differ between calls take no translation for each, and zeros keep
their signs."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, tensor

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

CHOICES = {
    "tensors": lambda x, v: paddle.where(x > 0, x, x * 2),
    "a number": lambda x, v: paddle.where((x > 0) & ~paddle.isnan(x), x, -1e4),
    "numbers": lambda x, v: paddle.where(paddle.logical_not(x < 0), 1.0, float("-inf")),
    "a number that differs": lambda x, v: (paddle.where(x > 0, x, v), paddle.where(x > 0, v, x)),
    "zeros": lambda x, v: paddle.where(x == 0, paddle.zeros_like(x), x + 1),
    "parts": lambda x, v: paddle.where(paddle.concat([x, x]) > 0, paddle.concat([x, x]), 0.5),
    "filled": lambda x, v: put(x * 2, v),
    "wide": lambda x, v: paddle.where(x > 0, x.astype("float64"), x),
    "methods": lambda x, v: ((x > 0).where(x, x * 2), (x > 0).where(input=x, other=v), (x > 0).where(-1e4, x)),
    "named": lambda x, v: (paddle.where(x > 0, x, v, name="a"), paddle.where(x > 0, x, x * 2, None)),
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
@pytest.mark.parametrize("name", ["a number that differs", "filled", "methods", "named"])
def test_signs_of_zeros(name, backend):
    x = tensor(2, 3, grad=True)
    check(CHOICES[name], x, 1.5, calls=[(x, v) for v in (2.5, -0.0, 0.0, -0.0, 3.5)], backend=backend, fallbacks=None)


FORMS = {
    "method": lambda m, x: (m.where(x, x[0]), m.where(x[0], x), m.where(x=-x, y=x[:1])),
    "of the class": lambda m, x: paddle.Tensor.where(m, -x, x[:1]),
    "named": lambda m, x: (paddle.where(m, -x, x[:1], name="a"), paddle.where(m, x[0], -x, name=5)),
    "named by place": lambda m, x: (paddle.where(m, -x, x[:1], "a"), paddle.where(m, x[0], -x, None)),
    "no output": lambda m, x: paddle.where(m, -x, x[:1], out=None),
}


@pytest.mark.parametrize("backend", ["paddle", "cinn", "eager"])
@pytest.mark.parametrize("form", FORMS)
def test_signs_of_zeros_in_other_forms(form, backend):
    for gradient in (False, True):
        x = paddle.to_tensor([-0.0, 1.0, -0.0, 2.0], stop_gradient=not gradient)
        mask = paddle.to_tensor([True, False, False, True])
        found = [np.signbit(part.numpy()).tolist() for part in parts(FORMS[form](mask, x))]
        static = sot.to_static(FORMS[form], min_graph_size=0, backend=backend)
        for _ in range(2):
            assert [np.signbit(part.numpy()).tolist() for part in parts(static(mask, x))] == found
        check(FORMS[form], mask, x, graphs=1, breaks=0, backend=backend)


def parts(result):
    return result if isinstance(result, tuple) else (result,)


OTHERS = {
    "an output": lambda m, x: paddle.where(m, -x, x[:1], out=x.detach() * 2),
    "twice": lambda m, x: paddle.where(m, -x, x[:1], x=x),
    "both names": lambda m, x: paddle.where(m, x=-x, input=x, y=x[:1]),
    "too many": lambda m, x: paddle.where(m, -x, x[:1], None, None),
    "a condition of floats": lambda m, x: x.where(m, x),
}


@pytest.mark.parametrize("form", OTHERS)
def test_other_forms(form):
    """Most of them raise."""
    x = tensor(4)
    check(OTHERS[form], x > 0, x, breaks=1, fallbacks=None)


TURN = paddle.to_tensor(-1j)
COMPLEX = {
    "float": lambda m, x: paddle.where(m, x, 1j),
    "double": lambda m, x: paddle.where(m, -0.1j, x.astype("float64")),
    "whole": lambda m, x: m.where(x.astype("int32"), 1j),
    "bool": lambda m, x: paddle.where(m, m, 1j),
    "number": lambda m, x: paddle.where(m, 1j, 2),
    "complex": lambda m, x: paddle.where(m, complex(-0.0, -0.0), x.astype("complex64") * TURN),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(name):
    """Eager mode makes a tensor of the default dtype of it."""
    x, mask = paddle.to_tensor([-0.0, 1.5, -0.0, 2.0]), paddle.to_tensor([True, False, False, True])
    expected = COMPLEX[name](mask, x)
    static = sot.to_static(COMPLEX[name], min_graph_size=0)
    for _ in range(2):
        result = static(mask, x)
        assert (result.dtype, result.numpy().tobytes()) == (expected.dtype, expected.numpy().tobytes())
    assert [entry.message for entry in sot.stats(static).graph_breaks] == ["where() of a complex number"]


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
