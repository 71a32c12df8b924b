"""Captured loops over open dims that `break`, `continue` and `return` leave: one graph for all sizes, in calls too."""

import paddle
import paddle_sot_rs as sot
import pytest

pytestmark = pytest.mark.default_python

SIZES = [(2, 3), (3, 5), (7, 7), (4, 4), (5, 2), (3, 8), (6, 5), (8, 3), (9, 6), (4, 7)]
OTHERS = [(1, 1), (1, 4), (6, 1), (10, 12), (0, 3), (4, 0), (0, 0)]


def returned(x):
    for i in range(x.shape[0]):
        if i * 2 > x.shape[1]:
            return x[i] * i
    return x[0]


def returned_after_three(x):
    for i in range(x.shape[0]):
        if i > 2:
            return x[i] * i, i
    return x[0] * 3, 7


def empty_parts(x):
    for i in range(x.shape[0]):
        if i * 2 > x.shape[0]:
            return x[i, 3:] * i
    return x[0] * 2


def left(x):
    total = x.sum() * 0
    for i in range(x.shape[0]):
        if i * i > x.shape[1]:
            break
        total = total + x[i].sum()
    return total


def left_or_not(x):
    total = x.sum() * 0
    for i in range(x.shape[0]):
        if i * i > x.shape[1]:
            break
        total = total + x[i].sum()
    else:
        total = total - 100
    return total


def left_with_a_part(x):
    part = x[0, 3:]
    for i in range(x.shape[0]):
        if i * 2 > x.shape[1]:
            break
        part = x[i, 3:] * i
    return part


def left_by_a_tensor(x):
    total = x.sum() * 0
    for i in range(x.shape[0]):
        total = total + x[i].sum()
        if total > 1.0:
            break
    return total


def skipped(x):
    total = x.sum() * 0
    for i in range(x.shape[0]):
        if i * 2 == x.shape[1]:
            continue
        total = total + x[i].sum() * i
    return total


def chosen(x):
    row = x[0]
    for i in range(x.shape[0]):
        if i * 2 > x.shape[1]:
            row = x[i] * i
    return row


def computed(x):
    total = x.sum() * 0
    for i in range(x.shape[0]):
        total = total + x[i].sum() * (i * x.shape[1] - x.shape[0]) + (i * 3) // x.shape[1]
    return total


def nested(x):
    total = x.sum() * 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if j > i:
                break
            total = total + x[i, j] * (i - j)
    return total


def counted(x):
    count = 0
    for i in range(x.shape[0]):
        if i * 2 > x.shape[1]:
            break
        count = count + i
    return x * count, count


def raised(x):
    for i in range(x.shape[0]):
        if i > 4:
            raise ValueError(f"too many: {x.shape[0]}")
        x = x + i
    return x


PROGRAMS = {
    function.__name__: function
    for function in (
        *(returned, returned_after_three, empty_parts, left, left_or_not, left_with_a_part, left_by_a_tensor),
        *(skipped, chosen, computed, nested, counted, raised),
    )
}


def outcome(function, size, grad=False):
    paddle.seed(3)
    x = paddle.randn(size)
    x.stop_gradient = not grad
    try:
        result = function(x)
    except (ValueError, IndexError, ZeroDivisionError) as raised:
        return type(raised)
    parts = result if isinstance(result, tuple) else (result,)
    if grad and not parts[0].stop_gradient:
        parts[0].sum().backward()
    shown = [
        (part.shape, part.dtype, part.stop_gradient, part.numpy().tobytes())
        if isinstance(part, paddle.Tensor)
        else part
        for part in parts
    ]
    return shown, None if x.grad is None else x.grad.tolist()


@pytest.mark.parametrize("options", [{"min_graph_size": 0}, {}], ids=["small graphs", "settled"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_loops(name, options):
    function = PROGRAMS[name]
    translated = sot.to_static(function, capture_control_flow=True, **options)
    for size in SIZES:
        assert outcome(translated, size) == outcome(function, size), size
    # One that is returned has another shape than the empty part: a way of its own.
    assert sot.stats(translated).translations <= 4
    for size in [*OTHERS, *reversed(SIZES), *OTHERS]:
        assert outcome(translated, size) == outcome(function, size), size


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name):
    function = PROGRAMS[name]
    translated = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for size in [*SIZES, *OTHERS]:
        assert outcome(translated, size, True) == outcome(function, size, True), size


def test_rows_without_columns():
    """A result that is empty is that of the loop, and no zero in its place."""
    translated = sot.to_static(returned_after_three, capture_control_flow=True, min_graph_size=0)
    for size in [(4, 0), (5, 0), (6, 0), (2, 0), (3, 4), (5, 7), (4, 7, 3), (5, 0, 4), (6, 0, 3), (7, 3, 0)] * 2:
        assert outcome(translated, size) == outcome(returned_after_three, size), size
