"""Graphs that fail because of their numbers: running statistics and random numbers are as if they had not run."""

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest

X = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
EYE = np.eye(3, dtype="float32")


def cholesky(norm, x, other):
    return norm(x).sum() + paddle.linalg.cholesky(other).sum()


def inverse(norm, x, other):
    return F.dropout(norm(x), 0.5).sum() + paddle.linalg.inv(other).sum()


def functional(norm, x, other):
    y = F.batch_norm(x, norm._mean, norm._variance, norm.weight, norm.bias, training=True)
    return y.sum() + paddle.linalg.matrix_power(other, -2).sum()


def probabilities(norm, x, other):
    return norm(x).sum() + paddle.bernoulli(paddle.abs(other)).sum()


def places(norm, x, other):
    return norm(x).sum() + paddle.gather(x, other.sum().astype("int64").reshape([1])).sum()


def size(norm, x, other):
    return norm(x).sum() + paddle.ones([other.sum().astype("int64")]).sum()


def asserted(norm, x, other):
    y = norm(x)
    assert other.sum() > 0
    return y.sum()


def raised(norm, x, other):
    y = norm(x)
    if other.sum() < 0:
        raise KeyError("no")
    return y.sum()


def converted(norm, x, other):
    return norm(x).sum() * int(1 / other.sum())


# With another argument that fails.
FAILING = [
    *((function, {}, 0 * EYE) for function in (cholesky, inverse, functional)),
    (probabilities, {}, 2 * EYE),
    *((function, {}, -EYE) for function in (places, size)),
    *((function, {"capture_control_flow": True}, -EYE) for function in (asserted, raised)),
    (converted, {"capture_control_flow": True}, 0 * EYE),
]


def history(function, arguments):
    """What each call answers with, and what it leaves behind."""
    paddle.seed(5)
    norm, seen = paddle.nn.BatchNorm1D(3), []
    for argument in arguments:
        try:
            answer = f"{float(function(norm, paddle.to_tensor(X), paddle.to_tensor(argument))):.3f}"
        except Exception as error:  # noqa: BLE001 - any of them
            answer = type(error).__name__
        seen.append((answer, norm._mean.numpy().tolist(), norm._variance.numpy().tolist(), paddle.rand([]).item()))
    return seen


def test_statistics_that_the_first_run_leaves_at_what_they_were():
    """The mean and the variance of the first batch are those that the layer begins with."""

    def run(translate):
        norm, seen = paddle.nn.BatchNorm1D(1), []
        function = translate(lambda x, other: (norm(x), paddle.linalg.cholesky(other)))
        for x, other in (([[1.0], [-1.0]], EYE), ([[4.0], [-2.0]], -EYE), ([[4.0], [-2.0]], EYE)):
            try:
                function(paddle.to_tensor(x), paddle.to_tensor(other))
            except Exception as error:  # noqa: BLE001 - any of them
                seen.append(type(error).__name__)
            seen.append((norm._mean.numpy().tolist(), norm._variance.numpy().tolist()))
        return seen

    assert run(lambda it: sot.to_static(it, min_graph_size=0)) == run(lambda it: it)


@pytest.mark.parametrize(("function", "settings", "fails"), FAILING, ids=[one.__name__ for one, *_ in FAILING])
def test_what_a_graph_wrote_before_it_failed(function, settings, fails):
    arguments = [EYE, EYE, fails, EYE, fails]
    expected = history(function, arguments)
    assert expected[2][0] != expected[1][0]
    assert history(sot.to_static(function, min_graph_size=0, **settings), arguments) == expected


def test_statistics_that_the_first_run_left_as_they_were():
    """Those of a batch may be what they were before: then they are written all the same."""
    found = []
    for translate in (lambda it: it, lambda it: sot.to_static(it, min_graph_size=0)):
        norm = paddle.nn.BatchNorm1D(1)

        def function(x, other, norm=norm):
            return norm(x), paddle.linalg.cholesky(other)

        run = translate(function)
        one = paddle.to_tensor([[1.0], [-1.0]])
        seen = []
        for x, other in ((one, EYE), (one * 3 + 1, -EYE), (one * 3 + 1, EYE)):
            try:
                run(x, paddle.to_tensor(other))
            except Exception as error:  # noqa: BLE001
                seen.append(type(error))
            seen.append((norm._mean.tolist(), norm._variance.tolist()))
        found.append(seen)
    assert found[0] == found[1]
