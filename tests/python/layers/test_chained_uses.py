"""Pieces of a long graph that use the same weights hand them on: gradients are those of eager mode, digit by digit."""

import threading

import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.nn import functional
from test_long_graphs import Unrolled, both, parts_of, report

pytestmark = pytest.mark.default_python


class Steps(nn.Layer):
    """A layer that is called in each round."""

    def __init__(self, rounds):
        super().__init__()
        self.linear, self.rounds = nn.Linear(4, 4), rounds

    def forward(self, x):
        for _ in range(self.rounds):
            x = x + paddle.tanh(self.linear(x)) * 0.1
        return x


class Attending(nn.Layer):
    """What one piece has made, and uses, all others use too."""

    def __init__(self, rounds):
        super().__init__()
        self.memory, self.cell, self.rounds = nn.Linear(4, 4), nn.GRUCell(8, 4), rounds

    def forward(self, x):
        memory, state = self.memory(x), x
        for _ in range(self.rounds):
            read = functional.softmax(state @ memory.t(), -1) @ memory
            _, state = self.cell(paddle.concat([read, state], -1), state)
        return state


class Uneven(nn.Layer):
    """Weights that some rounds use, that are frozen, that no gradient goes to in one place."""

    def __init__(self, rounds):
        super().__init__()
        self.one, self.two, self.rounds = nn.Linear(4, 4), nn.Linear(4, 4), rounds
        self.scale = self.create_parameter([4])
        self.two.weight.stop_gradient = True

    def forward(self, x):
        for number in range(self.rounds):
            x = paddle.tanh(self.one(x) + self.two(x))
            if number % 2:
                x = x * self.scale
            if number % 3 == 0:
                with paddle.no_grad():
                    seen = x.detach() * self.scale
                x = x + seen * 0.01
        return x


class Stacked(nn.Layer):
    """What each round makes is taken behind the loop."""

    def __init__(self, rounds):
        super().__init__()
        self.one, self.two, self.rounds = nn.LSTMCell(4, 4), nn.LSTMCell(4, 4), rounds
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        first = second = (paddle.zeros([x.shape[0], 4]),) * 2
        made = []
        for number in range(self.rounds):
            out, first = self.one(x * (number % 3), first)
            out, second = self.two(out, second)
            made.append(out)
        return self.head(paddle.stack(made, 1))


class Heads(nn.Layer):
    """Eager mode adds the gradients of the head from the first round on, those of the other layer from the last."""

    def __init__(self, rounds):
        super().__init__()
        self.linear, self.head, self.rounds = nn.Linear(4, 4), nn.Linear(4, 2), rounds

    def forward(self, x):
        made = []
        for _ in range(self.rounds):
            x = paddle.tanh(self.linear(x))
            made.append(self.head(x))
        return paddle.stack(made)


class Normed(nn.Layer):
    """Weights that the graph makes."""

    def __init__(self, rounds):
        super().__init__()
        self.weight, self.scale = self.create_parameter([4, 4]), self.create_parameter([4])
        self.rounds = rounds

    def forward(self, x):
        weight = self.weight / self.weight.norm(axis=0, keepdim=True) * self.scale
        for _ in range(self.rounds):
            x = paddle.tanh(x @ weight + x * self.scale)
        return x


def programs_of(call):
    """How many parts there are, and how many of them run the program of another one."""
    line = next(line for line in report(call) if " parts, one after the other" in line)
    programs, _, rest = line.partition(" are programs")
    shared = rest.partition(" run one")[0].strip(" (")
    return int(programs.split()[0]), int(programs.split()[-1]), int(shared) if shared.isdigit() else 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Unrolled(60),
        lambda: Unrolled(130),
        lambda: Steps(150),
        lambda: Attending(80),
        lambda: Uneven(90),
        lambda: Stacked(50),
        lambda: Normed(130),
    ],
    ids=["recurrent", "very long", "layer", "attention", "uneven", "stacked", "normed"],
)
def test_training(make):
    call = both(make)
    stats = sot.stats(call)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (2, [], [])
    parts, programs, shared = programs_of(call)
    assert parts > 4
    assert parts - programs <= 2
    assert shared > 0


def test_another_order_than_that_of_the_pieces():
    call = both(lambda: Heads(130))
    stats = sot.stats(call)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (2, [], [])
    assert parts_of(call) <= 2


