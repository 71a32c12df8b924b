"""Whole train steps: forward, `backward()`, `step()` and `clear_grad()` in one function."""

import paddle
from paddle import nn, optimizer


def _mlp() -> nn.Layer:
    return nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.ReLU())))


def _transformer() -> nn.Layer:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0), 2)


# A network, the shape of its input, and an optimizer.
STEPS = {
    "MLP of 6 layers, AdamW": (_mlp, [32, 64], lambda given: optimizer.AdamW(1e-3, parameters=given)),
    "MLP of 6 layers, AdamW, global norm": (
        _mlp,
        [32, 64],
        lambda given: optimizer.AdamW(1e-3, parameters=given, grad_clip=nn.ClipGradByGlobalNorm(1.0)),
    ),
    "MLP of 6 layers, Momentum": (_mlp, [32, 64], lambda given: optimizer.Momentum(1e-3, parameters=given)),
    "transformer of 2 layers, AdamW": (
        _transformer,
        [4, 16, 64],
        lambda given: optimizer.AdamW(1e-3, parameters=given),
    ),
}


def step_of(name: str):
    """A train step, and its arguments."""
    make, shape, optimizer_of = STEPS[name]
    paddle.seed(0)
    network = make()
    x, y = paddle.randn(shape), paddle.randn(shape)
    updates = optimizer_of(network.parameters())

    def step(x, y):
        loss = ((network(x) - y) ** 2).mean()
        loss.backward()
        updates.step()
        updates.clear_grad()
        return loss

    return step, (x, y)
