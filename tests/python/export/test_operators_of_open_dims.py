"""Operators whose sizes, batches and diagonals are open dims: what Paddle refuses or infers wrongly while it builds a
program."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import check
from paddle.nn import functional as F
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python


def product_with_one_matrix(x):
    """The table stands for each of the batch."""
    return paddle.matmul(x, paddle.ones([1, 3, 4])) + x.shape[0], x @ paddle.full([1, 3, 2], 0.5)


def lower_triangle(x):
    s, n = x.shape[0], x.shape[1] + x.shape[0]
    return paddle.tril(paddle.ones([s, n]), diagonal=n - s), paddle.ones([s, n]).triu(n - s)


def triangle_of_a_batch(x):
    return paddle.tril(x, x.shape[0] - 2), paddle.triu(x * x, diagonal=x.shape[2] - 3)


def hidden_rows(x):
    """Three tensors that broadcast, with open dims in each."""
    rows = (paddle.arange(x.shape[1]) < 2).unsqueeze(-1)
    return paddle.where(rows, paddle.full([1], -1.0), x), paddle.where(rows, x, x.sum(0, keepdim=True))


def pooled_to_its_width(x):
    x = x.unsqueeze(1)
    return F.adaptive_avg_pool2d(x, [1, x.shape[3]]), F.adaptive_avg_pool2d(x, (x.shape[2], 2))


def unshuffled(x):
    x = x.reshape([x.shape[0], 1, x.shape[1], x.shape[2]])
    shuffled = F.pixel_shuffle(F.pixel_unshuffle(x, 2) * 2, 2)
    return shuffled, F.pixel_unshuffle(x.transpose([0, 2, 3, 1]), 2, "NHWC")


def taken_along(x):
    """By an index of the same sizes, of one row, and of one column."""
    order, row = x.argsort(1), x[:1].argsort(1)
    along = paddle.take_along_axis(x, order, 1), x.take_along_axis(row, axis=-1)
    return *along, paddle.take_along_axis(x, x[:, :1].argsort(0), 0)


def powers_of_numbers(x):
    return 2**x, 0.3 ** x.abs(), 3 ** (x.detach() * 2).astype("int64").abs()


def normed_by_neighbours(x):
    """Paddle reshapes to a list with the batch in it."""
    return F.local_response_norm(x, 3), F.local_response_norm(x.flatten(2), 2)


def larger_by_one(x):
    """Paddle adds the padding of the output to the -1 of an open dim."""
    weight, bias = paddle.linspace(-1, 1, 8).reshape([2, 1, 2, 2]), paddle.to_tensor([0.5])
    made = F.conv2d_transpose(x, weight, bias, stride=2, output_padding=1)
    return made, F.conv1d_transpose(x[:, :, 0], weight[:, :, 0], bias, stride=2, output_padding=1)


def sampled(x):
    """Paddle takes a grid of numbers of the graph for one of volumes."""
    turns = (x.mean([1, 2, 3]) * 0.1).reshape([-1, 1, 1]) + paddle.to_tensor([[[1.0, 0.0, 0.1], [0.0, 1.0, 0.0]]])
    grid = F.affine_grid(turns, [x.shape[0], 2, 3, 4], align_corners=False)
    return F.grid_sample(x, grid, align_corners=False), F.affine_grid(turns, x.shape, align_corners=False)


def cropped(x):
    """Numbers of the graph beside those of the function."""
    rows, columns = x.shape[0], x.shape[1]
    return paddle.crop(x, [rows, columns - 1], [0, 1]), paddle.crop(x, shape=[-1, 1], offsets=[0, columns - 1])


FUNCTIONS = [
    *(product_with_one_matrix, lower_triangle, triangle_of_a_batch, hidden_rows, pooled_to_its_width, unshuffled),
    *(taken_along, powers_of_numbers, normed_by_neighbours, larger_by_one, sampled, cropped),
]
SPECS = {
    cropped: ([None, None], [[2, 3], [1, 2], [5, 4]]),
    normed_by_neighbours: ([None, 4, 3, 3], [[2, 4, 3, 3], [1, 4, 3, 3], [5, 4, 3, 3]]),
    larger_by_one: ([None, 2, None, None], [[2, 2, 3, 4], [1, 2, 1, 1], [3, 2, 5, 2]]),
    sampled: ([None, 2, None, None], [[2, 2, 3, 4], [3, 2, 2, 2], [1, 2, 5, 3]]),
    product_with_one_matrix: ([None, 5, 3], [[2, 5, 3], [1, 5, 3], [7, 5, 3]]),
    lower_triangle: ([None, None], [[2, 3], [1, 1], [4, 2], [3, 6]]),
    triangle_of_a_batch: ([None, 4, None], [[2, 4, 5], [1, 4, 1], [5, 4, 3]]),
    hidden_rows: ([None, None, 4], [[2, 3, 4], [1, 1, 4], [5, 2, 4]]),
    unshuffled: ([None, None, None], [[2, 4, 6], [1, 2, 2], [3, 8, 4]]),
    taken_along: ([None, None], [[2, 3], [1, 1], [5, 4], [1, 6]]),
    powers_of_numbers: ([None, None], [[2, 3], [1, 1], [5, 4]]),
    pooled_to_its_width: ([None, None, None], [[2, 3, 4], [1, 1, 2], [3, 6, 5]]),
}


def numbers(shape, grad=False):
    x = paddle.to_tensor(np.random.default_rng(sum(shape)).normal(size=shape).astype("float32"))
    x.stop_gradient = not grad
    return x


def as_list(value):
    return list(value) if isinstance(value, list | tuple) else [value]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_exports(function, tmp_path):
    """One file for all sizes."""
    spec, shapes = SPECS[function]
    prefix = str(tmp_path / "m")
    sot.save(function, prefix, input_spec=[InputSpec(spec, "float32", "x")])
    loaded = paddle.jit.load(prefix)
    for shape in shapes:
        x = numbers(shape)
        for found, wanted in zip(as_list(loaded(x)), as_list(function(x)), strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_calls_with_gradients(function):
    """Without a break, results and gradients equal to eager mode's at each size."""

    static = sot.to_static(function, dynamic=True, min_graph_size=0, compile_at_call=1)
    for shape in SPECS[function][1]:
        ours, theirs = numbers(shape, grad=True), numbers(shape, grad=True)
        found, wanted = as_list(static(ours)), as_list(function(theirs))
        for one, other in zip(found, wanted, strict=True):
            assert one.stop_gradient == other.stop_gradient
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
        for results in (found, wanted):
            total = [(it * it).sum() for it in results if not it.stop_gradient]
            if total:
                sum(total).backward()
        assert (ours.grad is None) == (theirs.grad is None)
        if ours.grad is not None:
            np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-5)
    record = sot.stats(static)
    assert not record.graph_breaks and not record.fallbacks


