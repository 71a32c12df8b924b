"""Models as users write them, compared with eager mode over several calls, with their graphs and breaks stated.

Every test builds the model twice from one seed. The graphs and breaks in a test are what the engine takes today: more
is a regression, fewer (which is progress) should replace them.
"""

from __future__ import annotations

import collections
import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, _Picture, difference, tensor, translate
from paddle import nn
from paddle.distributed.fleet.utils import recompute


def same(a: Any, b: Any, what: str) -> None:
    found = difference(_Picture().of(a), _Picture().of(b), close=True)
    assert found is None, f"{what}, eager and translated: {found}"


def takes(record: Any, graphs: int, breaks: int, fallbacks: int = 0) -> None:
    if IDENTITY:
        return
    found = (record.graphs, sum(it.count for it in record.graph_breaks), len(record.fallbacks))
    stated = (graphs, breaks, fallbacks)
    assert all(a <= b for a, b in zip(found, stated, strict=True)), record


def losses(value: Any) -> list[paddle.Tensor]:
    """The tensors of a result that a loss can be made of."""
    if isinstance(value, paddle.Tensor):
        return [] if value.stop_gradient else [value]
    if dataclasses.is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in losses(item)] if isinstance(value, list | tuple) else []


def compare(
    build: Callable[[], nn.Layer],
    inputs: list[tuple[Any, ...]],
    graphs: int,
    breaks: int,
    fallbacks: int = 0,
    train: bool = True,
) -> tuple[nn.Layer, Any]:
    """One step per entry of `inputs`: forward, backward, SGD; outputs, gradients and state are compared after each."""
    nets = []
    for _ in range(2):
        paddle.seed(7)
        nets.append(build())
    plain, net = nets
    net = translate(net)
    steps = [paddle.optimizer.SGD(0.05, parameters=n.parameters()) for n in nets] if train else []
    for number, args in enumerate(inputs):
        for layer in nets:
            layer.train() if train else layer.eval()
        results = []
        for at, layer in enumerate((plain, net)):
            paddle.seed(number)
            result = layer(*args)
            if train and (roots := losses(result)):
                sum(root.astype("float32").square().mean() for root in roots).backward()
            grads = [None if p.grad is None else p.grad.numpy() for p in layer.parameters()]
            results.append((result, grads, list(layer.state_dict().values())))
            if train:
                steps[at].step()
                steps[at].clear_grad()
        same(*results, f"step {number}")
    record = None if IDENTITY else sot.stats(net)
    takes(record, graphs, breaks, fallbacks)
    return net, record


# A detector head: what is found decides what is executed.


class Detector(nn.Layer):
    def __init__(self, classes=3):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2D(3, 8, 3, padding=1), nn.BatchNorm2D(8), nn.ReLU())
        self.score = nn.Conv2D(8, classes, 1)
        self.box = nn.Conv2D(8, 4, 1)
        self.threshold = 0.6

    def forward(self, image):
        features = self.stem(image)
        scores = F.sigmoid(self.score(features)).transpose([0, 2, 3, 1]).reshape([-1, 3])
        boxes = self.box(features).transpose([0, 2, 3, 1]).reshape([-1, 4])
        best = scores.max(axis=1)
        keep = paddle.nonzero(best > self.threshold).flatten()
        if keep.shape[0] == 0:
            return {"boxes": paddle.zeros([0, 4]), "scores": paddle.zeros([0]), "labels": []}
        found = paddle.gather(boxes, keep)
        kept = paddle.gather(best, keep)
        order = paddle.argsort(kept, descending=True)[:5]
        labels = [int(label) for label in scores.argmax(axis=1)[keep][order]]
        return {"boxes": found[order], "scores": kept[order], "labels": labels}


def test_detector_head():
    images = [(tensor(1, 3, 6, 6, seed=seed) * scale,) for seed, scale in enumerate([1, 1, 0.0, 2, 0.0, 1])]
    # Before 3.12 the comprehension is a function of its own, which is translated and breaks by
    # itself.
    graphs, breaks = (6, 10) if sys.version_info >= (3, 12) else (8, 14)
    compare(Detector, images, graphs=graphs, breaks=breaks)


