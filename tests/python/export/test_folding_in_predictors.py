"""`paddle.inference` computes what only parameters say once for all: not what is drawn, or has results left out."""

import paddle
import paddle_sot_rs as sot
import pytest
from export.test_onednn_in_predictors import equals_eager, predictor
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


class Learned(nn.Layer):
    """What is computed of a parameter."""

    def __init__(self, computes):
        super().__init__()
        paddle.seed(0)
        self.queries = self.create_parameter([3, 8], default_initializer=nn.initializer.Normal())
        self.norm, self.linear, self.batch_norm = nn.LayerNorm(8), nn.Linear(8, 8), nn.BatchNorm1D(8)
        self.attention, self.decoder = nn.MultiHeadAttention(8, 2), nn.TransformerDecoderLayer(8, 2, 16, 0.0)
        self.batch_norm._mean.set_value(paddle.linspace(-1, 1, 8))
        self.batch_norm._variance.set_value(paddle.linspace(0.5, 2, 8))
        self.norms, self.computes = nn.LayerNorm([3, 8]), computes
        self.eval()

    def forward(self, x):
        return self.computes(self, self.queries, x)


def rows(queries, x):
    """The same for each element of a batch."""
    return queries.unsqueeze(0).expand([x.shape[0], -1, -1])


COMPUTED = {
    "norm": lambda net, q, x: net.norm(q) + x,
    "norms": lambda net, q, x: net.linear(net.norm(q + net.linear(net.norm(q)))) * x,
    "norm of several dims": lambda net, q, x: net.norms(rows(q, x)) + x,
    "batch norm": lambda net, q, x: net.batch_norm(q) + x,
    "batch norm of a layer": lambda net, q, x: F.relu(net.batch_norm(net.linear(q))) + x,
    "expanded": lambda net, q, x: net.linear(net.norm(rows(q, x))) + x,
    "queries": lambda net, q, x: net.norm(rows(q, x) + net.attention(rows(q, x), x, x)),
    "decoder": lambda net, q, x: net.decoder(rows(q, x), x),
    "unique": lambda net, q, x: paddle.unique(q.round()).sum() + x,
    "eigenvalues": lambda net, q, x: paddle.linalg.eigvalsh(q @ q.t()).sum() + x,
    "branch": lambda net, q, x: paddle.where(x > 0, net.norm(q), net.batch_norm(q)),
}


@pytest.mark.parametrize("dims", [[2, 3, 8], [None, 3, 8]], ids=["known", "open"])
@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_computed_of_parameters(name, dims, tmp_path):
    """No predictor was made: folding asked for the memory of a mean that the kernel leaves out."""
    equals_eager(Learned(COMPUTED[name]), tmp_path, [(2, 3, 8), (2, 3, 8)], dims)


def test_chains_of_any_length_before_a_norm(tmp_path):
    def forward(net, queries, x):
        for _ in range(1200):
            x = x * 0.999 + 0.001
        return net.norm(x) + queries

    equals_eager(Learned(forward), tmp_path, [(2, 3, 8)], [2, 3, 8])
