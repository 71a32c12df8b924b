"""What NumPy computes of open dims is in an exported program; what it does not compute is refused with the line."""

import math

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import inference
from paddle.nn import functional as F
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

SPEC = [InputSpec([None, None], "float32", "x")]
SIZES = [[2, 3], [1, 1], [4, 5], [0, 3], [3, 0], [7, 2]]


def half_rounded_up(x):
    return x[: int(np.ceil(x.shape[0] / 2))], x[:, : int(np.floor(x.shape[1] * 0.5)) + 1]


def roots(x):
    k = np.sqrt(x.shape[1] + 1)
    return x / k, k * x, x + np.sqrt(x.shape[0]) * 0.5, x * (1.0 / k), x - k / 3, x * -k


def logarithms(x):
    n, c = x.shape[0] + 1, x.shape[1] + 2
    return x * int(np.log2(n)), x + np.log(c) + np.log10(n), x * np.exp(-n / 10) + np.rint(c / 2)


def of_one(x):
    n = x.shape[0]
    return x * float(np.abs(n - 3)) + int(np.trunc(n / 2)), x + np.square(n), x * int(np.ceil(n)) + np.floor(n)


def products(x):
    size = np.prod(x.shape)
    return x.reshape([size]), x.reshape([int(size), 1]), x * int(np.prod(x.shape[1:])) + np.sum((1, x.shape[0]))


def smallest_and_largest(x):
    n, c = x.shape
    low = np.minimum(n, c)
    high = np.max([n, c, 2])
    return (
        x[:low],
        x[:, np.minimum(1, c) :],
        x * float(np.maximum(n, c)),
        paddle.full([high, 2], 1.5),
        x + np.min([n, c]),
    )


def whole_numbers(x):
    k = np.int64(x.shape[1])
    return x * (k * 2 + 1), x + k // 2 - k % 3, x.astype("int64") * k, x * int(k + np.maximum(k, 2)), x / (k + 1)


def singles(x):
    k = np.float32(x.shape[1] + 1)
    return x * k, x / k, x - k, x * np.float64(x.shape[0]), x * float(k / 3)


def ranges(x):
    n, c = x.shape
    row = np.arange(c)
    return (
        x + paddle.to_tensor(row, dtype="float32"),
        paddle.to_tensor(row),
        paddle.to_tensor(np.arange(1, n + 1).astype("float32") / 2),
        paddle.to_tensor(np.arange(n, -1, -1) * 2 - 1),
        paddle.to_tensor(np.arange(c, dtype=np.float32)),
        paddle.to_tensor(row[1:]),
        x * row.shape[0] + row.size,
    )


def arrays(x):
    n, c = x.shape
    sizes = np.array([n, c])
    scale = np.array([[1.0, n], [c, 2.5]], dtype="float32")
    return (
        paddle.to_tensor(sizes),
        paddle.to_tensor(scale) + x.sum(),
        x * int(sizes[0] * sizes[1]) + float(sizes.max()),
        paddle.to_tensor(np.array([n / 2, c])),
        x.reshape([sizes.prod()]),
        paddle.to_tensor(sizes / 2, dtype="float32"),
    )


def joined(x):
    row = np.concatenate([np.arange(x.shape[1]), np.array([3]), [x.shape[0]]])
    return x.sum() + paddle.to_tensor(row, dtype="float32"), paddle.to_tensor(np.concatenate([row, np.zeros(2)]))


def rounds(x):
    for i in range(np.minimum(x.shape[0], 3)):
        x = x + i
    return x


def compared(x):
    n = np.prod(x.shape)
    return x * 2 if n > 4 else x - 1


def resized(x):
    h = int(np.ceil((x.shape[0] + 1) / 2))
    w = int(np.floor(np.sqrt((x.shape[1] + 1) ** 2)))
    return F.interpolate(paddle.ones([1, 1, 2, 2]), size=[h, w]) + x.sum()


def of_math(x):
    return x * math.ceil(np.sqrt(x.shape[0])) + math.sqrt(np.float64(x.shape[1]))


def known_scalars(x):
    n, c = x.shape
    return x * int(n * np.sqrt(2.0)) + int(np.ceil(c / np.float64(2))), x + np.float32(0.5) * n


