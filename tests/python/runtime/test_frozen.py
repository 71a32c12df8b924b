"""`freeze`: inference with parameters that are constants, without guards."""

import threading
from collections import namedtuple

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.static import InputSpec

Pair = namedtuple("Pair", "left right")


class Network(nn.Layer):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2D(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2D(8)
        self.last = nn.Linear(8, 4)
        self.scale = 2.0

    def forward(self, x, mask=None):
        x = F.relu(self.norm(self.convolution(x)))
        if mask is not None:
            x = x * mask
        return self.last(x.mean([2, 3])) * self.scale


def network():
    paddle.seed(1)
    made = Network()
    made.norm._variance.set_value(paddle.rand([8]) + 0.5)
    made.eval()
    return made


def tensor(*shape, seed=0):
    return paddle.to_tensor(np.random.RandomState(seed).rand(*shape).astype("float32"))


def same(found, expected):
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["onednn", "paddle", "cinn", "eager"])
def test_kinds_of_calls(backend):
    net = network()
    x, mask = tensor(2, 3, 6, 6), tensor(2, 8, 6, 6)
    frozen = sot.freeze(net, [(x,), (x, mask)], backend=backend)
    for seed in range(3):
        x, mask = tensor(2, 3, 6, 6, seed=seed), tensor(2, 8, 6, 6, seed=seed)
        found = frozen(x)
        assert found.stop_gradient
        same(found, net(x))
        same(frozen(x, mask), net(x, mask))
    assert frozen.stats == sot.FrozenStats(kinds=2, misses=0, refreshes=0)


def test_arguments_by_name():
    net = network()
    x, mask = tensor(2, 3, 6, 6), tensor(2, 8, 6, 6)
    frozen = sot.freeze(net, [{"x": x}, {"mask": mask, "x": x}], on_miss="error")
    same(frozen(x=x), net(x))
    for found in (frozen(x, mask), frozen(x, mask=mask), frozen(mask=mask, x=x)):
        same(found, net(x, mask))
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        frozen(mask=mask)
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        frozen(x, other=mask)
    assert frozen.stats == sot.FrozenStats(kinds=2, misses=0, refreshes=0)


def test_defaults_stand_between_arguments():
    def f(x, scale=2.0, *more, shift=None):
        return x * scale + sum(more)

    frozen, x = sot.freeze(f, [(tensor(3),)]), tensor(3)
    same(frozen(x, scale=3.0), f(x, scale=3.0))
    same(frozen(x, 3.0, 1.0), f(x, 3.0, 1.0))
    same(frozen(x, shift=x), f(x, shift=x))


def test_arguments_that_have_no_position(tmp_path):
    weight = tensor(3, 3)

    def f(x, /, *more, shift, power=1.0, **others):
        y = (x @ weight + shift) ** power + sum(more)
        return y * others["b"] - others["a"] if others else y

    x, y, z = tensor(2, 3), tensor(2, 3, seed=1), tensor(2, 3, seed=2)

    def g(x, *, shift):
        return f(x, shift=shift)

    frozen = sot.freeze(g, [{"x": InputSpec([None, 3], "float32"), "shift": y[0]}], on_miss="error")
    same(frozen(x, shift=y[0]), g(x, shift=y[0]))
    same(frozen(shift=y[1], x=tensor(5, 3)), g(tensor(5, 3), shift=y[1]))
    with pytest.raises(TypeError, match="missing a required .*argument: 'shift'"):
        frozen(x)
    with pytest.raises(TypeError, match="shift cannot be given by position"):
        frozen.save(str(tmp_path / "g"))
    frozen = sot.freeze(lambda x, y, z, p: f(x, y, shift=z, power=p), [(x, y, z, 2.0)])
    same(frozen(x, y, z, 2.0), f(x, y, shift=z, power=2.0))

    def h(x, **others):
        return f(x, shift=x, **others)

    frozen = sot.freeze(h, [(x,), {"x": x, "b": y, "a": z}], on_miss="error")
    same(frozen(x), h(x))
    same(frozen(x, a=z, b=y), h(x, a=z, b=y))
    same(frozen(x, b=z, a=y), h(x, a=y, b=z))
    assert frozen.stats == sot.FrozenStats(kinds=2, misses=0, refreshes=0)


