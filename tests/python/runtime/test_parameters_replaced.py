"""A parameter that is replaced while a guard on its layer is recorded, as another thread may do."""

import gc

import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn

pytestmark = pytest.mark.default_python


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.part = nn.Linear(4, 4)

    def forward(self, x):
        return self.part(x)


def replaced_at(net, look, original):
    """`is_dense`, which guards ask when they are recorded: the given look replaces the weight."""
    looks = 0

    def is_dense(tensor):
        nonlocal looks
        if tensor is net.part.weight:
            looks += 1
            if looks == look:
                three = nn.initializer.Constant(3.0)
                net.part.weight = paddle.create_parameter([4, 4], "float32", default_initializer=three)
        return original(tensor)

    return is_dense


# In front of the trace: the layer that is traced has another parameter than the one seen.
@pytest.mark.parametrize(("look", "graphs", "breaks"), [(1, 0, 1), (2, 3, 0)])
def test_the_snapshot_is_of_the_parameter_of_before(look, graphs, breaks, monkeypatch):
    net, x = Net(), paddle.ones([2, 4])
    net.eval()
    translated = sot.to_static(lambda x: net(x))
    original = paddle.Tensor.is_dense
    with paddle.no_grad():
        with monkeypatch.context() as patch:
            patch.setattr(paddle.Tensor, "is_dense", replaced_at(net, look, original))
            translated(x)
        # At the address of the one that is gone, another object may lie.
        gc.collect()
        assert (translated(x) == net(x)).all()
    stats = sot.stats(translated)
    assert (stats.graphs, sum(it.count for it in stats.graph_breaks)) == (graphs, breaks)
