"""Programs compute what eager mode does for every dtype, or leave it to eager mode; nothing ends the process."""

import paddle
import pytest
from harness import translate

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python


def made(numbers, dtype="float32", stop_gradient=True):
    return paddle.to_tensor(numbers, dtype=dtype, stop_gradient=stop_gradient)


def eight_bits(numbers):
    return made(numbers).astype("float8_e4m3fn")


def around(operation):
    """In a graph that is worth a program."""

    def function(x, *others):
        x = (x * 2 + 1).abs().sqrt() + 1
        return operation(x, *others)

    return function


# What a kernel throws that Paddle does not turn into an error of Python: it ended the process.
EIGHT_BITS = {
    "clip": lambda x, y: paddle.clip(x, max=y),
    "full": lambda x, y: x + paddle.full([3], y),
    "full_like": lambda x, y: paddle.full_like(x, y),
    "scale": lambda x, y: paddle.scale(x, y),
    "dropout": lambda x, y: paddle.nn.functional.dropout(x, y),
    "topk": lambda x, y: paddle.topk(x, y)[0],
    "cumsum": lambda x, y: paddle.cumsum(x, y),
    "concat": lambda x, y: paddle.concat([x, x], axis=y),
    "split": lambda x, y: paddle.split(x, 3, axis=y)[0],
    "gather": lambda x, y: paddle.gather(x, paddle.to_tensor([0, 1]), axis=y),
}


def outcome(function, arguments, goes_back):
    given = arguments()
    try:
        result = function(*given)
        if goes_back and not result.stop_gradient:
            result.backward(paddle.ones_like(result))
    except Exception as error:
        return type(error)
    gradient = given[0].grad
    return (
        *(str(result.dtype), str(result.numpy().tolist())),
        None if gradient is None else (str(gradient.dtype), str(gradient.numpy().tolist())),
    )


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("name", EIGHT_BITS)
def test_nothing_ends_the_process(name, stops):
    function = around(EIGHT_BITS[name])

    def arguments():
        return made([1.0, 2, 3], stop_gradient=stops), eight_bits([2.0])

    assert outcome(translate(function), arguments, True) == outcome(function, arguments, True)


SQUARE = [[1.0, 2], [3, 4]]
CASES = {
    "diagonal_scatter": (paddle.diagonal_scatter, lambda: (made(SQUARE), made([1j, 2], "complex64"))),
    "diagonal_scatter of doubles": (
        paddle.diagonal_scatter,
        lambda: (made(SQUARE, "float64"), made([1j, 2], "complex128")),
    ),
    "diagonal_scatter of two complex dtypes": (
        paddle.diagonal_scatter,
        lambda: (made([[1j, 2], [3, 4]], "complex64"), made([1j, 2], "complex128")),
    ),
    "reduce_as": (paddle.reduce_as, lambda: (made(SQUARE, stop_gradient=False), made([1j, 2], "complex64"))),
    "reduce_as of two complex dtypes": (
        paddle.reduce_as,
        lambda: (made([[1j, 2], [3, 4]], "complex64"), made([1j, 2], "complex128")),
    ),
    "nuclear norm": (
        lambda x: paddle.norm(x, "nuc", [0, 1]),
        lambda: (made([[1 + 1j, 2], [3, 4j]], "complex64", False),),
    ),
    "nuclear norm without rows": (
        lambda x: paddle.norm(x, "nuc", [0, 1]),
        lambda: (paddle.zeros([0, 4], "complex64"),),
    ),
    "increment of bytes": (lambda x: paddle.increment(x + 1), lambda: (made([1], "int8"),)),
    "increment of halves": (lambda x: paddle.increment(x.clone()), lambda: (made([1.0], "float16"),)),
    "index_fill_ of another dtype": (
        lambda x, v: x.clone().index_fill_(paddle.to_tensor([0]), 0, v),
        lambda: (made([[1.0, 2]]), made(2, "int64")),
    ),
    "pow_ of a tensor": (lambda x, y: (x + 1).pow_(y), lambda: (made([1.0, 2]), made([1.0, 2]))),
    "topk of none": (lambda x, k: paddle.topk(x, k)[0] * 1, lambda: (made([[1.0, 2, 3]]), made(0, "int64"))),
    "topk by name": (lambda x, k: paddle.topk(x, k=k)[0] * 1, lambda: (made([[1.0, 2, 3]]), made(0, "int64"))),
    "topk": (lambda x, k: paddle.topk(x, k)[0] * 1, lambda: (made([[1.0, 2, 3]]), made(2, "int64"))),
    "quantile below": (paddle.quantile, lambda: (made([[1.0, 2, 3]]), made(-0.5))),
    "nanquantile below": (paddle.nanquantile, lambda: (made([[1.0, 2, 3]]), made(-1, "int64"))),
    "quantile": (paddle.quantile, lambda: (made([[1.0, 2, 3]]), made(0.5))),
    "view_shape": (lambda x: paddle._C_ops.view_shape(x, [3, 2]) * 2, lambda: (made([[1.0, 2, 3], [4, 5, 6]]),)),
    "matmul_with_flatten": (
        lambda x, y: paddle._C_ops.matmul_with_flatten(x, y, 1, 1),
        lambda: (made([[1.0, 2]]), made([[1.0], [2]])),
    ),
}


@pytest.mark.parametrize("backend", ["paddle", "cinn", "pylayer"])
@pytest.mark.parametrize("name", CASES)
def test_as_in_eager_mode(name, backend):
    function, arguments = CASES[name]
    translated = translate(lambda *given: function(*given), backend=backend)
    for _ in range(2):
        assert outcome(translated, arguments, True) == outcome(function, arguments, True)
