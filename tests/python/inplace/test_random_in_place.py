"""Operations that fill a tensor of the function with random numbers: the same numbers, from the same generator."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

DRAWS = {
    "bernoulli": lambda h: h.bernoulli_(0.25),
    "bernoulli of a tensor": lambda h: h.bernoulli_(paddle.to_tensor([0.25, 0.5, 0.75, 1.0])),
    "cauchy": lambda h: h.cauchy_(1, 2),
    "exponential": lambda h: h.exponential_(2.0),
    "gaussian": lambda h: paddle.tensor.random.gaussian_(h, 1.0, 2.0),
    "geometric": lambda h: h.geometric_(0.25),
    "log_normal": lambda h: h.log_normal_(0.5, 1.5),
    "normal": lambda h: h.normal_(),
    "normal by name": lambda h: h.normal_(mean=2.0, std=0.1),
    "uniform": lambda h: h.uniform_(),
    "uniform within": lambda h: h.uniform_(-2.0, 3.0),
    "uniform with a seed": lambda h: h.uniform_(0.0, 1.0, 7),
}


@pytest.mark.parametrize("backend", ["paddle", "cinn", "pylayer"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DRAWS)
def test_the_same_numbers(name, dtype, backend):
    draw = DRAWS[name]

    def function(x):
        h = paddle.empty_like(x)
        same = draw(h)
        return h * x, same is h, paddle.rand([2])

    def run(of):
        x = paddle.full([3, 4], 2.0, dtype)
        paddle.seed(5)
        found = [of(x) for _ in range(3)]
        return [(h.numpy().tobytes(), str(h.dtype), same, drawn.numpy().tobytes()) for h, same, drawn in found]

    translated = translate(function, backend=backend)
    assert run(translated) == run(function)
    # A program rounds pi to a float.
    if (name, dtype) != ("cauchy", "float64"):
        assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


@pytest.mark.parametrize("name", DRAWS)
def test_gradients_flow_as_in_eager_mode(name):
    draw = DRAWS[name]

    def function(x):
        h = x * 2
        draw(h)
        return h

    def run(of):
        x = paddle.ones([3, 4])
        x.stop_gradient = False
        paddle.seed(5)
        try:
            h = of(x)
            h.sum().backward()
        except RuntimeError as error:
            return type(error)
        return h.tolist(), h.stop_gradient, None if x.grad is None else x.grad.tolist()

    assert run(translate(function)) == run(function)


def test_gumbel_noise_is_one_graph():
    def sample(logits):
        noise = -paddle.empty_like(logits).exponential_().log()
        return paddle.argmax(logits + noise, axis=-1)

    translated = translate(sample)
    logits = paddle.to_tensor(np.random.RandomState(0).rand(8, 5).astype("float32"))
    for seed in range(3):
        paddle.seed(seed)
        found = translated(logits).tolist()
        paddle.seed(seed)
        assert found == sample(logits).tolist()
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])
