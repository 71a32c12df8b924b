"""Breaks in inlined calls: the callers keep what was captured, and the callee goes on where it broke."""

import functools
import gc
import types
import weakref

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, tensor
from paddle import nn

X = tensor(3, 4)
LOG = []


def leaf(x, k=2, *rest, scale=1.0, **named):
    y = x * k
    LOG.append((k, scale, len(rest), sorted(named)))
    if y.sum() > 0:
        y = y + 1
    return y * scale


def test_three_calls_down():
    def middle(x):
        y = x + 1
        return leaf(y, 3) * y

    def function(x):
        y = x.exp()
        return middle(y) + y

    record = check(function, X, fallbacks=0)
    # One graph up to the branch; the rest of each of the three frames.
    assert (record.graphs, sum(it.count for it in record.graph_breaks)) == (4, 1), record


@pytest.mark.parametrize("call", ["args", "keywords", "star", "partial", "method", "wrapped", "object", "lambda"])
def test_ways_to_call(call):
    class Owner:
        def method(self, x):
            return leaf(x, 5) - 1

        def __call__(self, x):
            return self.method(x)

    def doubled(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs) * 2

        return wrapper

    calls = {
        "args": lambda x: leaf(x, 3, 4, 5),
        "keywords": lambda x: leaf(x, scale=0.5, other=1),
        "star": lambda x: leaf(*(x, 2, 3), **{"scale": 2.0, "a": 1}),
        "partial": functools.partial(leaf, k=4),
        "method": Owner().method,
        "wrapped": doubled(leaf),
        "object": Owner(),
        "lambda": lambda x: (lambda y: leaf(y))(x + 1),
    }
    chosen = calls[call]

    def function(x):
        y = x * 2
        z = chosen(y)
        return z + y, list(LOG)

    record = check(function, X, fallbacks=0, watch=lambda: LOG, reset=LOG.clear)
    assert sum(it.count for it in record.graph_breaks) == 1, record


class Block(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x):
        x = nn.functional.relu(self.first(x))
        if x.sum() > 0:
            x = x + 1
        return self.second(x)


class Net(nn.Layer):
    def __init__(self, depth):
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.blocks(x * 2))


def test_layers():
    paddle.seed(3)
    net = Net(2)
    record = check(net.forward, tensor(3, 4, grad=True), fallbacks=0)
    # Up to the first branch; up to the second one in `second`; from there to the end of each frame.
    assert record.graphs <= 6, record
    # The branch of each block, and the iterator of `Sequential` that goes on behind the first one.
    assert sum(reason.count for reason in record.graph_breaks) == 3, record


def test_many_layers_do_not_reach_the_limit_of_translations():
    paddle.seed(3)
    net = Net(12)
    record = check(net.forward, X, fallbacks=0)
    assert record.graphs > 0


def test_a_hook_sees_the_whole_result():
    paddle.seed(3)
    net = Net(1)
    seen = []
    net.blocks[0].register_forward_post_hook(lambda layer, args, result: seen.append(tuple(result.shape)) or result * 2)
    check(net.forward, X, watch=lambda: seen, reset=seen.clear)
    static = sot.to_static(net.forward, min_graph_size=0)
    before = static(X)
    # Hooks that come later count too.
    handle = net.blocks.register_forward_post_hook(lambda layer, args, result: result + 1)
    after = static(X)
    assert paddle.allclose(after, net.forward(X)).item()
    assert not paddle.allclose(after, before).item()
    handle.remove()
    assert paddle.allclose(static(X), before).item()


def test_loops_in_the_callee():
    def total(x, rounds):
        result = x * 0
        for step in range(rounds):
            result = result + x * step
            if result.sum() > 4:
                result = result - 1
        return result

    def function(x, rounds):
        return total(x + 1, rounds) * 2

    record = check(function, X, 5, fallbacks=0)
    assert record.translations < 12, record


def test_comprehensions_and_generators():
    def function(x):
        parts = [leaf(part) for part in (x, x + 1)]
        rest = (x * k for k in (1, 2))
        first = leaf(next(rest))
        return parts, first, next(rest)

    check(function, X)