def test_sizes_made_of_what_has_a_gradient(tmp_path):
    """Whole numbers that say that they want one: durations of speech."""

    def spread(x):
        count = paddle.round(x.exp()).astype("int64").sum()
        return paddle.reshape(paddle.ones([count * 2]), [count, 2]) + x.sum()

    check(spread, numbers([3], grad=True))
    prefix = str(tmp_path / "m")
    sot.save(spread, prefix, input_spec=[InputSpec([None], "float32", "x", stop_gradient=False)])
    for size in (1, 4, 9):
        x = numbers([size])
        np.testing.assert_allclose(paddle.jit.load(prefix)(x).numpy(), spread(x).numpy(), rtol=1e-5)


WITHOUT_ROWS = {
    "where": lambda x: paddle.where(x > 0, x, -1.0),
    "where, numbers alone": lambda x: paddle.where(x > 0, 1.0, -1.0),
    "quotient": lambda x: 1 / x,
    "row": lambda x: x.mean(0).zero_().expand_as(x),
    "column": lambda x: x[:, :1].expand_as(x) * 2,
    "in a branch": lambda x: paddle.where(x > 0, x, -1.0) if x.shape[1] > 2 else x,
}


@pytest.mark.parametrize("name", WITHOUT_ROWS)
def test_files_take_no_rows(name, tmp_path):
    """The kernel of `expand_as` forgets the shape of what has no elements."""
    function, path = WITHOUT_ROWS[name], str(tmp_path / "f")
    sot.save(function, path, input_spec=[InputSpec([None, None], "float32", "x")])
    loaded = paddle.jit.load(path)
    for shape in ([0, 3], [0, 1], [1, 3], [4, 3]):
        x = paddle.arange(shape[0] * shape[1], dtype="float32").reshape(shape) - 2
        assert loaded(x).numpy().tobytes() == function(x).numpy().tobytes()
        assert loaded(x).shape == function(x).shape


@pytest.mark.parametrize("function", [paddle.column_stack, paddle.dstack], ids=lambda f: f.__name__)
def test_functions_that_go_through_a_tensor_of_open_length(function, tmp_path):
    """Of an open dim there was always one place more, without end."""
    static = sot.to_static(lambda x: function(x), min_graph_size=0)
    for rows in (2, 4, 3):
        x = numbers([rows, 3])
        assert (static(x) == function(x)).all()
    with pytest.raises(sot.GraphBreakError, match="open length"):
        sot.save(lambda x: function(x), str(tmp_path / "m"), input_spec=[InputSpec([None, 3], "float32", "x")])
    assert not hasattr(paddle.pir.Value, "__iter__")


SIZED = {
    **WITHOUT_ROWS,
    "of sizes": lambda x: F.interpolate(x[None, None], size=[x.shape[0] + 2, x.shape[1] + 3], mode="nearest"),
    "batch of sizes": lambda x: F.interpolate(x[:, None, None], size=[2, x.shape[1] * 2 + 1], mode="bilinear"),
    "variance": lambda x: x.unsqueeze(-1).var(-1, unbiased=False),
    "neighbours": lambda x: F.local_response_norm(x[:, :, None], 2) if x.shape[1] else x,
    "sum": lambda x: x.sum(1, dtype="float64") + 1,
}


@pytest.mark.parametrize("name", SIZED)
def test_calls_take_no_rows_beside_open_dims(name):
    """Kernels that have nothing to do leave open dims at -1."""
    function = SIZED[name]
    static = sot.to_static(function, min_graph_size=0)

    def tried(run, x):
        try:
            made = run(x)
        except ValueError:
            return ValueError
        return made.shape, made.dtype, made.numpy().tobytes()

    for shape in ([2, 3], [4, 5], [3, 6], [0, 3], [0, 5], [0, 7], [3, 0], [5, 0], [4, 4]):
        x = paddle.arange(shape[0] * shape[1], dtype="float32").reshape(shape) - 2
        assert tried(static, x) == tried(function, x)
