"""Places: asked for, made, and given to `to_tensor`."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, tensor

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


@pytest.mark.parametrize(
    "made",
    [
        lambda x: paddle.to_tensor([1.0, 2.0], place=paddle.CPUPlace()),
        lambda x: paddle.to_tensor([1.0, 2.0], place="cpu"),
        lambda x: paddle.to_tensor([1.0, 2.0], None, None, True),
        lambda x: paddle.to_tensor([1.0, 2.0], "float32", x.place),
        lambda x: paddle.to_tensor([x.shape[-1]] * 2, dtype="float32", place=x.place, stop_gradient=True),
    ],
)
def test_to_tensor_where_tensors_are_anyway(made):
    x = tensor(3, 2, grad=True)
    record = check(lambda x: x * made(x), x, calls=[(tensor(5, 2, grad=True),)], fallbacks=0)
    assert record.graphs == record.translations, record


def test_places_that_are_asked_for():
    def function(x):
        return x * 2, x.place, str(x.place), (x + 1).place == x.place, paddle.CPUPlace()

    x = tensor(3, 2)
    ours = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        (_, *plain), (_, *answer) = function(x), ours(x)
        assert [type(value) for value in answer] == [type(value) for value in plain]
        assert list(map(str, answer)) == list(map(str, plain))


def test_questions_about_places():
    def function(x):
        y = x + 1 if x.place.is_gpu_place() or paddle.CPUPlace().is_xpu_place() else x * 2
        return y, x.place.is_cpu_place(), y.place.is_custom_place()

    check(function, tensor(3, 2, grad=True), graphs=1, breaks=0)


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
@pytest.mark.parametrize("dtype", ["float64", "complex64", "complex128"])
def test_constants_of_wide_dtypes(dtype, backend):
    """Their numbers reach a program bit by bit; a negative zero, which one forgets, breaks the graph."""
    numbers = [0.1, 1 / 3, 1e-300, 1e30, float("inf"), float("nan"), 5e-324, 1 + 2**-52]

    def function(x):
        one, many = paddle.to_tensor(1 / 3, dtype=dtype), paddle.to_tensor(numbers, dtype)
        return one, many, x.astype(dtype) * one, paddle.to_tensor([[2.5]], dtype=dtype)

    def negative(x):
        return paddle.to_tensor([-0.0, 1], dtype) + 0, x * 2

    check(function, tensor(3, 2, grad=True), graphs=1, breaks=0, backend=backend)
    check(negative, tensor(3, 2), breaks=1, backend=backend)


@pytest.mark.parametrize("arguments", [{"place": "gpu"}, {"place": 3}, {"stop_gradient": False}])
def test_to_tensor_elsewhere(arguments):
    def function(x):
        return paddle.to_tensor([1.0, 2.0], **arguments) * x

    record = check(function, tensor(2, grad=True), fallbacks=None)
    assert record.graph_breaks or record.fallbacks, record