# A mixture of experts: the data decides which expert sees which rows.


class Experts(nn.Layer):
    def __init__(self, width=6, experts=3):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.LayerList(
            [nn.Sequential(nn.Linear(width, 8), nn.GELU(), nn.Linear(8, width)) for _ in range(experts)]
        )

    def forward(self, x):
        weights = F.softmax(self.gate(x), axis=-1)
        weight, choice = weights.topk(1, axis=-1)
        choice = choice.flatten()
        out = paddle.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = paddle.nonzero(choice == number).flatten()
            if rows.shape[0] == 0:
                continue
            part = expert(paddle.gather(x, rows)) * paddle.gather(weight, rows)
            out = paddle.scatter_nd_add(out, rows.unsqueeze(-1), part)
        return out


def test_mixture_of_experts():
    rows = [(tensor(7, 6, seed=seed),) for seed in range(4)] + [(tensor(1, 6, seed=9),), (tensor(2, 6, seed=10),)]
    compare(Experts, rows, graphs=17, breaks=18)


# Sequence to sequence, with the teacher's tokens or the model's own.


class Seq2Seq(nn.Layer):
    def __init__(self, words=11, width=8):
        super().__init__()
        self.source = nn.Embedding(words, width)
        self.target = nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width)
        self.cell = nn.GRUCell(width, width)
        self.out = nn.Linear(width, words)

    def forward(self, source, target, forced):
        memory, state = self.encoder(self.source(source))
        state = state[0]
        token = target[:, 0]
        logits = []
        for step in range(1, target.shape[1]):
            attention = F.softmax(paddle.bmm(memory, state.unsqueeze(-1)), axis=1)
            state = state + (memory * attention).sum(axis=1)
            output, state = self.cell(self.target(token), state)
            word = self.out(output)
            logits.append(word)
            token = target[:, step] if forced[step - 1] else word.argmax(axis=-1)
        return paddle.stack(logits, axis=1)


def test_sequence_to_sequence_with_teacher_forcing():
    words = np.random.default_rng(0)
    source = paddle.to_tensor(words.integers(0, 11, [2, 5]))
    target = paddle.to_tensor(words.integers(0, 11, [2, 4]))
    forced = [(True, True, True), (True, True, True), (True, False, True), (False, False, False), (True, True, True)]
    compare(Seq2Seq, [(source, target, flags) for flags in forced], graphs=3, breaks=0)


# Greedy decoding with a cache of keys and values, until every row has ended.


class Decoder(nn.Layer):
    def __init__(self, words=13, width=8, heads=2):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(32, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, words)
        self.heads = heads

    def attend(self, x, cache):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, axis=-1)
        q, k, v = (t.reshape([batch, length, self.heads, -1]).transpose([0, 2, 1, 3]) for t in (q, k, v))
        if cache is not None:
            k, v = paddle.concat([cache[0], k], axis=2), paddle.concat([cache[1], v], axis=2)
        weights = F.softmax(paddle.matmul(q, k, transpose_y=True) / (width // self.heads) ** 0.5, axis=-1)
        return paddle.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([batch, length, width]), (k, v)

    def step(self, tokens, at, cache):
        x = self.words(tokens) + self.places(paddle.arange(at, at + tokens.shape[1]))
        x, cache = self.attend(x, cache)
        return self.out(x)[:, -1], cache

    def forward(self, prompt, longest=8, end=3):
        tokens, cache, at = prompt, None, 0
        ended = paddle.zeros([prompt.shape[0]], dtype="bool")
        chosen = []
        for _ in range(longest):
            logits, cache = self.step(tokens, at, cache)
            at += tokens.shape[1]
            word = logits.argmax(axis=-1)
            word = paddle.where(ended, paddle.full_like(word, end), word)
            chosen.append(word)
            ended = paddle.logical_or(ended, word == end)
            if ended.all():
                break
            tokens = word.unsqueeze(-1)
        return paddle.stack(chosen, axis=1), at


def test_greedy_decoding_with_a_cache_and_an_early_stop():
    words = np.random.default_rng(3)
    prompts = [(paddle.to_tensor(words.integers(0, 13, [1, 4])), 12, end) for end in (3, 3, 5, 7, 1, 3)]
    # One translation for each place in the sequence: the place is a number that `arange` takes.
    compare(Decoder, prompts, graphs=39, breaks=37, train=False)


# A GAN: both optimizers step inside of the translated function.


class Gan:
    def __init__(self):
        paddle.seed(3)
        self.generator = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 2))
        self.critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
        self.slow = paddle.optimizer.Adam(0.01, parameters=self.generator.parameters())
        self.fast = paddle.optimizer.Adam(0.02, parameters=self.critic.parameters())

    def state(self):
        networks = [list(net.state_dict().values()) for net in (self.generator, self.critic)]
        moments = [list(optimizer.state_dict().values()) for optimizer in (self.slow, self.fast)]
        return networks, moments


