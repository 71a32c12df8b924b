"""What Python computes from open dims is part of an exported program, with Python's answers."""

import math

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.nn import functional as F
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

IMAGE = [InputSpec([None, 3, None, None], "float32", "image")]
SIZES = [[2, 3, 8, 6], [1, 3, 7, 9], [1, 3, 12, 11], [3, 3, 11, 12], [2, 3, 5, 5], [1, 3, 2, 13]]

# Numbers from the number of images, the height and the width.
NUMBERS = {
    "quotient": lambda n, h, w: h / w,
    "quotient of a product": lambda n, h, w: h * w / 7,
    "rounded down": lambda n, h, w: h * 100 // w,
    "constants divided": lambda n, h, w: 100 // h + 50 // (w - 20) + 70 % h,
    "rest": lambda n, h, w: h * 100 % w,
    "negative": lambda n, h, w: (h - 10) // (w - 20) + (h - 10) % (w - 20) + (h - 10) // -3 + (7 - h) % -4,
    "divmod": lambda n, h, w: divmod(h * 10, w)[0] * 1000 + divmod(h - 9, 4)[1],
    "powers": lambda n, h, w: h**2 + (h - w) ** 3,
    "abs": lambda n, h, w: abs(h - w) + abs(h / w - 1),
    "min and max": lambda n, h, w: min(h, w, 9) + 100 * max([h, w]) + min(h / w, 1.0),
    "float": lambda n, h, w: float(h) + float(h > w),
    "int": lambda n, h, w: int(h / w * 10) + int((h - 9) / 2) + int(h > w),
    "trunc": lambda n, h, w: math.trunc((w - 9) / 2) + math.floor((w - 9) / 2) * 10 + math.ceil(h / w) * 100,
    "round": lambda n, h, w: round(h / 2) + round((h - 9) / 2) * 10 + round(h / w * 5) * 100,
    "roots": lambda n, h, w: math.sqrt(h * w) + math.isqrt(h * w),
    "logarithms": lambda n, h, w: math.log(h) + math.log2(w) + math.log10(h) + int(math.log2(h)),
    "exp": lambda n, h, w: math.exp(-h / 10),
    "product": lambda n, h, w: math.prod((n, h, w)),
    "bits": lambda n, h, w: (h & 3) + (h >> 1) + (h << 2) + (h | 1) + (w ^ 5),
    "a dim or another": lambda n, h, w: h if h < w else w,
    "rounded up": lambda n, h, w: -(-h // 4),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name, tmp_path):
    number = NUMBERS[name]

    def function(x):
        n, _, h, w = x.shape
        return x.astype("float64") * number(n, h, w)

    check(function, tmp_path)


def size(x):
    return x / x.size + x.sum() / len(x)


def rounds(x):
    y = x
    for i in range(math.ceil(x.shape[2] / 4)):
        y = y + i
    return y


def rounds_of_one_line(x):
    y = x
    for i in range(x.shape[2] // 2): y = y + i  # fmt: skip # noqa: E701
    return y


def next_power(x):
    k = 1
    while k < x.shape[2]:
        k = k * 2
    return F.pad(x, [0, 0, 0, k - x.shape[2]])


def halves(x):
    k, i = x.shape[2], 0
    while k >= 2 and i < 10:
        k = k // 2
        i = i + 1
    return x + k + i


def slices(x):
    h, w = x.shape[2:]
    return x[:, :, max(0, h - 10) : min(h, 9)], x[:, :, : int(h * 0.6) + 1], x[:, :, min(h, w) - 1]


def shapes(x):
    n, _, h, w = x.shape
    low = min(h, 7)
    y = x[:, :, :low].reshape([n, 3, low * w])
    most = max(h, w)
    return y, paddle.full([most, 2], h / w), x[:, :, :1, :1].tile([1, 1, most, 1]), paddle.arange(min(h, w))


def resized(x):
    h, w = x.shape[2:]
    r = max(16 / h, 16 / w)
    return F.interpolate(x, size=[int(h * r), int(w * r)]), F.interpolate(x, size=[max(h, w)] * 2)


def padded(x):
    h, w = x.shape[2:]
    return F.pad(x, [0, -w % 8, 0, -h % 8]), F.pad(x, [0, max(h - w, 0), 0, max(w - h, 0)])


def windows(x):
    n, _, h, w = x.shape
    down = (4 - h % 4) % 4
    right = (4 - w % 4) % 4
    y = F.pad(x, [0, right, 0, down])
    h, w = y.shape[2:]
    y = y.reshape([n, 3, h // 4, 4, w // 4, 4])
    y = y.transpose([0, 2, 4, 1, 3, 5])
    return y.reshape([-1, 3, 4, 4])


def highest(x):
    return x.flatten(1).topk(min(x.shape[2], 5), axis=1)[0]


def scaled(x):
    y = paddle.matmul(x, x.transpose([0, 1, 3, 2])) / math.sqrt(x.shape[3])
    return y * (x.shape[2] / x.shape[3])


def without_dims(x):
    h, w = x.shape[2:]
    return x.mean() + 100 // h + h // 2 + (h * 7) // w, x.max() * (100 // min(h, w))


FUNCTIONS = [
    without_dims,
    size,
    rounds,
    rounds_of_one_line,
    next_power,
    halves,
    slices,
    shapes,
    resized,
    padded,
    windows,
    highest,
    scaled,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_functions(function, tmp_path):
    check(function, tmp_path)


def check(function, tmp_path):
    sot.save(function, tmp_path / "net", IMAGE)
    loaded = paddle.jit.load(str(tmp_path / "net"))
    paddle.seed(3)
    for size in SIZES:
        x = paddle.randn(size)
        found, expected = loaded(x), function(x)
        if isinstance(expected, paddle.Tensor):
            found, expected = [found], [expected]
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape and one.dtype == other.dtype
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "function", [lambda x: x.flatten(1).topk(x.shape[2] - 2)[0], lambda x: x * (7 % (x.shape[2] - 3))]
)
def test_what_python_or_paddle_refuses_fails_in_the_program(function, tmp_path):
    sot.save(function, tmp_path / "net", IMAGE)
    loaded = paddle.jit.load(str(tmp_path / "net"))
    for height in (2, 3):
        x = paddle.randn([1, 3, height, 4])
        try:
            function(x)
        except (ValueError, ZeroDivisionError):
            with pytest.raises(Exception, match="Assert|zero"):
                loaded(x)
