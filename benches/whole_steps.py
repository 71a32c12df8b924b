"""Whole train steps: forward, `backward()`, `step()` and `clear_grad()` in one function.

With them losses that have gradients in them.
"""

import itertools

import paddle
from paddle import nn, optimizer


def _mlp(width: int = 64) -> nn.Layer:
    return nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(width, width), nn.ReLU())))


def _transformer() -> nn.Layer:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0), 2)


# A network, the shape of its input, and an optimizer.
STEPS = {
    "MLP of 6 layers, AdamW": (_mlp, [32, 64], lambda given: optimizer.AdamW(1e-3, parameters=given)),
    # Kernels take little of it: the calls of operations do.
    "MLP of 6 layers of 16, AdamW": (
        lambda: _mlp(16),
        [8, 16],
        lambda given: optimizer.AdamW(1e-3, parameters=given),
    ),
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


def _pinn():
    """The loss of a PINN with a second derivative, and its gradients."""
    paddle.seed(0)
    sizes = [2, 32, 32, 32, 1]
    layers = [nn.Linear(*pair) for pair in itertools.pairwise(sizes)]
    network = nn.Sequential(*(layer for one in layers[:-1] for layer in (one, nn.Tanh())), layers[-1])
    x = paddle.rand([256, 2])
    x.stop_gradient = False

    def loss_of(x):
        u = network(x)
        first = paddle.grad(u.sum(), x, create_graph=True)[0]
        second = paddle.grad(first[:, :1].sum(), x, create_graph=True)[0]
        return ((first[:, 1:] + u * first[:, :1] - 0.1 * second[:, :1]) ** 2).mean()

    return loss_of, (x,)


def _penalty():
    """The loss of the critic of a WGAN-GP, and its gradients."""
    paddle.seed(0)
    critic = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))

    def loss_of(real, fake, share):
        mixed = share * real + (1 - share) * fake
        mixed.stop_gradient = False
        slope = paddle.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
        norm = paddle.sqrt((slope * slope).sum(1) + 1e-12)
        return critic(fake).mean() - critic(real).mean() + 10 * ((norm - 1) ** 2).mean()

    return loss_of, (paddle.randn([32, 64]), paddle.randn([32, 64]), paddle.rand([32, 1]))


# Losses with gradients in them.
LOSSES = {"loss of a PINN with a second derivative": _pinn, "loss of a WGAN-GP's critic": _penalty}


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
