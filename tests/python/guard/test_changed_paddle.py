"""Tensors, layers and the state of Paddle. See `changes.py`."""

# ruff: noqa: B008, B018, E721, UP042

from unittest import mock

import numpy as np
import paddle
import pytest
from changes import X, cases, run_case
from harness import translate
from paddle import nn

CASES, case = cases()


@case
def grad_is_none():
    p = paddle.create_parameter([3], "float32")
    yield lambda x: x * 2 if p.grad is None else x * 3
    (p * 2).sum().backward()
    yield
    p.clear_gradient()
    yield
    p.clear_gradient(False)
    yield


@case
def grad_of_argument_is_none():
    a = X + 1
    a.stop_gradient = False
    b = X + 1
    b.stop_gradient = False
    (b * 2).sum().backward()
    yield lambda x: x * 2 if x.grad is None else x * 3
    yield (a,)
    yield (b,)


@case
def call_of_all_layers_replaced():
    net = nn.Sequential(nn.ReLU(), nn.Linear(3, 3))
    own = nn.Layer.__call__
    called = []

    def counted(self, *args, **kwargs):
        called.append(type(self).__name__)
        return own(self, *args, **kwargs)

    yield lambda x: (net(x - 1), called.copy(), called.clear())
    with mock.patch.object(nn.Layer, "__call__", counted):
        yield
    yield


@case
def buffer_absent_in_layer():
    class Net(nn.Layer):
        def forward(self, x):
            if "mask" in self._buffers:
                return x * self.mask
            return x * 3

    net = Net()
    yield lambda x: net(x)
    net.register_buffer("mask", paddle.full([3], 2.0))
    yield


@case
def attribute_absent_in_layer():
    class Net(nn.Layer):
        def forward(self, x):
            if hasattr(self, "mask"):
                return x * self.mask
            return x * 3 + getattr(self, "shift", 0)

    net = Net()
    yield lambda x: net(x)
    net.register_buffer("mask", paddle.full([3], 2.0))
    yield
    del net.mask
    yield
    net.mask = paddle.create_parameter([3], "float32", default_initializer=nn.initializer.Constant(4.0))
    yield
    del net.mask
    net.shift = 5
    yield
    del net.shift
    Net.shift = 6
    yield
    net.shift = nn.ReLU()
    yield


@case
def sublayer_absent():
    class Net(nn.Layer):
        def forward(self, x):
            head = getattr(self, "head", None)
            return x * 2 if head is None else head(x)

    net = Net()
    yield lambda x: net(x)
    net.head = nn.ReLU()
    yield
    net.head = None
    yield


@case
def getattr_of_a_layer_class():
    class Net(nn.Layer):
        def forward(self, x):
            return x * getattr(self, "k", 2)

    net = Net()
    yield lambda x: net(x)
    Net.__getattr__ = lambda self, name: 5 if name == "k" else nn.Layer.__getattr__(self, name)
    yield


@case
def hook_called_always():
    class Net(nn.Layer):
        def forward(self, x):
            return x * 2

    net = Net()
    yield lambda x: net(x)
    try:
        net.register_forward_post_hook(lambda layer, i, o: o + 1, always_call=True)
    except TypeError:
        net.register_forward_post_hook(lambda layer, i, o: o + 1)
    yield


@case
def build_once_replaced():
    class Net(nn.Layer):
        def forward(self, x):
            return x * getattr(self, "k", 2)

    net = Net()
    yield lambda x: net(x)

    def build(self, *args):
        object.__setattr__(self, "k", 5)

    Net._build_once = build
    net._built = False
    yield


@case
def layer_call_of_a_part_replaced():
    net = nn.TransformerEncoderLayer(3, 1, 4, dropout=0.0)
    net.eval()
    yield lambda x: net(x.unsqueeze(0))
    original = nn.Linear.__dict__.get("__call__")
    nn.Linear.__call__ = lambda self, x: self.forward(x) * 2
    try:
        yield
    finally:
        if original is None:
            del nn.Linear.__call__
    yield


