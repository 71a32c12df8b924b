"""Dims of what the graph makes follow from dims of its inputs: one guard holds for all sizes."""

import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.nn import functional as F

pytestmark = pytest.mark.default_python

SIZES = [(2, 3), (3, 5), (7, 7), (4, 4), (5, 2), (3, 8), (6, 5), (8, 3), (1, 4), (6, 1), (1, 1)]

# A tensor, and the dim that is asked for.
RULES = {
    "T": (lambda x: x.T, 0),
    "t": (lambda x: paddle.t(x), 1),
    "sum": (lambda x: x.sum(0), 0),
    "sum of the last": (lambda x: x.sum(-1), 0),
    "sum that keeps": (lambda x: x.sum(1, keepdim=True), 0),
    "sum of two": (lambda x: x.unsqueeze(1).sum([0, 1]), 0),
    "mean": (lambda x: paddle.mean(x, axis=1), 0),
    "max": (lambda x: paddle.max(x, 0), 0),
    "amax": (lambda x: x.amax(1), 0),
    "any": (lambda x: (x > 0).any(0), 0),
    "argmax": (lambda x: x.argmax(1), 0),
    "argmax that keeps": (lambda x: x.argmax(0, keepdim=True), 1),
    "logsumexp": (lambda x: x.logsumexp(1), 0),
    "std": (lambda x: paddle.concat([x, x]).std(0), 0),
    "squeeze": (lambda x: x.unsqueeze(1).squeeze(1), 1),
    "stack": (lambda x: paddle.stack([x, x], 1), 2),
    "stack in front": (lambda x: paddle.stack([x, x]), 1),
    "arange": (lambda x: paddle.arange(x.shape[1]), 0),
    "arange from": (lambda x: paddle.arange(1, x.shape[1] + 1), 0),
    "arange in steps": (lambda x: paddle.arange(0, x.shape[0] * 3 + 1, 2), 0),
    "zeros": (lambda x: paddle.zeros([2, x.shape[0]]), 1),
    "full": (lambda x: paddle.full([x.shape[1], 3, x.shape[0]], 0.5), 2),
    "ones": (lambda x: paddle.ones([x.shape[1] * 2, 3]), 0),
    "expand": (lambda x: x.unsqueeze(0).expand([3, -1, x.shape[1]]), 1),
    "broadcast_to": (lambda x: x[:1].broadcast_to([x.shape[0] + 1, x.shape[1]]), 0),
    "tile": (lambda x: x.tile([1, 3]), 1),
    "reshape to the rest": (lambda x: x.unsqueeze(-1).tile([1, 1, 2]).reshape([x.shape[0], -1]), 1),
    "reshape that keeps": (lambda x: x.reshape([0, 1, -1]), 2),
    "split": (lambda x: paddle.split(paddle.concat([x, x]), 2)[1], 0),
    "split in sections": (lambda x: paddle.concat([x, x]).split([x.shape[0], -1])[1], 0),
    "chunk": (lambda x: paddle.concat([x, x, x], 1).chunk(3, 1)[0], 1),
    "chunk of the other dim": (lambda x: paddle.concat([x, x], 1).chunk(2, -1)[1], 0),
    "topk": (lambda x: x.topk(1, 1)[0], 0),
    "topk of many": (lambda x: x.topk((x.shape[1] + 1) // 2, 1)[1], 1),
    "one_hot": (lambda x: F.one_hot(x.argmax(1), 200), 0),
    "index_select": (lambda x: x.index_select(paddle.arange(x.shape[1]) * 0, 0), 0),
    "sort": (lambda x: x.sort(1), 1),
    "flip": (lambda x: x.flip(0), 0),
    "rounded slice": (lambda x: x[: int(x.shape[0] * 0.5)], 0),
    "slice from the middle": (lambda x: x[x.shape[0] // 2 :], 0),
    "glu": (lambda x: F.glu(paddle.concat([x, x], 1)), 1),
    "where that broadcasts": (lambda x: paddle.where(x[0] > 0, x, x.unsqueeze(0)), 1),
    "where of numbers": (lambda x: paddle.where(x > 0, x, 0.0), 1),
    "number over a tensor": (lambda x: 2.0 / x, 0),
    "triangle with an open diagonal": (lambda x: paddle.tril(x, x.shape[1] - x.shape[0]), 0),
}

# The result has the dims of the operand.
FUNCTIONS = (
    *("atan", "cosh", "expm1", "frac", "lgamma", "log1p", "negative", "reciprocal", "sgn", "tan", "trunc"),
    *("celu", "hardtanh", "log_sigmoid", "normalize", "selu", "softshrink", "softsign", "thresholded_relu"),
)
# Or of both.
OPERATORS = ("copysign", "fmax", "hypot", "logaddexp", "nextafter", "remainder")
LAYERS = ("CELU", "GLU", "Hardtanh", "LogSoftmax", "PReLU", "SELU", "Softsign", "Swish", "Tanhshrink")
RULES |= {name: (getattr(F, name, None) or getattr(paddle, name), 1) for name in FUNCTIONS}
RULES |= {name: (lambda x, name=name: getattr(paddle, name)(x[:1], x), 0) for name in OPERATORS}
ON_TWO = {name: getattr(nn, name)() for name in LAYERS}
RULES |= {f"layer {name}": (lambda x, name=name: ON_TWO[name](paddle.concat([x, x], 1)), 1) for name in LAYERS}


@pytest.mark.parametrize("name", RULES)
def test_dims_are_computed_by_guards(name):
    """Two translations: the first with known sizes, one for all others but 1."""
    make, dim = RULES[name]

    def function(x):
        y = make(x)
        size = y.shape[dim]
        if size > 100:
            return x - size
        return x * size

    translated = sot.to_static(function, min_graph_size=0, compile_at_call=1)
    for size in SIZES[:8]:
        x = paddle.randn(size)
        assert translated(x).tolist() == function(x).tolist()
    stats = sot.stats(translated)
    assert (stats.translations, stats.graph_breaks, stats.fallbacks) == (2, [], [])
    for size in [*SIZES, (40, 60), (70, 120), (120, 11)]:
        x = paddle.randn(size)
        assert translated(x).tolist() == function(x).tolist()


def test_dims_behind_layers_that_reshape():
    """A residual sum asks both of its operands for their dims, and each reshape divides by those of the one before."""
    layers = [nn.Linear(8, 8) for _ in range(12)]

    def function(x, mask):
        b = x.shape[0]
        for layer in layers:
            heads = layer(x).reshape([b, -1, 2, 4]).transpose([0, 2, 1, 3])
            scores = paddle.matmul(heads, heads, transpose_y=True)
            scores = paddle.where(mask.unsqueeze(1), scores, paddle.full_like(scores, -1e4))
            x = x + paddle.matmul(F.softmax(scores), heads).transpose([0, 2, 1, 3]).reshape([b, -1, 8])
        return x * 2 if x.shape[1] < 100 else x

    translated = sot.to_static(function, min_graph_size=0, compile_at_call=1)
    with paddle.no_grad():
        for b, n in [(2, 3), (3, 7), (4, 2), (2, 9), (5, 5), (7, 120), (1, 4), (3, 1)]:
            x, mask = paddle.randn([b, n, 8]), paddle.rand([b, 1, n]) > 0.3
            assert translated(x, mask).tolist() == function(x, mask).tolist()
    stats = sot.stats(translated)
    # One for few rows and one for many, and those with a dim of 1.
    assert (stats.translations, stats.graph_breaks, stats.fallbacks) == (5, [], [])


def test_masks_of_slices_keep_the_dims_that_are_known():
    """A triangle with an open diagonal has the known dim of its operand."""

    def function(x, cache):
        b, s, width = x.shape
        keys = paddle.concat([cache, x], axis=1)
        scores = x @ keys.transpose([0, 2, 1])
        mask = paddle.tril(paddle.ones([s, keys.shape[1]]), diagonal=keys.shape[1] - s)
        y = F.softmax(scores + (1 - mask) * -1e4) @ keys
        return y.unsqueeze(1).transpose([0, 2, 1, 3]).reshape([b, s, width]), keys

    translated = sot.to_static(function, min_graph_size=0, compile_at_call=1)
    with paddle.no_grad():
        for b, n in [(1, 1), (1, 7), (2, 4), (3, 12), (5, 2), (2, 31), (4, 1)]:
            x, cache = paddle.randn([b, 1, 4]), paddle.randn([b, n, 4])
            for one, other in zip(translated(x, cache), function(x, cache), strict=True):
                assert one.tolist() == other.tolist()
    stats = sot.stats(translated)
    assert (stats.translations <= 4, stats.graph_breaks, stats.fallbacks) == (True, [], [])


PADS = {
    "one dim": (1, lambda x, n, m: F.pad(x, [m, n], value=2.0)),
    "all of two": (2, lambda x, n, m: F.pad(x, [n, 1, 0, m])),
    "all of two, from the right": (2, lambda x, n, m: F.pad(x, [n, 1, 0, m], pad_from_left_axis=False)),
    "the last of two": (2, lambda x, n, m: F.pad(x, [m - 1, n], value=-1.5)),
    "length": (3, lambda x, n, m: F.pad(x, [n, m], data_format="NCL")),
    "length in front": (3, lambda x, n, m: F.pad(x, (n, 2), data_format="NLC")),
    "all of three": (3, lambda x, n, m: F.pad(x, [1, n, 0, 0, m, 2])),
    "image": (4, lambda x, n, m: F.pad(x, [n, 1, m, 0], value=3)),
    "image with channels behind": (4, lambda x, n, m: F.pad(x, [n, 1, m, 0], data_format="NHWC")),
    "all of four": (4, lambda x, n, m: F.pad(x, [n, 1, 0, 2, m, 0, 1, n])),
    "two of four": (4, lambda x, n, m: F.pad(x, [n, m])),
    "three of five": (5, lambda x, n, m: F.pad(x, [n, 0, 1, m, 0, 2])),
    "all of five": (5, lambda x, n, m: F.pad(x, [n, 1, 0, 2, m, 0, 1, n, 0, m])),
}


@pytest.mark.parametrize("of_shape", [False, True], ids=["dims", "items of shape()"])
@pytest.mark.parametrize("name", PADS)
def test_pads(name, of_shape):
    rank, pad = PADS[name]

    def function(x, y):
        n, m = (paddle.shape(y)[0], paddle.shape(y)[1]) if of_shape else y.shape
        return pad(x, n, m) * 2

    translated = sot.to_static(function, min_graph_size=0, compile_at_call=1)
    for n, m in SIZES[:8]:
        grads = []
        for call in (function, translated):
            paddle.seed(n)
            x = paddle.randn([2, 3, 2, 3, 2][:rank])
            x.stop_gradient = False
            result = call(x, paddle.ones([n, m]))
            (result * result).sum().backward()
            grads.append((result.numpy().tobytes(), result.shape, x.grad.tolist()))
        assert grads[0] == grads[1]
    stats = sot.stats(translated)
    assert (stats.translations <= 2, stats.graph_breaks, stats.fallbacks) == (True, [], [])
