"""In-place changes of tensors that exist, in front of what is computed with them: the graph computes the new value."""

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from paddle import nn

pytestmark = pytest.mark.default_python


def running_mean(buffer, x):
    buffer.scale_(0.9).add_(x * 0.1)
    return x - buffer


def fills(buffer, x):
    buffer.fill_(0.5)
    return (buffer + x).exp()


def zeros(buffer, x):
    before = buffer * 2
    buffer.zero_()
    return before + x, buffer - x


def clips(buffer, x):
    buffer.multiply_(x)
    buffer.clip_(-0.25, 0.25)
    return buffer @ x.t()


def copies(buffer, x):
    buffer.copy_(x * 2, True)
    y = buffer + 1
    buffer.set_value(y * y)
    return buffer * y, buffer


def sets_rows(buffer, x):
    buffer[0] = x[1]
    buffer[1, 2] = 9.0
    return buffer.sum(), buffer[0] * 2


def adds_to_a_row(buffer, x):
    buffer[0] += x[0]
    buffer[1] *= 2
    return buffer.tanh()


def in_turns(buffer, x):
    for at in range(3):
        buffer.subtract_(x)
        x = x * buffer + at
    return x, buffer.mean()


def sees_itself(buffer, x):
    buffer.add_(buffer)
    buffer.multiply_(buffer)
    return buffer + x


def looks_at_a_view(buffer, x):
    buffer.add_(x)
    row = buffer[0]
    return row * 2 + buffer.transpose([1, 0])[:, 1]


def changed_again_behind(buffer, x):
    buffer.add_(x)
    y = buffer * x
    buffer.fill_(7.0)
    return y


def with_random_numbers(buffer, x):
    y = x + paddle.rand([2, 3])
    buffer.add_(y)
    return buffer * paddle.rand([2, 3])


def asserts_a_shape(buffer, x):
    buffer.add_(x)
    assert buffer.shape == [2, 3]
    assert buffer.stop_gradient
    return buffer * x


FUNCTIONS = [
    *(running_mean, fills, zeros, clips, copies, sets_rows, adds_to_a_row, in_turns, sees_itself, looks_at_a_view),
    *(changed_again_behind, with_random_numbers, asserts_a_shape),
]


def start():
    paddle.seed(3)
    return paddle.rand([2, 3]), paddle.rand([2, 3])


def outcomes(function, buffer, x, calls=4):
    view, version, results = buffer[0], buffer.inplace_version, []
    for at in range(calls):
        result = function(buffer, x + at)
        results.append(paddle.utils.map_structure(lambda it: (it.tolist(), it.stop_gradient, it is buffer), result))
    return results, buffer.tolist(), view.tolist(), buffer.inplace_version - version, buffer.is_leaf


@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_graph(function):
    translated = sot.to_static(function, min_graph_size=0)
    assert outcomes(translated, *start()) == outcomes(function, *start())
    stats = sot.stats(translated)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_under_full_graph(function):
    translated = sot.to_static(function, full_graph=True, min_graph_size=0)
    assert outcomes(translated, *start()) == outcomes(function, *start())


# Small graphs run call by call.
@pytest.mark.parametrize("function", FUNCTIONS)
def test_call_by_call(function):
    translated = sot.to_static(function, min_graph_size=100)
    assert outcomes(translated, *start()) == outcomes(function, *start())


@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients_of_what_is_computed(function):
    def trains(call):
        (buffer, x), found = start(), []
        weight = paddle.ones([2, 3])
        weight.stop_gradient = False

        def loss(x):
            parts = paddle.utils.flatten(call(buffer, x))
            return sum((part * weight).sum() if part.shape == weight.shape else part.sum() for part in parts)

        for at in range(3):
            given = (x + at).detach()
            try:
                loss(given).backward()
            except RuntimeError as error:
                found.append(type(error))
            found.append((weight.grad.tolist() if weight.grad is not None else None, buffer.tolist()))
        return found, buffer.inplace_version

    assert trains(sot.to_static(function, min_graph_size=0)) == trains(function)