@case
def function_of_a_layer_of_paddle_replaced():
    relu, own = nn.ReLU(), nn.functional.relu
    called = []

    def counted(x, *rest):
        called.append(x.shape)
        return own(x, *rest) * 2

    yield lambda x: (relu(x - 1), called.copy(), called.clear())
    with mock.patch.object(nn.functional, "relu", counted):
        yield
    yield


@case
def method_of_a_layer_of_paddle_replaced():
    net = nn.TransformerEncoderLayer(3, 1, 4, dropout=0.0)
    net.eval()
    own = nn.MultiHeadAttention._prepare_qkv
    called = []

    def counted(self, query, *rest):
        called.append(query.shape)
        return own(self, query * 2, *rest)

    yield lambda x: (net(x.unsqueeze(0)), called.copy(), called.clear())
    with mock.patch.object(nn.MultiHeadAttention, "_prepare_qkv", counted):
        yield
    yield


@case
def function_that_a_layer_of_paddle_was_given():
    called = []

    def distance(a, b):
        called.append(a.shape)
        return (a - b).abs().sum(-1)

    loss = nn.TripletMarginWithDistanceLoss(distance_function=distance)
    yield lambda x: (loss(x, x + 1, x - 3), called.copy(), called.clear())
    loss.distance_function = lambda a, b: distance(a, b) * 2
    yield


@case
def method_of_one_layer_of_paddle_replaced():
    net = nn.MultiHeadAttention(3, 1)
    net.eval()
    called = []
    own = net._prepare_qkv

    def counted(query, *rest):
        called.append(query.shape)
        return own(query * 2, *rest)

    net._prepare_qkv = counted
    yield lambda x: (net(x.unsqueeze(0)), called.copy(), called.clear())
    del net._prepare_qkv
    yield


@case
def layer_gets_items():
    net = nn.Sequential(nn.ReLU())
    yield lambda x: (len(net), [type(n).__name__ for n in net], net(x))
    net.append(nn.Tanh()) if hasattr(net, "append") else net.add_sublayer("1", nn.Tanh())
    yield


@case
def training_absent_flag():
    net = nn.Dropout(0.5)
    yield lambda x: x * 2 if net.training else x * 3
    net.eval()
    yield


@case
def grad_enabled_function():
    yield lambda x: (x * 2, paddle.is_grad_enabled())
    with paddle.no_grad():
        yield
    yield


@case
def dynamic_mode_function():
    yield lambda x: (x * 2, paddle.in_dynamic_mode(), paddle.get_default_dtype())
    paddle.set_default_dtype("float64")
    try:
        yield
    finally:
        paddle.set_default_dtype("float32")


@case
def flags_of_paddle():
    yield lambda x: (x * 2, paddle.get_flags(["FLAGS_benchmark"])["FLAGS_benchmark"])
    paddle.set_flags({"FLAGS_benchmark": True})
    try:
        yield
    finally:
        paddle.set_flags({"FLAGS_benchmark": False})


@case
def is_tensor_of_other_things():
    yield lambda x, t=None: (x * 2, paddle.is_tensor(t), isinstance(t, paddle.Tensor), isinstance(t, nn.Layer))
    yield (X, X)
    yield (X, nn.ReLU())
    yield (X, paddle.create_parameter([3], "float32"))
    yield (X, 1)


@case
def stop_gradient_of_parameter():
    p = paddle.create_parameter([3], "float32")
    yield lambda x: (x * p, p.stop_gradient, p.trainable)
    p.stop_gradient = True
    yield
    p.stop_gradient = False
    yield


@case
def name_of_tensor():
    a, b = X + 1, X + 2
    a.name, b.name = "a", "b"
    yield lambda x: x * 2 if x.name == "a" else x * 3
    yield (a,)
    yield (b,)
    b.name = "a"
    yield (b,)


@case
def is_leaf_of_tensor():
    a = X + 1
    a.stop_gradient = False
    b = a * 2
    yield lambda x: x * 2 if x.is_leaf else x * 3
    yield (a,)
    yield (b,)