def test_exceptions_pass_through_the_callers():
    def inner(x, bad):
        y = x * 2
        if y.sum() > -1e9 and bad:
            raise ValueError("bad")
        return y

    def middle(x, bad):
        try:
            return inner(x + 1, bad) * 2
        except KeyError:
            return x
        finally:
            LOG.append("finally")

    def function(x, bad):
        y = x * 3
        try:
            y = middle(y, bad)
        except ValueError as error:
            LOG.append(str(error))
            y = y + 100
        return y

    # What runs in a handler behind a break runs natively.
    for bad in (False, True, False):
        check(function, X, bad, fallbacks=None, watch=lambda: LOG, reset=LOG.clear)

    def raises(x, bad):
        return middle(x, bad)

    check(raises, X, True, fallbacks=None, watch=lambda: LOG, reset=LOG.clear)


def test_lines_of_a_traceback():
    def inner(x):
        y = x * 2
        y = y + float(y.sum())
        return y.reshape([7, 7])

    def middle(x):
        return inner(x + 1)

    def function(x):
        return middle(x * 2)

    static = sot.to_static(function, min_graph_size=0)
    for run in (function, static, static):
        with pytest.raises(ValueError) as caught:
            run(X)
        lines = [entry.lineno for entry in caught.traceback if entry.name in ("inner", "middle", "function")]
        wanted = [function.__code__, middle.__code__, inner.__code__]
        assert [line - code.co_firstlineno for line, code in zip(lines[-3:], wanted, strict=True)] == [0, 0, 2]


def test_grad_modes_of_every_frame():
    def inner(x):
        with paddle.enable_grad():
            y = x * 2
            if y.sum() > 0:
                y = y * x
        return y, x * 3

    def middle(x):
        with paddle.no_grad():
            a, b = inner(x + 1)
            c = a * 2
        return a, b, c, x * 4

    def function(x):
        y = x * 2
        return middle(y), y * y, paddle.is_grad_enabled()

    check(function, tensor(3, 4, grad=True), fallbacks=0)


def test_side_effects_happen_once_and_in_order():
    class Box:
        pass

    def inner(x, items, box):
        items.append("inner")
        box.value = x * 2
        if box.value.sum() > 0:
            items.append("positive")
            box.value = box.value + 1
        box.count += 1
        return items

    def function(x):
        items, box = ["start"], Box()
        box.count = 0
        same = inner(x, items, box)
        again = inner(-x, items, box)
        return items, same is items, again is items, box.value, box.count

    check(function, X, fallbacks=0)


def test_cells_are_shared():
    def function(x):
        count = 0
        y = x

        def step(k):
            nonlocal count, y
            count += k
            if y.sum() > 0:
                y = y + k
            count += 1
            return y

        a = step(1)
        b = step(2)
        return a, b, y, count

    check(function, X, fallbacks=0)


def test_recursion():
    def power(x, n):
        if n == 0:
            return x
        if x.sum() > 1e9:
            return x
        return power(x * 2, n - 1) + n

    check(power, X, 3)


def test_what_the_callee_drops_dies():
    class Token:
        def __del__(self):
            LOG.append("gone")

    def inner(x, token):
        y = x * 2
        float(y.sum())
        LOG.append("before")
        del token
        LOG.append("after")
        return y

    def function(x):
        return inner(x, Token()) + 1

    check(function, X, fallbacks=None, watch=lambda: LOG, reset=LOG.clear)


def test_one_code_object_with_other_globals():
    def template(x):
        y = x * FACTOR  # noqa: F821
        if y.sum() > 0:
            y = y + FACTOR  # noqa: F821
        return y

    first, second = (types.FunctionType(template.__code__, {"FACTOR": factor}) for factor in (2.0, 5.0))

    def function(x):
        return first(x), second(x)

    check(function, X, fallbacks=0)


def test_constructors_and_properties_break_in_front_of_them():
    class Made:
        def __init__(self, x):
            self.value = leaf(x)

        @property
        def doubled(self):
            return leaf(self.value) * 2

    def function(x):
        made = Made(x * 2)
        return made.value, made.doubled

    check(function, X)


def test_nothing_is_kept():
    class Big:
        pass

    def inner(x, big):
        if x.sum() > 0:
            x = x + 1
        return x * 2

    def function(x, big):
        return inner(x * 2, big) + 1

    static = sot.to_static(function, min_graph_size=0)
    big = Big()
    for _ in range(3):
        static(X, big)
    ref = weakref.ref(big)
    del big
    gc.collect()
    assert ref() is None