def answers(what, make=lambda: Unrolled(60)):
    """What a function notes with plain Python, and translated."""
    found = []
    for translate in (False, True):
        paddle.seed(3)
        net = make()
        call = sot.to_static(net, compile_at_call=1) if translate else net
        x = paddle.linspace(-1, 1, 12).reshape([3, 4])
        x.stop_gradient = False
        found.append(what(net, call, x))
    assert parts_of(call) > 4
    assert sot.stats(call).fallbacks == []
    return found


def gradients(net):
    return [parameter.grad.numpy() for parameter in net.parameters()]


def are_equal(found):
    eager, ours = found
    assert len(eager) == len(ours)
    assert all((a == b).all() for a, b in zip(eager, ours, strict=True))


def test_two_backward_passes():
    def what(net, call, x):
        loss = (call(x) ** 2).mean()
        loss.backward(retain_graph=True)
        first = gradients(net)
        loss.backward()
        return [*first, *gradients(net), x.grad.numpy()]

    are_equal(answers(what))


def test_two_calls_before_their_backward_passes():
    def what(net, call, x):
        one, two = (call(x) ** 2).mean(), (call(x * 2) ** 2).mean()
        two.backward()
        one.backward()
        return [*gradients(net), x.grad.numpy()]

    are_equal(answers(what))


def test_hooks_are_called_once_with_the_whole_sum():
    def what(net, call, x):
        seen = {}

        def hook(name):
            return lambda grad: seen.setdefault(name, []).append(grad.numpy())

        for name, parameter in net.named_parameters():
            parameter.register_hook(hook(name))
        (call(x) ** 2).mean().backward()
        assert all(len(grads) == 1 for grads in seen.values())
        return [seen[name][0] for name, _ in net.named_parameters()]

    are_equal(answers(what))


def test_higher_derivatives():
    def what(net, call, x):
        first = paddle.grad((call(x) ** 2).mean(), [x], create_graph=True)[0]
        (first * first).sum().backward()
        return [*gradients(net), x.grad.numpy()]

    eager, ours = answers(what, lambda: Steps(150))
    for a, b in zip(eager, ours, strict=True):
        assert abs(a - b).max() <= 1e-5 * abs(a).max()


class Products(nn.Layer):
    """Two weights are used in each round, a third one never."""

    def __init__(self, rounds):
        super().__init__()
        self.one, self.two, self.unused = (self.create_parameter([4, 4]) for _ in range(3))
        self.rounds = rounds

    def forward(self, x):
        for _ in range(self.rounds):
            x = paddle.tanh(x @ self.one) @ self.two + x * 0.3
        return x


@pytest.mark.parametrize("names", [["one", "two", "unused"], ["unused", "two", "x"], ["two", "one"]])
def test_higher_derivatives_of_some_weights(names):
    """What the first piece hands on are the weights themselves, which the walk ends at."""

    def what(net, call, x):
        known = {**dict(net.named_parameters()), "x": x}
        asked = [known[name] for name in names]
        found = paddle.grad((call(x) ** 2).mean(), asked, create_graph=True, allow_unused=True)
        first = [gradient for gradient in found if gradient is not None]
        assert [gradient is None for gradient in found] == [name == "unused" for name in names]
        sum((gradient**2).sum() for gradient in first).backward()
        seen = [net.one.grad, net.two.grad, x.grad]
        return [*(gradient.numpy() for gradient in first), *(gradient.numpy() for gradient in seen)]

    eager, ours = answers(what, lambda: Products(130))
    for a, b in zip(eager, ours, strict=True):
        assert abs(a - b).max() <= 1e-5 * abs(a).max()


class Fed(nn.Layer):
    """Each round takes rows of what comes in, of which dims may be open."""

    def __init__(self, rounds):
        super().__init__()
        self.linear, self.rounds = nn.Linear(4, 4), rounds

    def forward(self, x):
        state = paddle.zeros([x.shape[0], 2])
        for _ in range(self.rounds):
            state = paddle.tanh(self.linear(x)[:, :2] + state + x[:, :2]) + x[:, 2:] * 0.1
        return state


@pytest.mark.parametrize("rounds", [40, 80, 120])
def test_smaller_batches(rounds):
    found = []
    for translate in (False, True):
        paddle.seed(3)
        net, seen = Fed(rounds), []
        call = sot.to_static(net, compile_at_call=1) if translate else net
        for rows in (4, 3, 2):
            x = paddle.linspace(-1, 1, 4 * rows).reshape([rows, 4])
            x.stop_gradient = False
            (call(x) ** 2).mean().backward()
            seen += [*gradients(net), x.grad.numpy()]
        found.append(seen)
    are_equal(found)
    assert sot.stats(call).graphs == 2


