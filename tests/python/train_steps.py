"""Train steps of small networks, and all that they leave behind, for tests of what follows a backward."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn, optimizer
from paddle.nn import functional as F
from paddle.regularizer import L2Decay

# Calls until the states are made and the step is prepared.
FIRST = 2


class Convolutions(nn.Layer):
    def __init__(self):
        super().__init__()
        self.convolution, self.norm, self.head = nn.Conv2D(2, 4, 3, padding=1), nn.BatchNorm2D(4), nn.Linear(4, 3)

    def forward(self, x):
        x = F.relu(self.norm(self.convolution(x.reshape([-1, 2, 2, 3]))))
        return self.head(x.mean([2, 3]))


class Tied(nn.Layer):
    def __init__(self):
        super().__init__()
        self.weight, self.shift = self.create_parameter([12, 12]), self.create_parameter([12])
        self.unused = self.create_parameter([3])

    def forward(self, x):
        for _ in range(3):
            x = F.gelu(x @ self.weight + self.shift)
        return x[:, :3] * self.shift[:3] + x[:, 3:6]


class Attention(nn.Layer):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.encoder(x.reshape([-1, 3, 4])).mean(1))


def perceptron():
    return nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))


def step(net, updates, x, y):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    updates.step()
    updates.clear_grad()
    return loss


def sgd(net):
    return optimizer.SGD(0.1, parameters=net.parameters(), weight_decay=L2Decay(1e-2))


def momentum(net):
    net.parameters()[0].regularizer = L2Decay(0.1)
    return optimizer.Momentum(0.1, 0.8, net.parameters(), use_nesterov=True, weight_decay=1e-2)


def adam(net):
    net.parameters()[-1].optimize_attr["learning_rate"] = 0.5
    return optimizer.Adam(0.01, 0.7, 0.9, 1e-6, parameters=net.parameters(), amsgrad=True)


def adamw(net):
    net.parameters()[1].need_clip = False
    schedule, clip = optimizer.lr.StepDecay(0.01, 2), nn.ClipGradByGlobalNorm(0.3)
    return optimizer.AdamW(schedule, parameters=net.parameters(), weight_decay=0.1, grad_clip=clip)


def described(value):
    if value is None:
        return None
    if isinstance(value, tuple):
        return [described(each) for each in value]
    return value.tolist(), value.stop_gradient, value.is_leaf, value.inplace_version


def state(net, updates):
    """All that a step leaves behind; names of states differ between networks."""
    states = [value.tolist() for table in updates._accumulators.values() for value in table.values()]
    rates = [value.tolist() for value in updates._learning_rate_map.values()]
    held = [described(each) for each in (*net.parameters(), *net.buffers())]
    # What gradients count is known to differ.
    gradients = [
        None if each.grad is None else (described(each.grad)[:3], each.grad.shape) for each in net.parameters()
    ]
    return states, rates, held, gradients, updates.get_lr()


def given(number, dtype="float32"):
    paddle.seed(number)
    return paddle.randn([4, 12]).astype(dtype), paddle.randint(0, 3, [4])


def run(step, make, optimize, calls=7, between=None, dtype="float32", **options):
    """What calls answer and leave behind, in eager mode and translated; the translated function.

    `between` does something in front of each call; what it answers is compared too.
    """
    answers, translated = [], translate(step, min_graph_size=0, **options)
    for function in (step, translated):
        paddle.seed(0)
        net = make().to(dtype=dtype)
        updates = optimize(net)
        seen = []
        for number in range(calls):
            if between is not None:
                seen.append(between(number, net, updates))
            result = function(net, updates, *given(number, dtype))
            seen.append((described(result), state(net, updates)))
        answers.append(seen)
    return answers, translated


def check(answers, translated, whole):
    assert answers[0] == answers[1]
    stats = sot.stats(translated)
    assert stats.graph_breaks == []
    assert stats.fallbacks == []
    assert stats.whole_steps == whole


def around_an_error(step, after):
    """What eager mode and a translation show of eight calls, of which one is given a label that there is not."""
    answers = []
    for function in (step, translate(step, min_graph_size=0)):
        paddle.seed(0)
        net = perceptron()
        updates = adamw(net)
        seen = []
        for number in range(8):
            x, y = given(number)
            if number == after:
                y[1] = 7
                with pytest.raises(Exception) as caught:  # noqa: PT011 - Paddle's own
                    function(net, updates, x, y)
                seen.append((caught.type, state(net, updates)))
                continue
            seen.append((described(function(net, updates, x, y)), state(net, updates)))
        answers.append(seen)
    return answers
