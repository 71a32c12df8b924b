"""Code that carries Paddle's `to_static` already: its functions, methods and Layers are translated and saved."""

import warnings

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn
from paddle.static import InputSpec


class Ast(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    @paddle.jit.to_static(full_graph=True)
    def forward(self, x):
        return self.linear(x) + 1


class Sot(Ast):
    @paddle.jit.to_static(full_graph=False)
    def forward(self, x):
        return self.linear(x) + 1


class Given(Ast):
    @paddle.jit.to_static(input_spec=[InputSpec([None, 2])], full_graph=True)
    def forward(self, x):
        return self.linear(x) + 1


class Outer(nn.Layer):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) * 2


class Several(Ast):
    @paddle.jit.to_static(input_spec=[InputSpec([None, 2])], full_graph=True)
    def encode(self, x):
        return self.linear(x) * 3


@paddle.jit.to_static(full_graph=True)
def doubled(x):
    return x * 2


X = paddle.to_tensor([[1.0, -2.0], [0.5, 3.0]])


def plain(net, x=X):
    return (net.linear(x) + 1).tolist()


@pytest.mark.parametrize("kind", [Ast, Sot, Given])
def test_a_layer_is_translated(kind):
    net = kind()
    translated = translate(net)
    assert translated is net and translated(X).tolist() == plain(net)
    assert translated(X[:1]).tolist() == plain(net, X[:1])
    stats = sot.stats(net)
    assert stats.graphs >= 1 and stats.graph_breaks == [] and stats.fallbacks == []


@pytest.mark.parametrize("kind", [Ast, Sot])
def test_an_instance_that_was_given_to_paddles(kind):
    net = paddle.jit.to_static(nn.Linear(2, 2), full_graph=kind is Ast)
    expected = (X @ net.weight + net.bias).numpy()
    translated = translate(net)
    np.testing.assert_array_equal(translated(X).numpy(), expected)
    assert (sot.stats(net).graphs, sot.stats(net).graph_breaks) == (1, [])


@pytest.mark.parametrize("kind", [Ast, Sot])
def test_inside_of_another_it_is_followed(kind):
    net = Outer(kind())
    translated = translate(lambda x: doubled(net(x)) + 1)
    for _ in range(2):
        assert translated(X).tolist() == (2 * (net.inner.linear(X) + 1) * 2 + 1).tolist()
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


def test_one_that_is_replaced_is_seen():
    net = Outer(Ast())
    translated = translate(lambda x: net(x))
    assert translated(X).tolist() == net(X).tolist()
    net.inner.forward = paddle.jit.to_static(lambda x: x - 1, full_graph=True)
    assert translated(X).tolist() == ((X - 1) * 2).tolist()


def test_gradients():
    net = Outer(Ast())
    translated = translate(lambda x: net(x).sum())
    translated(X).backward()
    found = [parameter.grad.tolist() for parameter in net.parameters()]
    net.clear_gradients()
    ((net.inner.linear(X) + 1) * 2).sum().backward()
    assert found == [parameter.grad.tolist() for parameter in net.parameters()]


def test_a_function_is_translated():
    translated = translate(doubled)
    assert translated(X).tolist() == (X * 2).tolist()
    assert translated.__name__ == "doubled"
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


def loaded(target, path, spec=None):
    if isinstance(target, nn.Layer):
        target.eval()
    sot.save(target, str(path / "net"), input_spec=spec)
    return paddle.jit.load(str(path / "net"))


@pytest.mark.parametrize("kind", [Ast, Sot])
def test_layers_are_saved(kind, tmp_path):
    net, spec = kind(), [InputSpec([None, 2])]
    np.testing.assert_allclose(loaded(net, tmp_path, spec)(X).numpy(), plain(net), rtol=1e-6)
    outer = Outer(net)
    np.testing.assert_allclose(loaded(outer, tmp_path, spec)(X).numpy(), 2 * np.array(plain(net)), rtol=1e-6)


def test_a_function_is_saved(tmp_path):
    assert loaded(doubled, tmp_path, [InputSpec([None, 2])])(X).tolist() == (X * 2).tolist()


def test_the_specification_that_paddle_was_given_is_used(tmp_path):
    net = Given()
    np.testing.assert_allclose(loaded(net, tmp_path)(X).numpy(), plain(net), rtol=1e-6)


def test_further_methods_are_saved(tmp_path):
    net = Several()
    found = loaded(net, tmp_path, {"forward": [InputSpec([None, 2])]})
    np.testing.assert_allclose(found.encode(X).numpy(), (net.linear(X) * 3).numpy(), rtol=1e-6)


def test_calls_may_differ_from_the_specification_that_paddle_was_given():
    net = Given()
    translated = translate(net)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert translated(X.astype("float32")[0]).tolist() == plain(net, X[0])