class Crossed(nn.Layer):
    """Pieces have several results, from each of which gradients come to a weight."""

    def __init__(self, rounds):
        super().__init__()
        self.one, self.two, self.norm = self.create_parameter([4, 4]), self.create_parameter([4, 4]), nn.LayerNorm(4)
        self.scale, self.shift = self.create_parameter([4]), self.create_parameter([4])
        self.rounds = rounds

    def forward(self, x):
        first, second = x.reshape([-1, 4]) * 1 * 0.5, x.reshape([-1, 4]) * 2 * 0.5
        for _ in range(self.rounds):
            first = functional.softmax(first @ self.two, -1) @ self.one
            second = paddle.where(second > second * 0.5, second * self.scale, second)
            left, right = paddle.split(second @ self.two, 2, 1)
            second = self.norm(paddle.concat([right * functional.sigmoid(left), left], 1) + first)
            first = functional.sigmoid(paddle.matmul(first, self.two, transpose_y=True))
            first = (first.astype("float64") * self.shift.astype("float64")).astype("float32")
            second = functional.sigmoid(paddle.matmul(second, self.one, transpose_y=True))
            first = paddle.tanh(first @ self.two.t() + first @ self.two)
        return (second + sum([first, second]) * 0.1).reshape([-1, 3, 4]).sum(1)


@pytest.mark.parametrize("rounds", [21, 22, 24, 30, 34, 66])
def test_results_of_a_piece(rounds):
    found = []
    for translate in (False, True):
        paddle.seed(71)
        net = Crossed(rounds)
        call = sot.to_static(net, compile_at_call=1) if translate else net
        x = paddle.randn([4, 12])
        functional.cross_entropy(call(x), paddle.to_tensor([0, 2, 1, 0])).backward()
        found.append(gradients(net))
    are_equal(found)
    stats = sot.stats(call)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


@pytest.mark.parametrize("number", range(4))
def test_a_weight_that_changes_in_between(number):
    """Each is refused where eager mode refuses it: pieces keep no old numbers of it."""

    def what(net, call, x):
        loss = (call(x) ** 2).mean()
        with paddle.no_grad():
            net.parameters()[number].scale_(2.0)
        try:
            loss.backward()
        except RuntimeError as refused:
            return "has been modified" in str(refused) or "version" in str(refused)
        return gradients(net)

    eager, ours = answers(what)
    if isinstance(eager, bool):
        assert ours is eager
    else:
        are_equal((eager, ours))


def test_threads():
    paddle.seed(3)
    net = Unrolled(60)
    call = sot.to_static(net, compile_at_call=1)

    def slope(number):
        x = paddle.linspace(-1, 1, 12).reshape([3, 4]) * number
        x.stop_gradient = False
        (call(x) ** 2).mean().backward()
        return x.grad.numpy()

    expected = [slope(number) for number in range(4)]
    found = {}
    for _ in range(4):
        threads = [threading.Thread(target=lambda n=n: found.update({n: slope(n)})) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all((found[number] == expected[number]).all() for number in range(4))


def test_a_view_with_gaps_is_handed_on():
    found = []
    for translate in (False, True):
        paddle.seed(3)
        linear = nn.Linear(4, 4)

        def rounds(x, memory, linear=linear):
            for _ in range(150):
                x = paddle.tanh(linear(x) + memory)
            return x

        call = sot.to_static(rounds, compile_at_call=1) if translate else rounds
        wide = paddle.linspace(0, 0.3, 32).reshape([4, 8])
        wide.stop_gradient = False
        made = call(paddle.linspace(-1, 1, 16).reshape([4, 4]), wide[:, ::2].t())
        (made**2).mean().backward()
        found.append([made.numpy(), wide.grad.numpy(), linear.weight.grad.numpy()])
    are_equal(found)
    assert parts_of(call) > 4


def test_large_weights_are_not_handed_on():
    """Each piece would copy them."""
    paddle.seed(0)
    net = nn.Linear(256, 256)

    def rounds(x):
        for _ in range(210):
            x = paddle.tanh(net(x))
        return x

    call = sot.to_static(rounds, compile_at_call=1)
    call(paddle.randn([1, 256])).mean().backward()
    stats = sot.stats(call)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])
    assert parts_of(call) <= 2
