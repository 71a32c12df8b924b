"""Each test flips one thing between two calls and sees the right result."""

import functools

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn

X = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3))
SCALE = 2


def translated(function):
    return sot.to_static(function, min_graph_size=0)


def equal(a, b):
    return a.dtype == b.dtype and np.array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("values", [(1, 2), (1, 1.0), (1, True), (0.0, -0.0), ("a", "b"), (None, 0), ((1,), (2,))])
def test_constants_are_exact(values):
    def f(x, k):
        return x + (str(k) + type(k).__name__).__len__(), repr(k)

    g = translated(f)
    for value in values:
        (a, b), (c, d) = f(X, value), g(X, value)
        assert equal(a, c) and b == d
    assert sot.stats(g).translations == 2


class Unequal:
    """A guard must not ask whether it equals something."""

    def __eq__(self, other):
        raise AssertionError("a guard ran user code")


@pytest.mark.parametrize(
    "values",
    [
        (range(0, 3, 2), range(0, 4, 2)),
        (range(3, 3), range(5, 5)),
        (slice(0, 1), slice(0, True), slice(0, 1.0), slice(Unequal(), 1)),
    ],
)
def test_equal_ranges_and_slices_are_not_the_same(values):
    def f(x, k):
        return x * k.stop, type(k.stop)

    g = translated(f)
    for value in values:
        (a, kind), (b, other) = f(X, value), g(X, value)
        assert equal(a, b) and kind is other


def test_dtype_shape_and_rank():
    def f(x):
        return x * 2 + len(x.shape)

    g = translated(f)
    for x in [
        X,
        X.astype("float64"),
        X.astype("int32"),
        X.reshape([6]),
        paddle.ones([5, 3]),
        paddle.ones([7, 3]),
    ]:
        assert equal(f(x), g(x))


def test_a_dim_that_changes_becomes_dynamic():
    def f(x):
        return nn.functional.relu(x) * 2

    g = translated(f)
    for rows in range(2, 12):
        x = paddle.randn([rows, 3])
        assert equal(f(x), g(x))
    assert sot.stats(g).translations == 2


def test_globals_and_defaults():
    global SCALE

    def f(x, by=3):
        return x * SCALE + by

    g = translated(f)
    SCALE = 2
    assert equal(f(X), g(X))
    SCALE = 5
    assert equal(f(X), g(X))
    SCALE = 2
    f.__defaults__ = (7,)
    assert equal(g(X), X * 2 + 7)


def test_closure():
    k = 1

    def f(x):
        return x + k

    g = translated(f)
    assert equal(g(X), X + 1)
    k = 5
    assert equal(g(X), X + 5)


def test_callee_is_redefined():
    def inner(x):
        return x + 1

    def other(x):
        return x - 1

    def f(x):
        return inner(x)

    g = translated(f)
    assert equal(g(X), X + 1)
    inner.__code__ = other.__code__
    assert equal(g(X), X - 1)


def test_grad_mode_and_stop_gradient():
    def f(x):
        return x * 2

    g = translated(f)
    x = paddle.ones([2])
    x.stop_gradient = False
    assert g(x).stop_gradient is False
    with paddle.no_grad():
        assert g(x).stop_gradient is True
    x.stop_gradient = True
    assert g(x).stop_gradient is True


def test_default_dtype():
    def f(x):
        return paddle.zeros([2]) + x.sum()

    g = translated(f)
    assert g(X).dtype == paddle.float32
    paddle.set_default_dtype("float64")
    try:
        assert equal(f(X), g(X))
    finally:
        paddle.set_default_dtype("float32")


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1D(3)
        self.drop = nn.Dropout(0.5)
        self.scale = 2.0

    def forward(self, x):
        return self.drop(self.norm(self.linear(x))) * self.scale


def nets():
    a, b = Net(), Net()
    b.set_state_dict(a.state_dict())
    return a, sot.to_static(b, min_graph_size=0)


def agree(a, b):
    paddle.seed(5)
    x = a(X)
    paddle.seed(5)
    return equal(x, b(X))


def flip_training(net):
    net.eval()


def flip_attribute(net):
    net.scale = 3.0


def flip_parameter(net):
    net.linear.weight.set_value(paddle.ones([3, 3]))


def flip_new_parameter(net):
    net.linear.bias = paddle.create_parameter([3], "float32", default_initializer=nn.initializer.Constant(4.0))


def flip_layer(net):
    paddle.seed(9)
    net.linear = nn.Linear(3, 3)


def flip_rate(net):
    net.drop.p = 0.1


