"""What NumPy makes of open dims in calls: its scalars are computed by itself for each call, arrays by the program."""

import math
import warnings

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from support import gradient_at

pytestmark = pytest.mark.default_python

SIZES = [(2, 3), (3, 5), (7, 7), (4, 4), (5, 2), (3, 8), (6, 5), (8, 3), (9, 6), (4, 7)]
OTHERS = [(1, 1), (1, 4), (6, 1), (10, 12), (0, 3), (4, 0)]

tensor = paddle.to_tensor
# By how many translations it takes over ten sizes.
FEW = {
    "a float of a root": lambda x: x * float(np.sqrt(x.shape[1])),
    "a root": lambda x: x * np.sqrt(x.shape[1]),
    "rounded up": lambda x: x[: int(np.ceil(x.shape[0] / 2))],
    "rounded to even": lambda x: x * float(np.rint(x.shape[0] / 2)),
    "log2": lambda x: x + int(np.log2(x.shape[0] + 1)),
    "exp": lambda x: x * float(np.exp(-x.shape[0] / 3)),
    "one of the other": lambda x: x * float(np.sqrt(np.ceil(x.shape[0] / 2) * x.shape[1] + 1)),
    "sine": lambda x: x * float(np.sin(x.shape[0])),
    "rest": lambda x: x * float(np.floor(x.shape[0] / 2) % 3),
    "largest": lambda x: x * np.maximum(x.shape[0], x.shape[1]),
    "smallest as a bound": lambda x: x[: np.minimum(x.shape[0], 3)],
    "branch": lambda x: x * 2 if np.sqrt(x.shape[0]) > 1.9 else x - 1,
    "truth": lambda x: x * 2 if np.floor(x.shape[0] / 4) else x - 1,
    "result": lambda x: (x * 2, np.sqrt(x.shape[0]), np.floor(x.shape[0] / 3)),
    "comparison as a result": lambda x: (x * 2, np.sqrt(x.shape[0]) > 0.5),
    "item": lambda x: x * np.sqrt(x.shape[0]).item(),
    "in math": lambda x: x * math.floor(np.sqrt(x.shape[0])),
    "classes": lambda x: x * np.float64(x.shape[0]) + int(np.int64(x.shape[1]) + 1),
    "product of the shape": lambda x: x.reshape([int(np.prod(x.shape))]),
    "sum of the shape": lambda x: x * int(np.sum(x.shape)),
    "arange": lambda x: x + tensor(np.arange(x.shape[1]).astype("float32")),
    "arange of whole numbers": lambda x: x.sum() + tensor(np.arange(x.shape[1])).sum(),
    "arange that is computed with": lambda x: x + tensor((np.arange(1, x.shape[1] + 1) * 2 + 1).astype("float32")),
    "arange in steps": lambda x: x + tensor((np.arange(0, x.shape[1] * 2, 2)).astype("float32")),
    "arange of none": lambda x: x.sum() + tensor(np.arange(x.shape[1] - 4).astype("float32")).sum(),
    "arange that is cut": lambda x: x[:, 1:].sum(0) + tensor(np.arange(x.shape[1])[1:].astype("float32")),
    "arange as a result": lambda x: (x * 2, np.arange(x.shape[1])),
    "places": lambda x: paddle.gather(x, tensor(np.arange(x.shape[0]))),
    "length of a text": lambda x: x * len(f"{x.shape[0]}x{x.shape[1]}"),
    "length that is compared": lambda x: x * 2 if len(str(x.shape[0] * 9)) > 1 else x,
    "length as a bound": lambda x: x[: len(repr(x.shape[0] * 31))],
}
# NumPy warns of some, has digits of its own, or raises.
MORE = {
    "root of a negative number": lambda x: x * float(np.sqrt(x.shape[0] - 4)),
    "logarithm of zero": lambda x: x * float(np.log(x.shape[0] - 3)),
    "division by zero": lambda x: x * float(np.sqrt(x.shape[0]) / (x.shape[1] - 5)),
    "root of an array": lambda x: x + tensor(np.sqrt(np.arange(x.shape[1])).astype("float32")),
    "division of an array": lambda x: x + tensor((np.arange(x.shape[1]) / (x.shape[0] - 3)).astype("float32")),
    "item of an array": lambda x: x * float(np.arange(x.shape[0])[-1]),
    "largest of an array": lambda x: x * int(np.arange(x.shape[1] - 3).max()),
    "array with another class": lambda x: x + tensor(np.arange(x.shape[1] * 1.5)[: x.shape[1]].astype("float32")),
}


def outcome(function, x):
    """The result or the class of the exception, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(x)
        except (ValueError, IndexError, ZeroDivisionError) as raised:
            result = type(raised)
    return result, [str(warning.message) for warning in caught]


def picture(value):
    if isinstance(value, tuple):
        return tuple(map(picture, value))
    if isinstance(value, paddle.Tensor):
        return value.dtype, tuple(value.shape), value.numpy().tobytes()
    return (value.dtype, value.tolist()) if isinstance(value, np.ndarray) else (type(value), value)


@pytest.mark.parametrize("options", [{}, {"capture_control_flow": True}], ids=["", "control flow"])
@pytest.mark.parametrize("name", [*FEW, *MORE])
def test_numpy_of_dims(name, options):
    function = FEW.get(name) or MORE[name]
    translated = sot.to_static(function, min_graph_size=0, **options)

    def is_equal(size):
        x = paddle.randn(size)
        (result, warned), (found, also_warned) = outcome(function, x), outcome(translated, x)
        return picture(found) == picture(result) and warned == also_warned

    for size in SIZES:
        assert is_equal(size), size
    if name in FEW:
        stats = sot.stats(translated)
        assert (stats.translations <= 3, stats.graph_breaks, stats.fallbacks) == (True, [], [])
    for size in [*OTHERS, *reversed(SIZES), *OTHERS]:
        assert is_equal(size), size


@pytest.mark.parametrize("name", ["a float of a root", "one of the other", "arange", "length of a text"])
@pytest.mark.parametrize("options", [{"min_graph_size": 0}, {}], ids=["small graphs", "settled"])
def test_gradients(name, options):
    function = FEW[name]
    translated = sot.to_static(function, **options)
    for size in [*SIZES, *OTHERS[:4]]:
        assert gradient_at(translated, size) == gradient_at(function, size)


def test_what_the_user_wants_of_errors():
    """Where NumPy warns, or raises, in other calls than the ones that were translated."""

    def function(x):
        return x * float(np.sqrt(x.shape[0] - 4))

    translated = sot.to_static(function, min_graph_size=0)
    for size in [(5, 2), (6, 2), (7, 2)]:
        assert picture(translated(paddle.ones(size))) == picture(function(paddle.ones(size)))
    for state in ("raise", "ignore", "warn"):
        with np.errstate(all=state), warnings.catch_warnings():
            warnings.simplefilter("error")
            for call in (function, translated):
                if state == "ignore":
                    assert np.isnan(call(paddle.ones([3, 2])).numpy()).all()
                else:
                    with pytest.raises(FloatingPointError if state == "raise" else RuntimeWarning):
                        call(paddle.ones([3, 2]))
