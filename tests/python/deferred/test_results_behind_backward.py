"""What a train step in one graph hands out, and what becomes of it when a backward goes through it again."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn, optimizer
from paddle.nn import functional as F
from train_steps import Attention, Convolutions, Tied, perceptron

pytestmark = pytest.mark.default_python


def plain(net, updates, x, y, kept):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    updates.step()
    updates.clear_grad()
    return loss


def cleared_between(net, updates, x, y, kept):
    loss = F.cross_entropy(net(x), y)
    updates.clear_grad()
    loss.backward()
    updates.step()
    return loss


def summed(net, updates, x, y, kept):
    loss = F.cross_entropy(net(x), y) / 2
    loss.backward()
    if len(kept) % 2:
        updates.step()
        updates.clear_grad()
    return loss


def with_outputs(net, updates, x, y, kept):
    outputs = net(x)
    loss = F.cross_entropy(outputs, y)
    loss.backward()
    updates.step()
    updates.clear_grad(set_to_zero=False)
    return loss, outputs, outputs.argmax(-1), outputs.detach()


def with_a_metric(net, updates, x, y, kept):
    outputs = net(x)
    loss = F.cross_entropy(outputs, y)
    loss.backward()
    updates.step()
    updates.clear_grad()
    return loss, (outputs.argmax(-1) == y).astype("float32").mean()


def alone(net, updates, x, y, kept):
    loss = F.cross_entropy(net(x), y, reduction="none")
    loss.backward()
    return loss


STEPS = (plain, cleared_between, summed, with_outputs, with_a_metric, alone)


def described(value):
    if isinstance(value, paddle.Tensor):
        return value.tolist(), value.stop_gradient, value.is_leaf, value.shape, value.inplace_version
    return [described(each) for each in value]


def of_gradient(gradient):
    if gradient is None:
        return None
    return gradient.tolist(), gradient.stop_gradient, gradient.is_leaf, gradient.strides, gradient.persistable


def state(net):
    held = [(each.tolist(), each.inplace_version) for each in (*net.parameters(), *net.buffers())]
    return held, [of_gradient(each.grad) for each in net.parameters()]


def run(step, make, calls=5, **options):
    """What each call answers and leaves behind, in eager mode and translated; the translated function."""
    answers, translated = [], translate(step, min_graph_size=0, **options)
    for function in (step, translated):
        paddle.seed(0)
        net, kept, seen = make(), [], []
        updates = optimizer.AdamW(0.01, parameters=net.parameters(), grad_clip=nn.ClipGradByGlobalNorm(0.5))
        for number in range(calls):
            paddle.seed(number)
            x, y = paddle.randn([4, 12]), paddle.randint(0, 3, [4])
            result = function(net, updates, x, y, kept)
            kept.append(result)
            seen.append((described(result), state(net)))
        answers.append(seen)
    return answers, translated


@pytest.mark.parametrize("make", [perceptron, Convolutions, Tied, Attention])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_steps(step, make):
    answers, translated = run(step, make)
    assert answers[0] == answers[1]
    assert sot.stats(translated).graph_breaks == []


@pytest.mark.parametrize("backend", ["paddle", "cinn", "onednn", "pylayer", "eager"])
def test_backends(backend):
    answers, translated = run(plain, perceptron, backend=backend)
    assert answers[0] == answers[1]
    assert sot.stats(translated).graph_breaks == []


def second_backward(result):
    with pytest.raises(SystemError) as caught:
        result.sum().backward()
    return "calculate backward twice" in str(caught.value)


@pytest.mark.parametrize("backward", ["first", "last"])
def test_nothing_goes_through_it_again(backward):
    answers, translated = [], translate(with_outputs, min_graph_size=0)
    for function in (with_outputs, translated):
        paddle.seed(0)
        net = perceptron()
        updates = optimizer.SGD(0.1, parameters=net.parameters())
        x, y = paddle.randn([4, 12]), paddle.to_tensor([0, 1, 2, 0])
        loss, outputs, *_ = function(net, updates, x, y, [])
        again = [second_backward(each) for each in ((loss, outputs) if backward == "first" else (outputs, loss))]
        # Up to it there are gradients, and each result has its own.
        gradients = paddle.grad(2 * loss, [loss]) + paddle.grad((outputs * 3).sum(), [outputs])
        answers.append((again, described(gradients), state(net)))
    assert answers[0] == answers[1]
    assert answers[0][0] == [True, True]
    assert sot.stats(translated).graph_breaks == []


def beside(net, updates, x, y, kept):
    outputs = net(x)
    other = outputs.square().sum()
    loss = F.cross_entropy(outputs, y)
    loss.backward()
    updates.step()
    updates.clear_grad()
    return loss, other


def two_backwards(net, updates, x, y, kept):
    one, other = F.cross_entropy(net(x), y), net(x).square().mean()
    one.backward()
    other.backward()
    updates.step()
    updates.clear_grad()
    return one, other


def a_view_of_it(net, updates, x, y, kept):
    outputs = net(x)
    first = outputs[:, 0]
    loss = F.cross_entropy(outputs, y) + first.mean()
    loss.backward()
    updates.step()
    updates.clear_grad()
    return loss, first, outputs


@pytest.mark.parametrize("step", [beside, two_backwards])
def test_results_that_it_does_not_go_through(step):
    answers, translated = run(step, perceptron)
    assert answers[0] == answers[1]
    assert sot.stats(translated).graph_breaks == []


def test_views_of_results():
    answers, translated = run(a_view_of_it, perceptron)
    assert answers[0] == answers[1]
    assert sot.stats(translated).graph_breaks == []


def test_gradients_of_another_result_stay():
    """A backward from what the first one did not go through reaches the leaves that both share."""
    answers = []
    for function in (beside, translate(beside, min_graph_size=0)):
        paddle.seed(0)
        net = perceptron()
        updates = optimizer.SGD(0.1, parameters=net.parameters())
        x, y = paddle.randn([4, 12]), paddle.to_tensor([0, 1, 2, 0])
        _, other = function(net, updates, x, y, [])
        with pytest.raises(SystemError):
            other.backward()
        answers.append(state(net)[1])
    assert answers[0] == answers[1]


def test_sparse_gradients():
    def make():
        return nn.Sequential(nn.Embedding(3, 4, sparse=True), nn.Linear(4, 3))

    def step(net, updates, x, y, kept):
        loss = F.cross_entropy(net(y), y)
        loss.backward()
        updates.step()
        updates.clear_grad()
        return loss

    answers, translated = [], translate(step, min_graph_size=0)
    for function in (step, translated):
        paddle.seed(0)
        net = make()
        updates = optimizer.SGD(0.1, parameters=net.parameters())
        losses = [function(net, updates, None, paddle.to_tensor([0, number]), []).tolist() for number in range(3)]
        answers.append((losses, [each.tolist() for each in net.parameters()]))
    assert answers[0] == answers[1]
    assert sot.stats(translated).graph_breaks == []


def test_an_input_that_is_a_gradient():
    """Clearing writes zeros into it, which eager mode's backward reads."""

    def step(net, updates, x, y, kept):
        loss = F.cross_entropy(net(x), y)
        updates.clear_grad()
        loss.backward()
        updates.step()
        return loss

    answers = []
    for function in (step, translate(step, min_graph_size=0)):
        paddle.seed(0)
        net = nn.Linear(3, 3)
        updates = optimizer.SGD(0.1, parameters=net.parameters())
        y, seen = paddle.to_tensor([0, 1, 2]), []
        for number in range(4):
            net(paddle.ones([3, 3])).sum().backward()
            x = net.weight.grad if number % 2 else paddle.ones([3, 3])
            x.stop_gradient = True
            seen.append((function(net, updates, x, y, []).tolist(), state(net)))
        answers.append(seen)
    assert answers[0] == answers[1]