@case
def persistable_of_tensor():
    a = X + 1
    yield lambda x: x * 2 if x.persistable else x * 3
    a.persistable = True
    yield (a,)


@case
def contiguous_of_tensor():
    yield lambda x: x * 2 if x.is_contiguous() else x * 3
    yield (paddle.ones([3, 2]).T,)


@case
def hooks_on_a_tensor():
    p = paddle.create_parameter([3], "float32", default_initializer=nn.initializer.Constant(1.0))

    def step(x):
        return (x * p).sum()

    translated = translate(step)
    for hook in (None, lambda g: g * 2, lambda g: g * 3):
        handle = p.register_hook(hook) if hook else None
        grads = []
        for call in (step, translated):
            p.clear_gradient()
            call(X).backward()
            grads.append(p.grad.numpy())
        assert np.array_equal(*grads)
        if handle:
            handle.remove()
    yield step


@case
def patched_method_below_a_method():
    net = nn.ReLU()
    yield lambda x: net(x) + 1
    original = nn.ReLU.forward
    nn.ReLU.forward = lambda self, x: x * 10
    try:
        yield
    finally:
        nn.ReLU.forward = original


@case
def tensor_method_absent_then_there():
    def f(x):
        try:
            return x.absent_method()
        except AttributeError:
            return x * 2

    yield f
    paddle.Tensor.absent_method = lambda self: self * 9
    try:
        yield
    finally:
        del paddle.Tensor.absent_method
    yield


@case
def tensor_dunder_replaced():
    original = paddle.Tensor.__add__
    yield lambda x: x + 1
    paddle.Tensor.__add__ = lambda self, other: self * 10
    try:
        yield
    finally:
        paddle.Tensor.__add__ = original


@case
def tensor_reflected_replaced():
    original = paddle.Tensor.__radd__
    yield lambda x: 1 + x
    paddle.Tensor.__radd__ = lambda self, other: self * 10
    try:
        yield
    finally:
        paddle.Tensor.__radd__ = original


@case
def tensor_property_replaced():
    original = paddle.Tensor.T
    yield lambda x: x.T
    paddle.Tensor.T = property(lambda self: self * 10)
    try:
        yield
    finally:
        paddle.Tensor.T = original


@case
def tensor_shape_replaced():
    yield lambda x: (x * 2, x.shape, x.ndim)
    original = paddle.Tensor.__dict__["ndim"]
    paddle.Tensor.ndim = property(lambda self: 77)
    try:
        yield
    finally:
        paddle.Tensor.ndim = original


@case
def items_of_a_list_of_layers_under_other_names():
    layers = nn.LayerList([nn.ReLU(), nn.Sigmoid()])
    yield lambda x: layers[0](x)
    layers.add_sublayer("0", layers._sub_layers.pop("0"))
    yield


class Scaled(nn.Layer):
    def __init__(self):
        super().__init__()
        self.rate = self.create_parameter([3], default_initializer=nn.initializer.Constant(2.0))

    def forward(self, x):
        self.kept = x * self.rate
        return self.kept + 1


@case
def look_up_of_layers_replaced():
    net, own = Scaled(), nn.Layer.__getattr__
    net(X)
    yield lambda x: net(x)
    with mock.patch.object(nn.Layer, "__getattr__", lambda self, name: own(self, name) * 2):
        yield
    yield


@case
def attributes_of_layers_set_by_another():
    net, own = Scaled(), nn.Layer.__setattr__
    net(X)
    yield lambda x: net(x)
    with mock.patch.object(nn.Layer, "__setattr__", lambda self, name, value: own(self, name, value + 1)):
        yield
    yield


@case
def constructor_of_a_simple_layer_replaced():
    own, made = nn.Softmax.__init__, []

    def other(self, axis):
        made.append(axis)
        own(self, 1 - axis)

    yield lambda x: (nn.Softmax(axis=0)(x), made.copy(), made.clear())
    with mock.patch.object(nn.Softmax, "__init__", other):
        yield
    yield


@pytest.mark.parametrize("steps", CASES)
def test_change(steps):
    run_case(steps)
