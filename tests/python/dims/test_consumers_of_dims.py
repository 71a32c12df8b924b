"""What takes all that something yields (`sum`, `any`, `sorted`), and items that are set, where open dims say which."""

import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

SIZES = [(2, 3), (1, 1), (7, 7), (4, 4), (5, 2), (3, 8), (1, 4), (6, 1), (0, 3), (0, 0)]


def equal(found, wanted):
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.numpy().tobytes() == wanted.numpy().tobytes()


def stopped(x):
    """`any()` stops at the first that is true, and the iterator is there."""
    sizes = iter([x.shape[0], x.shape[1], 9])
    found = any(size > 4 for size in sizes)
    return x * found + next(sizes, 20)


def raised_behind(x):
    return x * any(10 // (5 - i) > 3 for i in (4, x.shape[0]))


def written_behind(x):
    seen = []

    def known(size):
        seen.append(size)
        return size > 4

    return x * any(known(size) for size in x.shape) + len(seen)


def nothing_yielded(x):
    return x + sum(i for i in range(x.shape[0]) if i > 100)


def yielded_by_a_function(x):
    def places(n):
        for i in range(n):
            yield i
            yield i * 2

    return x * sum(places(x.shape[0]))


CONSUMERS = {
    "sum": lambda x: x * sum(i * i for i in range(x.shape[0])),
    "sum of two": lambda x: x * sum(i * j for i in range(x.shape[0]) for j in range(x.shape[1])),
    "sum with a condition": lambda x: x * sum(i for i in range(x.shape[0]) if i % 2),
    "sum with a start": lambda x: x * (3 + sum((i for i in range(1, x.shape[1])), 0)),
    "sum of known ones": lambda x: x * sum(i for i in range(4)) + sum(size for size in x.shape),
    "sum of bools": lambda x: x * sum(i > 1 for i in range(x.shape[0])),
    "any": lambda x: x * any(i > 3 for i in range(x.shape[0])),
    "all": lambda x: x * all(i < 3 for i in range(x.shape[0])) + all(i > 3 for i in range(x.shape[1])),
    "any of a list": lambda x: x * any([size > 4 for size in x.shape]),
    "any of known ones": lambda x: x * any([x.shape[0] > 4, False, True]) + all([True, x.shape[1] > 4, False]),
    "all of numbers": lambda x: x + all(x.shape) + any([x.shape[0] - 1, x.shape[1] - 1]),
    "max of a map": lambda x: x * max(map(lambda size: size + 1, x.shape)),
    "min of a generator": lambda x: x * min(size * 2 for size in [*x.shape, 5]),
    "sorted": lambda x: x * sorted([x.shape[0], 3, x.shape[1]])[1],
    "sorted by keys": lambda x: x * sorted([x.shape[0], 3, x.shape[1]], key=lambda n: -n)[0],
    "sorted by equal keys": lambda x: x * sorted([x.shape[0], 9, x.shape[1]], key=lambda n: n // 4)[1],
    "sorted backwards": lambda x: x * sorted([9, x.shape[0], x.shape[1]], key=lambda n: n // 4, reverse=True)[2],
    "tuples": lambda x: x * (tuple(x.shape) > (3, 3)) + (tuple(x.shape) <= (3, 3)),
    "tuples of other lengths": lambda x: x * ((x.shape[0],) < (3, 1)) + ((x.shape[0], 2) >= (3,)) * 2,
    "lists": lambda x: x * ([x.shape[0], x.shape[1]] >= [x.shape[1], x.shape[0]]),
    "nothing": nothing_yielded,
}


def left_in_the_middle(x):
    places = (i for i in range(x.shape[0]))
    return x * any(i > 1 for i in range(x.shape[1])) + any(i == 2 for i in places) + sum(places)


def written_at_the_end(x):
    seen = []

    def places(numbers):
        for i in numbers:
            yield i > 2
        seen.append(1)

    return x * any(places(iter(range(x.shape[0])))) + len(seen)


# Refused, or right.
HARDER = {
    "a generator that is left": left_in_the_middle,
    "a side effect at the end": written_at_the_end,
    "an iterator that goes on": stopped,
    "an exception behind": raised_behind,
    "a side effect behind": written_behind,
    "a function that yields": yielded_by_a_function,
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_consumers(name, tmp_path):
    function = CONSUMERS[name]
    sot.save(function, str(tmp_path / "m"), input_spec=[InputSpec([None, None], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "m"))
    translated = sot.to_static(function, capture_control_flow=True, min_graph_size=0, compile_at_call=1)
    for size in SIZES:
        x = paddle.randn(size)
        equal(loaded(x), function(x))
        equal(translated(x), function(x))
    assert sot.stats(translated).fallbacks == []


@pytest.mark.parametrize("name", HARDER)
def test_consumers_that_stop(name, tmp_path):
    function = HARDER[name]
    translated = sot.to_static(function, capture_control_flow=True, min_graph_size=0, compile_at_call=1)
    for size in SIZES:
        x = paddle.randn(size)
        try:
            wanted = function(x)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                translated(x)
            continue
        equal(translated(x), wanted)
    try:
        sot.save(function, str(tmp_path / "m"), input_spec=[InputSpec([None, None], "float32", "x")])
    except sot.GraphBreakError:
        return
    loaded = paddle.jit.load(str(tmp_path / "m"))
    for size in SIZES:
        x = paddle.randn(size)
        try:
            wanted = function(x)
        except ZeroDivisionError:
            continue
        equal(loaded(x), wanted)


class Normed(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.norm = paddle.nn.BatchNorm1D(2)

    def forward(self, x):
        return x * any(float(self.norm(paddle.ones([3, 2])).sum()) < 9 for _ in range(x.shape[0])), self.norm._mean * 1


# What they do is done as often as Python does it.
ACTING = {
    "draws": lambda: lambda x: (x * any(float(paddle.rand([])) > 0.5 for _ in range(5)), x),
    "draws over rows": lambda: lambda x: (x * any(float(paddle.rand([])) > 0.5 for _ in range(x.shape[0])), x),
    "draws until": lambda: lambda x: (x * all(float(paddle.rand([])) > 0.5 for _ in range(x.shape[1])), x),
    "draws of a map": lambda: lambda x: (x * any(map(lambda _: float(paddle.rand([])) > 0.5, range(5))), x),
    "statistics": Normed,
}


@pytest.mark.parametrize("name", ACTING)
def test_consumers_stop_what_acts(name):
    eager, translated = (
        ACTING[name](),
        sot.to_static(ACTING[name](), capture_control_flow=True, min_graph_size=0, compile_at_call=1),
    )
    for size in SIZES[:8]:
        x, seen = paddle.randn(size), []
        for call in (eager, translated):
            paddle.seed(size[0] * 10 + size[1])
            seen.append([part.tolist() for part in (*call(x), paddle.rand([3]))])
        assert seen[0] == seen[1]
    assert sot.stats(translated).graph_breaks != []


def setting(*statements):
    code = "def set_items(x):\n    y = x * 1\n" + "".join(f"    {it}\n" for it in statements) + "    return y\n"
    space = {"paddle": paddle}
    exec(code, space)
    return space["set_items"]


ITEMS = {
    "to a dim": ("y[: x.shape[0] // 2] = 1.0",),
    "from a dim": ("y[x.shape[0] // 2 :] = x[0] * 2",),
    "between": ("y[x.shape[0] // 3 : x.shape[0] - 1] = 0",),
    "rounded": ("y[:, : int(x.shape[1] * 0.6)] = -1.0",),
    "one": ("y[x.shape[0] - 1] = 2.0",),
    "one from the end": ("y[-(x.shape[0] // 2) - 1] = x[0]",),
    "one of both": ("y[x.shape[0] // 2, x.shape[1] // 2] = 5",),
    "a row and a slice": ("y[0, x.shape[1] // 2 :] = 3.0", "y[:, 0] = x[:, x.shape[1] - 1]"),
    "with a rest": ("y[..., x.shape[1] // 2 :] = 1",),
    "into a larger one": ("y = paddle.zeros([x.shape[0] + 2, x.shape[1]])", "y[1 : x.shape[0] + 1] = x"),
}


@pytest.mark.parametrize("name", ITEMS)
def test_items_that_dims_choose(name, tmp_path):
    function = setting(*ITEMS[name])
    sot.save(function, str(tmp_path / "m"), input_spec=[InputSpec([None, None], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "m"))
    translated = sot.to_static(function, min_graph_size=0, compile_at_call=1)
    for size in SIZES[:8]:
        x = paddle.randn(size)
        equal(loaded(x), function(x))
        equal(translated(x), function(x))
    assert sot.stats(translated).graph_breaks == sot.stats(translated).fallbacks == []


@pytest.mark.parametrize("name", ITEMS)
def test_gradients_of_items_that_dims_choose(name):
    function = setting(*ITEMS[name])
    translated = sot.to_static(lambda x: (function(x) * function(x)).sum(), min_graph_size=0, compile_at_call=1)
    for size in SIZES[:6]:
        grads = []
        for call in (lambda x: (function(x) * function(x)).sum(), translated):
            paddle.seed(3)
            x = paddle.randn(size)
            x.stop_gradient = False
            call(x).backward()
            grads.append(x.grad.tolist())
        assert grads[0] == grads[1]