def test_hooks_of_leaves_are_called():
    answers = []
    for function in (plain, translate(plain, min_graph_size=0)):
        paddle.seed(0)
        net, seen = perceptron(), []
        updates = optimizer.SGD(0.1, parameters=net.parameters())
        for number in range(4):
            if number == 2:
                hook = net[0].weight.register_hook(lambda gradient, seen=seen: seen.append(gradient.tolist()))
            x, y = paddle.full([4, 12], number, "float32"), paddle.to_tensor([0, 1, 2, 0])
            seen.append(function(net, updates, x, y, []).tolist())
        hook.remove()
        answers.append((seen, state(net)))
    assert answers[0] == answers[1]
    assert len(answers[0][0]) == 6


def test_an_exception_of_the_graph_leaves_gradients_as_they_were():
    def step(net, updates, x, y, kept):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        updates.step()
        return loss

    answers = []
    for function in (step, translate(step, min_graph_size=0)):
        paddle.seed(0)
        net = perceptron()
        updates = optimizer.SGD(0.1, parameters=net.parameters())
        good, bad = paddle.to_tensor([0, 1, 2, 0]), paddle.to_tensor([0, 1, 7, 0])
        x = paddle.ones([4, 12])
        function(net, updates, x, good, [])
        with pytest.raises(Exception) as caught:  # noqa: PT011 - Paddle's own
            function(net, updates, x, bad, [])
        answers.append((caught.type, state(net)))
    assert answers[0] == answers[1]
