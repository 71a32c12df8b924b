"""Results of a graph that others are computed from: what is put on them outside sees all of their gradient."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, tensor
from paddle import nn

# What is done with a graph does not depend on the version of Python.
pytestmark = [pytest.mark.default_python, pytest.mark.filterwarnings("ignore")]


class Heads(nn.Layer):
    """Features, scores and a loss of both."""

    def __init__(self, dropout=0.0, norm=False):
        super().__init__()
        self.body, self.neck, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.norm = nn.BatchNorm1D(4) if norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        features = self.norm((self.body(x).tanh() * 2).sin())
        hidden = (self.dropout(self.neck(features)).tanh() * features).exp()
        scores = self.head(self.norm(hidden))
        loss = (features * hidden).mean() + scores.square().mean().exp()
        return features, scores, loss


def twins(build, **settings):
    paddle.seed(5)
    plain = build()
    net = build()
    net.set_state_dict(plain.state_dict())
    sot.to_static(net, **{"min_graph_size": 0, **settings})
    return plain, net


def same(a, b):
    assert len(a) == len(b)
    for one, other in zip(a, b, strict=True):
        if one is None or other is None:
            assert one is other
        else:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def numbers(tensors):
    return [None if t is None else t.numpy() for t in tensors]


def hooked(features, scores, loss):
    seen = []

    def change(gradient):
        seen.append(gradient.numpy())
        return gradient * 3

    features.register_hook(change)
    scores.retain_grads()
    features.retain_grads()
    loss.backward()
    return [*seen, features.grad.numpy(), scores.grad.numpy()]


def one_after_the_other(features, scores, loss):
    scores.sum().backward(retain_graph=True)
    loss.backward()
    return []


def only_the_first(features, scores, loss):
    features.square().sum().backward()
    return []


def gradients_of_results(features, scores, loss):
    found = paddle.grad([loss], [features, scores], retain_graph=True)
    return numbers(found)


def gradients_of_gradients(features, scores, loss):
    (found,) = paddle.grad([loss], [features], create_graph=True)
    found.square().sum().backward()
    return [found.numpy()]


USES = [hooked, one_after_the_other, only_the_first, gradients_of_results, gradients_of_gradients]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@pytest.mark.parametrize("backend", ["paddle", "eager", "pylayer"])
def test_uses(use, backend):
    plain, net = twins(Heads, backend=backend)
    for seed in range(3):
        found = []
        for one in (plain, net):
            x = tensor(3, 4, seed=seed, grad=True)
            results = one(x)
            seen = use(*results)
            found.append([*seen, *numbers(results), *numbers([x.grad, *(p.grad for p in one.parameters())])])
            one.clear_gradients(set_to_zero=False)
        same(*found)
    stats = sot.stats(net)
    assert (stats.graphs, stats.graph_breaks, stats.translations) == (1, [], 1)


def test_the_programs():
    _, net = twins(Heads)
    x = tensor(3, 4, grad=True)
    net(x)
    (graph,) = net.forward.graphs()
    # Features, scores, and the loss.
    assert graph.program.count("builtin.shadow_output") >= 3
    assert graph.report[0].startswith("3 parts, one after the other, of which 3 are programs")
    with paddle.no_grad():
        net(x)
    graph = net.forward.graphs()[-1]
    assert not graph.report


def test_small_parts_run_call_by_call_as_small_graphs_do():
    class Deep(nn.Layer):
        def __init__(self):
            super().__init__()
            self.deep = nn.Sequential(*[nn.Linear(4, 4) for _ in range(8)])
            self.head = nn.Linear(4, 2)

        def forward(self, x):
            features = self.deep(x)
            return features, self.head(features).tanh().square().mean()

    plain, net = twins(Deep, min_graph_size=None, compile_at_call=1)
    found = []
    for one in (plain, net):
        x = tensor(3, 4, grad=True)
        features, loss = one(x)
        features.retain_grads()
        loss.backward()
        found.append(numbers([features, loss, features.grad, x.grad, *(p.grad for p in one.parameters())]))
    same(*found)
    (graph,) = net.forward.graphs()
    assert graph.report[0].startswith("2 parts, one after the other, of which 1 are programs")


@pytest.mark.parametrize("train", [True, False])
def test_random_numbers_and_running_statistics_stay_in_order(train):
    plain, net = twins(lambda: Heads(0.5, norm=True))
    for one in (plain, net):
        one.train() if train else one.eval()
    for seed in range(4):
        found = []
        for one in (plain, net):
            paddle.seed(seed)
            x = tensor(6, 4, seed=seed, grad=True)
            features, scores, loss = one(x)
            features.retain_grads()
            loss.backward()
            parts = [features, scores, loss, features.grad, x.grad, paddle.rand([2])]
            found.append(numbers([*parts, *(p.grad for p in one.parameters()), *one.state_dict().values()]))
            one.clear_gradients(set_to_zero=False)
        same(*found)
    assert (sot.stats(net).graphs, sot.stats(net).graph_breaks) == (1, [])


DRAWS = {
    "gaussian": lambda x: paddle.tensor.random.gaussian([3, 4]),
    "pca_lowrank": lambda x: paddle.linalg.pca_lowrank(x.detach(), q=2)[1].sum(),
    "svd_lowrank": lambda x: paddle.linalg.svd_lowrank(x.detach(), q=2)[0].sum(),
}


@pytest.mark.parametrize("name", DRAWS)
def test_what_draws_is_known_by_its_operations(name):
    """Its numbers come before those of what is called later, whatever it is called."""
    draw = DRAWS[name]

    def function(x):
        t = draw(x)
        a = nn.functional.dropout(x, 0.5)
        return a, (x * 2).exp() + t

    check(function, tensor(3, 4, grad=True), graphs=1, breaks=0)


def test_every_state_of_a_stack_of_layers():
    class Stack(nn.Layer):
        def __init__(self):
            super().__init__()
            self.layers = nn.LayerList([nn.Linear(4, 4) for _ in range(4)])

        def forward(self, x, mask):
            states, kept = [x], mask.astype("float32") * 2 + 1
            for layer in self.layers:
                states.append((layer(states[-1]).tanh() * kept).sin())
            return states[1:], mask + 1

    plain, net = twins(Stack)
    mask = paddle.to_tensor([1, 0, 1, 1])
    for rows in (2, 3, 5, 2):
        found = []
        for one in (plain, net):
            x = tensor(rows, 4, seed=rows, grad=True)
            states, other = one(x, mask)
            for state in states:
                state.retain_grads()
            states[1].sum().backward(retain_graph=True)
            states[3].square().sum().backward()
            found.append(numbers([*states, other, *(state.grad for state in states), x.grad]))
            one.clear_gradients(set_to_zero=False)
        same(*found)
    stats = sot.stats(net)
    assert (stats.graphs, stats.graph_breaks, stats.translations) == (2, [], 2)


def test_what_needs_no_gradient_is_no_reason():
    """Labels that are read off the scores are in the same program."""

    def function(x, w):
        scores = (x @ w).tanh() * 2
        return scores, scores.argmax(-1), scores.detach().exp().sum()

    translated = sot.to_static(function, min_graph_size=0)
    x, w = tensor(3, 4, grad=True), tensor(4, 4, seed=1, grad=True)
    for a, b in zip(function(x, w), translated(x, w), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    (graph,) = translated.graphs()
    assert not graph.report


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
def test_captured_control_flow_between_results(backend):
    def function(x, w):
        y = (x @ w).tanh()
        if y.sum() > 0:
            z = y * 2
        else:
            z = y - w
        return y, z.exp()

    translated = sot.to_static(function, min_graph_size=0, capture_control_flow=True, backend=backend)
    for sign in (1, -1, 1):
        found = []
        for one in (function, translated):
            x = paddle.to_tensor(np.ones((4, 4), "float32") * sign, stop_gradient=False)
            w = paddle.to_tensor(np.ones((4, 4), "float32"), stop_gradient=False)
            y, z = one(x, w)
            y.retain_grads()
            z.sum().backward()
            found.append(numbers([y, z, y.grad, x.grad, w.grad]))
        same(*found)
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
def test_results_that_go_backward_by_themselves(backend):
    """Zeros on the way through a result that nobody wants a gradient of would be no numbers here."""

    def function(x, w, v):
        shared = x * 1.0
        slope = (shared - shared).sqrt() * v
        return slope.sin().exp(), (shared * w).sin().exp() * 2

    translated = sot.to_static(function, min_graph_size=0, backend=backend)
    for which in (0, 1, 1):
        found = []
        for one in (function, translated):
            tensors = [tensor(2, 3, seed=seed, grad=True) for seed in range(3)]
            calls = []
            for at, given in enumerate(tensors):
                given.register_hook(lambda gradient, at=at, calls=calls: calls.append(at))
            results = one(*tensors)
            results[which].sum().backward()
            found.append((calls, numbers([t.grad for t in tensors])))
        assert sorted(found[0][0]) == sorted(found[1][0])
        same(found[0][1], found[1][1])
    (graph,) = translated.graphs()
    assert "pd_op.sqrt" in graph.program


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
def test_two_losses_without_anything_in_common(backend):
    def losses(x, w):
        return (x.tanh() * 2).sin().sum(), (w.exp() * 3).cos().sum()

    translated = sot.to_static(losses, min_graph_size=0, backend=backend)
    for one in (losses, translated):
        x, w = tensor(2, 3, grad=True), tensor(2, 3, seed=1, grad=True)
        first, second = one(x, w)
        first.backward()
        assert w.grad is None
        second.backward()
        assert x.grad is not None
        assert w.grad is not None
    (graph,) = translated.graphs()
    assert graph.report[0].startswith("2 parts, one after the other, of which 2 are programs")


@pytest.mark.parametrize("backend", ["paddle", "cinn"])
def test_towers_in_turns_with_random_numbers(backend):
    drop = nn.Dropout(0.5)

    def towers(x, w):
        a, b = (x * w).tanh(), (x + w).tanh()
        for _ in range(2):
            a, b = drop(a) * 2, drop(b) * 3
        return a.sum(), b.sum()

    translated = sot.to_static(towers, min_graph_size=0, backend=backend)
    found = []
    for one in (towers, translated):
        paddle.seed(3)
        x, w = tensor(2, 3, grad=True), tensor(2, 3, seed=1, grad=True)
        a, b = one(x, w)
        (a + b).backward()
        found.append(numbers([a, b, x.grad, w.grad]))
    same(*found)
    (graph,) = translated.graphs()
    assert graph.report[0].startswith("5 parts, one after the other, of which 3 are programs")


def sorts(a, b):
    a = a * 2
    return a, paddle.gather(b, paddle.argsort(a[:, 0])) * 3


def sorts_numbers(a, b):
    order = paddle.argsort(a[:, 0])
    return a * 2, paddle.gather(b, order) * 3, b.argmax(axis=1)[order], order[1:] + 1


@pytest.mark.parametrize("backend", ["paddle", "cinn", "pylayer", "eager"])
@pytest.mark.parametrize("function", [sorts, sorts_numbers])
def test_positions_carry_no_gradient(function, backend):
    """Eager mode says that the positions of a sort need a gradient: what they were sorted by gets none."""

    def run(call):
        a, b = tensor(3, 4, grad=True), tensor(3, 4, seed=1, grad=True)
        first, second, *numbered = call(a, b)
        second.sum().backward()
        found = numbers([a.grad, b.grad])
        first.sum().backward()
        flags = [np.array(it.stop_gradient) for it in (first, second, *numbered)]
        return [*found, *numbers([a.grad, b.grad, *numbered]), *flags]

    translated = sot.to_static(function, backend=backend, min_graph_size=0)
    same(run(function), run(translated))
    assert sot.stats(translated).fallbacks == []


def read_before(norm, x, mean):
    kept = mean() * 2
    y = norm(x)
    return y, (x * 2).exp() + kept


def read_behind(norm, x, mean):
    first = (x * 3).exp()
    y = norm(x)
    return first, y, mean() * 2


def read_for_another_result(norm, x, mean):
    first = (x * 3).exp()
    y = norm(x * 2)
    return first + mean() * 2, y


def read_between(norm, x, mean):
    before = mean() * 2
    y = norm(x)
    between = mean() * 3
    z = norm(y.exp())
    return y, (x * 2).exp() + before, z.sin() + between, mean() + 1


def functional(norm, x, mean):
    before = mean() * 2
    y = paddle.nn.functional.batch_norm(x, norm._mean, norm._variance, training=True)
    return y, (x * 2).exp() + before, mean() * 3


# The tensor itself, or one that shares its storage, which the caller gives.
MEANS = {
    "itself": lambda norm: norm._mean,
    "a view": lambda norm: norm._mean.detach(),
    "a part": lambda norm: norm._mean[1:],
}


@pytest.mark.parametrize("given", MEANS)
@pytest.mark.parametrize("function", [read_before, read_behind, read_for_another_result, read_between, functional])
def test_reads_of_running_statistics_stay_on_their_side_of_what_updates_them(function, given):
    def run(translate):
        norm, found = nn.BatchNorm1D(3), []
        norm._mean.set_value(paddle.full([3], 0.5))
        static = translate(lambda x, mean: function(norm, x, lambda: mean.sum() if given == "a part" else mean))
        for seed in range(3):
            x = tensor(4, 3, seed=seed, grad=True)
            results = static(x, MEANS[given](norm))
            sum((it * it).sum() for it in results if not it.stop_gradient).backward()
            found += numbers([*results, x.grad, norm._mean, norm._variance])
        return static, found

    (_, expected), (static, found) = run(lambda it: it), run(lambda it: sot.to_static(it, min_graph_size=0))
    same(found, expected)
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])
