"""Steps of optimizers, scaling and clipping of gradients inside of a function: one native call each."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn
from paddle.nn import functional as F

OPTIMIZERS = {
    "SGD": lambda parameters: paddle.optimizer.SGD(0.1, parameters=parameters),
    "Momentum": lambda parameters: paddle.optimizer.Momentum(0.1, parameters=parameters, weight_decay=0.01),
    "AdamW": lambda parameters: paddle.optimizer.AdamW(0.1, parameters=parameters),
    "clipped": lambda parameters: paddle.optimizer.Adam(
        0.1, parameters=parameters, grad_clip=nn.ClipGradByGlobalNorm(0.1)
    ),
    "scheduled": lambda parameters: paddle.optimizer.SGD(paddle.optimizer.lr.StepDecay(0.1, 1), parameters=parameters),
}


class Trainer:
    def __init__(self, name, scales=False):
        paddle.seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.optimizer = OPTIMIZERS[name](self.net.parameters())
        self.scaler = paddle.amp.GradScaler(init_loss_scaling=16.0) if scales else None
        self.losses = []

    def step(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        if self.scaler is None:
            loss.backward()
            self.optimizer.step()
        else:
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.clear_grad()
        self.losses.append(float(loss))
        return loss.detach()

    def state(self):
        return [parameter.tolist() for parameter in self.net.parameters()], self.losses


@pytest.mark.parametrize("scales", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_equals_eager(name, scales):
    paddle.seed(1)
    data = [(paddle.randn([3, 4]), paddle.randn([3, 2])) for _ in range(5)]
    one, other = Trainer(name, scales), Trainer(name, scales)
    step = translate(other.step)
    for x, y in data:
        assert step(x, y).tolist() == one.step(x, y).tolist()
    assert other.state() == one.state()
    stats = sot.stats(step)
    assert not any("works on gradients" in found.message for found in stats.graph_breaks)
    assert not any("optimizer/" in found.file for found in stats.graph_breaks)
    assert stats.fallbacks == []


def test_a_subclass_of_the_users_is_followed():
    class Own(paddle.optimizer.SGD):
        def step(self):
            self.count = getattr(self, "count", 0) + 1
            super().step()

    net = nn.Linear(2, 2)
    optimizer = Own(0.1, parameters=net.parameters())

    def step(x):
        net(x).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
        return net.weight.sum()

    translated = translate(step)
    before = net.weight.numpy()
    for _ in range(3):
        translated(paddle.ones([1, 2]))
    assert optimizer.count == 3
    assert net.weight.numpy() == pytest.approx(before - 0.3)


def test_a_scheduler_is_followed():
    scheduler = paddle.optimizer.lr.StepDecay(0.5, 1)

    def scaled(x):
        scheduler.step()
        return x * scheduler.get_lr()

    expected = paddle.optimizer.lr.StepDecay(0.5, 1)
    translated = translate(scaled)
    for _ in range(3):
        expected.step()
        assert translated(paddle.ones([2])).tolist() == (paddle.ones([2]) * expected.get_lr()).tolist()
    assert not any("works on gradients" in found.message for found in sot.stats(translated).graph_breaks)


def test_the_end_of_a_step_that_differs_each_time_is_left_alone():
    trainer = Trainer("SGD")

    def step(x, y):
        trainer.step(x, y)
        return {"steps": len(trainer.losses), "last": x.detach()}

    translated = sot.to_static(step)
    x, y = paddle.ones([3, 4]), paddle.ones([3, 2])
    for number in range(40):
        assert translated(x, y)["steps"] == number + 1
    stats = sot.stats(translated)
    assert stats.translations < 24
    # Later on all of the step is: its pieces are small.
    assert all("too small" in found.message for found in stats.fallbacks)
