"""Names that are a tensor on one way and `None` on the other: the tensor with a flag beside it, in one graph."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

pytestmark = pytest.mark.default_python

DATA = [[1.0, 2.0], [3.0, -4.0]]


def _chosen(x):
    if x.sum() > 0:
        return x * 2
    return None


def _pair(x):
    if x.sum() > 0:
        return x * 2, None
    return x, x + 1


def of_a_function(x, n):
    y = _chosen(x * (n - 2))
    if y is None:
        return x
    return y + 1


def of_a_pair(x, n):
    y, more = _pair(x * (n - 2))
    if more is not None:
        y = y + more
    return y


def of_two(x, n):
    y, z = _chosen(x * (n - 2)), _chosen(x * (1 - n))
    if y is None and z is None:
        return x
    if y is None:
        return z
    if z is None:
        return y
    return y + z


def returned(x, n):
    return _chosen(x * (n - 2))


def in_a_list(x, n):
    y = _chosen(x * (n - 2))
    both = [y, y]
    return both, both[0] is both[1]


def in_a_dict(x, n):
    d = {"y": _chosen(x * (n - 2))}
    if d["y"] is not None:
        return d["y"] + 1
    return x


def asserted(x, n):
    y = _chosen(x * (n + 1))
    if y is None:
        y = _chosen(-x)
    # Pytest writes `assert` anew.
    if y is None and n >= 0:
        raise AssertionError
    return x if y is None else y * 2


def as_a_bool(x, n):
    y = _chosen(x * (n - 2))
    w = y
    return y is None, y is not None, y is w


def found_by_a_loop(x, n):
    found = None
    for i in range(n):
        if x.sum() * i > 1:
            found = x * i
            break
    return x if found is None else found


def returned_by_a_loop(x, n):
    for _ in range(n):
        x = x + 1
        if x.sum() > 9:
            return x
    return None


def the_best_of_a_loop(x, n):
    best = None
    for i in range(n):
        y = x * (i % 3)
        if best is None or y.sum() > best.sum():
            best = y
    return best


def a_cache(x, n):
    cache = None
    for i in range(n):
        cache = x * i if cache is None else paddle.concat([cache, x])
    return cache


def and_none_again(x, n):
    y = x
    for i in range(n):
        y = None if i == 1 else x * i
    return y


def until_there_is_one(x, n):
    y = None
    while y is None:
        n = n - 1
        if n < 1:
            y = x * n
    return y


CAPTURED = (
    of_a_function,
    of_a_pair,
    of_two,
    returned,
    in_a_list,
    in_a_dict,
    asserted,
    as_a_bool,
    found_by_a_loop,
    returned_by_a_loop,
    the_best_of_a_loop,
    a_cache,
    and_none_again,
    until_there_is_one,
)


def changed_under_two_names(x, n):
    y = _chosen(x * (n - 2))
    w = y
    if y is not None:
        y.add_(paddle.to_tensor(1.0))
    return x if w is None else w


def equal_to_none(x, n):
    return _chosen(x * (n - 2)) == None  # noqa: E711


def an_instance(x, n):
    return isinstance(_chosen(x * (n - 2)), paddle.Tensor)


def its_truth(x, n):
    return _chosen(x.sum() * (n - 2)) or x


def an_argument(x, n):
    return paddle.nn.functional.linear(x, x, _chosen(x[0] * (n - 2)))


def its_text(x, n):
    return str(_chosen(x * (n - 2)))[:4]


def used_at_once(x, n):
    return _chosen(x * (n - 2)) + 1


REFUSED = (
    changed_under_two_names,
    equal_to_none,
    an_instance,
    its_truth,
    an_argument,
    its_text,
    used_at_once,
)


def outcome(function, n, grad=False):
    x = paddle.to_tensor(DATA, stop_gradient=not grad)
    try:
        made = function(x, paddle.to_tensor(n))
    except sot.GraphBreakError:
        raise
    except Exception as error:  # noqa: BLE001 - the same one is expected
        return type(error).__name__
    made = paddle.utils.flatten(made)
    found = [it.tolist() if isinstance(it, paddle.Tensor) else it for it in made]
    tensors = [it for it in made if isinstance(it, paddle.Tensor) and not it.stop_gradient]
    if tensors:
        sum((it * it).sum() for it in tensors).backward()
    return [*found, None if x.grad is None else x.grad.tolist()]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", CAPTURED)
def test_one_graph(function, grad):
    if grad and function is a_cache:
        pytest.skip("its shape changes in the loop")
    compiled = translate(function, full_graph=True, capture_control_flow=True)
    for n in (3, 2, 1, 5, 0):
        assert outcome(compiled, n, grad) == outcome(function, n, grad)
    stats = sot.stats(compiled)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


@pytest.mark.parametrize("function", REFUSED)
def test_what_else_is_done_with_one_is_left_to_the_interpreter(function):
    with pytest.raises(sot.GraphBreakError):
        outcome(translate(function, full_graph=True, capture_control_flow=True), 3)
    compiled = translate(function, capture_control_flow=True)
    for n in (3, 1, 2):
        assert outcome(compiled, n) == outcome(function, n)