@pytest.mark.parametrize("backend", ["onednn", "paddle", "eager"])
def test_parameters_are_constants_until_they_are_refreshed(backend):
    net, x = network(), tensor(2, 3, 6, 6)
    frozen = sot.freeze(net, [(x,)], backend=backend)
    before = frozen(x).numpy()
    for change in (
        lambda: net.convolution.weight.set_value(net.convolution.weight * 2),
        lambda: net.norm._mean.set_value(net.norm._mean + 1),
        lambda: net.last.bias.set_value(net.last.bias + 1),
        lambda: setattr(net, "scale", 3.0),
        lambda: setattr(net, "last", nn.Linear(8, 4)),
    ):
        change()
        net.eval()
        np.testing.assert_array_equal(frozen(x).numpy(), before)
        assert not np.allclose(net(x).numpy(), before)
        frozen.refresh()
        same(frozen(x), net(x))
        before = frozen(x).numpy()
    assert frozen.stats.refreshes == 5


def test_a_check_says_what_has_changed():
    net, x = network(), tensor(2, 3, 6, 6)
    frozen = sot.freeze(net, [(x,)], check=True)
    same(frozen(x), net(x))
    net.last.weight.set_value(net.last.weight + 1)
    with pytest.raises(RuntimeError, match=rf"^frozen: {net.last.weight.name} changed since; call refresh"):
        frozen(x)
    frozen.refresh()
    same(frozen(x), net(x))


def operators(frozen):
    return frozen.report[0][0]


def test_what_depends_on_parameters_only_is_computed_once():
    """The size of the parameters, three operations that make them one matrix, and a result that is one."""
    weight, scale, x = tensor(64, 64), tensor(64, seed=1), tensor(8, 64, seed=2)

    def f(x):
        whole = paddle.exp(weight * 0.1).transpose([1, 0]) * scale
        return F.softmax(x @ whole), whole

    frozen = sot.freeze(f, [(x,)], options={"least_elements": 0})
    for _ in range(2):
        found, whole = frozen(x)
        same(found, f(x)[0])
        same(whole, f(x)[1])
        # A result is nobody else's.
        whole.zero_()
    # The product, the softmax, and copies of two results.
    assert operators(frozen) == "oneDNN: 2 of 4 operators"
    weight.set_value(weight + 1)
    frozen.refresh()
    same(frozen(x)[0], f(x)[0])


def test_constants_are_not_written_over():
    weight, x = tensor(8, 8), tensor(8, 8, seed=1)

    def f(x):
        whole = weight * 2
        whole.add_(x * 1)
        return whole @ x

    frozen = sot.freeze(f, [(x,)], options={"least_elements": 0})
    for seed in range(3):
        x = tensor(8, 8, seed=seed)
        same(frozen(x), f(x))


def test_open_dims():
    net = network()
    frozen = sot.freeze(net, [(InputSpec([None, 3, 6, 6], "float32"),)], on_miss="error")
    for batch in (1, 2, 7):
        x = tensor(batch, 3, 6, 6)
        same(frozen(x), net(x))
    with pytest.raises(LookupError, match="no kind of calls is ready for\n    float32 .2, 3, 5, 6.\nready are\n"):
        frozen(tensor(2, 3, 5, 6))
    assert frozen.stats == sot.FrozenStats(kinds=1, misses=1, refreshes=0)


def test_open_dims_are_of_tensors_with_items():
    frozen = sot.freeze(lambda x: paddle.concat([x, x * 2]), [(InputSpec([None, 4], "float32"),)])
    assert frozen(tensor(0, 4)).shape == [0, 4] and frozen(tensor(2, 4)).shape == [4, 4]
    assert frozen.stats == sot.FrozenStats(kinds=2, misses=1, refreshes=0)


def test_other_calls_after_a_parameter_changed():
    net, x = network(), tensor(2, 3, 6, 6)
    frozen, expected = sot.freeze(net, [(tensor(1, 3, 6, 6),)]), net(x)
    net.last.bias.set_value(net.last.bias + 1)
    same(frozen(x), expected)


def test_other_calls_are_translated():
    net = network()
    frozen = sot.freeze(net, [(tensor(1, 3, 6, 6),)])
    for batch in (1, 2, 2, 3, 1):
        x = tensor(batch, 3, 6, 6)
        same(frozen(x), net(x))
    assert frozen.stats == sot.FrozenStats(kinds=3, misses=2, refreshes=0)


def test_results_and_arguments_in_containers():
    def f(items, options, power):
        a, b = items
        return {"b": [a * options["scale"], None, "text"], "a": Pair(b**power, (a + b, 3))}

    x, y, scale = tensor(3), tensor(3, seed=1), tensor(1)
    frozen = sot.freeze(f, [([x, y], {"scale": scale}, 2)])
    for seed in range(2):
        x, y = tensor(3, seed=seed), tensor(3, seed=seed + 5)
        found, expected = frozen([x, y], {"scale": scale}, 2), f([x, y], {"scale": scale}, 2)
        assert list(found) == list(expected) and type(found["a"]) is Pair
        assert found["b"][1:] == [None, "text"] and found["a"].right[1] == 3
        same(found["b"][0], expected["b"][0])
        same(found["a"].left, expected["a"].left)
        same(found["a"].right[0], expected["a"].right[0])
    same(frozen([x, y], {"scale": scale}, 3)["a"].left, y**3)
    # 2 and 2.0 are equal; what they give may differ.
    frozen([x, y], {"scale": scale}, 2.0)
    assert frozen.stats.kinds == 3


