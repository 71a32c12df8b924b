"""Graphs of many operations run in pieces: equal to eager mode, digit by digit."""

import gc
import weakref

import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn

pytestmark = pytest.mark.default_python


class Block(nn.Layer):
    """What comes in is taken twice: by the first layer, and by the sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.one, self.two = nn.LayerNorm(4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return x + self.two(paddle.tanh(self.one(self.norm(x))))


class Deep(nn.Layer):
    def __init__(self, depth):
        super().__init__()
        self.blocks = nn.LayerList([Block() for _ in range(depth)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Ladder(nn.Layer):
    """Each tensor on the way down is taken once more on the way up."""

    def __init__(self, depth):
        super().__init__()
        self.down = nn.LayerList([nn.Linear(4, 4) for _ in range(depth)])
        self.up = nn.LayerList([nn.Linear(4, 4) for _ in range(depth)])

    def forward(self, x):
        kept = []
        for layer in self.down:
            x = paddle.tanh(layer(x))
            kept.append(x)
        for layer in self.up:
            x = paddle.tanh(layer(x)) * kept.pop()
        return x


class Dropped(nn.Layer):
    def __init__(self, depth):
        super().__init__()
        self.layers = nn.LayerList([nn.Linear(4, 4) for _ in range(depth)])
        self.norm = nn.BatchNorm1D(4)

    def forward(self, x):
        for layer in self.layers:
            x = self.norm(nn.functional.dropout(layer(x), 0.1)) + x
        return x


class Unrolled(nn.Layer):
    def __init__(self, rounds):
        super().__init__()
        self.cell, self.rounds = nn.LSTMCell(4, 4), rounds

    def forward(self, x):
        h = c = paddle.zeros([x.shape[0], 4])
        for _ in range(self.rounds):
            x, (h, c) = self.cell(x, (h, c))
        return x


class Side(nn.Layer):
    """Two ways that share weights, one longer than the other: eager mode goes back through both at once."""

    def __init__(self, rounds):
        super().__init__()
        self.linear, self.scale, self.rounds = nn.Linear(4, 4), self.create_parameter([4]), rounds

    def forward(self, x):
        y = x * 2
        for _ in range(self.rounds):
            x = paddle.tanh(self.linear(x) * self.scale)
            y = nn.functional.sigmoid(nn.functional.relu(self.linear(y) + self.scale) * y + 1) * self.scale
        return x * y + y


class Measured(nn.Layer):
    """Numbers that no gradient comes back from are taken behind a cut."""

    def __init__(self, depth):
        super().__init__()
        self.layers = nn.LayerList([nn.Linear(4, 4) for _ in range(depth)])

    def forward(self, x):
        best = paddle.zeros([x.shape[0]], "int64")
        for layer in self.layers:
            y = paddle.tanh(layer(x))
            best = best + y.argmax(-1)
            x = y + x.detach() * 0.5
        return x * best.unsqueeze(-1).astype("float32")


def report(call):
    return sot.report.static_function(call).graphs()[0].report


def parts_of(call):
    for line in report(call):
        if " parts, one after the other" in line:
            return int(line.split()[0])
    return 1


def seen_after_training(net, call, steps=2):
    """Losses, gradients, statistics and random numbers of some steps."""
    paddle.seed(7)
    optimizer = paddle.optimizer.SGD(0.05, parameters=net.parameters())
    seen = []
    for step in range(steps):
        x = paddle.linspace(-1, 1, 12 + 4 * step).reshape([-1, 4])
        x.stop_gradient = False
        loss = (call(x) ** 2).mean()
        loss.backward()
        seen += [loss.numpy(), x.grad.numpy()]
        trained = [it for it in net.parameters() if not it.stop_gradient]
        seen += [parameter.grad.numpy() for parameter in trained]
        optimizer.step()
        optimizer.clear_grad()
    seen += [value.numpy() for value in net.state_dict().values()]
    return seen + [paddle.rand([2]).numpy()]


def both(make):
    answers = []
    for translate in (False, True):
        paddle.seed(3)
        net = make()
        call = sot.to_static(net, compile_at_call=1) if translate else net
        answers.append(seen_after_training(net, call))
    assert [(a == b).all() for a, b in zip(*answers, strict=True)].count(False) == 0
    return call


@pytest.mark.parametrize(
    "make",
    [lambda: Deep(120), lambda: Ladder(150), lambda: Measured(150)],
    ids=["residual", "ladder", "measured"],
)
def test_training(make):
    call = both(make)
    stats = sot.stats(call)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (2, [], [])
    assert parts_of(call) > 2


def test_rounds_of_a_very_long_loop():
    """Each uses a weight once: gradients are added one by one, as in eager mode."""
    call = both(lambda: Side(130))
    stats = sot.stats(call)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (2, [], [])
    assert parts_of(call) > 100


class Summed(nn.Layer):
    """Eager mode adds the gradients of the scale from the first round on, and one from behind the loop before them."""

    def __init__(self, rounds):
        super().__init__()
        self.linear, self.scale, self.rounds = nn.Linear(4, 4), self.create_parameter([4]), rounds

    def forward(self, x):
        made = []
        for _ in range(self.rounds):
            x = paddle.tanh(self.linear(x)) * self.scale
            made.append(x * self.scale)
        return sum(made) * self.scale


def test_pieces_that_would_add_in_another_order_run_call_by_call():
    call = both(lambda: Summed(400))
    stats = sot.stats(call)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (2, [], [])
    assert "of which 0 are programs" in report(call)[0]


class Squared(Summed):
    """Each round uses the scale twice in one operation."""

    def forward(self, x):
        made = []
        for _ in range(self.rounds):
            x = paddle.tanh(self.linear(x)) * (self.scale * self.scale)
            made.append(x * self.scale)
        return sum(made) * self.scale


def test_what_cannot_be_cut_runs_call_by_call():
    """One program of so many operations would take minutes."""
    paddle.seed(3)
    net = Squared(520)
    x = paddle.linspace(-1, 1, 12).reshape([3, 4])
    (net(x) ** 2).mean().backward()
    expected = [parameter.grad.numpy() for parameter in net.parameters()]
    net.clear_gradients()
    call = sot.to_static(net, compile_at_call=1)
    (call(x) ** 2).mean().backward()
    assert all((a.grad.numpy() == b).all() for a, b in zip(net.parameters(), expected, strict=True))
    stats = sot.stats(call)
    assert (stats.graphs, stats.graph_breaks) == (1, [])
    assert "cannot be cut into pieces" in stats.fallbacks[0].message


def test_gradients_in_a_long_graph_run_call_by_call():
    """A graph with `paddle.grad` in it is not cut."""
    net = Unrolled(220)

    def function(x):
        return paddle.grad(net(x).mean(), net.parameters())

    call = sot.to_static(function, compile_at_call=1)
    x = paddle.linspace(-1, 1, 12).reshape([3, 4])
    assert all(a.equal_all(b) for a, b in zip(function(x), call(x), strict=True))
    stats = sot.stats(call)
    assert (stats.graphs, stats.graph_breaks) == (1, [])
    assert "cannot be cut into pieces" in stats.fallbacks[0].message


def test_long_parts_of_several_results():
    """One program of so many operations would take minutes."""
    net = Squared(520)

    def function(x):
        y = net(x)
        return (y**2).mean(), y

    call = sot.to_static(function, compile_at_call=1)
    found = []
    for run in (function, call):
        x = paddle.linspace(-1, 1, 12).reshape([3, 4])
        loss, y = run(x)
        (loss + y.mean()).backward()
        found.append([parameter.grad.numpy() for parameter in net.parameters()])
        net.clear_gradients()
    assert all((a == b).all() for a, b in zip(*found, strict=True))
    assert "of which 0 are programs" in report(call)[0]


def test_loops_without_gradients_in_a_function_with_gradients(caplog):
    """Their pieces share weights, and use them as often as they like."""
    net = Summed(220)

    def function(x):
        with paddle.no_grad():
            return net(x)

    call = sot.to_static(function, compile_at_call=1)
    x = paddle.linspace(-1, 1, 12).reshape([3, 4])
    with caplog.at_level("WARNING"):
        answer = call(x)
    assert answer.equal_all(function(x))
    assert answer.stop_gradient
    assert parts_of(call) > 4
    assert caplog.records == []


class DeadEnd(nn.Layer):
    """One state of the loop is taken behind it, and reaches no result."""

    def __init__(self, rounds):
        super().__init__()
        self.one, self.two = self.create_parameter([4, 4]), self.create_parameter([4, 4])
        self.scale, self.shift, self.rounds = self.create_parameter([4]), self.create_parameter([4]), rounds

    def forward(self, x):
        dead, made = x * 0.5, []
        for _ in range(self.rounds):
            dead = nn.functional.softmax(nn.functional.relu(dead + self.shift) @ self.one, -1) @ self.two
            x = paddle.tanh(x @ self.two) * self.scale
            made.append(x)
        _ = (dead + x) * 0.1
        return paddle.concat(made, 0)


def test_no_gradient_comes_from_a_dead_end():
    """Its weights have none; zeros would be decayed."""
    found = []
    for translate in (False, True):
        paddle.seed(3)
        net = DeadEnd(90)
        call = sot.to_static(net, compile_at_call=1) if translate else net
        (call(paddle.linspace(-1, 1, 12).reshape([3, 4])) ** 2).mean().backward()
        found.append({name: it.grad if it.grad is None else it.grad.numpy() for name, it in net.named_parameters()})
    eager, ours = found
    assert [name for name, grad in ours.items() if grad is None] == ["one", "shift"]
    assert eager["one"] is eager["shift"] is None
    assert all((ours[name] == eager[name]).all() for name in ("two", "scale"))
    assert parts_of(call) > 1


def test_what_two_pieces_would_add_up_is_one_program():
    call = both(lambda: Dropped(90))
    stats = sot.stats(call)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (2, [], [])
    assert parts_of(call) == 1


@pytest.mark.parametrize(
    "make",
    [lambda: Unrolled(100), lambda: Deep(120), lambda: Dropped(180), lambda: Ladder(150)],
    ids=["unrolled", "residual", "dropped", "ladder"],
)
def test_inference(make):
    net = make()
    call = sot.to_static(net, compile_at_call=1)
    x = paddle.linspace(-1, 1, 12).reshape([3, 4])
    with paddle.no_grad():
        for _ in range(2):
            paddle.seed(5)
            expected = [net.forward(x), paddle.rand([2])]
            paddle.seed(5)
            found = [call(x), paddle.rand([2])]
            assert all((a == b).all() for a, b in zip(expected, found, strict=True))
    stats = sot.stats(call)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])
    assert parts_of(call) > 2
    assert "run one that another part has" in report(call)[0]


def test_what_no_piece_needs_any_more_goes():
    """Between the pieces, as in eager mode."""
    net = Deep(120)
    call = sot.to_static(net, compile_at_call=1)
    with paddle.no_grad():
        call(paddle.ones([2, 4]))
        gc.collect()
        result = call(paddle.ones([2, 4]))
    gone = weakref.ref(result)
    del result
    assert gone() is None
