"""Lists and dicts that a captured loop makes anew in each round: one graph, where nobody sees which object is which."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

pytestmark = pytest.mark.default_python

DATA = [[1.0, 2.0], [3.0, -4.0]]


def a_list(x, n):
    state = [x, x * 0]
    for i in range(n):
        state = [state[0] + i, state[1] + state[0]]
    return state[0], state[1]


def of_a_comprehension(x, n):
    state = [x, x * 0]
    for i in range(n):
        state = [s * 2 + i for s in state]
    return paddle.stack(state)


def a_dict(x, n):
    d = {"a": x, "b": x * 0}
    while n > 0:
        d = {"a": d["a"] + n, "b": d["b"] + d["a"]}
        n = n - 1
    return d["a"], d["b"], list(d)


def caches_of_layers(x, n):
    caches = [(x, x + 1), (x * 2, x * 3)]
    for i in range(n):
        new = []
        for k, v in caches:
            new.append((k + i, v * 2))
        caches = new
    for _ in range(n):
        new = [(q, p) for p, q in caches]
        caches = new
    return caches[0][0] + caches[1][1]


def left_early(x, n):
    state = {"h": x, "parts": [x * 0, x + 1]}
    for i in range(n):
        if state["h"].sum() > 20:
            break
        state = {"h": state["h"] * 2, "parts": [state["parts"][1], state["h"] + i]}
    return state["h"], state["parts"][0]


def an_item_of_another(x, n):
    box = {"s": [x, x + 1]}
    for i in range(n):
        box["s"] = [box["s"][1], box["s"][0] * i]
    return box["s"]


def of_a_closure(x, n):
    state = [x]

    def get():
        return state

    for _ in range(n):
        state = [state[0] + 1]
    return get()[0], get() is state


def swapped(x, n):
    a, b = [x], [x * 2]
    for _ in range(n):
        a, b = [b[0]], [a[0]]
    return a[0], b[0]


def also_the_one_before(x, n):
    state = [x, x + 1]
    prev = [x * 3, x]
    for _ in range(n):
        prev, state = [*state], [state[1], prev[0] + 1]
    return prev[0], state[0], prev is state


CAPTURED = (
    a_list,
    of_a_comprehension,
    a_dict,
    caches_of_layers,
    left_early,
    an_item_of_another,
    of_a_closure,
    swapped,
    also_the_one_before,
)


def another_name(x, n):
    a = state = [x, x * 0]
    for i in range(n):
        state = [state[0] + i, state[1] + state[0]]
    state[0] = x * 9
    return a[0], state[1], a is state


def changed_in_place(x, n):
    state = [x, x * 0]
    for _ in range(n):
        state[0] = state[0] + 1
        state = [state[0] * 2, state[1] + 1]
    return state[0], state[1]


def in_a_tuple(x, n):
    state = [x, x]
    both = (state, 1)
    for _ in range(n):
        state = [s + 1 for s in state]
    state.append(x)
    return len(both[0]), state[0]


def _steps(state, n):
    for _ in range(n):
        state = [state[0] + 1]
    state.append(1)
    return state


def of_the_caller(x, n):
    mine = [x]
    made = _steps(mine, n)
    return len(mine), len(made), made is mine


class _Box:
    pass


def in_an_object(x, n):
    box = _Box()
    box.s = [x]
    s = box.s
    for _ in range(n):
        s = [s[0] + 1]
    s[0] = x * 8
    return box.s[0], s[0]


def while_it_is_iterated(x, n):
    s = [x, x + 1, x + 2]
    iterator = iter(s)
    for _ in range(n):
        s = [a + 1 for a in s]
    s[2] = x * 9
    return next(iterator), next(iterator), next(iterator)


def bound_to_a_method(x, n):
    s = [x]
    add = s.append
    for _ in range(n):
        s = [s[0] + 1]
    add(x * 5)
    return len(s), s[-1]


def other_keys(x, n):
    d = {"a": x, "b": x + 1}
    for _ in range(n):
        d = {"b": d["a"], "a": d["b"]}
    return list(d), d["a"]


SEEN = (
    another_name,
    changed_in_place,
    in_a_tuple,
    of_the_caller,
    in_an_object,
    while_it_is_iterated,
    bound_to_a_method,
    other_keys,
)


def outcome(function, n, grad=False):
    x = paddle.to_tensor(DATA, stop_gradient=not grad)
    made = paddle.utils.flatten(function(x, paddle.to_tensor(n)))
    found = [it.tolist() if isinstance(it, paddle.Tensor) else it for it in made]
    if grad:
        sum((it * it).sum() for it in made if isinstance(it, paddle.Tensor)).backward()
        found.append(x.grad.tolist())
    return found


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", CAPTURED)
def test_one_graph(function, grad):
    compiled = translate(function, full_graph=True, capture_control_flow=True)
    for n in (2, 3, 6, 1, 0):
        assert outcome(compiled, n, grad) == outcome(function, n, grad)
    stats = sot.stats(compiled)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


@pytest.mark.parametrize("function", SEEN)
def test_who_sees_the_object_sees_that_of_python(function):
    compiled = translate(function, capture_control_flow=True)
    for n in (2, 0, 3, 1):
        assert outcome(compiled, n) == outcome(function, n)


def test_a_list_of_the_caller_stays_the_same_object():
    def f(state, n):
        for _ in range(n):
            state = [state[0] + 1]
        return state

    compiled = translate(f, capture_control_flow=True)
    for n in (0, 2, 0):
        given = [paddle.ones([2])]
        made = compiled(given, paddle.to_tensor(n))
        assert (made is given) == (n == 0)
        assert made[0].tolist() == [1.0 + n] * 2
