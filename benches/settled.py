"""Calls of settled functions beside eager mode: CPU time of one thread, the two interleaved, medians of ratios.

`settled.py [ROW ...]` measures the rows whose names have one of these in them, each in a process of its own.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import contextlib
import itertools
import statistics
import subprocess
import sys
import time

import paddle
import paddle_sot_rs as sot
from paddle import nn
from paddle.autograd import PyLayer
from paddle.nn import functional

# Calls before anything is measured: functions that lose run as they are by then.
SETTLED = 80
ROUNDS = 41
# A round of one side takes about so long.
SECONDS = 0.01


def _trained(network, shape):
    """Forward and backward of a network, the gradients given up."""

    def make(wrap):
        paddle.seed(0)
        made, x = network(), paddle.randn(shape)
        called = wrap(made)

        def call():
            called(x).mean().backward()
            made.clear_gradients()

        return call

    return make


def _stepped(network, shape):
    """Forward, backward and step of an optimizer around a translated network."""

    def make(wrap):
        paddle.seed(0)
        made, x = network(), paddle.randn(shape)
        called = wrap(made)
        updates = paddle.optimizer.SGD(1e-3, parameters=made.parameters())

        def call():
            called(x).mean().backward()
            updates.step()
            updates.clear_grad()

        return call

    return make


def _called(function, *shapes):
    """Calls without gradients."""

    def make(wrap):
        paddle.seed(0)
        called, given = wrap(function), [paddle.randn(shape) for shape in shapes]

        def call():
            with paddle.no_grad():
                called(*given)

        return call

    return make


def _one_operation_trained(wrap):
    paddle.seed(0)
    x, w = paddle.randn([64]), paddle.randn([64])
    w.stop_gradient = False
    added = wrap(lambda x, w: x + w)

    def call():
        added(x, w).sum().backward()
        w.clear_gradient()

    return call


def _one_operation_no_sum(wrap):
    paddle.seed(0)
    x, w = paddle.randn([64]), paddle.randn([64])
    w.stop_gradient = False
    added = wrap(lambda x, w: x + w)

    def call():
        added(x, w).backward()
        w.clear_gradient()

    return call


def _global_weight(wrap):
    paddle.seed(0)
    x, w = paddle.randn([64]), paddle.randn([64])
    w.stop_gradient = False

    def scaled(x):
        return x * w + 1

    called = wrap(scaled)

    def call():
        called(x).backward()
        w.clear_gradient()

    return call


class _Doubled(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2 + 1

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensor()
        return grad * 2 + x * 0


class _WithPyLayer(nn.Layer):
    def __init__(self, size=32, layers=2):
        super().__init__()
        self.layers = nn.LayerList([nn.Linear(size, size) for _ in range(layers)])

    def forward(self, x):
        for layer in self.layers:
            x = functional.relu(_Doubled.apply(layer(x)))
        return x


def _numpy_round_trip(x):
    array = (x * 2).numpy()
    array = array + 1.0
    return paddle.to_tensor(array) * 3


def _numpy_in_network(x):
    x = functional.relu(x * 2 + 1)
    mask = (x.numpy() > 0.5).astype("float32")
    return (x * paddle.to_tensor(mask)).sum()


def _averages(count, shape):
    def make(wrap):
        paddle.seed(0)
        weights = [paddle.randn(shape) for _ in range(count)]
        means = [paddle.zeros(shape) for _ in range(count)]

        def averaged(weights, means, d):
            with paddle.no_grad():
                for p, e in zip(weights, means, strict=True):
                    e.scale_(d)
                    e.add_(p * (1 - d))

        called = wrap(averaged)
        return lambda: called(weights, means, 0.99)

    return make


def _averages_of_layers(wrap):
    paddle.seed(0)
    network, mean = _mlp(), _mlp()

    class Averages:
        def __init__(self):
            self.weights, self.means = network.parameters(), mean.parameters()

        def update(self):
            with paddle.no_grad():
                for p, e in zip(self.weights, self.means, strict=True):
                    e.scale_(0.99)
                    e.add_(p * 0.01)

    return wrap(Averages().update)


def _averages_assigned(count):
    def make(wrap):
        paddle.seed(0)
        weights = {f"w{i}": paddle.randn([64]) for i in range(count)}
        means = {name: paddle.zeros([64]) for name in weights}

        def averaged():
            with paddle.no_grad():
                for name, w in weights.items():
                    means[name] = means[name] * 0.99 + w * 0.01

        return wrap(averaged)

    return make


def _chained(count):
    """As many operations as are just worth a program, or one less."""

    def chain(x):
        for _ in range(count):
            x = x + 1
        return x

    return chain


def _chained_trained(count):
    def make(wrap):
        x = paddle.randn([64])
        x.stop_gradient = False
        called = wrap(_chained(count))

        def call():
            called(x).backward()
            x.clear_gradient()

        return call

    return make


def _mlp():
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.ReLU())))


class _Embeddings(nn.Layer):
    """A dictionary of embeddings."""

    def __init__(self):
        super().__init__()
        self.tables = nn.LayerDict({f"t{i}": nn.Embedding(20, 8) for i in range(8)})
        self.head = nn.Linear(64, 4)

    def forward(self, given):
        parts = [self.tables[name](given[name]) for name in self.tables.keys()]
        return self.head(paddle.concat(parts, axis=-1))


def _embeddings(wrap):
    paddle.seed(0)
    network = _Embeddings()
    given = {f"t{i}": paddle.randint(0, 20, [16]) for i in range(8)}
    called = wrap(network)

    def call():
        called(given).mean().backward()
        network.clear_gradients()

    return call


class _Recurrent(nn.Layer):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(16, 32, num_layers=2)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class _Experts(nn.Layer):
    """A sparse mixture: each expert is given the rows that chose it."""

    def __init__(self, size=32, experts=4, chosen=2):
        super().__init__()
        self.gate = nn.Linear(size, experts)
        made = (nn.Sequential(nn.Linear(size, 64), nn.ReLU(), nn.Linear(64, size)) for _ in range(experts))
        self.experts, self.chosen = nn.LayerList(list(made)), chosen

    def forward(self, x):
        weights, which = paddle.topk(functional.softmax(self.gate(x), axis=-1), self.chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        out = paddle.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, slot = paddle.where(which == number)
            if rows.shape[0] == 0:
                continue
            rows, slot = rows.flatten(), slot.flatten()
            shares = paddle.gather_nd(weights, paddle.stack([rows, slot], 1))
            given = expert(paddle.gather(x, rows)) * shares.unsqueeze(1)
            out = paddle.scatter_nd_add(out, rows.unsqueeze(1), given)
        return out


def _reinforce(wrap):
    paddle.seed(0)
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    updates = paddle.optimizer.Adam(1e-3, parameters=policy.parameters())
    states, rewards = paddle.randn([16, 4]), [1.0] * 16

    def step(states, rewards):
        logits = policy(states)
        taken = paddle.distribution.Categorical(logits)
        actions = taken.sample([1])[0]
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.insert(0, total)
        returns = paddle.to_tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-8)
        loss = -(taken.log_prob(actions) * returns).mean()
        loss.backward()
        updates.step()
        updates.clear_grad()
        return float(loss)

    called = wrap(step)
    return lambda: called(states, rewards)


def _whole_step(wrap):
    class Trainer:
        def __init__(self):
            paddle.seed(0)
            self.net = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 3))
            self.opt = paddle.optimizer.AdamW(1e-3, parameters=self.net.parameters())
            self.history, self.ema = [], None

        def step(self, x, y):
            loss = ((self.net(x) - y) ** 2).mean()
            loss.backward()
            self.opt.step()
            self.opt.clear_grad()
            value = float(loss)
            self.history.append(value)
            self.ema = value if self.ema is None else 0.9 * self.ema + 0.1 * value
            return {"ema": self.ema, "n": len(self.history), "loss": loss.detach()}

    called = wrap(Trainer().step)
    x, y = paddle.randn([8, 6]), paddle.randn([8, 3])
    return lambda: called(x, y)


def _by_hand(wrap):
    paddle.seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1D(8), nn.ReLU(), nn.Linear(8, 3))

    def step(x, y):
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        with paddle.no_grad():
            for p in net.parameters():
                if p.grad is None:
                    continue
                p.add_(p.grad * -0.1)
                p.clear_gradient()
        return loss

    called = wrap(step)
    x, y = paddle.randn([4, 6]), paddle.randint(0, 3, [4])
    return lambda: called(x, y)


def _printed(x):
    """Pieces of few operations between breaks."""
    with open(os.devnull, "w") as out:
        print(x.shape, file=out)
    return x * 2


def _rounds(x):
    """Rounds of few operations, a break in each."""
    for _ in range(4):
        x = x * 2 + 1
        if float(x.sum()) > 1e30:
            return x
    return x


ROWS = {
    "x + y": _called(lambda x, y: x + y, [64], [64]),
    "x + w, backward": _one_operation_no_sum,
    "x + w, backward of its sum": _one_operation_trained,
    "x * w + 1 of a global w, backward": _global_weight,
    "three operations": _called(lambda x, y: (x + y) * 2 - y, [64], [64]),
    "5 operations": _called(_chained(5), [64]),
    "6 operations": _called(_chained(6), [64]),
    "11 operations, training": _chained_trained(11),
    "12 operations, training": _chained_trained(12),
    "one Linear, training": _trained(lambda: nn.Linear(16, 16), [4, 16]),
    "MLP of one hidden layer": _called(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)), [4, 16]),
    "MLP of one hidden layer, training": _trained(
        lambda: nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)), [4, 16]
    ),
    "MLP of four layers, training": _trained(_mlp, [16, 64]),
    "MLP of four layers, SGD": _stepped(_mlp, [16, 64]),
    "custom PyLayer, training": _trained(_WithPyLayer, [16, 32]),
    "custom PyLayer of one layer, training": _trained(lambda: _WithPyLayer(layers=1), [16, 32]),
    "custom PyLayer of six layers, training": _trained(lambda: _WithPyLayer(layers=6), [16, 32]),
    "NumPy round trip": _called(_numpy_round_trip, [64]),
    "NumPy mask": _called(_numpy_in_network, [64]),
    "averages of 8 weights": _averages(8, [64]),
    "averages of 60 weights": _averages(60, [64]),
    "averages of 60 weights of 64x64": _averages(60, [64, 64]),
    "averages of an MLP's weights": _averages_of_layers,
    "averages of 8 weights, assigned": _averages_assigned(8),
    "averages of 60 weights, assigned": _averages_assigned(60),
    "dictionary of embeddings, training": _embeddings,
    "LSTM, training": _trained(_Recurrent, [4, 10, 16]),
    "sparse mixture of experts, training": _trained(_Experts, [16, 32]),
    "step of REINFORCE": _reinforce,
    "whole train step": _whole_step,
    "SGD by hand in the function": _by_hand,
    "break at print": _called(_printed, [64]),
    "rounds with a break": _called(_rounds, [64]),
}


def measure(title: str) -> None:
    """Prints microseconds of eager mode, and the ratio of ours to it."""
    made: list = []

    def wrapped(function):
        made.append(sot.to_static(function))
        return made[-1]

    calls = {"ours": ROWS[title](wrapped), "eager": ROWS[title](lambda function: function)}
    for call in calls.values():
        for _ in range(SETTLED):
            call()
    start = time.process_time()
    for _ in range(10):
        calls["eager"]()
    inner = max(1, int(SECONDS / max(1e-7, (time.process_time() - start) / 10)))
    ratios, eager = [], []
    for _ in range(ROUNDS):
        times = {}
        # Which comes first changes: a round is short beside what else the machine does.
        for name in itertools.chain(calls, reversed(calls)):
            start = time.process_time()
            for _ in range(inner):
                calls[name]()
            times[name] = times.get(name, 0.0) + time.process_time() - start
        ratios.append(times["ours"] / times["eager"])
        eager.append(times["eager"] / inner / 2)
    stats = sot.stats(made[0])
    why = "; ".join(f"{it.id} {it.message[:70]}" for it in stats.fallbacks)
    counts = f"{stats.translations} translations, {stats.graphs} graphs, {len(stats.graph_breaks)} breaks"
    print(
        f"| {title} | {statistics.median(eager) * 1e6:.1f} us | {statistics.median(ratios):.3f} | {counts} | {why} |",
        flush=True,
    )


def main() -> None:
    given = sys.argv[1:]
    if given[:1] == ["--here"]:
        for title in ROWS:
            if any(part in title for part in given[1:]):
                measure(title)
        return
    print("| settled | eager | ours / eager | | runs as it is |\n|---|---|---|---|---|", flush=True)
    for title in ROWS:
        if not given or any(part in title for part in given):
            with contextlib.suppress(subprocess.CalledProcessError):
                subprocess.run([sys.executable, "-W", "ignore", __file__, "--here", title], check=True)


if __name__ == "__main__":
    main()
