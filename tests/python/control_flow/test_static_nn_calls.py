"""`paddle.static.nn.cond`, `case`, `switch_case` and `while_loop` that user code calls itself."""

import paddle
import paddle_sot_rs as sot
import pytest
from test_control_flow import DATA, check

nn = paddle.static.nn


def cond(x):
    return nn.cond(x.mean() > 0, lambda: x * 2, lambda: x - 1)


def case(x):
    mean = x.mean()
    return nn.case([(mean > 1, lambda: x * 2), (mean < -1, lambda: -x)], default=lambda: x + 1)


def index(x):
    return x.sum().clip(-1, 3).astype("int64")


def switch_of_a_dict(x):
    return nn.switch_case(index(x), {0: lambda: x, 3: lambda: x * 2}, default=lambda: x - 1)


def switch_of_a_list(x):
    return nn.switch_case(index(x), [lambda: x, lambda: x * 3, lambda: x - 2])


def switch_of_pairs(x):
    return nn.switch_case(index(x).astype("int32"), [(3, lambda: x * x), (-1, lambda: x + 4)])


def switch_in_a_loop(x):
    for k in range(3):
        x = nn.switch_case(
            (x.sum() > 0).astype("int64") + k, {1: lambda y=x: y * 2, 2: lambda y=x: y + 1}, lambda y=x: -y
        )
    return x


@pytest.mark.parametrize(
    "function",
    [cond, case, switch_of_a_dict, switch_of_a_list, switch_of_pairs, switch_in_a_loop],
    ids=lambda it: it.__name__,
)
def test_captured(function):
    check(function)


def test_a_while_loop_writes_its_variables():
    def function(x):
        count, y = paddle.zeros([], "int64"), x * 1
        outcome = nn.while_loop(lambda i, y: i < 4, lambda i, y: [i + 1, y * 1.5], [count, y])
        return outcome, count, y + 1

    check(function, grad=False)


def wrong_number(x):
    return nn.switch_case(index(x), {"0": lambda: x})


def the_same_number_twice(x):
    return nn.switch_case(index(x), [(1, lambda: x), (1, lambda: x * 2)])


def no_tensor(x):
    return nn.switch_case(1, [lambda: x, lambda: x * 2])


@pytest.mark.parametrize("function", [wrong_number, the_same_number_twice, no_tensor], ids=lambda it: it.__name__)
def test_raises_as_in_eager_mode(function):
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for numbers in DATA[:2]:
        seen = []
        for run in (function, static):
            with pytest.raises((TypeError, ValueError, AttributeError)) as raised:
                run(paddle.to_tensor(numbers))
            seen.append((raised.type, str(raised.value)))
        assert seen[0] == seen[1]