def gan_step(gan, real, noise):
    one, zero = paddle.ones([real.shape[0], 1]), paddle.zeros([real.shape[0], 1])
    fake = gan.generator(noise)
    loss = F.binary_cross_entropy_with_logits(gan.critic(real), one)
    loss = loss + F.binary_cross_entropy_with_logits(gan.critic(fake.detach()), zero)
    loss.backward()
    gan.fast.step()
    gan.fast.clear_grad()
    fooled = F.binary_cross_entropy_with_logits(gan.critic(fake), one)
    fooled.backward()
    gan.slow.step()
    gan.slow.clear_grad()
    gan.fast.clear_grad()
    return loss, fooled


def test_gan_step_with_both_optimizers_inside():
    plain, other = Gan(), Gan()
    step = translate(gan_step)
    for number in range(5):
        real, noise = tensor(4, 2, seed=number), tensor(4, 4, seed=100 + number)
        same((gan_step(plain, real, noise), plain.state()), (step(other, real, noise), other.state()), f"step {number}")
    takes(None if IDENTITY else sot.stats(step), graphs=2, breaks=7)


def train_step(net, optimizer, x, y):
    optimizer.clear_grad()
    loss = F.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize("kind", ["SGD", "Momentum", "Adam", "AdamW"])
def test_training_step_inside(kind):
    results = []
    record = None
    for wrap in (lambda f: f, translate):
        paddle.seed(5)
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1D(4), nn.ReLU(), nn.Linear(4, 1))
        optimizer = getattr(paddle.optimizer, kind)(
            learning_rate=paddle.optimizer.lr.StepDecay(0.1, 2), parameters=net.parameters(), weight_decay=0.01
        )
        step = wrap(train_step)
        out = []
        for number in range(5):
            loss = step(net, optimizer, tensor(4, 3, seed=number), tensor(4, 1, seed=50 + number))
            optimizer._learning_rate.step()
            out.append((loss.numpy(), [v.numpy() for v in net.state_dict().values()]))
        results.append(out)
        record = None if wrap is not translate or IDENTITY else sot.stats(step)
    same(*results, kind)
    takes(record, graphs=1, breaks=3)


# Through numpy and back.


