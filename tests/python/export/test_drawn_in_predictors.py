"""Files in `paddle.inference` draw anew in each run: constant folding computes what is drawn by constants once."""

import paddle
import paddle_sot_rs as sot
import pytest
from export.test_onednn_in_predictors import predictor
from paddle import nn
from paddle.nn import functional as F
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

DRAWS = {
    "bernoulli": lambda p: paddle.bernoulli(p),
    "poisson": lambda p: paddle.poisson(p * 20),
    "multinomial": lambda p: paddle.multinomial(p, 12).astype("float32"),
    "gamma": lambda p: paddle.standard_gamma(p),
    "gumbel": lambda p: F.gumbel_softmax(p.unsqueeze(0)).squeeze(0)[:16],
    "doubles": lambda p: paddle.bernoulli(p.astype("float64")).astype("float32"),
    "on a side": lambda p: paddle.bernoulli(p) if paddle.rand([1]) < 2 else p,
}


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_that_are_drawn_by_a_parameter(name, tmp_path):
    class Network(nn.Layer):
        def __init__(self):
            super().__init__()
            self.odds = self.create_parameter([32], default_initializer=nn.initializer.Constant(0.5))

        def forward(self, x):
            return x.sum() * 0 + DRAWS[name](self.odds)

    network = Network()
    network.eval()
    path = str(tmp_path / "m")
    sot.save(network, path, input_spec=[InputSpec([None, 3], "float32", "x")])
    run, x = predictor(path, False), paddle.ones([2, 3])
    assert len({run(x)[0].tobytes() for _ in range(4)}) > 1
