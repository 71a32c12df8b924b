"""In-place changes of tensors that exist before the call: made on the real ones, behind the graph."""

import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.distributed.fleet.utils import recompute

pytestmark = pytest.mark.default_python


def fills(buffer, x):
    y = x * 2 + buffer
    buffer.fill_(3.0)
    return y


def scales_and_adds(buffer, x):
    y = x * 3
    z = y.sum()
    buffer.scale_(0.5).add_(y)
    buffer.subtract_(x)
    return z, buffer


def copies(buffer, x):
    buffer.copy_(x * 2 + buffer, True)
    return buffer


def clips(buffer, x):
    mean = x.mean()
    buffer.multiply_(x)
    buffer.clip_(-1.0, 1.0)
    return mean


def sets_rows(buffer, x):
    y = x + 1
    buffer[0:1] = y[1:2]
    buffer[1, 2] = 9.0
    return y


def sets_itself(buffer, x):
    z = x.sum()
    buffer.add_(buffer)
    return z


FUNCTIONS = [fills, scales_and_adds, copies, clips, sets_rows, sets_itself]


def start():
    paddle.seed(3)
    return paddle.rand([2, 3]), paddle.rand([2, 3])


def run(function, buffer, x, calls=4):
    view, version = buffer[0], buffer.inplace_version
    results = []
    for at in range(calls):
        result = function(buffer, x + at)
        results.append(paddle.utils.map_structure(lambda it: (it.tolist(), it.stop_gradient, it is buffer), result))
    return results, buffer.tolist(), view.tolist(), buffer.inplace_version - version, buffer.is_leaf


@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_graph(function):
    translated = sot.to_static(function)
    assert run(translated, *start()) == run(function, *start())
    stats = sot.stats(translated)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_with_gradients_of_the_other(function):
    def trains(call):
        buffer, x = start()
        x.stop_gradient = False
        try:
            result = call(buffer, x)
        except RuntimeError as error:
            return type(error), buffer.tolist()
        outcome = [buffer.tolist(), buffer.stop_gradient, buffer.is_leaf]
        first = paddle.utils.flatten(result)[0]
        try:
            first.sum().backward()
        except RuntimeError as error:
            return outcome, type(error)
        return outcome, None if x.grad is None else x.grad.tolist()

    translated = sot.to_static(function)
    assert [trains(translated) for _ in range(3)] == [trains(function) for _ in range(3)]


