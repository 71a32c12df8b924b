"""Arguments by other names than Paddle's own, `narrow`, and floats for whole numbers, which eager mode takes."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, translate

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

ROWS = paddle.to_tensor([[1.0, -2.5, 3.0, 0.5], [4.0, 5.5, -6.0, 7.0], [8.0, 9.0, 1.5, 2.0]])

CALLS = {
    "floor_divide": lambda x: paddle.floor_divide(input=x, other=x * 0 + 1.5) + x,
    "floor_divide by a number": lambda x: paddle.floor_divide(x, other=2.0) + x,
    "add": lambda x: paddle.add(input=x, other=x, alpha=2),
    "softmax": lambda x: paddle.softmax(input=x, dim=0),
    "where": lambda x: paddle.where(x > 0, input=x, other=x * 2),
}
NARROWED = {
    "columns": lambda x: paddle.narrow(x, 1, 1, 2) * 2,
    "rows from the end": lambda x: (x * 2).narrow(0, -2, 2).exp(),
    "by name": lambda x: paddle.narrow(input=x, dim=-1, start=0, length=3) + x[:, 1:],
    "all of it": lambda x: (x + 1).narrow(dim=0, start=0, length=3),
}


@pytest.mark.skipif(not hasattr(paddle, "narrow"), reason="a newer Paddle has these names")
@pytest.mark.parametrize("function", [*CALLS.values(), *NARROWED.values()], ids=[*CALLS, *NARROWED])
def test_they_are_one_graph(function):
    leaf = ROWS.clone().detach()
    leaf.stop_gradient = False
    check(function, leaf, graphs=1, breaks=0)
    check(function, ROWS, graphs=1, breaks=0)


@pytest.mark.skipif(not hasattr(paddle, "narrow"), reason="a newer Paddle has it")
def test_what_may_have_gaps_is_left_to_eager_mode():
    # Its gradient goes by the strides of the transposed tensor, and may write behind it.
    check(lambda x: x.T.narrow(0, 1, 2) @ x, ROWS, breaks=1)
    check(lambda x: x[:, ::2].narrow(1, 0, 1) * 2, ROWS, breaks=1)


@pytest.mark.skipif(not hasattr(paddle, "narrow"), reason="a newer Paddle has it")
def test_what_is_narrowed_shares_its_numbers():
    def function(x):
        rows = x.narrow(0, 1, 2)
        return rows, rows + 1

    rows = ROWS.clone()
    translated = translate(function)
    for _ in range(2):
        part, more = translated(rows)
        rows[1] = 5.0
        assert part[0].tolist() == [5.0] * 4
        assert more.shape == [2, 4]


@pytest.mark.skipif(not hasattr(paddle, "narrow"), reason="a newer Paddle has it")
@pytest.mark.parametrize("asked", [(0, 2, 3), (0, -4, 1), (5, 0, 1), (0, 0, -1)])
def test_what_is_out_of_range_raises_as_in_eager_mode(asked):
    def function(x):
        return (x * 2).narrow(*asked) + 1

    for call in (function, translate(function)):
        with pytest.raises((AssertionError, IndexError)):
            call(ROWS)


def test_a_narrowed_dim_that_is_open_is_right():
    if not hasattr(paddle, "narrow"):
        pytest.skip("a newer Paddle has it")

    def function(x):
        return x.narrow(0, 1, 2) * 2

    translated = translate(function)
    for count in (3, 4, 5, 6, 2 + 1):
        x = paddle.arange(count * 2, dtype="float32").reshape([count, 2])
        assert translated(x).tolist() == function(x).tolist()
    assert sot.stats(translated).fallbacks == []


SAMPLES = {
    "one": lambda x: paddle.distribution.Categorical(x).sample(),
    "of a row": lambda x: paddle.distribution.Categorical(x[0]).sample([]),
    "a float": lambda x: paddle.multinomial(x, 2.0, True),
    "a float by name": lambda x: paddle.multinomial(x, num_samples=1.0),
}


@pytest.mark.parametrize("function", SAMPLES.values(), ids=SAMPLES)
def test_a_float_that_is_a_whole_number_counts_samples(function):
    check(function, ROWS.abs(), graphs=1, breaks=0)


def test_a_policy_is_trained_in_one_graph():
    def losses(x):
        actions = paddle.distribution.Categorical(logits=x)
        action = actions.sample()
        return (actions.log_prob(action) * (action.astype("float32") - 1)).mean() - 0.01 * actions.entropy().mean()

    leaf = ROWS.clone().detach()
    leaf.stop_gradient = False
    check(losses, leaf, graphs=1, breaks=0)
