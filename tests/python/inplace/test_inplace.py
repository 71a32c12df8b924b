"""In-place operations: part of the graph on tensors that it made itself, a break on all others."""

import contextlib

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from harness import check
from paddle import nn

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

linear = nn.Linear(3, 3)
norm = nn.BatchNorm1D(3)
norm.eval()


def adds(x, w):
    y = x * 2
    y.add_(w)
    return y


def chained(x, w):
    y = x - w
    return y.scale_(2.0).add_(x).tanh_()


def relu(x, w):
    return F.relu_(norm(linear(x) + w)) * w


def two_names(x, w):
    y = x + w
    z = y
    y.exp_()
    return z * y, z is y


def in_containers(x, w):
    kept = {"y": x + w}
    both = [kept["y"], x]
    both[0].sigmoid_()
    return kept["y"], both[0] is kept["y"]


def through_a_callee(x, w):
    def change(y):
        y.subtract_(w)

    y = x + 1
    change(y)
    change(y)
    return y


def items(x, w):
    out = paddle.zeros([4, 2, 3]) + x
    for at in range(3):
        out[at] = x * at + w
    out[3, 1] = 5.0
    out[..., 0] = 7
    return out * 2


def slices(x, w):
    out = x * 1
    out[1:, ::2] = w[0, :2]
    out[-1] = 0.5
    return out


def new_axes(x, w):
    out = paddle.ones([2, 3]) * w
    out[None, 0] = x[1]
    return out


def whole_numbers(x, w):
    out = paddle.arange(6).reshape([2, 3]) + 0
    out[0, 1] = 9
    out[1] = True
    return out, x * w


def without_gradients(x, w):
    with paddle.no_grad():
        y = x.detach() * 2
        y.add_(w.detach()).clip_(-1.0, 1.0).multiply_(w.detach())
    return y + x


def zeros_take_gradients(x, w):
    y = paddle.zeros([2, 3])
    y.add_(x * w)
    return y, y.stop_gradient


def made_without_gradients(x, w):
    y = paddle.zeros([2, 3])
    y[0] = w[0]
    return y * x, y.stop_gradient


def filled_in_a_loop(x, w):
    def fill(rows):
        out = paddle.zeros([2, 3])
        for at in range(rows):
            out[at] = x[at] * w[1 - at]
        return out

    return fill(2) * fill(1) + w


def filled_many_times(x, w):
    y = paddle.zeros([2, 3])
    y[:, 1:] = w[:, :2] * 2
    y[1, 0] = x[0, 0]
    y[:] += x
    y[0] += 1
    return y * y


def filled_after_a_use(x, w):
    y = paddle.ones([2, 3])
    before, copy = y * 3, paddle.concat([y, x + y])
    y[0:1] = w[:1]
    return y * before, copy * w[0]


def filled_and_cut(x, w):
    y = paddle.ones([2, 3])
    y.add_(w)
    y.stop_gradient = True
    return y * x


def changed_after_copies(x, w):
    y = x * 1.0
    y[0] = w[0]
    copies = (
        y.clone(),
        paddle.assign(y),
        paddle.concat([y, w]),
        paddle.stack([w, y]),
        y.sum(0),
        y.mean(),
        y.tile([2, 1]),
        -y,
    )
    y[1] += w[1]
    return (*(copy * 2 for copy in copies), y * w)


def by_a_mask(x, w):
    y = x + w
    y[y > 0.5] = 0.0
    return y


def adds_itself(x, w):
    y = x * 2
    y.add_(y)
    return y.subtract_(w)


CAPTURED = [
    *(adds, chained, relu, two_names, in_containers, through_a_callee, items, slices, new_axes, whole_numbers),
    *(without_gradients, made_without_gradients),
    *(filled_in_a_loop, filled_many_times, filled_after_a_use, filled_and_cut, changed_after_copies, by_a_mask),
    adds_itself,
]


def of_an_argument(x, w):
    y = w.detach()
    y.add_(paddle.ones([2, 3]))
    return x * y


def with_a_view(x, w):
    y = x * 2
    row = y[0]
    y.add_(w)
    return y, row * 1


def of_a_view(x, w):
    y = x * 2
    y[0].add_(w[0])
    return y


def without_grad_on_a_differentiable(x, w):
    y = x * 2
    with paddle.no_grad():
        y.add_(w)
    return y * y


def grows(x, w):
    y = (x + w).detach()[:1] + 0
    try:
        y.add_(w.detach())
    except ValueError:
        return x
    return y


def another_dtype(x, w):
    y = (x + w).detach()
    y[0] = paddle.to_tensor([1, 2, 3])
    return y * x


