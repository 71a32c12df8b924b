"""Calls that differ in their tensors' numbers alone are appended once and copied: equal to eager mode."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.static import InputSpec
from paddle.vision.ops import ConvNormActivation
from paddle_sot_rs._paddle import alike_calls
from paddle_sot_rs._paddle.gradients import alike_gradients

pytestmark = pytest.mark.default_python


@pytest.fixture
def copied(monkeypatch):
    """The calls that were copied, by the number of their operations."""
    found = []
    again = alike_calls.Recorded.again

    def noted(self, trace, signature):
        found.append(len(self.operations))
        return again(self, trace, signature)

    monkeypatch.setattr(alike_calls.Recorded, "again", noted)
    return found


def drawn(*layers):
    """Layers with numbers of their own."""
    for at, layer in enumerate(layers):
        paddle.seed(at)
        for tensor in (*layer.parameters(), *layer.buffers()):
            tensor.set_value(paddle.rand(tensor.shape) + 0.5)
    return layers


def both(function, *args, graphs=1, breaks=0):
    """What eager mode and a translation answer, with the gradients of the arguments and layers."""
    answers = []
    call = sot.to_static(function, min_graph_size=0)
    for run in (function, call):
        given = [paddle.to_tensor(value, stop_gradient=False) for value in args]
        results = run(*given)
        results = results if isinstance(results, tuple) else (results,)
        sum(((result * result).sum() for result in results if not result.stop_gradient), paddle.zeros([])).backward()
        seen = [(result.numpy(), result.stop_gradient) for result in results]
        answers.append((seen, [None if x.grad is None else x.grad.numpy() for x in given]))
    stats = sot.stats(call)
    assert (stats.graphs, len(stats.graph_breaks)) == (graphs, breaks)
    for (one, stops), (other, stops_too) in zip(answers[0][0], answers[1][0], strict=True):
        assert stops == stops_too
        np.testing.assert_array_equal(one, other)
    for one, other in zip(answers[0][1], answers[1][1], strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)


X = np.linspace(-1, 2, 12, dtype="float32").reshape(3, 4)
SQUARE = np.linspace(-2, 1, 16, dtype="float32").reshape(4, 4)


def test_layers_have_their_own_parameters(copied):
    one, two, three = drawn(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    both(lambda x: three(two(one(x))), X)
    assert len(copied) >= 2


def test_the_same_layer_twice_reads_the_same_parameters(copied):
    (one,) = drawn(nn.Linear(4, 4))
    both(lambda x: one(one(x)), X)
    assert copied


@pytest.mark.parametrize("name, value", [("_epsilon", 1e-4), ("_epsilon", np.float64(1e-5))])
def test_other_attributes_are_another_layer(copied, name, value):
    one, two = drawn(nn.LayerNorm(4), nn.LayerNorm(4))
    setattr(two, name, value)
    both(lambda x: two(one(x)), X)
    assert not copied


def test_a_frozen_parameter_is_another_one(copied):
    one, two = drawn(nn.Linear(4, 4), nn.Linear(4, 4))
    two.weight.stop_gradient = True
    two.bias.stop_gradient = True
    both(lambda x: (one(x), two(x.detach())), X)
    assert not [count for count in copied if count > 1]


@pytest.mark.parametrize("stops", [True, False])
def test_a_parameter_that_the_function_freezes_or_thaws_is_another_one(stops):
    def set_in_front(x):
        for at, layer in enumerate(layers):
            for parameter in layer.parameters():
                parameter.stop_gradient = stops if at == 0 else not stops
        one, two, three = layers
        return one(x), three(two(x))

    found = []
    for run in (set_in_front, sot.to_static(set_in_front, min_graph_size=0)):
        layers = drawn(*(nn.Linear(4, 4) for _ in range(3)))
        parameters = [parameter for layer in layers for parameter in layer.parameters()]
        # The first call has other flags than the graph begins with.
        for parameter in parameters:
            parameter.stop_gradient = not stops
        results = run(paddle.to_tensor(X))
        sum(results).sum().backward()
        gradients = [None if it.grad is None else it.grad.tolist() for it in parameters]
        found.append(([(it.tolist(), it.stop_gradient) for it in results], gradients))
    assert found[0] == found[1]


def test_shared_parameters_are_unlike_two(copied):
    class Tied(nn.Layer):
        def __init__(self, tied):
            super().__init__()
            self.one, self.two = drawn(nn.Linear(4, 4), nn.Linear(4, 4))
            if tied:
                self.two = self.one

        def forward(self, x):
            return self.two(paddle.tanh(self.one(x)))

    plain, tied = Tied(False), Tied(True)
    both(lambda x: tied(plain(x)), X)


def test_one_value_twice_is_unlike_two_values():
    both(lambda x, y: (paddle.add(x, x), paddle.add(x, y), paddle.add(y, y), paddle.add(y, x)), X, X + 1)


@pytest.mark.parametrize("order", [1, -1])
def test_what_lies_otherwise_in_its_storage_is_copied_where_eager_mode_copies(order):
    def views(x):
        parts = [x.reshape([2, 8]), x.t().reshape([2, 8])][::order]
        return tuple(part.add_(paddle.ones([])) for part in parts) + (x * 2,)

    both(lambda x: views(x * 1), SQUARE, breaks=1)


def test_arguments_of_another_type_or_sign_are_unlike():
    both(
        lambda x: (x + 1, x + 1.0, x * 0.0, x * -0.0, paddle.scale(x, 1), paddle.scale(x, True)), X, graphs=2, breaks=1
    )


def test_sizes_that_are_tensors_are_read_anew():
    def sized(x):
        one, two = paddle.full([1], 6, "int64"), paddle.full([1], 3, "int64")
        return paddle.reshape(x, [one, -1]), paddle.reshape(x, [two, -1])

    both(sized, X)


def test_running_statistics_are_each_layers_own(copied):
    def built():
        return drawn(*(nn.BatchNorm1D(4) for _ in range(4)))

    plain, known = built(), built()
    call = sot.to_static(lambda x: known[3](known[2](known[1](known[0](x)))), min_graph_size=0)
    for _ in range(3):
        x = paddle.to_tensor(X)
        expected = plain[3](plain[2](plain[1](plain[0](x))))
        np.testing.assert_array_equal(expected.numpy(), call(x).numpy())
    for one, other in zip(plain, known, strict=True):
        assert all((a == b).all() for a, b in zip(one.buffers(), other.buffers(), strict=True))
    assert len(copied) >= 2
    assert (sot.stats(call).graphs, sot.stats(call).graph_breaks) == (1, [])


def test_copies_draw_numbers_of_their_own(copied):
    one, two = nn.Dropout(0.5), nn.Dropout(0.5)

    def masks(x):
        return one(x), two(x)

    call = sot.to_static(masks, min_graph_size=0)
    answers = []
    for run in (masks, call):
        paddle.seed(7)
        answers.append([mask.numpy() for mask in run(paddle.ones([64]))])
    assert copied and (answers[0][0] != answers[0][1]).any()
    for expected, found in zip(*answers, strict=True):
        np.testing.assert_array_equal(expected, found)


def test_a_call_that_was_undone_is_made_anew(copied):
    one, two = drawn(nn.Linear(4, 4), nn.Linear(4, 4))

    def undone(x, flag):
        x = x * 1
        if (x.sum() > 1e9) if flag else False:
            return two(x) - 1
        return two(one(x))

    call = sot.to_static(undone, min_graph_size=0)
    for flag in (True, False):
        x = paddle.to_tensor(X)
        np.testing.assert_array_equal(undone(x, flag).numpy(), call(x, flag).numpy())


def test_an_error_of_a_copied_call_is_eager_modes():
    one, two = drawn(nn.Linear(4, 3), nn.Linear(4, 3))
    call = sot.to_static(lambda x: two(one(x)), min_graph_size=0)
    with pytest.raises(ValueError, match=r"(?s)matmul|Linear|dimension|width"):
        call(paddle.to_tensor(X))


def test_encoder_layers_are_copied_with_gradients(copied):
    def built():
        paddle.seed(3)
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 3)

    nets = built(), built()
    for net in nets:
        drawn(net)
    call = sot.to_static(nets[1])
    seen = []
    for net, run in zip(nets, (nets[0], call), strict=True):
        x = paddle.linspace(-1, 1, 48).reshape([2, 3, 8])
        x.stop_gradient = False
        result = run(x)
        (result * result).sum().backward()
        seen.append([result.numpy(), x.grad.numpy(), *(it.grad.numpy() for it in net.parameters())])
    for expected, found in zip(*seen, strict=True):
        np.testing.assert_array_equal(expected, found)
    assert len(copied) == 2 and min(copied) > 20
    assert (sot.stats(call).graphs, sot.stats(call).graph_breaks) == (1, [])


def test_attributes_that_a_layer_writes_are_written_to_each(copied):
    def built():
        return drawn(*(nn.BatchNorm1D(4) for _ in range(4)))

    plain, known = built(), built()
    call = sot.to_static(lambda x: known[3](known[2](known[1](known[0](x)))), min_graph_size=0)
    x = paddle.to_tensor(X)
    plain[3](plain[2](plain[1](plain[0](x))))
    call(x)
    assert copied
    assert [layer._data_format for layer in known] == [layer._data_format for layer in plain]
    assert (sot.stats(call).graphs, sot.stats(call).graph_breaks) == (1, [])


def test_gradients_of_copies_follow_what_needs_them(monkeypatch):
    copied, again = [], alike_gradients._Recorded.again

    def noted(self, values):
        copied.append(len(self.operations))
        return again(self, values)

    monkeypatch.setattr(alike_gradients._Recorded, "again", noted)
    layers = drawn(*(nn.Linear(4, 4) for _ in range(6)))
    layers[3].weight.stop_gradient = True
    layers[4].bias.stop_gradient = True

    def mixed(x, y):
        for layer in layers:
            x = paddle.tanh(layer(x)) + y
        return x, paddle.add(x, x), paddle.add(x, y.detach())

    seen = []
    for run in (mixed, sot.to_static(mixed, min_graph_size=0)):
        given = [paddle.to_tensor(value, stop_gradient=False) for value in (X, X + 1)]
        sum((result * result).sum() for result in run(*given)).backward()
        tensors = [*given, *(it for layer in layers for it in layer.parameters())]
        seen.append([None if it.grad is None else it.grad.numpy() for it in tensors])
        for layer in layers:
            layer.clear_gradients(set_to_zero=False)
    assert copied and [it is None for it in seen[0]] == [it is None for it in seen[1]]
    for expected, found in zip(*seen, strict=True):
        if expected is not None:
            np.testing.assert_array_equal(expected, found)


def test_calls_around_a_captured_loop():
    one, two = drawn(nn.Linear(4, 4), nn.Linear(4, 4))

    def looped(x, count):
        x = paddle.tanh(one(x))
        at = paddle.to_tensor(0)
        while at < count:
            x = paddle.tanh(paddle.tanh(x) * 2)
            at = at + 1
        return paddle.tanh(two(paddle.tanh(one(x))))

    call = sot.to_static(looped, min_graph_size=0, capture_control_flow=True)
    x, count = paddle.to_tensor(X), paddle.to_tensor(3)
    np.testing.assert_array_equal(looped(x, count).numpy(), call(x, count).numpy())
    assert (sot.stats(call).graphs, sot.stats(call).graph_breaks) == (1, [])


class Convolutions(nn.Layer):
    """Layers of Paddle's that make several operations with parameters: the second call is a copy of the first."""

    def __init__(self):
        super().__init__()
        paddle.seed(0)
        self.parts = nn.LayerList([ConvNormActivation(2, 2, 3) for _ in range(3)])

    def forward(self, x):
        for part in self.parts:
            x = x + part(x)
        return x


def test_open_dims_stay_open_where_known_ones_make_copies(tmp_path):
    """Calls with open dims are not copied, and their parameters become inputs between the operations."""
    net = Convolutions()
    net.eval()
    call = sot.to_static(lambda x: net(x), min_graph_size=0)
    for rows in (2, 3, 4, 5):
        x = paddle.randn([rows, 2, 4, 4])
        assert call(x).numpy().tobytes() == net(x).numpy().tobytes()
    assert sot.stats(call).translations == 2
    path = str(tmp_path / "net")
    sot.save(net, path, input_spec=[InputSpec([None, 2, 4, 4], "float32", "x")])
    assert paddle.jit.load(path)(x).numpy().tobytes() == net(x).numpy().tobytes()
