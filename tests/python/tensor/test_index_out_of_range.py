"""`x[t]` where only the graph knows the place: where there is none, the error is eager mode's, used or not."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


def branch(x, t):
    return x[t] if x.sum() > 0 else x[0]


def reshaped_in_a_branch(x, t):
    if x.sum() > 0:
        y = x[t].reshape([2, 2])
    else:
        y = x[0].reshape([2, 2])
    return y


def loop(x, t):
    y = x[0]
    i = paddle.zeros([], "int64")
    while i <= t:
        y = x[i]
        i = i + 1
    return y


def counted(x, t):
    y = x[0]
    for i in range(int(t)):
        y = x[i]
    return y


def unused(x, t):
    x[t]
    return x * 2 + 1


def unused_number(x, t):
    x[int(t)]
    return x * 2 + 1


def of_a_later_dim(x, t):
    return (x[:, t] if x.sum() > 0 else x[:, 0]) + x[1, t] + x[..., t]


def next_to_others(x, t):
    return x[paddle.to_tensor([0, 1]), t] + x[None, t, 0] + x[t, 1:3][:1]


def like_it(x, t):
    return paddle.zeros_like(x[t]) if x.sum() > 0 else x[0]


@pytest.mark.parametrize("mode", [{}, {"capture_control_flow": True}, {"full_graph": True}], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        *(branch, reshaped_in_a_branch, loop, counted, unused, unused_number),
        *(of_a_later_dim, next_to_others, like_it),
    ],
    ids=lambda function: function.__name__,
)
def test_as_in_eager_mode(function, mode):
    translated = translate(function, **mode)

    def outcome(run, place, size):
        x = paddle.arange(4 * size, dtype="float32").reshape([size, 4])
        try:
            return run(x, paddle.to_tensor(place)).tolist()
        except (IndexError, sot.GraphBreakError) as error:
            return type(error).__name__, str(error).split(":")[0][:60]

    for size in (4, 4, 4, 3, 5):
        for place in (1, 0, 2, -1, size, 9, -size - 1):
            found = outcome(translated, place, size)
            if found[0] != "GraphBreakError":
                assert found == outcome(function, place, size), (size, place)