def filled_and_asked(x, w):
    y = paddle.ones([2, 3])
    y[0] = w[0]
    return y * x, y.is_leaf, y.sum()


def adds_a_row_of_itself(x, w):
    y = x * 2
    y.add_(y[0])
    return y


def subtracts_an_item_of_itself(x, w):
    y = x * w
    paddle.subtract_(y, y=y.detach()[0, 1])
    return y * 1


def multiplied_by_a_row_of_itself(x, w):
    y = x.detach() + w.detach()
    y.multiply_(y[0].reshape([1, 3]))
    return y * x


def divided_by_a_part_of_itself(x, w):
    y, part = (lambda it: (it, it.chunk(2)[0]))(x.detach() + w.detach())
    y.divide_(part)
    return y * x


def by_a_tensor(x, w):
    y = x + w
    y[paddle.to_tensor([1, 0])] = w
    return y


BROKEN = [
    *(of_an_argument, with_a_view, of_a_view, without_grad_on_a_differentiable, grows, by_a_tensor),
    *(zeros_take_gradients, filled_and_asked),
    *(adds_a_row_of_itself, subtracts_an_item_of_itself, multiplied_by_a_row_of_itself, divided_by_a_part_of_itself),
]


def inputs():
    rng = np.random.default_rng(11)
    return [paddle.to_tensor(rng.normal(size=[2, 3]).astype("float32"), stop_gradient=False) for _ in range(2)]


def outcome(function):
    x, w = inputs()
    linear.clear_gradients()
    result = function(x, w)
    parts = result if isinstance(result, tuple) else (result,)
    tensors = [part for part in parts if isinstance(part, paddle.Tensor)]
    total = sum(part.astype("float32").sum() for part in tensors)
    if not total.stop_gradient:
        total.backward()
    gradients = [None if leaf.grad is None else leaf.grad.numpy().tolist() for leaf in (x, w)]
    shown = [
        (part.numpy().tolist(), str(part.dtype), part.stop_gradient) if isinstance(part, paddle.Tensor) else part
        for part in parts
    ]
    return shown, gradients, (x.numpy().tolist(), w.numpy().tolist())


def close(a, b):
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, float):
        return abs(a - b) <= 1e-6 * max(1.0, abs(a))
    return a == b


@pytest.mark.parametrize("backend", ["paddle", "eager"])
@pytest.mark.parametrize("function", CAPTURED, ids=lambda f: f.__name__)
def test_captured(function, backend):
    static = sot.to_static(function, backend=backend, min_graph_size=0)
    for _ in range(2):
        want, got = outcome(function), outcome(static)
        assert close(want, got), (want, got)
    with paddle.no_grad():
        assert close(outcome(function), outcome(static))
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (2, [], [])


@pytest.mark.parametrize("function", [*BROKEN, another_dtype], ids=lambda f: f.__name__)
def test_broken(function):
    static = sot.to_static(function, min_graph_size=0)
    for _ in range(3):
        want, got = outcome(function), outcome(static)
        assert close(want, got), (want, got)
    # The one with a view is translated again with the change left to the interpreter.
    reason = sot.stats(static).graph_breaks[0].message
    assert ("only the interpreter can make it" if function is with_a_view else "place") in reason


def kept_itself(y, w):
    return w * y


def kept_transposed(y, w):
    return y.t() * w.t()


def kept_row(y, w):
    return y[0] * w[0]


def kept_square(y, w):
    row = y[0]
    return row * w[0] * row


def kept_as_an_item(y, w):
    other = w * 3
    other[:1] = y[:1]
    return other


def kept_as_all_items(y, w):
    other = w * 3
    other[:] = y
    return other


KEEPERS = [kept_itself, kept_transposed, kept_row, kept_square, kept_as_an_item, kept_as_all_items]
MAKERS = {"constant": lambda w: paddle.ones([2, 3]) * 2, "computed": lambda w: w * 2}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("keep", KEEPERS, ids=lambda it: it.__name__)
def test_a_change_of_what_a_gradient_needs(keep, make):
    """Eager mode refuses the gradient of what was computed with the numbers from before."""

    def function(w):
        y = make(w)
        kept = keep(y, w)
        y[0] = 1.0
        return kept.sum() + y.sum()

    static = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        for run in (function, static):
            w = inputs()[1]
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                run(w).backward()
    assert [entry.code for entry in sot.stats(static).graph_breaks] == ["UNSPS"]


