"""Dims that change between calls: one program for many shapes, or one for each, never a wrong one."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, tensor
from paddle import nn

F = nn.functional
SIZES = [3, 5, 7, 1, 4, 2, 0, 9]


def run(function, *rest, close=False, sizes=SIZES):
    calls = [(tensor(size, *rest, seed=size, grad=True),) for size in sizes]
    return check(function, *calls[0], calls=calls[1:], fallbacks=None, close=close, repeat=1)


def flatten(x):
    return x.reshape([x.shape[0], -1]) * 2


def unpacked(x):
    b, c, d = x.shape
    return x.reshape([b, d, c]).transpose([0, 2, 1]) + 1


def made_from_dims(x):
    b = x.shape[0]
    return x + paddle.zeros([b, 4, 6]), paddle.full([b, 2], 3.0)


def expanded(x):
    mean = x.mean(0, keepdim=True)
    return mean.expand([x.shape[0], 4, 6]) - x


def positions(x):
    return x.sum([1, 2]) + paddle.arange(x.shape[0]).astype("float32")


def shape_of_an_intermediate(x):
    y = paddle.concat([x, x * 2], 0)
    return y.reshape([y.shape[0], 24]).mean(1)


def answers_with_the_shape(x):
    return x * 2, x.shape, x.shape[0]


def with_arithmetic(x):
    return x.reshape([x.shape[0] * 2, -1]), x.shape[0] + 1


def loops_over_rows(x):
    total = x.sum()
    for row in range(x.shape[0]):
        total = total + row
    return total


def branches_on_the_size(x):
    if x.shape[0] > 4:
        return x * 2
    return x + 1


def squeezed(x):
    return x.squeeze() + 1, len(x.squeeze().shape)


def attention(x):
    b, t, d = x.shape
    q = x.reshape([b, t, 2, d // 2]).transpose([0, 2, 1, 3])
    scores = paddle.matmul(q, q, transpose_y=True) / 3.0
    mask = paddle.triu(paddle.full([t, t], float("-inf")), 1)
    return paddle.matmul(F.softmax(scores + mask), q).transpose([0, 2, 1, 3]).reshape([b, t, d])


def slices(x):
    return x[: x.shape[0] - 1] * 2 if x.shape[0] else x, x[-1:] if x.shape[0] else x


def written_down(x):
    return x * 2, f"{x.shape}", x.shape[0] == 3, x.shape == [3, 4, 6]


def view_and_base(x):
    y = x * 2
    return y, y.reshape([y.shape[0], -1])


FUNCTIONS = [
    flatten,
    unpacked,
    made_from_dims,
    expanded,
    positions,
    shape_of_an_intermediate,
    answers_with_the_shape,
    with_arithmetic,
    loops_over_rows,
    branches_on_the_size,
    squeezed,
    attention,
    slices,
    written_down,
    view_and_base,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_equals_eager(function):
    sizes = [size for size in SIZES if size or function not in (flatten, unpacked, with_arithmetic)]
    run(function, 4, 6, close=True, sizes=sizes)


@pytest.mark.parametrize(
    "function",
    [
        flatten,
        unpacked,
        made_from_dims,
        expanded,
        positions,
        answers_with_the_shape,
        with_arithmetic,
        attention,
        slices,
    ],
)
def test_one_program_for_many_shapes(function):
    record = run(function, 4, 6, close=True, sizes=[3, 5, 7, 4, 2, 9, 6])
    assert record.translations == 2, record


def test_a_sequence_that_grows():
    def function(x):
        return attention(x)

    translated = sot.to_static(function, min_graph_size=0)
    for length in range(2, 40):
        x = tensor(2, length, 6, seed=length)
        assert paddle.allclose(function(x), translated(x), 1e-5, 1e-6)
    assert sot.stats(translated).translations == 2


class Classifier(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(3, 4, 3)
        self.norm = nn.BatchNorm2D(4)
        self.head = nn.Linear(144, 2)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return self.head(x.reshape([x.shape[0], -1]))


def test_training_with_a_smaller_last_batch():
    import copy

    paddle.seed(0)
    eager = Classifier()
    static = sot.to_static(copy.deepcopy(eager), min_graph_size=0)
    for size in [4, 4, 3, 4, 2, 1, 4]:
        x = tensor(size, 3, 8, 8, seed=size)
        for net in (eager, static):
            loss = (net(x) ** 2).mean()
            loss.backward()
            for parameter in (p for p in net.parameters() if p.grad is not None):
                with paddle.no_grad():
                    parameter.set_value(parameter - 0.1 * parameter.grad)
                parameter.clear_grad()
    for a, b in zip(eager.state_dict().values(), static.state_dict().values(), strict=True):
        assert paddle.allclose(a, b, 1e-5, 1e-6)
    assert sot.stats(static).translations <= 3


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize(
    "divide",
    [
        lambda x: x / x.shape[0],
        lambda x: x.sum(0) / x.shape[0],
        lambda x: x / (x.shape[0] * 2),
        lambda x: x.shape[0] / x,
    ],
)
def test_whole_numbers_are_divided_as_floats(divide, dtype):
    """The dtype of the tensor may not hold the dim: 300 is no `uint8`."""
    sizes = [paddle.full([size, 2], 100, dtype) for size in (2, 4, 130, 300)]
    check(divide, sizes[0], calls=[(x,) for x in sizes[1:]], fallbacks=None)


def test_one_program_divides_by_many_dims():
    def function(x):
        return x / x.shape[0] / x.shape[1]

    for dtype in ("uint8", "int8", "int32", "int64"):
        sizes = [paddle.full([size, 2], 100, dtype) for size in (2, 4, 130, 300)]
        check(function, sizes[0], calls=[(x,) for x in sizes[1:]], graphs=2, breaks=0, translations=2)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize(
    "power",
    [
        lambda x: x ** x.shape[0],
        lambda x: x.shape[0] ** x,
        lambda x: paddle.pow(x, x.shape[0]),
        lambda x: paddle.pow(x, y=x.shape[0]),
        lambda x: x.pow(x.shape[0]),
    ],
)
def test_powers_of_dims(power, dtype):
    """A tensor for an exponent has other digits, and does not wrap around: there is a program for each dim."""
    sizes = [(paddle.arange(size) + 1).astype(dtype) for size in (3, 5, 17, 19)]
    check(power, sizes[0], calls=[(x,) for x in sizes[1:]], graphs=4, breaks=0, translations=4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.reshape([x.shape[0] * 2**62 // 2**62, -1]) * 2,
        lambda x: x + (x.shape[0] * 2**62 // 2**61),
        lambda x: paddle.zeros([x.shape[0] * 2**62 // 2**62]) + 1,
        lambda x: x + (x.shape[0] + 2**63 - 5) // 2**61,
    ],
)
def test_dims_do_not_wrap_around(function):
    sizes = [tensor(size, 2) for size in (3, 5, 7)]
    check(function, sizes[0], calls=[(x,) for x in sizes[1:]], graphs=3, breaks=0, fallbacks=0)


def test_products_of_many_dims():
    def function(x):
        n = x.shape[0]
        return x.sum() + n * n * n * n * n

    sizes = [paddle.ones([size], "int64") for size in (3, 5, 7, 9000, 4)]
    # The fifth power of 9000 is no `int64`.
    check(function, sizes[0], calls=[(x,) for x in sizes[1:]], fallbacks=None)
    check(function, sizes[0], calls=[(x,) for x in sizes[1:3]], graphs=2, breaks=0, translations=2)