SEEN = []
LEARNED = paddle.create_parameter([3], "float32")


def effect(x):
    SEEN.append(1)
    return x + 1


def breaking(x):
    y = x * 2
    print(y.numpy().sum(), end="")
    return y + 1


def generator(x):
    yield x


def stepping(x):
    x = x * LEARNED
    x.sum().backward()
    return x


def explicitly_raising(x):
    raise KeyError("no such thing")


def raising(x):
    return x + paddle.ones([x.shape[0] + 1])


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (effect, sot.GraphBreakError, "changes something that exists before the call"),
        (breaking, sot.GraphBreakError, "numpy"),
        (generator, sot.GraphBreakError, "generator"),
        (raising, (RuntimeError, ValueError, sot.GraphBreakError), "."),
        (stepping, sot.GraphBreakError, "backward"),
        (explicitly_raising, sot.GraphBreakError, "an exception leaves the function"),
        (lambda x: 3, sot.GraphBreakError, "returns no tensor"),
        (nn.Dropout(0.5), ValueError, "Dropout is in training mode; call eval"),
        (3, TypeError, "layer_or_fn: expected a Layer or a function, got int"),
    ],
    ids=[
        "effect",
        "break",
        "generator",
        "raises",
        "goes backward",
        "raises by itself",
        "no tensor",
        "trains",
        "no function",
    ],
)
def test_what_cannot_be_frozen(function, error, message):
    with pytest.raises(error, match=message) as raised:
        sot.freeze(function, [(tensor(3),)])
    assert not SEEN
    # Which of the calls to be ready for it is.
    broke = isinstance(raised.value, sot.GraphBreakError)
    assert getattr(raised.value, "__notes__", []) == (["freeze: of warm_up[0]"] if broke else [])


MANAGER = paddle.no_grad()


@paddle.no_grad()
def without_gradients(x):
    return x.tanh() * 2


def by_a_manager(x):
    with MANAGER:
        return x.tanh() * 2


def with_a_cast(x):
    with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
        return x.tanh() * 2


@pytest.mark.parametrize("function", [without_gradients, by_a_manager, with_a_cast])
def test_what_nobody_sees_is_no_change(function):
    frozen = sot.freeze(function, warm_up=[(tensor(2, 3),)], on_miss="error")
    same(frozen(tensor(2, 3, seed=1)), function(tensor(2, 3, seed=1)))


def test_what_is_changed_is_named():
    net = nn.utils.weight_norm(nn.Linear(3, 2))
    net.eval()
    with pytest.raises(sot.GraphBreakError, match="before the call: of type Linear"):
        sot.freeze(net, warm_up=[(tensor(2, 3),)])


def test_running_statistics_are_not_frozen():
    norm, before = nn.BatchNorm2D(3), np.zeros(3)
    with pytest.raises(ValueError, match=rf"^freeze: warm_up.0. changes .*{norm._variance.name}: it trains; call"):
        sot.freeze(lambda x: norm(x), [(tensor(2, 3, 4, 4),)])
    np.testing.assert_array_equal(norm._mean.numpy(), before)


def test_breaks_can_be_kept(capfd):
    frozen, x = sot.freeze(breaking, [(tensor(3),)], allow_breaks=True, on_miss="error"), tensor(3)
    same(frozen(x), breaking(x))
    assert frozen.stats.kinds == 1
    capfd.readouterr()


def test_what_breaks_sees_parameters_of_the_moment(capfd):
    net, x = network(), tensor(2, 3, 6, 6)

    def f(x):
        x = net(x)
        print(x.numpy().sum(), end="")
        return x + 1

    frozen = sot.freeze(f, [(x,)], allow_breaks=True)
    for _ in range(3):
        same(frozen(x), net(x) + 1)
        net.convolution.weight.set_value(net.convolution.weight * 2)
    capfd.readouterr()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(warm_up=[]), ValueError, "warm_up: expected a list"),
        (dict(warm_up=[3]), TypeError, r"warm_up\[0\]: expected a tuple .*, or a dict .* by name, got int"),
        (dict(warm_up=[(1,)], on_miss="never"), ValueError, "on_miss: expected"),
        (dict(warm_up=[(1,)], backend="none"), ValueError, "none"),
        (dict(warm_up=[(object(),)]), TypeError, "an argument is a object"),
    ],
)
def test_arguments_are_checked(arguments, error, message):
    with pytest.raises(error, match=message):
        sot.freeze(lambda x: x, **arguments)


