"""Calls each operator that Paddle's passes place on oneDNN, by dtype, rank and stride, forward and backward.

    python onednn_rows_probe.py PART PARTS [all]

prints what differs from eager mode, the operators of the part that no program had, and `done`. One process does all
of a part: `test_onednn_probe.py` looks whether it comes to its end.
"""

import itertools
import sys

import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
from onednn_probe import DTYPES, SHAPES, STRIDES, are_same, given, rank_four, shown
from paddle_sot_rs._onednn import lowering


def rank_five(function):
    """Of whatever is given."""
    return lambda x: function(x.reshape([1, -1, 1, 1, 1]) if x.ndim != 5 else x)


def ones(x, *shape):
    return paddle.ones(shape, x.dtype)


def swapped(x):
    return x.transpose(list(range(x.ndim))[::-1])


# By the name of the operator.
ROWS = {
    "abs": paddle.abs,
    "add": lambda x: x + x * 2,
    "add_n": lambda x: paddle.add_n([x, x * 2]),
    "batch_norm": rank_four(lambda x: F.batch_norm(x, paddle.zeros([x.shape[1]]), paddle.ones([x.shape[1]]))),
    "bilinear_interp": rank_four(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear")),
    "cast": lambda x: (x.astype("float32") * 2, x.astype("int64")),
    "clip": lambda x: paddle.clip(x, 0, 1),
    "concat": lambda x: (paddle.concat([x, x * 2]), paddle.concat([x, x], -1)),
    "conv2d": rank_four(lambda x: F.relu(F.conv2d(x, ones(x, 2, x.shape[1], 1, 1)))),
    "conv2d_transpose": rank_four(lambda x: F.conv2d_transpose(x, ones(x, x.shape[1], 2, 1, 1))),
    "conv3d": rank_five(lambda x: F.conv3d(x, ones(x, 2, x.shape[1], 1, 1, 1))),
    "depthwise_conv2d": rank_four(lambda x: F.conv2d(x, ones(x, x.shape[1], 1, 1, 1), groups=x.shape[1])),
    "divide": lambda x: x / (x * x + 1),
    "elu": F.elu,
    "exp": paddle.exp,
    "flatten": lambda x: x.flatten() * 2,
    "full": lambda x: x + paddle.full(x.shape, 2, x.dtype),
    "gaussian": lambda x: paddle.randn(x.shape) + x,
    "gelu": lambda x: (F.gelu(x), F.gelu(x, approximate=True)),
    "hardswish": F.hardswish,
    "layer_norm": lambda x: (F.layer_norm(x, x.shape[-1:]), F.layer_norm(x, x.shape[-1:], ones(x, *x.shape[-1:]))),
    "leaky_relu": F.leaky_relu,
    "log_softmax": F.log_softmax,
    "matmul": lambda x: x @ swapped(x),
    "max": lambda x: (x.max(), x.max(-1, keepdim=True)),
    "mean": lambda x: (x.mean(), x.mean(-1, keepdim=True)),
    "min": lambda x: (x.min(), x.min(-1, keepdim=True)),
    "mish": F.mish,
    "multiply": lambda x: x * x,
    "nearest_interp": rank_four(lambda x: F.interpolate(x, scale_factor=2.0)),
    "pad": lambda x: F.pad(x, [1, 0] * x.ndim, value=2.5),
    "pad3d": rank_five(lambda x: F.pad(x, [1, 0, 0, 1, 1, 0], data_format="NCDHW")),
    "pool2d": rank_four(lambda x: (F.max_pool2d(x, 1), F.avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, 1))),
    "prelu": lambda x: F.prelu(x, ones(x, 1) / 4),
    "prior_box": rank_four(lambda x: paddle.vision.ops.prior_box(x, x, min_sizes=[2.0])),
    "relu": F.relu,
    "relu6": F.relu6,
    "reshape": lambda x: x.reshape([-1]) + 1,
    "round": paddle.round,
    "scale": lambda x: (paddle.scale(x, 2.0, 1.0), paddle.scale(x, 2.5, 1.0, bias_after_scale=False)),
    "sigmoid": F.sigmoid,
    "slice": lambda x: (x[:1] * 2, x[..., 1:] * 2),
    "softmax": lambda x: (F.softmax(x), F.softmax(x, 0)),
    "softplus": F.softplus,
    "split": lambda x: paddle.split(x, [1, -1]),
    "split_with_num": lambda x: paddle.split(x * 2, 1, -1),
    "sqrt": paddle.sqrt,
    "squeeze": lambda x: x.squeeze() * 2,
    "stack": lambda x: (paddle.stack([x, x * 2]), paddle.stack([x, x], -1)),
    "subtract": lambda x: x * 2 - x,
    "sum": lambda x: (x.sum(), x.sum(-1, keepdim=True)),
    "swish": F.swish,
    "tanh": paddle.tanh,
    "transpose": lambda x: swapped(x) * 2,
    "unsqueeze": lambda x: x.unsqueeze(0) + x.unsqueeze(-1),
}
# What no function of Paddle makes in eager mode: fusions do, and programs of old.
MADE_OTHERWISE = frozenset("conv2d_transpose_bias fc fusion_gru lrn matmul_with_flatten shape".split())
# Looks at every shape; the others do so for some.
THOROUGH = "float32"
FEW = [[2, 8, 4, 4], [0, 3]]
# Random numbers are those of eager mode where the order of what draws them is.
DRAWS = "gaussian"


def outcome(function, x, backward):
    """Results of a call, and with `backward` the gradient of its argument; or the name of what is raised."""
    paddle.seed(0)
    x = x.detach()
    x.stop_gradient = not backward
    try:
        with paddle.set_grad_enabled(backward):
            found = shown(function(x))
            if backward:
                trains = [value.astype("float32").sum() for value in found if not value.stop_gradient]
                if trains:
                    sum(trains).backward()
                    found.append(x.grad)
    except Exception as error:
        return type(error).__name__
    return [(str(value.dtype), value.shape, value.astype("float64").numpy()) for value in found]


def translated(function):
    """Under the backend, however small it is."""
    return sot.to_static(
        lambda x: function(x), backend="onednn", options={"least_elements": 0}, min_graph_size=0, dynamic=False
    )


def main(part, parts, everything):
    seen = set()
    place = lowering.place

    def noted(program, *args):
        seen.update(map(lowering.plain_name, program.global_block().ops))
        return place(program, *args)

    lowering.place = noted
    names = [name for at, name in enumerate(ROWS) if at % parts == part]
    for name, dtype in itertools.product(names, DTYPES):
        for shape in SHAPES if everything or dtype == THOROUGH else FEW:
            static = translated(ROWS[name])
            # Eager mode ends the process itself.
            if name == "pad" and not shape:
                continue
            strides = STRIDES if len(shape) > 1 else ("plain",)
            ways = (False, True) if "float" in dtype else (False,)
            for stride, backward in itertools.product(strides, ways):
                x = given(dtype, shape, stride)
                print("at", name, dtype, shape, stride, backward, flush=True)
                found, expected = outcome(static, x, backward), outcome(ROWS[name], x, backward)
                if not are_same(found, expected, 1e-4):
                    print("differs:", name, dtype, shape, stride, backward, str(found)[:80], str(expected)[:80])
    if missing := set(names) - seen:
        print("misses:", *sorted(missing))
    print("done", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), "all" in sys.argv)