class Normalizes(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.register_buffer("mean", paddle.zeros([3]))
        self.register_buffer("variance", paddle.ones([3]))

    def forward(self, x):
        x = self.inner(x)
        with paddle.no_grad():
            self.mean.scale_(0.9).add_(x.mean(0) * 0.1)
            self.variance.scale_(0.9)
            self.variance.add_(x.var(0) * 0.1)
        return (x - self.mean) / (self.variance + 1e-5).sqrt()


def test_running_statistics_train():
    def train(wrap):
        paddle.seed(7)
        net = Normalizes()
        call, optimizer = wrap(net), paddle.optimizer.SGD(0.1, parameters=net.parameters())
        losses = []
        for at in range(4):
            loss = (call(paddle.rand([4, 3]) + at) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        return losses, net.mean.tolist(), net.variance.tolist(), net.mean.inplace_version

    made = []

    def wrap(net):
        made.append(sot.to_static(lambda x: net(x), min_graph_size=0))
        return made[0]

    assert train(wrap) == train(lambda net: net)
    stats = sot.stats(made[0])
    assert (stats.graphs, stats.graph_breaks) == (1, [])


def test_a_loop_over_frozen_weights():
    def run(wrap):
        paddle.seed(2)
        target, source = nn.Linear(3, 3), nn.Linear(3, 3)
        for weight in target.parameters():
            weight.stop_gradient = True

        def follow(x):
            with paddle.no_grad():
                for old, new in zip(target.parameters(), source.parameters(), strict=True):
                    old.scale_(0.5).add_(new * 0.5)
            return F.linear(x, target.weight, target.bias)

        call = wrap(follow)
        return [call(paddle.ones([2, 3]) + at).tolist() for at in range(3)], target.weight.tolist()

    made = []

    def wrap(function):
        made.append(sot.to_static(function, min_graph_size=0))
        return made[0]

    assert run(wrap) == run(lambda function: function)
    stats = sot.stats(made[0])
    assert (stats.graphs, stats.graph_breaks) == (1, [])


def two(buffer, other):
    buffer.add_(buffer)
    return other * 2


ALIASES = {
    "another": lambda buffer: paddle.ones([2, 3]),
    "the same": lambda buffer: buffer,
    "view": lambda buffer: buffer[1:],
    "row": lambda buffer: buffer[1],
    "detached": lambda buffer: buffer.detach(),
    "data": lambda buffer: buffer.data,
    "transposed": lambda buffer: buffer.t(),
    "reshaped": lambda buffer: buffer.reshape([6]),
}


# Each order of two, so that what is translated for one is asked for the other.
@pytest.mark.parametrize("first", ALIASES)
def test_what_shares_its_storage_is_another_case(first):
    def run(call):
        found = []
        for name in [first, *ALIASES, first]:
            buffer, _ = start()
            other = ALIASES[name](buffer)
            found.append((call(buffer, other).tolist(), buffer.tolist(), other.tolist()))
        return found

    assert run(sot.to_static(two, min_graph_size=0)) == run(two)


# A tensor of an array that is not copied, and the array.
def test_memory_of_an_array():
    def function(buffer, array, other):
        buffer.fill_(3.0)
        return paddle.to_tensor(array) + other

    def run(call):
        found = []
        for shares in (False, True, False):
            array = np.ones([2, 3], "float32")
            buffer = paddle.Tensor(array, zero_copy=True)
            other = paddle.Tensor(array, zero_copy=True) if shares else paddle.ones([2, 3])
            found.append((call(buffer, array, other).tolist(), array.tolist(), other.tolist()))
            found.append((call(paddle.ones([2, 3]), array, other).tolist(), array.tolist()))
        return found

    assert run(sot.to_static(function, min_graph_size=0)) == run(function)


def returns_a_view(buffer, x):
    buffer.add_(x)
    row = buffer[0]
    return row, row * 2


def returns_a_copy_of_a_view(buffer, x):
    buffer.add_(x)
    return buffer.t().contiguous(), buffer.t() * 2


def raises(buffer, x):
    buffer.add_(x)
    y = buffer * 2
    raise ValueError(str(y.shape))


def fails(buffer, x):
    buffer.add_(x)
    y = paddle.gather(buffer, paddle.to_tensor([0, 5]))
    buffer.add_(x)
    return y


def is_read(buffer, x):
    buffer.add_(x)
    total = float((buffer * x).sum())
    buffer.scale_(2.0)
    return buffer + total


def depends_on_it(buffer, x):
    buffer.add_(x)
    if buffer.sum() > 5:
        return buffer * 2
    buffer.zero_()
    return buffer + x


def draws_in_front(buffer, x):
    buffer.uniform_()
    return buffer * x


def changes_what_was_copied(buffer, x):
    y = x * 3
    buffer.copy_(y)
    y.add_(buffer)
    return y


def keeps_a_view(buffer, x):
    row = buffer[0]
    buffer.add_(x)
    return row + x, row


def changes_statistics(buffer, x):
    mean = buffer[0].clone()
    buffer.add_(x)
    variance = buffer[1].clone()
    mean.zero_()
    return F.batch_norm(x, mean, variance, training=True), mean, variance


class Kept(nn.Layer):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1D(3)

    def forward(self, x):
        self.norm._mean.fill_(0.25)
        return self.norm(x), self.norm._mean * 2


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        *(returns_a_view, returns_a_copy_of_a_view, raises, fails, is_read, depends_on_it, draws_in_front),
        *(keeps_a_view, changes_statistics, changes_what_was_copied),
    ],
)
def test_what_else_is_done_is_right(function, trains):
    def run(call):
        (buffer, x), found = start(), []
        view, other = buffer[1], buffer.detach()
        for at in range(4):
            given = (x + at).detach()
            given.stop_gradient = not trains
            try:
                with paddle.no_grad():
                    result = call(buffer, given)
                made = paddle.utils.map_structure(lambda it: it.tolist(), result)
                for each in paddle.utils.flatten(result):
                    each.fill_(0.125)
            except (ValueError, RuntimeError, IndexError) as error:
                made = type(error)
            found.append((made, buffer.tolist(), view.tolist(), other.tolist(), buffer.inplace_version))
        return found

    assert run(sot.to_static(function, min_graph_size=0)) == run(function)


