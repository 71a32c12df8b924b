"""Texts of whole numbers that the graph computes, and sorted ones: one graph, and the interpreter has what it needs."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

pytestmark = pytest.mark.default_python


def texts(x, n):
    i = int(n)
    return x * i, f"{i} and {i + 1:04d}", repr(i), hex(i), f"{i}|{i}"


def nobody_reads_it(x, n):
    i = int(n)
    name = f"step {i}"
    del name
    return x + i


def raised(x, n):
    i = int(n)
    if i < 2:
        raise ValueError(f"n was {i}")
    return x * i


def in_order(x, n):
    return sorted([int(n), 3, int(x.sum())]), sorted([int(n), 2, 2], reverse=True), x


def in_place(x, n):
    numbers = [5, int(n), 1, int(x.sum())]
    numbers.sort()
    return x * numbers[1], numbers


CAPTURED = (texts, nobody_reads_it, raised, in_order, in_place)


def compared(x, n):
    return 1 if f"{int(n)}" == "3" else 2


def a_key(x, n):
    return list({f"k{int(n)}": x})


def its_length(x, n):
    return len(str(int(n))), x


def on_either_way(x, n):
    i = int(n)
    if i > 2:
        text = f"big {i}"
    else:
        text = f"small {i}"
    return text, x * i


def of_pairs(x, n):
    return sorted([(int(n), 1), (2, 0)]), x


def by_a_key(x, n):
    return sorted([int(n), 5, 1], key=lambda it: -it), x


def next_to_a_bool(x, n):
    return sorted([int(n), True, 0]), x


LEFT = (compared, a_key, its_length, on_either_way, of_pairs, by_a_key, next_to_a_bool)


def outcome(function, n):
    x = paddle.to_tensor([1.0, 2.0])
    try:
        made = function(x, paddle.to_tensor(n))
    except ValueError as error:
        return str(error)
    return repr([it.tolist() if isinstance(it, paddle.Tensor) else it for it in paddle.utils.flatten(made)])


@pytest.mark.parametrize("function", CAPTURED)
def test_one_graph(function):
    compiled = translate(function, full_graph=True, capture_control_flow=True)
    for n in (3, 12, -7, 1, 2):
        assert outcome(compiled, n) == outcome(function, n)
    assert sot.stats(compiled).graphs == 1


@pytest.mark.parametrize("function", LEFT)
def test_what_python_needs_is_left_to_it(function):
    compiled = translate(function, capture_control_flow=True)
    for n in (3, 12, -7, 1, 2):
        assert outcome(compiled, n) == outcome(function, n)
