"""In-place versions of what graphs return: eager autograd refuses a backward whose saved tensors have another one."""

import paddle
import paddle_sot_rs as sot
import pytest


def _weight():
    weight = paddle.to_tensor([1.0, 2.0, 3.0])
    weight.stop_gradient = False
    return weight


@pytest.mark.parametrize("how", ["constant", "no_grad", "beside"])
def test_a_later_result_changed_in_place_leaves_what_was_saved(how):
    def function(x):
        if how == "beside":
            return x * 2.0, (x.detach() + 1).exp()
        return x * 2.0, (x + 1).exp()

    def step(function):
        weight, losses = _weight(), 0.0
        for number in range(4):
            x = paddle.full([3], float(number))
            x.stop_gradient = how == "constant"
            with paddle.set_grad_enabled(how != "no_grad"):
                outputs = function(x)
            target = outputs[1]
            target.scale_(0.5)
            losses = losses + (target * weight).sum()
        losses.backward()
        return weight.grad.numpy().tolist(), outputs[1].inplace_version

    translated = sot.to_static(function, min_graph_size=0)
    for _ in range(3):
        assert step(function) == step(translated)
    record = sot.stats(translated)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], []), record


def test_kinds_of_results_have_versions_of_their_own():
    def function(x):
        return x * 2, x.sum(), x.astype("int64"), x > 1, x.astype("complex64"), paddle.zeros([0, 3]) + 1

    translated = sot.to_static(function, min_graph_size=0)
    for shape in ([3, 4], [2, 2], [3, 4]):
        x = paddle.ones(shape)
        for expected, actual in zip(function(x), translated(x), strict=True):
            assert actual.inplace_version == 0
            for name in ("shape", "dtype", "strides", "stop_gradient", "is_leaf", "persistable"):
                assert getattr(expected, name) == getattr(actual, name), name
            assert (expected.numpy() == actual.numpy()).all()
            if actual.dtype == paddle.float32:
                actual.add_(actual)
                assert actual.inplace_version == 1