@pytest.mark.parametrize("training", [False, True])
def test_a_layer_that_holds_it(training):
    def run(wrap):
        net = Kept()
        net.norm.training = training
        call, found = wrap(net), []
        for at in range(3):
            y, mean = call(paddle.arange(6.0).reshape([2, 3]) * at)
            found.append((y.tolist(), mean.tolist(), net.norm._mean.tolist(), net.norm._variance.tolist()))
        return found

    assert run(lambda net: sot.to_static(lambda x: net(x), min_graph_size=0)) == run(lambda net: net)


def multiplies(buffer, x):
    buffer.add_(paddle.ones([2, 3]))
    return x * buffer


def multiplies_a_view(buffer, x):
    buffer.add_(paddle.ones([2, 3]))
    return x[0] * buffer[0]


def changes_what_is_kept(buffer, x):
    buffer.add_(paddle.ones([2, 3]))
    y = x * buffer
    buffer.zero_()
    return y


def changes_what_a_view_keeps(buffer, x):
    buffer.add_(paddle.ones([2, 3]))
    y = x[0] * buffer[0]
    buffer.zero_()
    return y


def adds(buffer, x):
    buffer.add_(paddle.ones([2, 3]))
    return x + buffer


def kept_before(buffer, x):
    y = x * buffer
    buffer.zero_()
    return y + buffer


# Eager mode refuses to go backward through what changed behind it, in the function or in its
# caller.
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    "function", [multiplies, multiplies_a_view, changes_what_is_kept, changes_what_a_view_keeps, adds, kept_before]
)
def test_what_is_kept_for_the_gradient(function, later):
    def run(call):
        (buffer, x), found = start(), []
        for at in range(3):
            given = (x + at).detach()
            given.stop_gradient = False
            result = call(buffer, given)
            if later:
                buffer.add_(buffer)
            try:
                result.sum().backward()
                found.append(given.grad.tolist())
            except RuntimeError as error:
                found.append(type(error))
            found.append((result.tolist(), buffer.tolist()))
        return found

    assert run(sot.to_static(function, min_graph_size=0)) == run(function)


steps = paddle.zeros([1])


def counts(x):
    steps.add_(paddle.ones([1]))
    return x / steps


def test_a_global():
    def run(call):
        steps.zero_()
        return [call(paddle.ones([2]) * 6).tolist() for _ in range(4)], steps.tolist()

    translated = sot.to_static(counts, min_graph_size=0)
    assert run(translated) == run(counts)
    stats = sot.stats(translated)
    assert (stats.graphs, stats.graph_breaks, stats.translations) == (1, [], 1)


def test_statistics_that_a_layer_writes_behind_a_change():
    """The change is made behind the graph, which has written them by then."""

    def step(norm, averages, x):
        with paddle.no_grad():
            for average, held in zip(averages, (norm._mean, norm._variance), strict=True):
                average.add_(held)
        return norm(x)

    answers = []
    for function in (step, sot.to_static(step, min_graph_size=0)):
        paddle.seed(0)
        norm = paddle.nn.BatchNorm1D(3)
        averages = [paddle.zeros([3]), paddle.zeros([3])]
        seen = []
        for _ in range(3):
            seen.append(function(norm, averages, paddle.randn([4, 3])).tolist())
            seen.append([average.tolist() for average in averages])
        answers.append(seen)
    assert answers[0] == answers[1]
