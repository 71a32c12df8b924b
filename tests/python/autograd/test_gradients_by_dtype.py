"""Gradients of dtypes that programs do not know by themselves: lists of doubles, floats beside complex numbers."""

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

RANDOM = np.random.RandomState(3)


def doubles(*shape):
    return RANDOM.randn(*shape)


def floats(*shape):
    return doubles(*shape).astype("float32")


def complexes(*shape):
    return (doubles(*shape) + 1j * doubles(*shape)).astype("complex64")


def wide(*shape):
    return doubles(*shape) + 1j * doubles(*shape)


def gradients(function, arrays, frozen=()):
    tensors = [paddle.to_tensor(array, stop_gradient=at in frozen) for at, array in enumerate(arrays)]
    result = function(*tensors)
    (result.abs() if result.is_complex() else result).sum().backward()
    return result.numpy(), [None if it.grad is None else it.grad.numpy() for it in tensors]


def same_bits(function, arrays, frozen=(), backend="paddle", **options):
    translated = sot.to_static(function, min_graph_size=0, backend=backend, **options)
    want = gradients(function, arrays, frozen)
    for _ in range(2):
        got = gradients(translated, arrays, frozen)
        for one, other in zip((want[0], *want[1]), (got[0], *got[1]), strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert one.dtype == other.dtype
                assert one.tobytes() == other.tobytes()
    stats = sot.stats(translated)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


CHAINS = {
    "two": lambda x: paddle.linalg.multi_dot([x, x.T]) * 2,
    "of rows": lambda x: paddle.linalg.multi_dot([x[0], x.T, x, x[1]]) + x.sum(),
    "one of them twice": lambda x: paddle.linalg.multi_dot([x, x.T, x]) + x * 3,
    "of what is computed": lambda x: paddle.linalg.multi_dot([x.exp(), x.T.tanh(), x * 2]).sin(),
    "rows of two": lambda x: paddle.multiplex([x, x * 2 + 1], paddle.to_tensor([[1], [0], [1]], "int32")) * x,
}


@pytest.mark.parametrize("backend", ["paddle", "pylayer"])
@pytest.mark.parametrize("name", CHAINS)
def test_lists_of_doubles(name, backend):
    same_bits(CHAINS[name], [doubles(3, 4)], backend=backend)


@pytest.mark.parametrize("frozen", [(0,), (1,), (0, 2)])
def test_lists_of_doubles_of_which_some_are_frozen(frozen):
    """Eager mode raises at backward."""

    def product(a, b, c):
        return paddle.linalg.multi_dot([a, b, c])

    arrays = [doubles(3, 4), doubles(4, 5), doubles(5, 2)]
    translated = sot.to_static(product, min_graph_size=0)
    result, want = gradients(product, arrays)
    got = gradients(translated, arrays, frozen)
    np.testing.assert_array_equal(result, got[0])
    for at in range(3):
        if at in frozen:
            assert got[1][at] is None
        else:
            np.testing.assert_array_equal(want[at], got[1][at])


def test_lists_of_doubles_in_captured_control_flow():
    def product(a, b):
        if a.sum() > -1000:
            a = paddle.linalg.multi_dot([a, b, a])
        return a * b.sum()

    same_bits(product, [doubles(3, 3), doubles(3, 3)], capture_control_flow=True)


PRODUCTS = {
    "matmul": paddle.matmul,
    "method": lambda x, y: x.matmul(y, transpose_y=True),
    "operator": lambda x, y: x @ y,
    "mm": lambda x, y: paddle.mm(x, y) * 2,
    "linear": lambda x, y: F.linear(x, y, y[0] * 2),
    "inner": paddle.inner,
    "kron": paddle.kron,
    "method kron": lambda x, y: x.kron(y) + 1,
    "both ways": lambda x, y: x @ y + y @ x + x @ x,
    "computed again": lambda x, y: ((x * 2) @ y.exp()) @ x.tanh(),
}
PAIRS = {
    "complex64 float32": (complexes, floats),
    "float32 complex64": (floats, complexes),
    "complex128 float64": (wide, doubles),
    "float64 complex128": (doubles, wide),
    "complex128 float32": (wide, floats),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_complex_numbers_and_floats(name, pair):
    arrays = [make(4, 4) for make in PAIRS[pair]]
    for frozen in ((), (0,), (1,)):
        same_bits(PRODUCTS[name], arrays, frozen)


@pytest.mark.parametrize("backend", ["pylayer", "cinn"])
def test_products_of_complex_numbers_and_floats_of_other_backends(backend):
    same_bits(lambda x, y: (x @ y).kron(x), [complexes(4, 4), floats(4, 4)], backend=backend)


def test_what_eager_mode_refuses():
    """Complex numbers that are narrower than the floats beside them."""

    def product(x, y):
        return paddle.matmul(x * 2, y)

    for call in (product, sot.to_static(product, min_graph_size=0)):
        with pytest.raises(NotImplementedError, match="complex64"):
            gradients(call, [complexes(3, 3), doubles(3, 3)])


@pytest.mark.parametrize("of", [0, 1])
def test_eigenvalues_of_a_real_matrix_give_it_a_real_gradient(of):
    """That of a program is complex where only one of the two results has one."""

    def function(x):
        return paddle.linalg.eig(x * 2)[of].abs() * 3

    translated = sot.to_static(function, min_graph_size=0)
    matrix = floats(4, 4) + 3 * np.eye(4, dtype="float32")
    (result, (wanted,)), (ours, (gradient,)) = (gradients(f, [matrix]) for f in (function, translated))
    assert gradient.dtype == wanted.dtype == np.float32
    assert (ours.tobytes(), gradient.tobytes()) == (result.tobytes(), wanted.tobytes())
    assert sum(it.count for it in sot.stats(translated).graph_breaks) == 1
