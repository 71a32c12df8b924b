"""Places: asked for, made, and given to `to_tensor`."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, tensor


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


@pytest.mark.parametrize("arguments", [{"place": "gpu"}, {"place": 3}, {"stop_gradient": False}])
def test_to_tensor_elsewhere(arguments):
    def function(x):
        return paddle.to_tensor([1.0, 2.0], **arguments) * x

    record = check(function, tensor(2, grad=True), fallbacks=None)
    assert record.graph_breaks or record.fallbacks, record
