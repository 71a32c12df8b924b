"""Comparisons of dims of tensors that the graph makes: guards compute them from dims of the inputs."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, tensor
from paddle import nn

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

F = nn.functional
paddle.seed(7)
LINEAR, NORM, TABLE = nn.Linear(4, 6), nn.LayerNorm(4), nn.Embedding(9, 5)
DROP, ACTS = nn.Dropout(0.0), [nn.ReLU(), nn.GELU(), nn.Sigmoid(), nn.Silu(), nn.Softmax(), nn.Tanh()]
WEIGHT = paddle.randn([4, 6])
CONV, BATCH, POOL, FLAT = nn.Conv2D(1, 2, 1), nn.BatchNorm2D(1), nn.AdaptiveAvgPool2D(1), nn.Flatten()
PLACES = paddle.to_tensor([0, 1, 1])

# Every rule: of x [n, m, 4] and y [k, m, 4].
SAME = [
    *(getattr(paddle, name) for name in ("abs", "clip", "clone", "cos", "erf", "exp", "log", "neg", "rsqrt", "scale")),
    *(getattr(paddle, name) for name in ("sin", "sqrt", "square", "tanh", "tril", "triu")),
    *(getattr(F, name) for name in ("dropout", "gelu", "log_softmax", "relu", "sigmoid", "silu", "softmax", "swish")),
    *(getattr(F, name) for name in ("elu", "hardsigmoid", "hardswish", "leaky_relu", "mish", "relu6", "softplus")),
    *(LINEAR, NORM, DROP, *ACTS),
    lambda x: x.astype("float64"),
    lambda x: x.cast("float64"),
    lambda x: paddle.cast(x, "float64"),
    lambda x: x.contiguous(),
    lambda x: -x,
    lambda x: x.flip(-1),
    lambda x: x.cumsum(1),
    lambda x: x.flatten().cumsum(),
    lambda x: x.cumsum(),
    lambda x: F.layer_norm(x, 4),
    lambda x: F.linear(x, WEIGHT),
    lambda x: F.linear(weight=WEIGHT, x=x),
]
ONE = [
    *(lambda x, f=f: f(x) for f in SAME),
    lambda x: TABLE((x.mean(-1) * 0).astype("int64")),
    lambda x: F.embedding((x.mean(-1) * 0).astype("int64"), WEIGHT),
    lambda x: x.transpose([1, 0, 2]),
    lambda x: x.transpose(perm=[-1, 1, 0]),
    lambda x: paddle.transpose(x, [2, 0, 1]),
    lambda x: x.reshape([x.shape[0], -1]),
    lambda x: x.reshape([x.shape[0] * x.shape[1], 4]),
    lambda x: x.reshape([x.shape[1], x.shape[0], 2, 2]),
    lambda x: x.reshape([0, 0, 2, 2]),
    lambda x: x.reshape(shape=[-1, x.shape[1] * 4]),
    lambda x: x.unsqueeze(0),
    lambda x: x.unsqueeze(-1),
    lambda x: x.unsqueeze([1]),
    lambda x: x.unsqueeze(axis=[0, 2]),
    lambda x: paddle.unsqueeze(x, 1) + x,
    lambda x: x.matmul(WEIGHT),
    lambda x: x @ WEIGHT,
    lambda x: paddle.matmul(x, x, transpose_y=True),
    lambda x: paddle.matmul(x, x, True),
    lambda x: paddle.matmul(x, x, transpose_x=True, transpose_y=False),
    lambda x: paddle.bmm(x, x.transpose([0, 2, 1])),
    lambda x: paddle.mm(x.mean(0), WEIGHT),
    lambda x: x.unsqueeze(1) @ x.transpose([0, 2, 1]).unsqueeze(0),
    lambda x: x + 1,
    lambda x: 2.5 - x * 0.5,
    lambda x: x / x.shape[0],
    lambda x: x + x.mean(0),
    lambda x: x.mean(0, keepdim=True) * x,
    lambda x: x.mean([0, 2]) + x.mean(-1),
    lambda x: x.unsqueeze(0) + x.unsqueeze(1),
    lambda x: paddle.maximum(x, x.mean(1, keepdim=True)),
    lambda x: paddle.minimum(x.mean(1, keepdim=True), y=x),
    lambda x: paddle.add(x, x.mean()),
    lambda x: paddle.subtract(x, x) + paddle.multiply(x, x) + paddle.divide(x, x + 10),
    lambda x: CONV(x.unsqueeze(1)),
    lambda x: BATCH.eval()(x.unsqueeze(1)) + POOL(x.unsqueeze(1)),
    lambda x: F.max_pool2d(x.unsqueeze(1), 2, 1) * F.avg_pool2d(x.unsqueeze(1), 2, 1),
    lambda x: F.interpolate(x.unsqueeze(1), scale_factor=2),
    lambda x: F.group_norm(x.unsqueeze(1), 1) + F.instance_norm(x.unsqueeze(1)),
    lambda x: FLAT(x.unsqueeze(1)),
    lambda x: x.flatten(1),
    lambda x: paddle.flatten(x, start_axis=1, stop_axis=-1),
    lambda x: x.flatten(),
    lambda x: paddle.gather(x, PLACES),
    lambda x: paddle.gather(x, PLACES, axis=1),
    lambda x: x.index_select(PLACES, axis=-1),
    lambda x: paddle.gather(x, (x[:, 0, 0] * 0).astype("int64"), 0),
    lambda x: x[1:],
    lambda x: x[:100],
    lambda x: x[:4, 1:3],
    lambda x: x[:-1, -2:],
    lambda x: x[-6:],
    lambda x: x[3:1],
    lambda x: x[::2],
    lambda x: x[..., None, :2],
    lambda x: x[None, :, 0],
    lambda x: x[None, ..., 1:, 2],
    lambda x: x[0],
    lambda x: x[:, x.shape[1] - 1],
    lambda x: x[True],
    lambda x: x[x.shape[0] - 2 :],
    lambda x: x[1 : x.shape[0] - 1],
    lambda x: x[x.shape[1] - 3 : x.shape[1]],
    lambda x: x[: x.shape[1], : x.shape[0]],
    lambda x: x.flatten()[: x.shape[0]] * 2,
    lambda x: x.unsqueeze([0, 2]),
    lambda x: x.unsqueeze([-1, 1]),
    lambda x: x.unsqueeze(axis=(3, -1)),
    lambda x: x[:, -2:] + 1,
    lambda x: F.pad(x, [1, 1], data_format="NLC"),
    lambda x: x.sum(0),
    lambda x: x.tile([2, 1, 1]),
    lambda x: paddle.assign(x),
    lambda x: x.detach() * x,
]
TWO = [
    lambda x, y: paddle.concat([x, y]),
    lambda x, y: paddle.concat([x, y * 2, x], axis=0),
    lambda x, y: paddle.concat((y, y), axis=-1),
    lambda x, y: paddle.concat([x.transpose([1, 0, 2]), y.transpose([1, 0, 2])], 1),
    lambda x, y: paddle.matmul(x.transpose([1, 0, 2]), y.transpose([1, 2, 0])),
    lambda x, y: F.softmax(x.transpose([1, 0, 2]) @ y.transpose([1, 2, 0])) @ y.transpose([1, 0, 2]),
    lambda x, y: x.mean(1).unsqueeze(1) + y.mean(1).unsqueeze(0),
    lambda x, y: x.reshape([y.shape[1], x.shape[0], 4]),
    lambda x, y: paddle.concat([x, y]).reshape([x.shape[0] + y.shape[0], y.shape[1] * 4]),
]
SIZES = [(3, 5), (4, 6), (7, 5), (2, 3), (5, 9), (6, 2), (9, 7)]


def compared(result):
    """What code might ask of a shape."""
    shape = result.shape
    answers = [dim > 4 for dim in shape] + [dim == 6 for dim in shape] + [dim % 2 == 0 for dim in shape]
    return result * 1, answers, shape[0] + 1 if shape[0] >= shape[-1] else None, len(shape)


@pytest.mark.parametrize("operation", ONE)
def test_one_tensor(operation):
    def function(x):
        return compared(operation(x))

    calls = [(tensor(n, m, 4, seed=n),) for n, m in SIZES]
    check(function, *calls[0], calls=calls[1:], fallbacks=None, close=True, repeat=1)


@pytest.mark.parametrize("operation", TWO)
def test_two_tensors(operation):
    def function(x, y):
        return compared(operation(x, y))

    calls = [(tensor(n, m, 4, seed=n), tensor(k, m, 4, seed=k)) for n, m in SIZES for k in (2, 5)]
    check(function, *calls[0], calls=calls[1:], fallbacks=None, close=True, repeat=1)


class Attention(nn.Layer):
    """With the checks of a language model's attention."""

    def __init__(self, size=8, heads=2):
        super().__init__()
        self.heads, self.width = heads, size // heads
        self.q, self.k, self.v, self.o = (nn.Linear(size, size) for _ in range(4))
        self.longest = 20
        self.register_buffer("turn", paddle.rand([20, self.width]))

    def forward(self, x, past):
        batch, length, _ = x.shape
        q, k, v = (f(x).reshape([batch, length, self.heads, self.width]) for f in (self.q, self.k, self.v))
        total = k.shape[1] + (past[0].shape[1] if past is not None else 0)
        if total > self.longest:
            raise ValueError(f"{self.longest} at most")
        turn = self.turn[total - length : total].unsqueeze([0, 2])
        q, k = q * turn, k * turn
        if past is not None:
            k, v = paddle.concat([past[0], k], axis=1), paddle.concat([past[1], v], axis=1)
        keys, values = k.transpose([0, 2, 1, 3]), v.transpose([0, 2, 1, 3])
        weights = paddle.matmul(q.transpose([0, 2, 1, 3]), keys, transpose_y=True) / self.width**0.5
        if list(weights.shape) != [batch, self.heads, length, total]:
            raise ValueError(f"attention of shape {weights.shape}")
        out = paddle.matmul(F.softmax(weights, axis=-1), values)
        if tuple(out.shape) != (batch, self.heads, length, self.width):
            raise ValueError(f"output of shape {out.shape}")
        return self.o(out.transpose([0, 2, 1, 3]).reshape([batch, length, self.heads * self.width])), (k, v)


def test_decoding_with_a_cache_that_grows():
    paddle.seed(1)
    eager, static = Attention(), Attention()
    static.set_state_dict(eager.state_dict())
    sot.to_static(static, min_graph_size=0)
    with paddle.no_grad():
        x = tensor(1, 3, 8)
        past = [None, None]
        for _ in range(18):
            outputs = []
            for at, net in enumerate((eager, static)):
                out, past[at] = net(x, past[at])
                outputs.append(out)
            assert (outputs[0] == outputs[1]).all()
            x = outputs[0][:, -1:]
        record = sot.stats(static)
        assert record.translations == 3 and not record.graph_breaks and not record.fallbacks, record
        for at, net in enumerate((eager, static)):
            with pytest.raises(ValueError, match="20 at most"):
                net(x, past[at])