def test_random_numbers_stay_where_they_are():
    paddle.seed(5)
    expected = paddle.rand([2]).numpy()
    paddle.seed(5)
    frozen = sot.freeze(lambda x: x + paddle.rand([2]), [(tensor(2),)], backend="paddle")
    np.testing.assert_array_equal(paddle.rand([2]).numpy(), expected)
    assert not np.array_equal(frozen(tensor(2)).numpy(), frozen(tensor(2)).numpy())


@pytest.mark.parametrize("backend", ["onednn", "paddle"])
def test_threads(backend):
    """Eight at once, while parameters are taken anew: each result is of one set of them."""
    net, x = network(), tensor(2, 3, 6, 6)
    frozen = sot.freeze(net, [(x,)], backend=backend)
    expected, wrong = [net(x).numpy()], []
    net.last.bias.set_value(net.last.bias + 1)
    expected.append(net(x).numpy())

    def run():
        try:
            for batch in (2, 2, 3, 2, 2, 4, 2):
                found = frozen(tensor(batch, 3, 6, 6)).numpy()
                if batch == 2 and not any(np.allclose(found, one, rtol=1e-4, atol=1e-5) for one in expected):
                    wrong.append(found)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    frozen.refresh()
    for thread in threads:
        thread.join()
    assert not wrong
    same(frozen(x), net(x))


def test_saved(tmp_path):
    net, x = network(), tensor(2, 3, 6, 6)
    frozen = sot.freeze(net, [(x,)])
    frozen.save(tmp_path / "net")
    loaded = paddle.jit.load(str(tmp_path / "net"))
    same(loaded(x), frozen(x))
    net.last.bias.set_value(net.last.bias + 1)
    with pytest.raises(RuntimeError, match="changed since; call refresh"):
        frozen.save(tmp_path / "other")
    assert not list(tmp_path.glob("other*"))


DTYPES = ("bool", "int8", "uint8", "int16", "int64", "float16", "bfloat16", "float64", "complex64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_kept_may_have_any_dtype(dtype):
    weight = paddle.to_tensor([1.0, 0.0, 3.0, 1.0]).astype(dtype)

    def function(x):
        return x * (weight.real() if weight.is_complex() else weight).astype("float32")

    frozen = sot.freeze(function, [(InputSpec([None, 4]),)], check=True)
    x = tensor(2, 4)
    same(frozen(x), function(x))
    weight.set_value(1 - weight.astype("float32").astype(dtype) if dtype != "bool" else ~weight)
    with pytest.raises(RuntimeError, match="changed since"):
        frozen(x)
    frozen.refresh()
    same(frozen(x), function(x))


def test_what_is_no_number_is_what_it_was(tmp_path):
    net = nn.Linear(4, 2)
    net.eval()
    net.bias.set_value(paddle.to_tensor([float("nan"), 1.0]))
    frozen = sot.freeze(net, [(InputSpec([None, 4]),)], check=True)
    same(frozen(tensor(2, 4)), net(tensor(2, 4)))
    frozen.save(tmp_path / "net")
    net.to(dtype="float64")
    with pytest.raises(RuntimeError, match="changed since"):
        frozen(tensor(2, 4))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.SimpleRNN])
@pytest.mark.parametrize("backend", ["onednn", "paddle"])
def test_recurrent_layers(kind, backend):
    """They hold a state that nothing has written yet."""
    net = kind(4, 3)
    net.eval()
    frozen = sot.freeze(net, [(InputSpec([None, None, 4]),)], backend=backend, check=True)
    for x in (tensor(2, 3, 4), tensor(1, 5, 4)):
        for found, expected in zip(paddle.utils.flatten(frozen(x)), paddle.utils.flatten(net(x)), strict=True):
            same(found, expected)


@pytest.mark.parametrize("backend", ["onednn", "paddle", "eager"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.SimpleRNN])
def test_recurrent_layers_keep_their_weights(kind, backend):
    """They have a buffer without memory, and lists of their weights."""
    net, x = kind(4, 3, 2), tensor(2, 5, 4)
    net.eval()
    frozen = sot.freeze(net, [(x,)], backend=backend)
    expected = [net(tensor(2, 5, 4, seed=seed))[0] for seed in range(3)]
    for weight in net.parameters():
        weight.set_value(weight * 2)
    for seed in range(3):
        same(frozen(tensor(2, 5, 4, seed=seed))[0], expected[seed])
    frozen.refresh()
    same(frozen(x)[0], net(x)[0])
