"""`nn.RNN` and `nn.BiRNN` around cells of Paddle's and of the user's: initial states included, one graph."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn


class Own(nn.RNNCellBase):
    """A cell whose state is a tensor, or two of them."""

    def __init__(self, shape):
        super().__init__()
        self.linear = nn.Linear(7, 4)
        self.shape = shape

    @property
    def state_shape(self):
        return self.shape

    def forward(self, x, states=None):
        first, *rest = states if isinstance(states, tuple | list) else (states,)
        h = paddle.tanh(self.linear(paddle.concat([x, first], -1)))
        return h, (h, *rest) if rest else h


class InDoubles(Own):
    @property
    def state_dtype(self):
        return "float64"

    def forward(self, x, states=None):
        return super().forward(x, states.astype("float32"))


NETWORKS = {
    "simple": lambda: nn.RNN(nn.SimpleRNNCell(3, 4)),
    "long short-term memory": lambda: nn.RNN(nn.LSTMCell(3, 4)),
    "gated": lambda: nn.RNN(nn.GRUCell(3, 4), is_reverse=True),
    "time first": lambda: nn.RNN(nn.GRUCell(3, 4), time_major=True),
    "own": lambda: nn.RNN(Own((4,))),
    "own with two states": lambda: nn.RNN(Own(((4,), (5,)))),
    "own with a batch dim": lambda: nn.RNN(Own((-1, 4))),
    "own in doubles": lambda: nn.RNN(InDoubles((4,))),
    "both ways": lambda: nn.BiRNN(nn.GRUCell(3, 4), nn.GRUCell(3, 4)),
    "both ways with memory": lambda: nn.BiRNN(nn.LSTMCell(3, 4), nn.LSTMCell(3, 4)),
}


def flat(value):
    if isinstance(value, tuple | list):
        return [type(value), *(item for part in value for item in flat(part))]
    return [value.shape, value.dtype, value.tolist()]


def observed(net, x):
    outputs, states = net(x)
    outputs.sum().backward()
    # Gradients of several results may be summed in another order.
    gradients = [pytest.approx(parameter.grad.numpy(), rel=1e-4, abs=1e-6) for parameter in net.parameters()]
    found = [*flat(outputs), *flat(states)], [parameter.grad.numpy() for parameter in net.parameters()], gradients
    for parameter in net.parameters():
        parameter.clear_gradient(False)
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_they_are_one_graph(name):
    paddle.seed(0)
    net = NETWORKS[name]()
    x = paddle.randn([2, 5, 3])
    expected, _, gradients = observed(net, x)
    translated = translate(net)
    for _ in range(2):
        found, others, _ = observed(translated, x)
        assert found == expected and others == gradients
    stats = sot.stats(net)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


def test_another_batch():
    net = nn.RNN(Own((4,)))
    inputs = [paddle.randn([batch, 5, 3]) for batch in (2, 3, 7)]
    expected = [flat(net(x)) for x in inputs]
    translated = translate(net)
    assert [flat(translated(x)) for x in inputs] == expected
    assert sot.stats(net).graph_breaks == []


@pytest.mark.parametrize("shape", [[(4,), (5,)], {"h": (4,)}, (4,)])
def test_other_structures_of_states_are_those_of_paddle(shape):
    cell = Own(shape)

    def states(x):
        return cell.get_initial_states(x, shape, init_value=2.0)

    translated = translate(states)
    x = paddle.ones([2, 3])
    try:
        expected = states(x)
    except Exception as error:
        with pytest.raises(type(error)):
            translated(x)
    else:
        assert str(translated(x)) == str(expected)


PADDLES = [name for name in NETWORKS if "own" not in name]


@pytest.mark.default_python
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", PADDLES)
def test_loops_of_paddles_layers_are_captured(name, grad):
    """Paddle has a loop of its own for each, which meets the weights of the cell inside."""
    paddle.seed(3)
    net, x = NETWORKS[name](), paddle.rand([2, 3, 3])
    translated = translate(lambda x: net(x), full_graph=True, capture_control_flow=True, min_graph_size=1)
    with paddle.set_grad_enabled(grad):
        for _ in range(3):
            for found, expected in zip(paddle.utils.flatten(translated(x)), paddle.utils.flatten(net(x)), strict=True):
                assert paddle.allclose(found, expected, 1e-6, 1e-7)
    stats = sot.stats(translated)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


@pytest.mark.default_python
@pytest.mark.parametrize("name", PADDLES)
def test_saved(name, tmp_path):
    paddle.seed(3)
    net = NETWORKS[name]()
    net.eval()
    sot.save(net, tmp_path / "net", input_spec=[paddle.static.InputSpec([2, 3, 3], "float32")])
    loaded, x = paddle.jit.load(str(tmp_path / "net")), paddle.rand([2, 3, 3])
    for found, expected in zip(paddle.utils.flatten(loaded(x)), paddle.utils.flatten(net(x)), strict=True):
        assert paddle.allclose(found, expected, 1e-6, 1e-7)
    frozen = sot.freeze(net, [(x,)], backend="paddle")
    for found, expected in zip(paddle.utils.flatten(frozen(x)), paddle.utils.flatten(net(x)), strict=True):
        assert paddle.allclose(found, expected, 1e-6, 1e-7)