def test_filled_tensors_that_leave_have_gradients_of_their_own():
    """Eager mode gives a tensor that gradients begin to flow to in place one."""

    def function(w):
        y = paddle.zeros([2, 3])
        y[0] = w[0] * 2
        return (y * w).sum(), y

    static = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        found = []
        for run in (function, static):
            w = inputs()[1]
            loss, y = run(w)
            loss.backward()
            found.append((w.grad.tolist(), y.grad is None or y.grad.tolist(), y.is_leaf, y.stop_gradient))
        assert found[0] == found[1] and found[0][1] is not True
    assert sum(it.count for it in sot.stats(static).graph_breaks) == 1


def own_row(y):
    y[0] = y[1]


def own_rows(y):
    y[0:1] = y[1:2]


@pytest.mark.parametrize("change", [own_row, own_rows], ids=lambda it: it.__name__)
def test_an_item_that_is_part_of_the_tensor(change):
    """Eager mode keeps it for the gradient, and refuses as it changes with the tensor."""

    def function(x):
        y = x * 1.0
        change(y)
        return y.sum()

    static = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        for run in (function, static):
            x = paddle.ones([2, 3])
            x.stop_gradient = False
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                run(x).backward()
    x = paddle.arange(6.0).reshape([2, 3])
    for _ in range(2):
        assert static(x).tolist() == function(x).tolist()


def test_storage_of_its_own_for_an_argument():
    """Whether an argument has gaps decides whether it gets other storage."""

    def function(x):
        return x.contiguous() is x, x * 2

    translated = sot.to_static(function, min_graph_size=0)
    whole = paddle.arange(24, dtype="float32").reshape([2, 3, 4])
    for make in (lambda: whole[0], lambda: whole[1], lambda: whole[0].T, lambda: whole[0][:, ::2].reshape([3, 2]).T):
        found = []
        for run in (function, translated):
            x = make()
            same, y = run(x)
            found.append((same, x.strides, x.is_contiguous(), y.numpy().tolist()))
        assert found[0] == found[1]
    assert sum(it.count for it in sot.stats(translated).graph_breaks) == 1


WHOLE = paddle.to_tensor([1, 2, 3, 3])
TURNED = paddle.to_tensor([3, 2, 1, 0])
WRITTEN_OVER = {
    "addmm": lambda y, v: paddle.addmm(y, y, y),
    "addmm of one": lambda y, v: paddle.addmm(y, y * 0.5, y),
    "baddbmm": lambda y, v: (lambda z: paddle.baddbmm(z, z, z))(paddle.stack([y, y])),
    "cross_entropy": lambda y, v: F.cross_entropy(y, y, soft_label=True),
    "index_add": lambda y, v: paddle.index_add(y, TURNED, 0, y),
    "index_add of indices": lambda y, v: paddle.index_add(v, v, 0, v * 0),
    "index_put": lambda y, v: paddle.index_put(v, (v,), v),
    "index_put of indices": lambda y, v: paddle.index_put(v, (v,), paddle.ones([4], "int64")),
    "scatter": lambda y, v: paddle.scatter(y, TURNED, y),
    "scatter that adds": lambda y, v: paddle.scatter(y, TURNED, y, overwrite=False),
    "scatter_reduce": lambda y, v: paddle.scatter_reduce(y, 0, TURNED.reshape([4, 1]).tile([1, 4]), y, "sum"),
}


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("name", WRITTEN_OVER)
def test_what_a_program_would_write_over_while_it_reads_it(name, gradient, backend):
    """Paddle's programs do that where nothing reads the tensor later."""

    def function(x):
        return WRITTEN_OVER[name](x + 1, WHOLE + 0)

    x = paddle.arange(16.0).reshape([4, 4])
    x.stop_gradient = not gradient
    check(function, x, graphs=1, breaks=1, fallbacks=None, backend=backend)
    check(lambda x: WRITTEN_OVER[name](x + 1, WHOLE + 0) * 2, x, fallbacks=None, backend=backend)


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
def test_what_a_program_may_write_over(backend):
    def function(x):
        y = x + 1
        moved = paddle.scatter(y, TURNED, y * 2)
        added = paddle.addmm(moved, y, y)
        put = paddle.put_along_axis(y, TURNED[None], y, 0)
        return y + y, paddle.where(y > 3, y, y), paddle.lerp(y, y, y), added, put

    check(function, paddle.arange(16.0).reshape([4, 4]), graphs=1, breaks=0, backend=backend, close=backend == "cinn")


KEYS = [-5, 3, (-4, 0), (slice(None), -3), (0, 2), (..., -3), (None, -4), (0, None, 2), (0, ..., -3), (0, 0, 0)]
FIT = [-3, 2, (-1, 0), (slice(None), -2), (..., 1), (None, 2), (0, None, 1), (1, ..., -1), ...]


