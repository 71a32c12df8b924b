"""Calls operators with every dtype, rank and stride under `onednn`, and prints what differs from eager mode.

    python onednn_probe.py {plain,branch,loop} [halves] [few]

One process does all of it: `test_onednn_probe.py` looks whether it comes to its end.
"""

import itertools
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
from paddle.base import core

DTYPES = "float32 float64 float16 bfloat16 int8 uint8 int32 int64 bool".split()
SHAPES = [
    [],
    [3],
    [0],
    [2, 3],
    [0, 3],
    [2, 1, 3],
    [2, 8, 4, 4],
    [2, 0, 4, 4],
    [1, 2, 1, 3, 2],
    [2] * 6,
    [1] * 7,
]
STRIDES = {
    "plain": lambda x: x,
    "swapped": lambda x: x.transpose(list(range(x.ndim))[::-1]),
    "cut": lambda x: x[..., ::2] if x.ndim < 7 else x,
}


def rank_four(function):
    """Of whatever is given."""
    return lambda x: function(x.reshape([1, -1, 1, 1]) if x.ndim != 4 else x)


OPERATORS = {
    "unary": lambda x: (F.relu(x), F.sigmoid(x), F.gelu(x), paddle.tanh(x)),
    "softmax": lambda x: F.softmax(x),
    "binary": lambda x: (x + x, x * x, x - 1),
    "scale": lambda x: paddle.scale(x, 2.0, 1.0),
    "reshape": lambda x: x.reshape([-1]) + x.flatten(),
    "transpose": lambda x: x.transpose(list(range(x.ndim))[::-1]) * 2,
    "concat": lambda x: paddle.concat([x, x * 2]),
    "split": lambda x: paddle.split(x, 1),
    "reduce": lambda x: (x.sum(), x.mean(), x.max()),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "matmul": lambda x: x @ x.transpose(list(range(x.ndim))[::-1]),
    "slice": lambda x: x[:1] * 2,
    "pool": rank_four(lambda x: F.max_pool2d(x, 1)),
    "pool, last": rank_four(lambda x: F.avg_pool2d(x, 1, data_format="NHWC")),
    "conv": rank_four(lambda x: F.relu(F.conv2d(x, paddle.ones([2, x.shape[1], 1, 1], x.dtype)))),
    "cast": lambda x: x.astype("float32") * 2,
    "clip": lambda x: paddle.clip(x, 0, 1),
}


def in_a_branch(operator):
    def function(x, flag):
        y = x + x
        if flag:
            y = operator(y)
        else:
            y = operator(x)
        return y

    return function


def in_a_loop(operator):
    def function(x, flag):
        y = x + x
        while flag:
            y = operator(y)
            y = y[0] if isinstance(y, tuple | list) else y
            flag = paddle.zeros([], "bool")
        return y

    return function


WAYS = {"plain": lambda operator: lambda x, flag: operator(x + x), "branch": in_a_branch, "loop": in_a_loop}


def shown(value):
    if isinstance(value, paddle.Tensor):
        return [value]
    return [part for item in value for part in shown(item)]


def outcome(function, x, flag):
    with paddle.no_grad():
        try:
            found = shown(function(x, flag))
        except Exception as error:
            return type(error).__name__
    return [(str(value.dtype), value.shape, value.astype("float64").numpy()) for value in found]


def are_same(found, expected, tolerance):
    if isinstance(found, str) or isinstance(expected, str):
        return found == expected
    if [value[:2] for value in found] != [value[:2] for value in expected]:
        return False
    for a, b in zip(found, expected, strict=True):
        low = "float16" in a[0] or "bfloat16" in a[0]
        largest = np.abs(b[2][np.isfinite(b[2])]).max(initial=0)
        if not np.allclose(a[2], b[2], rtol=1e-2 if low else tolerance, atol=tolerance * largest, equal_nan=True):
            return False
    return True


def given(dtype, shape, stride):
    numbers = np.random.RandomState(len(shape)).rand(*shape) * 4 - 1
    return STRIDES[stride](paddle.to_tensor(np.asarray(numbers)).astype(dtype))


# What a test has time for.
FEW = ("float32", "int64"), ([], [0, 3], [2, 8, 4, 4])


def main(way, halves, few):
    dtypes, shapes = FEW if few else (DTYPES, SHAPES)
    tolerance, options = (0.03, {"bfloat16": True}) if halves else (1e-4, {})
    if halves:
        core.supports_bfloat16_fast_performance = lambda: True
    for name, dtype, shape in itertools.product(OPERATORS, dtypes, shapes):
        # Under every backend, a loop of Paddle's keeps the first shape of what has no items.
        if way == "loop" and 0 in shape:
            continue
        function = WAYS[way](OPERATORS[name])
        # Of numbers that are nearly equal it makes what bfloat16 makes of their difference.
        looks = not (halves and name == "layer_norm")
        # Strides of a tensor are asked for at run time: one translation is for all of them.
        translated = sot.to_static(
            function,
            backend="onednn",
            options={"least_elements": 0, **options},
            capture_control_flow=way != "plain",
            min_graph_size=0,
        )
        for stride in STRIDES if len(shape) > 1 else ("plain",):
            for flag in (True, False):
                x, flag = given(dtype, shape, stride), paddle.to_tensor(flag)
                print("at", name, dtype, shape, stride, flush=True)
                found, expected = outcome(translated, x, flag), outcome(function, x, flag)
                if not are_same(found, expected, tolerance if looks else 10.0):
                    print("differs:", name, dtype, shape, stride, str(found)[:80], str(expected)[:80], flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], "halves" in sys.argv, "few" in sys.argv)