def next_to_tensors(x):
    row = np.arange(x.shape[1])
    return x + row.astype("float32"), row.astype("float32") * x, x.astype("int64") + row, x[np.arange(x.shape[0]) // 2]


def converted(x):
    row = np.arange(x.shape[1])
    same = np.asarray(row)
    other = np.array(row, dtype="float32")
    return x * (same is row) + paddle.to_tensor(other), x + (np.array(row) is row) + np.asarray(other, dtype="float32")


def taken_apart(x):
    n, c = np.array(x.shape)
    return x * int(n) + int(c), x + len(np.array([n, c, 1])), x * sum(int(it) for it in np.array([x.shape[0], 2]))


FUNCTIONS = [
    *(known_scalars, next_to_tensors, converted, taken_apart),
    *(half_rounded_up, roots, logarithms, of_one, products, smallest_and_largest, whole_numbers, singles, ranges),
    *(arrays, joined, rounds, compared, resized, of_math),
]


def predictor(prefix):
    config = inference.Config(prefix + ".json", prefix + ".pdiparams")
    config.disable_glog_info()
    config.disable_mkldnn()
    made = inference.create_predictor(config)
    return lambda x: made.run([x])


def values(shape):
    return paddle.to_tensor(np.random.default_rng(len(shape)).normal(size=shape).astype("float32"))


def many(found):
    return list(found) if isinstance(found, list | tuple) else [found]


def compare(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert list(one.shape) == list(other.shape) and one.dtype == other.dtype
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_exports(function, tmp_path):
    prefix = str(tmp_path / "net")
    sot.save(function, prefix, SPEC)
    for run in (paddle.jit.load(prefix), predictor(prefix)):
        for shape in SIZES:
            x = values(shape)
            compare(many(run(x)), many(function(x)))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_calls(function):
    static = sot.to_static(function, capture_control_flow=True, full_graph=True)
    for shape in SIZES:
        x = values(shape)
        compare(many(static(x)), many(function(x)))
    assert not sot.stats(static).graph_breaks


def numbers_of_tensors(x):
    n = int(x.shape[0] + x.abs().sum() * 0)
    k = np.ceil(n / 2)
    return x * k, x * np.float32(n), k, np.arange(n), np.minimum(n, 3)


def test_what_leaves_the_graph_is_of_numpy():
    static = sot.to_static(numbers_of_tensors, capture_control_flow=True, min_graph_size=0)
    for size in (4, 3, 1):
        found, expected = static(values([size])), numbers_of_tensors(values([size]))
        for one, other in zip(found, expected, strict=True):
            assert type(one) is type(other)
            assert one.dtype == other.dtype
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-6)


REFUSED = [
    lambda x: x * np.cbrt(x.shape[0]),
    lambda x: x * float(np.sqrt(x.shape[0]) ** 2.5),
    lambda x: x * float(np.float64(x.shape[0]) % 0.3),
    lambda x: x * (np.arange(x.shape[1]) > 2).sum(),
]


@pytest.mark.parametrize("function", REFUSED)
def test_others_are_refused_with_the_line(function, tmp_path):
    with pytest.raises(sot.GraphBreakError, match="test_numpy_exports.py"):
        sot.save(function, tmp_path / "net", SPEC)


def changed(x):
    row = np.arange(x.shape[1])
    row[0] = 5
    return x + paddle.to_tensor(row, dtype="float32")


def changed_in_place(x):
    row = np.arange(x.shape[1])
    other = row
    other += 1
    return x + paddle.to_tensor(row, dtype="float32")


@pytest.mark.parametrize("function", [changed, changed_in_place])
def test_writes_are_refused(function, tmp_path):
    with pytest.raises(sot.GraphBreakError, match="test_numpy_exports.py"):
        sot.save(function, tmp_path / "net", SPEC)


def test_what_numpy_warns_of_fails_in_the_program(tmp_path):
    prefix = str(tmp_path / "net")
    sot.save(lambda x: x * float(np.log(x.shape[0])) + x.shape[1] // np.int64(x.shape[0]), prefix, SPEC)
    loaded = paddle.jit.load(prefix)
    assert loaded(values([2, 3])).shape == [2, 3]
    with pytest.raises(Exception, match="Assert|zero"):
        loaded(values([0, 3]))


SCALARS = {
    "dropout": lambda x: F.dropout(x, p=np.float64(0.5), training=False),
    "full": lambda x: paddle.full([x.shape[0], 2], np.float64(0.1)),
    "clip": lambda x: paddle.clip(x, np.float64(-0.3), np.float64(0.4)),
    "leaky_relu": lambda x: F.leaky_relu(x, negative_slope=np.float64(0.1)),
    "product": lambda x: (x * np.float32(0.1), np.float32(3) * x, x + np.float64(0.1), x / np.int64(3)),
    "epsilon": lambda x: F.normalize(x + 1, epsilon=np.float64(1e-5)),
    "places": lambda x: (x[: np.int64(1)], x[np.int64(0) :, np.int64(0) :], x.reshape([np.int64(1), np.prod([-1])])),
}


@pytest.mark.parametrize("name", SCALARS)
def test_scalars_as_arguments(name, tmp_path):
    prefix = str(tmp_path / "net")
    sot.save(SCALARS[name], prefix, SPEC)
    static = sot.to_static(SCALARS[name], full_graph=True)
    for run in (paddle.jit.load(prefix), predictor(prefix), static):
        for shape in SIZES:
            x = values(shape)
            compare(many(run(x)), many(SCALARS[name](x)))
    assert not sot.stats(static).graph_breaks