@pytest.mark.parametrize("key", [*KEYS, *FIT], ids=repr)
def test_places_that_a_tensor_does_not_have(key):
    """A program looks at some of them only: eager mode raises for the others."""

    def function(x):
        y = x * 1
        y[key] = 5.0
        return y

    x = paddle.arange(6.0).reshape([3, 2])
    check(function, x, graphs=1, breaks=int(key in KEYS))
    with pytest.raises(IndexError) if key in KEYS else contextlib.nullcontext():
        function(x)


def set_fourth(x):
    y = x * 1
    y[3] = 5.0
    return y


def set_fourth_last(x):
    y = x[1:] * 1
    y[-4] = 5.0
    return y


def set_among_chosen(x):
    y = x[x > 0] * 1
    y[3] = 5.0
    return y


def set_in_a_loop(x):
    y = x * 1
    for at in range(paddle.to_tensor(3)):
        y[3] = y[0] + at
    return y


SETS = [set_fourth, set_fourth_last, set_among_chosen, set_in_a_loop]


@pytest.mark.parametrize("function", SETS, ids=lambda f: f.__name__)
def test_places_along_an_open_dim(function):
    """One graph for all sizes that have the place; how many rows a mask keeps nobody knows."""

    def sized(*sizes):
        return [(paddle.arange(1.0, size + 1),) for size in sizes]

    settings = {"capture_control_flow": True, "repeat": 1}
    takes = {} if function is set_among_chosen else {"graphs": 2, "breaks": 0}
    check(function, *sized(6)[0], calls=sized(7, 8, 5, 9), **takes, **settings)
    with pytest.raises(IndexError):
        function(*sized(3)[0])
    check(function, *sized(6)[0], calls=sized(7, 3, 8, 2, 5, 9), fallbacks=None, **settings)


def test_code_that_reads_versions_runs_as_it_is():
    """Results of graphs begin to count anew, whatever became of them in the graph."""

    def function(x, how):
        y = x * 1
        y.add_(x)
        y[0] = 3.0
        return y.inplace_version if how == "property" else y._inplace_version()

    for how in ("property", "method"):
        check(function, paddle.ones([3]), how, graphs=0, fallbacks=None)


PLACES = {
    "rows": (lambda x, i: x[i], [0, 1], True),
    "columns": (lambda x, i: x[:, i], [0, 1], True),
    "rows and columns": (lambda x, i: x[0, i], [0, 1], True),
    "mask": (lambda x, i: x[i], [False, True], False),
    "axis": (lambda x, i: paddle.concat([x, x * 2], axis=i), [1], False),
    "times": (lambda x, i: x.tile(i), [2, 2], False),
    "factor": (lambda x, i: x.scale(i), [2.0], False),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_says_where_changes_later(name):
    """Eager mode keeps whole numbers that are indices for the gradient, and refuses it where they have changed."""
    call, numbers, keeps = PLACES[name]

    def function(x):
        i = paddle.to_tensor(numbers)
        y = call(x, i)
        i[0] = numbers[-1]
        return y, i

    translated = sot.to_static(function, min_graph_size=0)
    for seed in range(2):
        found = []
        for run in (function, translated):
            x = paddle.arange(6.0).reshape([2, 3]) + seed
            x.stop_gradient = False
            y, i = run(x)
            try:
                y.sum().backward()
                gradient = x.grad.tolist()
            except RuntimeError as error:
                gradient = "modified by an inplace operation" in str(error)
            found.append((y.tolist(), i.tolist(), gradient))
        assert found[0] == found[1]
        assert (found[0][2] is True) == keeps
    assert sum(it.count for it in sot.stats(translated).graph_breaks) == keeps


IN_PLACE = {
    "dropout": nn.Dropout(0.5, inplace=True),
    "silu": nn.Silu(inplace=True),
    "inside": nn.Sequential(nn.Linear(3, 3), nn.Silu(inplace=True)),
}


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", IN_PLACE)
def test_layers_that_work_in_place(name, train):
    """They are what their functions are."""
    layer = IN_PLACE[name]
    layer.train() if train else layer.eval()

    def function(x):
        y = x * 1.0
        z = layer(y)
        return y, z, y is z, y * 2

    check(function, paddle.arange(6.0).reshape([2, 3]) - 2, breaks=2 if name == "inside" else 1)


def test_layers_made_in_a_frame_that_work_in_place():
    def function(x):
        y = x * 1.0
        z = nn.Silu(inplace=True)(y)
        return y, z, y is z, nn.Silu(inplace=False)(y), nn.Dropout(0.5)(y)

    check(function, paddle.arange(6.0).reshape([2, 3]) - 2, breaks=2)
