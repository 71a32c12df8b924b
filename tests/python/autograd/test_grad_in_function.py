"""`paddle.grad` inside of a translated function is part of the graph, and so are gradients of what it makes."""

import numpy
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn
from paddle.nn import functional as F

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


class Field(nn.Layer):
    """What a PINN learns."""

    def __init__(self):
        super().__init__()
        self.layers = nn.LayerList([nn.Linear(2, 16), nn.Linear(16, 16), nn.Linear(16, 1)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.tanh(layer(x))
        return self.layers[-1](x)


class Critic(nn.Layer):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, x):
        return self.layers(x)


def drawn(*shape, seed=3):
    paddle.seed(seed)
    return paddle.randn(shape)


def burgers(net, x):
    """The residual of an equation of second order."""
    u = net(x)
    (du,) = paddle.grad(u.sum(), x, create_graph=True)
    (ddu,) = paddle.grad(du[:, :1].sum(), x, create_graph=True)
    return ((du[:, 1:] + u * du[:, :1] - 0.1 * ddu[:, :1]) ** 2).mean()


def penalty(critic, real, fake, share):
    """The loss of a WGAN-GP's critic."""
    mixed = share * real + (1 - share) * fake
    judged = critic(mixed)
    (slope,) = paddle.grad(judged, mixed, grad_outputs=paddle.ones_like(judged), create_graph=True, retain_graph=True)
    norm = paddle.sqrt((slope * slope).sum(1) + 1e-12)
    return critic(fake).mean() - critic(real).mean() + 10 * ((norm - 1) ** 2).mean()


def penalty_of_a_leaf(critic, real, fake, share):
    """As most programs write it."""
    mixed = share * real + (1 - share) * fake.detach()
    mixed.stop_gradient = False
    judged = critic(mixed)
    (slope,) = paddle.grad(judged, mixed, grad_outputs=paddle.ones_like(judged), create_graph=True, retain_graph=True)
    norm = paddle.sqrt((slope * slope).sum(1) + 1e-12)
    return critic(fake).mean() - critic(real).mean() + 10 * ((norm - 1) ** 2).mean()


def adapted(w, b, task, test):
    """One inner step of MAML, and the loss behind it."""
    x, y = task
    loss = ((F.linear(x, w, b) - y) ** 2).mean()
    of_w, of_b = paddle.grad(loss, [w, b], create_graph=True)
    x, y = test
    return ((F.linear(x, w - 0.1 * of_w, b - 0.1 * of_b) - y) ** 2).mean()


def product(net, x, y, vector):
    """A product of the Hessian of a loss, by its gradient's product."""
    loss = ((net(x) - y) ** 2).mean()
    weights = net.parameters()
    first = paddle.grad(loss, weights, create_graph=True)
    total = sum((one * other).sum() for one, other in zip(first, vector, strict=True))
    return paddle.grad(total, weights, allow_unused=True)


def gradients(tensors):
    found = [None if it.grad is None else it.grad.numpy().tolist() for it in tensors]
    for it in tensors:
        it.clear_gradient(set_to_zero=False)
    return found


def assert_one_graph(function):
    stats = sot.stats(function)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


def is_a_program(loss):
    return loss.grad_fn.name() == "Dy2StGradNode"


@pytest.mark.parametrize("backend", ["cinn", "eager", "onednn", "pylayer"])
def test_other_backends(backend):
    net, x = Field(), drawn(16, 2)
    x.stop_gradient = False
    function = translate(lambda x: burgers(net, x), backend=backend)
    for _ in range(2):
        found = []
        for run in (function, lambda x: burgers(net, x)):
            loss = run(x)
            loss.backward()
            found.append([loss.item(), *gradients([x, *net.parameters()])])
        for one, other in zip(*found, strict=True):
            assert (one is None) == (other is None)
            assert one is None or numpy.allclose(one, other, rtol=1e-4, atol=1e-6)
    assert_one_graph(function)


def test_gradients_of_a_loss_with_gradients_in_it():
    net, x = Field(), drawn(16, 2)
    x.stop_gradient = False

    def run(x):
        return (paddle.grad(net(x).sum(), x, create_graph=True)[0] ** 2).sum()

    function = translate(lambda x: run(x))
    for _ in range(2):
        found = []
        for one in (function, run):
            (first,) = paddle.grad(one(x), x, create_graph=True)
            (first * first).sum().backward()
            found.append((first.tolist(), gradients([x, *net.parameters()])))
        assert found[0] == found[1]
    assert_one_graph(function)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", [nn.BatchNorm1D, nn.BatchNorm2D, nn.InstanceNorm2D, nn.GroupNorm, nn.LayerNorm])
def test_through_normalizations(kind, training):
    """Some reserve something for their gradient, whose size no program knows."""

    def step(net, norm, x):
        loss = (norm(net(x)) ** 3).mean()
        gradients = paddle.grad(loss, [*net.parameters(), x])
        return loss, [gradient * 2 for gradient in gradients]

    answers, translated = [], translate(step, min_graph_size=0)
    for function in (step, translated):
        paddle.seed(0)
        flat = kind is nn.BatchNorm1D
        net = nn.Linear(4, 4) if flat else nn.Conv2D(2, 4, 3)
        norm = kind(*{nn.GroupNorm: (2, 4), nn.LayerNorm: ([3, 3],)}.get(kind, (4,)))
        norm.train() if training else norm.eval()
        x = drawn(*([5, 4] if flat else [3, 2, 5, 5]))
        x.stop_gradient = False
        for _ in range(3):
            loss, gradients = function(net, norm, x)
        statistics = [buffer.tolist() for buffer in norm.buffers()]
        answers.append((loss.item(), [gradient.tolist() for gradient in gradients], statistics))
    assert answers[0] == answers[1]
    stats = sot.stats(translated)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


def test_what_was_computed_before_is_not_known():
    w, function = drawn(3), translate(lambda y, x: paddle.grad((y * x).sum(), x)[0])
    w.stop_gradient = False
    for _ in range(2):
        y = w * w
        assert function(y, w).tolist() == (3 * w * w).tolist()
    assert [it.id for it in sot.stats(function).graph_breaks] == ["PSR0315"]


def test_hooks_are_called():
    seen, w = [], drawn(3)
    w.stop_gradient = False
    function = translate(lambda x: paddle.grad((x * x).sum(), x)[0])
    assert function(w).tolist() == (2 * w).tolist()
    w.register_hook(lambda gradient: seen.append(1))
    expected = paddle.grad((w * w).sum(), w)[0].tolist()
    count = len(seen)
    assert function(w).tolist() == expected
    assert len(seen) == 2 * count


@pytest.mark.parametrize("full", [False, True])
def test_the_loss_of_a_pinn(full):
    net, x = Field(), drawn(32, 2)
    x.stop_gradient = False
    function = translate(lambda x: burgers(net, x), full_graph=full)
    for _ in range(3):
        found = []
        for run in (function, lambda x: burgers(net, x)):
            loss = run(x)
            assert is_a_program(loss) == (run is function)
            loss.backward()
            found.append((loss.item(), gradients([x, *net.parameters()])))
        assert found[0] == found[1]
    assert_one_graph(function)


def test_the_bias_of_the_last_layer_has_no_gradient_where_only_derivatives_are_used():
    net, x = Field(), drawn(8, 2)
    x.stop_gradient = False

    def run(x):
        return (paddle.grad(net(x).sum(), x, create_graph=True)[0] ** 2).mean()

    function = translate(lambda x: run(x))
    for _ in range(2):
        found = []
        for one in (function, run):
            one(x).backward()
            found.append(gradients([x, *net.parameters()]))
        assert found[0] == found[1]
        assert found[0][-1] is None
    assert_one_graph(function)


@pytest.mark.parametrize("penalty", [penalty, penalty_of_a_leaf])
@pytest.mark.parametrize("full", [False, True])
def test_a_gradient_penalty(penalty, full):
    critic, real, fake, share = Critic(), drawn(8, 6), drawn(8, 6, seed=4), paddle.rand([8, 1])
    fake.stop_gradient = False
    function = translate(lambda *given: penalty(critic, *given), full_graph=full)
    for _ in range(2):
        found = []
        for run in (function, lambda *given: penalty(critic, *given)):
            loss = run(real, fake, share)
            assert is_a_program(loss) == (run is function)
            loss.backward()
            found.append((loss.item(), gradients([fake, *critic.parameters()])))
        assert found[0] == found[1]
    assert_one_graph(function)


def test_a_tensor_that_begins_to_take_gradients_and_leaves_the_graph():
    def run(x):
        y = x * 2
        y.stop_gradient = False
        z = (y * y).sum()
        return y, z

    function = translate(lambda x: run(x))
    for _ in range(2):
        found = []
        for one in (function, run):
            y, z = one(drawn(3))
            z.backward()
            found.append((y.is_leaf, y.stop_gradient, y.grad.tolist()))
        assert found[0] == found[1]


def test_an_inner_step():
    w, b = drawn(4, 1), drawn(1, seed=5)
    tasks = [(drawn(8, 4, seed=at), drawn(8, 1, seed=at + 1)) for at in (6, 8)]
    w.stop_gradient = b.stop_gradient = False
    function = translate(lambda *given: adapted(w, b, *given))
    for _ in range(2):
        found = []
        for run in (function, lambda *given: adapted(w, b, *given)):
            loss = run(*tasks)
            loss.backward()
            found.append((loss.item(), gradients([w, b])))
        assert found[0] == found[1]
    assert_one_graph(function)


def test_a_hessian_vector_product():
    net, x, y = Field(), drawn(8, 2), drawn(8, 1, seed=4)
    vector = [drawn(*it.shape, seed=at) for at, it in enumerate(net.parameters())]
    function = translate(lambda *given: product(net, *given))
    for _ in range(2):
        found, expected = function(x, y, vector), product(net, x, y, vector)
        assert [it.tolist() for it in found] == [it.tolist() for it in expected]
        assert [(it.stop_gradient, it.is_leaf) for it in found] == [(it.stop_gradient, it.is_leaf) for it in expected]
    assert_one_graph(function)


def test_an_export(tmp_path):
    net = Field()

    class Slope(nn.Layer):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            return paddle.grad(self.net(x).sum(), x)[0]

    x, layer = drawn(8, 2), Slope()
    x.stop_gradient = False
    path = str(tmp_path / "slope")
    sot.save(layer, path, input_spec=[paddle.static.InputSpec([8, 2], "float32")])
    assert paddle.jit.load(path)(x).tolist() == layer(x).tolist()


CALLS = {
    "plain": lambda grad, x, w: grad((x * w).tanh().sum(), x),
    "of several outputs": lambda grad, x, w: grad([(x * w).tanh(), (x + w).sin()], [w, x]),
    "of outputs in another order": lambda grad, x, w: grad([(x * w).tanh().sin() + x, x * x * w], [x]),
    "with gradients": lambda grad, x, w: grad([(x * w).tanh(), x.sin()], [x], [w * 2, None]),
    "unused": lambda grad, x, w: grad(x.tanh().sum(), [x, w], allow_unused=True),
    "of a part": lambda grad, x, w: (lambda y: grad((y * w).sum(), y))(x.tanh()),
    "kept": lambda grad, x, w: grad((x * w).tanh().sum(), x, retain_graph=True),
}


@pytest.mark.parametrize("creates", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_calls(name, creates):
    call = CALLS[name]

    def grad(*args, **named):
        return paddle.grad(*args, create_graph=creates, **named)

    def run(x, w):
        return call(grad, x, w)

    x, w = drawn(3, 4), drawn(3, 4, seed=4)
    x.stop_gradient = w.stop_gradient = False
    function = translate(lambda x, w: run(x, w), min_graph_size=0)
    for _ in range(2):
        found, expected = function(x, w), run(x, w)
        for one, other in zip(found, expected, strict=True):
            if other is None:
                assert one is None
                continue
            assert one.tolist() == other.tolist()
            assert one.stop_gradient == other.stop_gradient == (not creates)
        if creates:
            sums = [sum((it * it).sum() for it in some if it is not None) for some in (found, expected)]
            seconds = [paddle.grad(it, [x, w], allow_unused=True) for it in sums]
            assert [it if it is None else it.tolist() for it in seconds[0]] == [
                it if it is None else it.tolist() for it in seconds[1]
            ]
    if creates and sum(it is not None for it in found) > 1:
        # Gradients of two results would flow through what both are made of.
        assert sot.stats(function).graphs == 1
    else:
        assert_one_graph(function)


REFUSED = {
    "a second gradient that eager mode has not": lambda x: paddle.grad(F.gelu(x).sum(), x, create_graph=True),
    "an unused input": lambda x: paddle.grad(x.sum(), [x, paddle.ones([2])]),
    "no output": lambda x: paddle.grad([], [x]),
    "no bool": lambda x: paddle.grad(x.tanh().sum(), x, create_graph=1),
    "an output without gradients": lambda x: paddle.grad(x.detach().sum(), x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_mode_refuses_raises_its_error(name):
    x = drawn(3, 4)
    x.stop_gradient = False
    function = translate(lambda x: REFUSED[name](x))
    messages = []
    for run in (function, REFUSED[name], function):
        with pytest.raises(Exception) as raised:
            run(x)
        messages.append((raised.type, str(raised.value).split("(at ")[0]))
    assert messages[0] == messages[1] == messages[2]
