"""What a backward leaves behind says of itself what eager mode's says: flags, place, strides, versions."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn
from paddle.distributed.fleet.utils import recompute


class Doubled(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Rounded(paddle.autograd.PyLayer):
    """The gradient that arrives goes on as it is, as in a quantiser."""

    @staticmethod
    def forward(ctx, x):
        return paddle.round(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Viewed(Rounded):
    @staticmethod
    def backward(ctx, gradient):
        return gradient.reshape([4, 4])


class Both(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x, y):
        return paddle.round(x), y * 2

    @staticmethod
    def backward(ctx, gradient, other):
        return gradient, other


FUNCTIONS = {
    "one use": lambda x: (x * 2).sum(),
    "two uses": lambda x: (x * 2).sum() + (x * 3).sum(),
    "both operands": lambda x: (x @ x).sum(),
    "a view": lambda x: x.reshape([-1]).sum(),
    "an item": lambda x: x[0].sum(),
    "parts": lambda x: x.split(2)[0].sum(),
    "a cast": lambda x: x.astype("float64").sum(),
    "zeros": lambda x: (x * 0).sum(),
    "recompute": lambda x: recompute(lambda y: y * 2, x).sum(),
    "a PyLayer": lambda x: Doubled.apply(x).sum(),
    "a PyLayer that hands on": lambda x: Rounded.apply(x).sum(),
    "a PyLayer that hands on a view": lambda x: Viewed.apply(x).sum(),
    "a PyLayer of two": lambda x: Both.apply(x, x)[0].sum(),
    "a PyLayer of two results": lambda x: sum(Both.apply(x, x * 1)).sum(),
    # What arrives first says it.
    "first a PyLayer": lambda x: (Doubled.apply(x) + x.tanh()).sum(),
    "last a PyLayer": lambda x: (x.tanh() + Doubled.apply(x)).sum(),
    "a PyLayer at the end": lambda x: (Doubled.apply(x).tanh() + x.tanh()).sum(),
    "two PyLayers": lambda x: (Rounded.apply(x) + Doubled.apply(x)).sum(),
    "two PyLayers, the other first": lambda x: (Doubled.apply(x) + Rounded.apply(x)).sum(),
    "two results": lambda x: (x * 2, (x * 3).sum())[1],
}


def attributes(gradient):
    return (
        *(gradient.stop_gradient, gradient.is_leaf, gradient.persistable, gradient.inplace_version, gradient.type),
        *(gradient.dtype, str(gradient.place), gradient.shape, gradient.strides, gradient.is_contiguous()),
        gradient.tolist(),
    )


def left_behind(function):
    """A first backward, one that adds to it, one behind a gradient that was set to zero, one behind one that went."""
    x = paddle.arange(16, dtype="float32").reshape([4, 4]) / 4
    x.stop_gradient = False
    found = []
    for clear in (None, None, True, False):
        if clear is not None:
            x.clear_gradient(clear)
        function(x).backward()
        found.append(attributes(x.grad))
    y = function(x)
    y.retain_grads()
    found += map(attributes, paddle.grad(y, [x], retain_graph=True))
    y.backward()
    return *found, attributes(x.grad), attributes(y.grad)


@pytest.mark.parametrize("backend", ["paddle", "cinn", "pylayer", "eager"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_those_of_eager_mode(name, backend):
    function = FUNCTIONS[name]
    translated = translate(lambda x: function(x), backend=backend)
    assert left_behind(translated) == left_behind(function)
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


def test_those_of_parameters_are_differentiable_and_stay_what_they_are_made():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2, bias_attr=False))
    translated = translate(net)
    for _ in range(2):
        translated(paddle.ones([2, 3])).sum().backward()
        assert [parameter.grad.stop_gradient for parameter in net.parameters()] == [False] * 3
    first, *others = net.parameters()
    first.grad.stop_gradient = True
    assert first.grad.stop_gradient and not any(parameter.grad.stop_gradient for parameter in others)
    assert sot.stats(translated).graphs == 1


def test_what_is_computed_with_them_is_differentiable():
    def penalty(net):
        net(paddle.ones([2, 3])).square().sum().backward()
        gradient = net.weight.grad
        return (gradient * gradient).sum().stop_gradient

    net = nn.Linear(3, 2)
    expected = penalty(net)
    net.clear_gradients()
    assert penalty(translate(net)) == expected is False


def test_hooks_that_are_registered_behind_the_first_call_see_it():
    translated = translate(lambda x: (x * x).sum())
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    translated(x)
    seen = []
    x.register_hook(lambda gradient: seen.append(gradient.stop_gradient))
    translated(x).backward()
    assert seen == [False]


def test_gradients_of_an_embedding_that_are_sparse():
    table = nn.Embedding(8, 3, sparse=True)
    translated = translate(lambda at: table(at).sum())
    translated(paddle.to_tensor([1, 2, 1])).backward()
    found = table.weight.grad.stop_gradient, table.weight.grad.is_selected_rows()
    table.clear_gradients()
    table(paddle.to_tensor([1, 2, 1])).sum().backward()
    assert found == (table.weight.grad.stop_gradient, table.weight.grad.is_selected_rows())


def test_leaves_that_go_are_forgotten():
    translated = translate(lambda x: (x * x).sum())
    for number in range(300):
        x = paddle.to_tensor([float(number)], stop_gradient=False)
        translated(x).backward()
        assert x.grad.stop_gradient is False
    assert sot.stats(translated).graphs == 1


EMPTY = {
    "sum": lambda x: (x * 2 + 1).sum(),
    "norm": lambda x: x.exp().norm(),
    "rows joined": lambda x: paddle.concat([x, x]).tanh().sum(),
    "mask": lambda x: x[x > 0].sum() + x.mean(),
}


@pytest.mark.parametrize("shape", [[0], [0, 3], [2, 0, 3]])
@pytest.mark.parametrize("name", EMPTY)
def test_the_gradient_of_a_leaf_without_numbers_says_what_it_does_in_eager_mode(name, shape):
    translated = translate(lambda x: EMPTY[name](x))

    def gradient(call):
        leaf = paddle.zeros(shape)
        leaf.stop_gradient = False
        call(leaf).backward()
        return leaf.grad.shape, leaf.grad.stop_gradient, leaf.grad.is_leaf, leaf.grad.dtype

    for _ in range(2):
        assert gradient(translated) == gradient(EMPTY[name])