class Anchors(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        grid = np.linspace(0.0, 1.0, 4, dtype="float32")
        limits = np.percentile(y.detach().numpy(), [10, 90]).astype("float32")
        y = paddle.clip(y, float(limits[0]), float(limits[1]))
        return y * paddle.to_tensor(grid) + paddle.to_tensor(limits).mean()


def test_numpy_round_trip():
    compare(Anchors, [(tensor(3, 4, seed=seed),) for seed in range(5)], graphs=9, breaks=15)


# What models return.


@dataclasses.dataclass
class Output:
    logits: paddle.Tensor
    hidden: list[paddle.Tensor] = dataclasses.field(default_factory=list)
    loss: paddle.Tensor | None = None

    @property
    def best(self):
        return self.logits.argmax(-1)


Named = collections.namedtuple("Named", "logits hidden")


class Ordered(collections.OrderedDict):
    """As the outputs of model libraries: keys are attributes too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Returns(nn.Layer):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x, kind):
        hidden = F.relu(self.one(x))
        logits = self.two(hidden)
        if kind == "dataclass":
            out = Output(logits, [x, hidden])
            out.loss = logits.mean()
            return out
        if kind == "namedtuple":
            return Named(logits, hidden=hidden)._replace(logits=logits * 2)
        if kind in ("ordered", "ordered with attributes"):
            out = Ordered(logits=logits) if "with" in kind else collections.OrderedDict(logits=logits)
            out["hidden"] = hidden
            out.move_to_end("logits")
            return out
        out = collections.defaultdict(list)
        out["hidden"].append(hidden)
        out["hidden"] += [logits]
        return dict(out, same=hidden)


@pytest.mark.parametrize(
    ("kind", "breaks"),
    [("dataclass", 0), ("namedtuple", 0), ("ordered", 0), ("ordered with attributes", 3), ("dict", 0)],
)
def test_kinds_of_results(kind, breaks):
    compare(Returns, [(tensor(2, 3, seed=seed), kind) for seed in range(3)], graphs=1, breaks=breaks)


# Hooks.


class Hooked(nn.Layer):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
        self.seen = []
        self.one.register_forward_pre_hook(self.before)
        self.one.register_forward_post_hook(self.after)
        self.two.register_forward_post_hook(lambda layer, inputs, output: self.seen.append(output.shape))

    def before(self, layer, inputs):
        return (inputs[0] * 2,)

    def after(self, layer, inputs, output):
        self.seen.append(len(inputs))
        return output + inputs[0]

    def forward(self, x):
        return self.two(F.relu(self.one(x)))


def test_forward_hooks():
    net, _ = compare(Hooked, [(tensor(2, 3, seed=seed),) for seed in range(4)], graphs=1, breaks=0)
    assert net.seen == [1, [2, 3]] * 4


def test_hooks_of_the_translated_layer_itself():
    def build():
        net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        net.register_forward_pre_hook(lambda layer, inputs: (inputs[0] + 1,))
        net.register_forward_post_hook(lambda layer, inputs, output: {"out": output, "in": inputs[0]})
        return net

    compare(build, [(tensor(2, 3, seed=seed),) for seed in range(3)], graphs=1, breaks=0)


def test_a_tensor_hook_sees_the_gradient():
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.one, self.norms = nn.Linear(3, 3), []

        def forward(self, x):
            y = self.one(x)
            y.register_hook(lambda grad: self.norms.append(round(float(grad.norm()), 4)))
            return y * 2

    net, _ = compare(Net, [(tensor(2, 3, seed=seed),) for seed in range(3)], graphs=2, breaks=1)
    assert len(net.norms) == 3


# Arguments handed on.


class Attention(nn.Layer):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, *, mask=None, scale=1.0, **unused):
        y = self.proj(x) * scale
        return (y if mask is None else y * mask), unused


class Block(nn.Layer):
    def __init__(self):
        super().__init__()
        self.attention = Attention()

    def forward(self, x, **kwargs):
        out, rest = self.attention(x, **{"scale": 0.5, **kwargs})
        return x + out, rest


class Chain(nn.Layer):
    def __init__(self):
        super().__init__()
        self.blocks = nn.LayerList([Block() for _ in range(3)])

    def forward(self, x, *args, **kwargs):
        for number, block in enumerate(self.blocks):
            x, rest = block(x, **kwargs, number=number)
        return x, rest, len(args)


def test_chains_of_keyword_arguments():
    plain, net = Chain(), Chain()
    net.set_state_dict(plain.state_dict())
    net = translate(net)
    mask = (tensor(2, 4) > 0).astype("float32")
    for kwargs in [{}, {"mask": mask}, {"mask": mask, "scale": 2.0}, {"other": "x"}, {}, {"mask": None}]:
        x = tensor(2, 4, seed=len(kwargs))
        same(plain(x, 1, **kwargs), net(x, 1, **kwargs), str(kwargs))
    takes(None if IDENTITY else sot.stats(net), graphs=5, breaks=0)


# Training loops.


def test_gradient_accumulation():
    results, record = [], None
    for wrap in (lambda f: f, translate):
        paddle.seed(1)
        net = wrap(nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)))
        optimizer = paddle.optimizer.Momentum(0.1, parameters=net.parameters())
        out = []
        for number in range(8):
            loss = net(tensor(2, 3, seed=number)).square().mean() / 4
            loss.backward()
            out.append([p.grad.numpy() for p in net.parameters()])
            if number % 4 == 3:
                optimizer.step()
                optimizer.clear_grad()
            out.append([p.numpy() for p in net.parameters()])
        results.append(out)
        record = None if wrap is not translate or IDENTITY else sot.stats(net)
    same(*results, "gradients")
    takes(record, graphs=1, breaks=0)


def accumulate(net, optimizer, batches):
    total = 0.0
    for x in batches:
        loss = net(x).square().mean() / len(batches)
        loss.backward()
        total = total + loss.detach()
    optimizer.step()
    optimizer.clear_grad()
    return total


def test_gradient_accumulation_inside():
    results, record = [], None
    for wrap in (lambda f: f, translate):
        paddle.seed(1)
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
        optimizer = paddle.optimizer.Momentum(0.1, parameters=net.parameters())
        step, out = wrap(accumulate), []
        for number in range(4):
            total = step(net, optimizer, [tensor(2, 3, seed=3 * number + k) for k in range(3)])
            out.append((total.numpy(), [p.numpy() for p in net.parameters()]))
        results.append(out)
        record = None if wrap is not translate or IDENTITY else sot.stats(step)
    same(*results, "parameters")
    takes(record, graphs=5, breaks=7)


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing(reentrant):
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.blocks = nn.LayerList([nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3), nn.Tanh()) for _ in range(3)])
            self.head = nn.Linear(4, 2)

        def forward(self, x):
            for block in self.blocks:
                x = recompute(block, x, use_reentrant=reentrant) if self.training else block(x)
            return self.head(x)

    def inputs(seed):
        x = tensor(3, 4, seed=seed)
        x.stop_gradient = False
        return (x,)

    # What autograd saves is looked at, without reentrance: the blocks run as they are.
    compare(Net, [inputs(seed) for seed in range(4)], graphs=4, breaks=3, fallbacks=0 if reentrant else 3)


class Tied(nn.Layer):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 4)
        self.body = nn.Linear(4, 4)
        self.out = nn.Linear(4, 4)
        self.out.weight = self.body.weight

    def forward(self, tokens):
        x = self.out(F.relu(self.body(self.words(tokens))))
        return paddle.matmul(x, self.words.weight, transpose_y=True)


def test_tied_weights():
    words = np.random.default_rng(5)
    compare(Tied, [(paddle.to_tensor(words.integers(0, 9, [2, 3])),) for _ in range(4)], graphs=1, breaks=0)


# Buffers that forward changes.


class Moving(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("mean", paddle.zeros([3]))
        self.register_buffer("steps", paddle.zeros([], dtype="int64"))
        self.calls = 0

    def forward(self, x):
        y = self.linear(x)
        self.calls += 1
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * y.mean(axis=0).detach()
            self.steps = self.steps + 1
        return y - self.mean


class MovingInPlace(Moving):
    def forward(self, x):
        y = self.linear(x)
        if self.training:
            with paddle.no_grad():
                self.mean.set_value(0.9 * self.mean + 0.1 * y.mean(axis=0))
                self.steps.add_(paddle.ones([], dtype="int64"))
        return y - self.mean


def test_buffers_that_forward_replaces():
    net, _ = compare(Moving, [(tensor(2, 3, seed=seed),) for seed in range(4)], graphs=2, breaks=0)
    assert int(net.steps) == 4 and net.calls == 4


def test_buffers_that_forward_changes_in_place():
    net, _ = compare(MovingInPlace, [(tensor(2, 3, seed=seed),) for seed in range(4)], graphs=3, breaks=3)
    assert int(net.steps) == 4


# Mixed precision.


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_mixed_precision_with_a_scaler(level):
    results, record = [], None
    for wrap in (lambda f: f, translate):
        paddle.seed(1)
        net = wrap(nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 1)))
        optimizer = paddle.optimizer.AdamW(0.01, parameters=net.parameters())
        scaler = paddle.amp.GradScaler(init_loss_scaling=128.0)
        out = []
        for number in range(4):
            with paddle.amp.auto_cast(level=level, dtype="bfloat16"):
                y = net(tensor(4, 3, seed=number))
                loss = F.mse_loss(y.astype("float32"), tensor(4, 1, seed=number))
            scaled = scaler.scale(loss)
            scaled.backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.clear_grad()
            out.append((str(y.dtype), loss.numpy(), [p.numpy() for p in net.parameters()]))
        results.append(out)
        record = None if wrap is not translate or IDENTITY else sot.stats(net)
    same(*results, level)
    takes(record, graphs=1, breaks=0)


def amp_step(net, optimizer, scaler, x, y):
    with paddle.amp.auto_cast(dtype="bfloat16"):
        loss = F.mse_loss(net(x), y)
    scaler.scale(loss).backward()
    scaler.minimize(optimizer, loss)
    optimizer.clear_grad()
    return loss


def test_mixed_precision_step_inside():
    results, record = [], None
    for wrap in (lambda f: f, translate):
        paddle.seed(1)
        net = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1))
        optimizer = paddle.optimizer.AdamW(0.01, parameters=net.parameters())
        scaler, step, out = paddle.amp.GradScaler(init_loss_scaling=16.0), wrap(amp_step), []
        for number in range(4):
            loss = step(net, optimizer, scaler, tensor(4, 3, seed=number), tensor(4, 1, seed=number))
            out.append((loss.numpy(), [p.numpy() for p in net.parameters()]))
        results.append(out)
        record = None if wrap is not translate or IDENTITY else sot.stats(step)
    same(*results, "step")
    takes(record, graphs=1, breaks=3)


# What went wrong once.


class Heads(nn.Layer):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        return self.one(x), self.two(x)


def test_backward_through_each_of_two_heads():
    results = []
    for wrap in (lambda net: net, translate):
        paddle.seed(4)
        net = wrap(Heads())
        first, second = net(tensor(2, 3))
        first.sum().backward()
        assert net.two.weight.grad is None
        second.square().sum().backward()
        results.append([p.grad.numpy() for p in net.parameters()])
    same(*results, "gradients")


class WithNames(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.linear.register_forward_pre_hook(self.before, with_kwargs=True)
        self.linear.register_forward_post_hook(self.after, with_kwargs=True)
        self.linear.forward = self.scaled

    def before(self, layer, inputs, names):
        return (inputs[0] + 1,), {**names, "by": names["by"] + 1}

    def after(self, layer, inputs, *rest):
        return rest[-1] * len(rest) + rest[0]["by"]

    def scaled(self, x, by):
        return F.linear(x, self.linear.weight) * by

    def forward(self, x):
        return self.linear(x, by=2)


def test_hooks_that_take_keyword_arguments():
    compare(WithNames, [(tensor(2, 3, seed=seed),) for seed in range(3)], graphs=1, breaks=0)


class Remembers(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear, self.last = nn.Linear(3, 3), None

    def forward(self, x):
        y = self.linear(x)
        self.last = y.detach()
        self.fresh = y.detach() * 2
        return y


def test_tensors_stored_on_a_layer_become_buffers():
    net, _ = compare(Remembers, [(tensor(2, 3, seed=seed),) for seed in range(4)], graphs=2, breaks=0)
    assert {"last", "fresh"} <= set(net._buffers) and "last" not in vars(net)


class Quieter(nn.Layer):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.9)

    def forward(self, x):
        self.layer.dropout1.p = self.layer.dropout2.p = self.layer.dropout.p = 0.0
        return self.layer(x)[0, 0]


def test_a_part_of_a_layer_is_changed_before_it_is_called():
    compare(Quieter, [(tensor(1, 3, 4, seed=seed),) for seed in range(2)], graphs=1, breaks=0)
