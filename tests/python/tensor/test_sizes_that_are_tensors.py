"""Shapes, axes and places that are tensors without items, of another rank or dtype: what a program ends the process for
is left to eager mode."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle.nn import functional as F

CUBE = paddle.arange(24, dtype="float32").reshape([2, 3, 4])
CALLS = {
    "rand": paddle.rand,
    "uniform": paddle.uniform,
    "gaussian": paddle.tensor.random.gaussian,
    "randn": paddle.randn,
    "starts of a strided slice": lambda s: paddle.strided_slice(CUBE, [0], s, [2], [1]),
    "axes of a strided slice": lambda s: paddle.strided_slice(CUBE, s, [0], [2], [1]),
    "steps of a strided slice": lambda s: paddle.strided_slice(CUBE, [0], [0], [2], s),
    "starts of a scatter": lambda s: paddle.slice_scatter(CUBE, paddle.ones([1, 3, 4]), [0], s, [1], [1]),
    "shape of a grid": lambda s: F.affine_grid(paddle.ones([1, 2, 3]), s),
}
SIZES = {
    "no items": lambda: paddle.zeros([0], "int64"),
    "no rows": lambda: paddle.zeros([0, 4]),
    "one number": lambda: paddle.to_tensor(2),
    "a float": lambda: paddle.to_tensor(2.0),
    "bools": lambda: paddle.to_tensor([True, True]),
    "rows": lambda: paddle.to_tensor([[1, 1], [1, 1]]),
    "two": lambda: paddle.to_tensor([1, 2]),
}


def outcome(function, size):
    paddle.seed(5)
    try:
        result = function(size)
    except Exception as error:  # noqa: BLE001 - compared
        return type(error)
    return result.shape, str(result.dtype), result.tolist()


# Eager mode itself ends the process for the other sizes.
SCATTERS = [("starts of a scatter", size) for size in ("a float", "one number")]


@pytest.mark.parametrize(
    ("call", "size"), [*((call, size) for call in CALLS if "scatter" not in call for size in SIZES), *SCATTERS]
)
def test_equals_eager(call, size):
    translated = translate(lambda size: CALLS[call](size))
    for _ in range(2):
        ours, expected = outcome(translated, SIZES[size]()), outcome(CALLS[call], SIZES[size]())
        assert ours == expected


def test_an_empty_shape_of_two_dims_gives_a_number():
    translated = translate(lambda shape: paddle.rand(shape))
    assert translated(paddle.zeros([0, 4])).shape == []
    assert [it.code for it in sot.stats(translated).graph_breaks] == ["UNSPS"]


def test_shapes_that_are_whole_numbers_are_captured():
    translated = translate(lambda shape: paddle.rand(shape) * 2)
    paddle.seed(5)
    ours = translated(paddle.to_tensor([2, 3]))
    paddle.seed(5)
    assert ours.tolist() == (paddle.rand([2, 3]) * 2).tolist()
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


def test_an_index_of_floats_has_the_gradient_of_eager_mode():
    gradients = []
    for f in (lambda x, i: paddle.take_along_axis(x, i, 0), None):
        f = f or translate(lambda x, i: paddle.take_along_axis(x, i, 0))
        x = paddle.ones([2, 2])
        x.stop_gradient = False
        f(x, paddle.zeros([2, 2])).sum().backward()
        gradients.append(x.grad.tolist())
    assert gradients[0] == gradients[1]


AXES = {
    "a place": lambda: paddle.to_tensor(1),
    "from the end": lambda: paddle.to_tensor(-1),
    "a list of one": lambda: paddle.to_tensor([2]),
}


@pytest.mark.parametrize("axis", AXES)
def test_gather_along_an_axis_that_is_a_tensor(axis):
    def gathered(x):
        made = paddle.gather(x, paddle.to_tensor([0, 1, 0]), axis=AXES[axis]())
        return made * made.shape[1] + made.shape[2]

    translated = translate(gathered, min_graph_size=0)
    for _ in range(2):
        assert translated(CUBE).tolist() == gathered(CUBE).tolist()
    assert "gather() along an axis that is a tensor" in str(sot.stats(translated).graph_breaks)


@pytest.mark.parametrize("size", [(0, 4), (4, 0), (0, 0), (2, 3)])
def test_reshape_to_a_shape_that_is_computed(size):
    """A program infers a 0 of it as the dim in that place, and has none there."""

    def turned(x):
        made = x.reshape(paddle.shape(x.T))
        return made * 2, made.shape

    translated = translate(turned, min_graph_size=0)
    for _ in range(2):
        (found, shape), (wanted, wanted_shape) = translated(paddle.ones(size)), turned(paddle.ones(size))
        assert (found.shape, shape, found.tolist()) == (wanted.shape, wanted_shape, wanted.tolist())