def flip_state(net):
    net.set_state_dict({key: value * 0 + 1 for key, value in net.state_dict().items()})


def flip_pre_hook(net):
    net.linear.register_forward_pre_hook(lambda layer, inputs: (inputs[0] * 2,))


def flip_post_hook(net):
    net.linear.register_forward_post_hook(lambda layer, inputs, output: output + 1)


@pytest.mark.parametrize(
    "flip",
    [
        flip_training, flip_attribute, flip_parameter, flip_new_parameter, flip_layer, flip_rate, flip_state,
        flip_pre_hook, flip_post_hook,
    ],
)  # fmt: skip
def test_layer_state(flip):
    a, b = nets()
    assert agree(a, b) and agree(a, b)
    flip(a)
    flip(b)
    assert agree(a, b) and agree(a, b)


def test_frozen_parameter_gets_no_gradient():
    net = sot.to_static(nn.Linear(3, 3), min_graph_size=0)
    net(X).sum().backward()
    assert net.weight.grad is not None
    net.clear_gradients(set_to_zero=False)
    net.weight.stop_gradient = True
    net(X).sum().backward()
    assert net.weight.grad is None and net.bias.grad is not None


@pytest.mark.parametrize("min_graph_size", [0, None], ids=["program", "call by call"])
def test_gradients_switched_off_for_a_part(min_graph_size):
    def part(x):
        with paddle.no_grad():
            a = x * 2
        return a * x, a

    translated = sot.to_static(part, min_graph_size=min_graph_size)
    for function in (part, translated, translated):
        x = paddle.to_tensor([1.0, 3.0], stop_gradient=False)
        y, a = function(x)
        y.sum().backward()
        assert x.grad.tolist() == [2.0, 6.0]
        assert a.stop_gradient and not y.stop_gradient


def test_parts_of_a_partial():
    def scaled(x, k, *, offset):
        return x * k + offset

    part = functools.partial(scaled, k=3, offset=1)

    def f(x):
        return part(x)

    g = translated(f)
    for offset in (1, 1, 2):
        part.keywords["offset"] = offset
        assert equal(f(X), g(X))
    stats = sot.stats(g)
    assert (stats.translations, stats.graph_breaks) == (2, [])
    part = functools.partial(scaled, X, offset=0)
    with pytest.raises(TypeError, match="multiple values"):
        functools.partial(part, k=1)(X)

    def second(x):
        return part(x)

    assert equal(second(X), translated(second)(X))


def test_tensors_and_attributes_are_read_natively():
    from paddle_sot_rs import _core

    assert _core.tensor_reader() == "native"
    assert _core.attribute_writes() != "every guard runs"


class Settings:
    """Attributes that lie beside the dictionary, where the version of Python does so."""

    def __init__(self):
        self.rate, self.name, self.steps = 2.0, "a", [1, 2]


def _write(settings, rate):
    settings.rate = rate


@pytest.mark.parametrize("seen", [False, True], ids=["before its dictionary was asked for", "after"])
def test_every_way_of_writing_an_attribute_is_noticed(seen):
    def function(x, settings):
        y = x * settings.rate + len(settings.name)
        return y + settings.extra if hasattr(settings, "extra") else y

    translated_function = translated(function)
    settings = Settings()
    if seen:
        assert vars(settings)["rate"] == 2.0

    def agree_now():
        for _ in range(3):
            assert equal(function(X, settings), translated_function(X, settings))

    agree_now()
    order = list(vars(settings))
    assert order == ["rate", "name", "steps"]
    # Often enough for the interpreter to specialise the write.
    for rate in range(60):
        _write(settings, float(rate % 7))
        assert equal(function(X, settings), translated_function(X, settings))
    settings.name = "abc"
    agree_now()
    vars(settings)["rate"] = 5.0
    agree_now()
    settings.extra = 3.0
    agree_now()
    del settings.extra
    agree_now()
    settings.__dict__ = {"rate": 1.5, "name": "", "steps": []}
    agree_now()
    settings.__dict__.update(rate=0.5)
    agree_now()
    object.__setattr__(settings, "rate", 0.25)
    agree_now()


def test_a_first_call_while_the_attributes_are_iterated():
    settings = Settings()
    function = translated(lambda x: x * settings.rate)
    seen = []
    for name, value in vars(settings).items():
        seen.append((name, value))
        assert equal(function(X), X * 2.0)
    assert seen == [("rate", 2.0), ("name", "a"), ("steps", [1, 2])] == list(vars(settings).items())
