"""Networks that the engine is held against, and the comparison with eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F


class Classifier(nn.Layer):
    """An LSTM over tokens, and a linear head on its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 16)
        self.lstm = nn.LSTM(16, 24, num_layers=2)
        self.head = nn.Linear(24, 5)

    def forward(self, tokens):
        output, (hidden, _) = self.lstm(self.embedding(tokens))
        return self.head(hidden[-1] + output.mean(axis=1))


class CausalAttention(nn.Layer):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape([batch, length, 3, self.heads, width // self.heads]).unbind(axis=2)
        q, k, v = (part.transpose([0, 2, 1, 3]) for part in (q, k, v))
        scores = q @ k.transpose([0, 1, 3, 2]) / (width // self.heads) ** 0.5
        mask = paddle.triu(paddle.full([length, length], float("-inf")), diagonal=1)
        weights = F.softmax(scores + mask, axis=-1)
        return self.out((weights @ v).transpose([0, 2, 1, 3]).reshape([batch, length, width]))


class Block(nn.Layer):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Layer):
    """A GPT-style decoder in plain `paddle.nn`."""

    def __init__(self, vocabulary: int = 100, width: int = 32, heads: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(64, width)
        self.blocks = nn.LayerList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(paddle.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


class DoubleConv(nn.Layer):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2D(inputs, outputs, 3, padding=1),
            nn.BatchNorm2D(outputs),
            nn.ReLU(),
            nn.Conv2D(outputs, outputs, 3, padding=1),
            nn.BatchNorm2D(outputs),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.body(x)


class UNet(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        widths = [8, 16, 32]
        self.down = nn.LayerList()
        inputs = 3
        for width in widths:
            self.down.append(DoubleConv(inputs, width))
            inputs = width
        self.pool = nn.MaxPool2D(2)
        self.up = nn.LayerList([nn.Conv2DTranspose(2 * w, w, 2, stride=2) for w in reversed(widths[:-1])])
        self.merge = nn.LayerList([DoubleConv(2 * w, w) for w in reversed(widths[:-1])])
        self.head = nn.Conv2D(widths[0], 2, 1)

    def forward(self, x):
        skips = []
        for index, stage in enumerate(self.down):
            x = stage(x)
            if index < len(self.down) - 1:
                skips.append(x)
                x = self.pool(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips)):  # noqa: B905 - the AST mode of Paddle knows no strict=
            x = merge(paddle.concat([up(x), skip], axis=1))
        return self.head(x)


class Translator(nn.Layer):
    """`paddle.nn.Transformer` with masks."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Transformer(
            d_model=16, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=32, dropout=0.0
        )

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(self.body, target.shape[1])
        return self.body(source, target, tgt_mask=mask)


@dataclass(frozen=True)
class Network:
    """A network, how to make its inputs, and how exactly two eager runs of it agree."""

    name: str
    make: Callable[[], nn.Layer]
    inputs: Callable[[], tuple[Any, ...]]
    quick: bool = True
    train: bool = True


def _images(size: int, channels: int = 3, batch: int = 2) -> Callable[[], tuple[Any, ...]]:
    return lambda: (paddle.randn([batch, channels, size, size]),)


_SIZES = {
    "LeNet": 28,
    "alexnet": 224,
    "googlenet": 224,
    "inception_v3": 299,
    "squeezenet1_0": 224,
    "squeezenet1_1": 224,
}
_QUICK = {
    "resnet18", "mobilenet_v1", "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x0_25", "LeNet", "densenet121",
}  # fmt: skip


def _vision() -> list[Network]:
    models = paddle.vision.models
    names = [name for name in models.__all__ if name == name.lower()]
    return [
        Network(
            name,
            getattr(models, name),
            _images(_SIZES.get(name, 64), 1 if name == "LeNet" else 3),
            quick=name in _QUICK,
            train=True,
        )
        for name in [*names, "LeNet"]
    ]


def _tokens() -> tuple[Any, ...]:
    return (paddle.randint(0, 100, [2, 12]),)


def _encoder() -> nn.Layer:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0), 2)


NETWORKS = [
    *_vision(),
    Network("transformer_encoder", _encoder, lambda: (paddle.randn([2, 7, 16]),)),
    Network("transformer", Translator, lambda: (paddle.randn([2, 6, 16]), paddle.randn([2, 5, 16]))),
    Network("lstm_classifier", Classifier, _tokens),
    Network("gpt_decoder", Decoder, _tokens),
    Network("unet", UNet, _images(32)),
]


def outputs_of(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


def difference(a: Any, b: Any) -> float:
    """The largest difference of two results, as a part of the largest number in a result where that is above one.

    Infinite when shapes or dtypes differ, or only one has a NaN or infinity somewhere.
    """
    worst = 0.0
    for x, y in zip(outputs_of(a), outputs_of(b), strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            return float("inf")
        x, y = x.numpy().astype("float64"), y.numpy().astype("float64")
        if not np.array_equal(x, y, equal_nan=True):
            largest = float(np.abs(x - y).max()) / max(1.0, float(np.abs(x).max()))
            worst = max(worst, largest if np.isfinite(largest) else float("inf"))
    return worst


def infer(net: nn.Layer, inputs: tuple[Any, ...]) -> Any:
    net.eval()
    with paddle.no_grad():
        return net(*inputs)


def train(net: nn.Layer, inputs: tuple[Any, ...], steps: int = 5) -> list[Any]:
    """Five SGD steps: the losses, then all parameters and buffers."""
    net.train()
    paddle.seed(7)
    optimizer = paddle.optimizer.SGD(0.01, parameters=net.parameters())
    losses = []
    for _ in range(steps):
        loss = sum((output.astype("float32") ** 2).mean() for output in outputs_of(net(*inputs)))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.detach())
    return [*losses, *(value.detach() for value in net.state_dict().values())]


def one_step(net: nn.Layer, inputs: tuple[Any, ...]) -> list[Any]:
    """The loss, all gradients, and the buffers after one pass."""
    net.train()
    paddle.seed(7)
    loss = sum((output**2).mean() for output in outputs_of(net(*inputs)))
    loss.backward()
    gradients = [value.grad for value in net.parameters() if value.grad is not None]
    # Paddle's LSTM has an empty buffer that a copy of the layer does not copy.
    statistics = [value for value in net.buffers() if value.size and value.ndim]
    return [loss.detach(), *gradients, *statistics]


def relative_difference(a: Any, b: Any) -> float:
    """The largest difference in any tensor, in parts of its largest number (and of 0.001 at least)."""
    worst = 0.0
    for x, y in zip(a, b, strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            return float("inf")
        x, y = x.numpy().astype("float64"), y.numpy().astype("float64")
        worst = max(worst, float(np.abs(x - y).max() / (np.abs(x).max() + 1e-3)))
    return worst


def pair(network: Network, wrap: Callable[[nn.Layer], nn.Layer]) -> tuple[nn.Layer, nn.Layer, tuple[Any, ...]]:
    """The same network twice, eager and wrapped, and inputs."""
    paddle.seed(3)
    net = network.make()
    return net, wrap(copy.deepcopy(net)), network.inputs()