class Averages(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.register_buffer("weight", paddle.zeros([3, 3]))
        self.register_buffer("seen", paddle.zeros([1]))

    def update(self):
        with paddle.no_grad():
            self.weight.scale_(0.9)
            self.weight.add_(self.inner.weight)
            self.seen[0] = 1.0

    def forward(self, x):
        y = self.inner(x)
        self.update()
        return y


# In a method, under `no_grad`: a parameter does not make the average part of autograd's graph.
def test_averages_of_weights():
    def train(wrap):
        paddle.seed(5)
        net = Averages()
        call, optimizer = wrap(net), paddle.optimizer.SGD(0.1, parameters=net.inner.parameters())
        losses = []
        for at in range(4):
            loss = call(paddle.full([2, 3], 1.0 + at)).sum()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        weight = net.weight
        return losses, weight.tolist(), weight.stop_gradient, weight.is_leaf, net.seen.tolist()

    made = []

    def wrap(net):
        translated = sot.to_static(lambda x: net(x))
        made.append(translated)
        return translated

    assert train(wrap) == train(lambda net: net)
    stats = sot.stats(made[0])
    assert (stats.graphs, stats.graph_breaks) == (1, [])


def reads_behind(buffer, x):
    y = x * 2
    buffer.fill_(3.0)
    return y + buffer


def reads_another_behind(buffer, x):
    y = x * 2
    buffer.fill_(3.0)
    return y + x * 3


def raises_behind(buffer, x):
    y = x * 2
    buffer.add_(y)
    raise ValueError(str(buffer.shape))


def of_another_shape(buffer, x):
    y = x * 2
    buffer.add_(y.flatten())
    return y


def takes_gradients(buffer, x):
    y = x * 2
    buffer.add_(y)
    return buffer * 2


def of_a_view(buffer, x):
    row, y = buffer[0], x * 2
    buffer.fill_(2.0)
    return row + y[0], row


def returns_a_view(buffer, x):
    row, y = buffer[0], x * 2
    buffer.fill_(2.0)
    return row, y


def writes_a_view(buffer, x):
    y = x * 2
    buffer[0].fill_(2.0)
    return y


def out_of_range(buffer, x):
    y = x * 2
    buffer[5] = 1.0
    return y


def draws(buffer, x):
    y = x + paddle.rand([2, 3])
    buffer.exponential_()
    return y


def draws_behind(buffer, x):
    buffer.exponential_()
    return x + paddle.rand([2, 3])


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        *(reads_behind, reads_another_behind, raises_behind, of_another_shape, takes_gradients, of_a_view),
        *(returns_a_view, writes_a_view, out_of_range, draws, draws_behind),
    ],
)
def test_what_else_is_done_is_right(function, trains):
    def outcomes(call):
        buffer, x = start()
        view, other, found = buffer[1], buffer.detach(), []
        for at in range(3):
            given = x + at
            given.stop_gradient = not trains
            try:
                result = paddle.utils.map_structure(lambda it: it.tolist(), call(buffer, given))
            except (ValueError, RuntimeError, IndexError) as error:
                result = type(error)
            found.append((result, buffer.tolist(), view.tolist(), other.tolist(), buffer.stop_gradient))
        return found

    assert outcomes(sot.to_static(function)) == outcomes(function)


# The view and the tensor are both given: what is read is read before anything is written.
def test_a_view_of_it_is_given_too():
    def function(buffer, view):
        y = view * 2 + buffer[0]
        buffer.fill_(5.0)
        view.add_(view)
        return y, view

    def outcomes(call):
        buffer, _ = start()
        view = buffer[0]
        return [[it.tolist() for it in (*call(buffer, view), buffer)] for _ in range(3)]

    assert outcomes(sot.to_static(function)) == outcomes(function)


class Keeps(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x, buffer):
        buffer.add_(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 3, None


def in_a_custom_operation(buffer, x):
    return Keeps.apply(x, buffer) + 1


def in_recompute(buffer, x):
    def part(x):
        with paddle.no_grad():
            buffer.add_(x)
        return (x * x).exp()

    return recompute(part, x)


def kept_for_the_gradient(buffer, x):
    y = x * buffer
    buffer.zero_()
    return y


def in_auto_cast(buffer, x):
    with paddle.amp.auto_cast(enable=True, dtype="bfloat16"):
        y = x * 2
        buffer.add_(y)
    return y


def handled(buffer, x):
    y = x * 2
    try:
        buffer.add_(y)
        buffer.subtract_(y.flatten())
    except ValueError:
        return y + 1
    return y


# What goes backward sees what eager mode's does, or raises as that does.
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize(
    "function", [in_a_custom_operation, in_recompute, kept_for_the_gradient, in_auto_cast, handled]
)
def test_backward_through_what_surrounds_it(function, trains):
    def outcomes(call):
        buffer, x = start()
        found = []
        for at in range(3):
            given = (x + at).detach()
            given.stop_gradient = not trains
            try:
                result = call(buffer, given)
                values = result.tolist()
                if trains:
                    result.sum().backward()
            except (ValueError, RuntimeError) as error:
                values = type(error)
            grad = None if given.grad is None else given.grad.tolist()
            found.append((values, grad, buffer.tolist(), buffer.stop_gradient))
            buffer = buffer.detach()
        return found

    assert outcomes(sot.to_static(function)) == outcomes(function)
