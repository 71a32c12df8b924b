"""Distributions of Paddle made in a function: their methods, samples and divergences are in its graph."""

import paddle
import paddle.distribution as D
import pytest
from harness import check, tensor

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

A = paddle.to_tensor([0.2, 0.5, 0.8, 0.3], stop_gradient=False)
B = paddle.to_tensor([0.5, 0.1, 0.4, 0.7], stop_gradient=False)

MADE = {
    "bernoulli": lambda a, b: D.Bernoulli(a),
    "beta": lambda a, b: D.Beta(a + 1, b + 1),
    "categorical": lambda a, b: D.Categorical(a),
    "cauchy": lambda a, b: D.Cauchy(a, b + 0.1),
    "continuous bernoulli": lambda a, b: D.ContinuousBernoulli(a),
    "dirichlet": lambda a, b: D.Dirichlet(a + 1),
    "exponential": lambda a, b: D.Exponential(a + 0.1),
    "gamma": lambda a, b: D.Gamma(a + 1, b + 1),
    "geometric": lambda a, b: D.Geometric(a),
    "laplace": lambda a, b: D.Laplace(a, b + 0.1),
    "log normal": lambda a, b: D.LogNormal(a, b + 0.1),
    "multivariate normal": lambda a, b: D.MultivariateNormal(a, paddle.diag(b + 1.0)),
    "normal": lambda a, b: D.Normal(a, b + 0.1),
}
SAMPLED = {
    **MADE,
    "multinomial": lambda a, b: D.Multinomial(5, a / a.sum()),
    "uniform": lambda a, b: D.Uniform(a - 1.0, b + 2.0),
    "rows of categories": lambda a, b: D.Categorical(paddle.stack([a, b])),
}


@pytest.mark.parametrize("name", MADE)
def test_divergences(name):
    """Which rule there is for two classes stands in a dict, under pairs of them."""

    def divergence(a, b):
        return D.kl_divergence(MADE[name](a, b), MADE[name](b, a))

    check(divergence, A, B, graphs=1, breaks=0)


@pytest.mark.parametrize("name", SAMPLED)
def test_samples(name):
    def samples(a, b):
        made = SAMPLED[name](a, b)
        return made.sample([2]), made.sample([2, 3])

    check(samples, A, B, graphs=1, breaks=0)


@pytest.mark.parametrize("name", ["normal", "gamma", "beta", "dirichlet", "exponential"])
def test_densities(name):
    def densities(a, b):
        made = MADE[name](a, b)
        value = (a * 0.9).detach() if name != "dirichlet" else (a / a.sum()).detach()
        return made.log_prob(value), made.entropy(), made.mean, made.variance

    check(densities, A, B, graphs=1, breaks=0)


def test_rules_that_are_registered_later():
    class Mine(D.Normal):
        pass

    def divergence(a, b):
        return D.kl_divergence(Mine(a, b), Mine(b, a))

    def ours(p, q):
        return p.loc - q.loc

    check(divergence, A, B, graphs=1, breaks=0)
    D.register_kl(Mine, Mine)(ours)
    try:
        check(divergence, A, B, graphs=1, breaks=0)
    finally:
        del paddle.distribution.kl._REGISTER_TABLE[Mine, Mine]


def test_counts_of_numpy():
    import numpy as np

    def drawn(x):
        count = np.prod(np.array([2, 3]))
        return paddle.multinomial(x.abs() + 0.1, count, True), paddle.multinomial(
            x.abs() + 0.1, num_samples=np.int64(2)
        )

    check(drawn, tensor(4), graphs=1, breaks=0)
