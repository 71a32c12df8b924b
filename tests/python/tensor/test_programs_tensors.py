"""Tensor operators, methods and functions: values, metadata, gradients, in-place writes, views, random numbers. (PYTEST_DONT_REWRITE)"""

import math

import numpy as np
import paddle
import pytest
from harness import Programs, check, tensor
from paddle import nn
from paddle.nn import functional as F

program = Programs()
X, Y = tensor(3, 4), tensor(3, 4, seed=1)
G, H = tensor(3, 4, seed=2, grad=True), tensor(3, 4, seed=3, grad=True)
I = paddle.to_tensor([[1, -2], [3, 4]])  # noqa: E741
B = paddle.to_tensor([True, False, True])


@program(G, H, graphs=1, breaks=0)
def gradients_through_operators(x, y):
    return x * y - x / (y * y + 1) + 2 ** y.abs() - (x**2).mean()


@program(G, H, graphs=1, breaks=0)
def only_one_argument_gets_a_gradient(x, y):
    return x * 2


@program(G, Y, graphs=1, breaks=0)
def detach_stops_gradients(x, y):
    return x.detach() * y + x


@program(G, Y, fallbacks=None)
def stop_gradient_of_a_result(x, y):
    z = x * 2
    z.stop_gradient = True
    return z + y, z


@program(X, Y, fallbacks=None)
def every_binary_operator(x, y):
    z = y.abs() + 1
    return x + y, x - y, x * y, x / z, x // z, x % z, z**2, x @ y.T, -x, +x, abs(x)


@program(X, Y, graphs=1, breaks=0)
def every_comparison(x, y):
    return x < y, x <= y, x > y, x >= y, x == y, x != y, (x < 0) & (y < 0), (x < 0) | (y < 0), ~(x < 0)


@program(I, fallbacks=None)
def integer_tensors(i):
    return i + 1, i / 2, i // 2, i % 3, i**2, i * 2.5, i & 3, i | 1, i ^ 1, ~i, i << 1


@program(I, fallbacks=None)
def integer_functions_keep_eager_dtypes(i):
    return (
        paddle.exp(i),
        paddle.log(i.abs()),
        i.mean(axis=0) if False else i.sum(),
        i.astype("float32").mean(),
        paddle.sqrt(i.abs()),
    )


@program(I, X, fallbacks=None)
def mixed_dtypes(i, x):
    return i.astype("float64")[0] + x[0, :2].astype("float64"), i[0] + x[0, :2]


@program(X, I, graphs=1, breaks=0)
def scalars_of_every_type(x, i):
    return x + 1, x + 1.5, x + True, i + 1.5, i + True, x * math.pi, 2**i, 1 / x


@program(X, graphs=1, breaks=0)
def basic_indexing(x):
    return x[0], x[-1, 1:], x[..., 0], x[:, None, ::2], x[1:2], x[0, 0], x[:, -1:]


@program(X, I, B, fallbacks=None)
def tensor_indexing(x, i, b):
    return x[i.abs().clip(0, 2)], x[paddle.to_tensor([0, 2])], paddle.where(b, 1.0, 0.0)


@program(X, B, fallbacks=None)
def boolean_mask_indexing(x, b):
    return x[b], x[b] * 2


@program(X, graphs=1, breaks=0)
def list_indexing(x):
    return x[[0, 2]], x[[0, 1], [1, 2]]


@program(X, fallbacks=None)
def setitem_on_a_copy(x):
    y = x.clone()
    y[0] = 7
    y[1:, 0] = -1.5
    y[..., -1] = x[..., 0]
    return y, x


@program(X, fallbacks=None)
def setitem_on_an_argument(x):
    x[0] = 7.0
    return x + 1


@program(X, fallbacks=None)
def setitem_seen_through_a_view(x):
    y = x * 1
    z = y[0]
    y[0] = 5.0
    return y, z


@program(X, fallbacks=None)
def augmented_assignment_of_tensors(x):
    y = x
    y += 1
    y *= 2
    y -= x
    return y, x


@program(X, fallbacks=None)
def in_place_methods_on_an_argument(x):
    x.add_(paddle.ones_like(x))
    x.scale_(2.0)
    return x


@program(X, fallbacks=None)
def in_place_methods_on_a_temporary(x):
    y = x * 1
    z = y.add_(x)
    y.clip_(0.0, 1.0)
    return y, z, y is z


@program(X, fallbacks=None)
def in_place_through_reshape(x):
    y = x * 1
    z = y.reshape([4, 3])
    z.zero_()
    return y, z


@program(X, fallbacks=None)
def fill_and_set_value(x):
    y = paddle.zeros_like(x)
    y.fill_(3.0)
    y.set_value(x)
    return y


@program(X, graphs=1, breaks=0)
def shapes_as_python_numbers(x):
    n, m = x.shape
    return x.reshape([m, n]), x.reshape([-1]), x.flatten(), n * m, x.shape[0] if n > 2 else 0, list(x.shape)


@program(X, graphs=1, breaks=0)
def metadata_of_results(x):
    y = x.astype("float64").unsqueeze(0)
    return y, y.shape, y.ndim, y.dtype, y.size, y.stop_gradient, len(y), y.dtype == paddle.float64, y.numel()


@program(X, graphs=1, breaks=0)
def shape_in_a_format_string(x):
    return x + 1, f"{x.shape} {list(x.shape)} {x.dtype} {x.ndim}", str(x.shape), repr(x.dtype)


@program(X, graphs=1, breaks=0)
def transposes(x):
    return x.T, x.t(), x.transpose([1, 0]), paddle.transpose(x, [1, 0]), x.unsqueeze(0).mT


@program(X, Y, graphs=1, breaks=0)
def joining_and_splitting(x, y):
    a, b = x.chunk(2, axis=1)
    c = paddle.stack([x, y], axis=0)
    d, e, f = paddle.unbind(x, axis=0)
    return paddle.concat([a, b, y], axis=1), c, d, e + f, x.split([1, 3], axis=1)


@program(X, fallbacks=None)
def reductions(x):
    return (
        x.sum(),
        x.mean(axis=0),
        x.max(axis=1, keepdim=True),
        x.argmax(),
        x.std(),
        x.var(axis=0),
        x.norm(),
        x.prod(),
        x.all(),
    )


@program(X, graphs=1, breaks=0)
def several_results_of_one_call(x):
    values, indices = x.topk(2, axis=1)
    low, high = paddle.aminmax(x) if hasattr(paddle, "aminmax") else (x.min(), x.max())
    ordered = paddle.sort(x, axis=1)
    return values, indices, low, high, ordered, x.argsort(axis=0)


@program(X, graphs=1, breaks=0)
def constants_made_inside(x):
    a = paddle.zeros([2, 3])
    b = paddle.arange(0, 6, 2)
    c = paddle.full([2], 1.5, dtype="float64")
    d = paddle.linspace(0, 1, 3)
    e = paddle.eye(3)
    return x + 1, a, b, c, d, e, paddle.ones_like(x), paddle.tril(paddle.ones([3, 3]))


@program(X, fallbacks=None)
def to_tensor_of_python_values(x):
    return x + paddle.to_tensor(2.0), paddle.to_tensor([1, 2]), paddle.to_tensor([[1.5]], dtype="float64")


@program(X, fallbacks=None)
def numpy_arrays_as_constants(x):
    return x + paddle.to_tensor(np.ones([4], "float32"))


@program(X, graphs=1, breaks=0)
def random_numbers_in_order(x):
    a = paddle.rand([2])
    b = F.dropout(x, 0.5)
    c = paddle.randn([3])
    d = paddle.randint(0, 10, [4])
    return a, b, c, d, paddle.randperm(5), paddle.bernoulli(paddle.full([4], 0.5))


@program(G, graphs=1, breaks=0)
def dropout_gradient_uses_the_mask(x):
    return F.dropout(x * 2, 0.3, training=True)


@program(G, graphs=1, breaks=0)
def activations(x):
    return (
        F.relu(x),
        F.gelu(x),
        F.silu(x),
        F.sigmoid(x),
        F.tanh(x),
        F.leaky_relu(x),
        F.elu(x),
        F.hardswish(x),
        F.softplus(x),
    )


@program(G, graphs=1, breaks=0)
def normalisations(x):
    return F.softmax(x, axis=-1), F.log_softmax(x, axis=0), F.normalize(x), F.layer_norm(x, [4])


@program(G, paddle.to_tensor([0, 2, 3]), graphs=1, breaks=0)
def losses(x, labels):
    return (
        F.cross_entropy(x, labels),
        F.mse_loss(x, x * 2),
        F.nll_loss(F.log_softmax(x, -1), labels),
        F.smooth_l1_loss(x, x * 0),
    )


@program(tensor(2, 3, 8, 8, grad=True), graphs=1, breaks=0, close=True)
def images(x):
    weight = paddle.ones([4, 3, 3, 3]) * 0.1
    y = F.conv2d(x, weight, padding=1)
    return F.max_pool2d(y, 2), F.adaptive_avg_pool2d(y, 1), F.interpolate(x, scale_factor=2), F.pad(x, [1, 1, 1, 1])


@program(G, Y, graphs=1, breaks=0)
def softmax_of_a_reshape_and_its_source(x, y):
    z = x * 1
    r = F.softmax(z.reshape([4, 3]), axis=-1)
    return r.sum() + y.sum(), z


@program(G, graphs=1, breaks=0)
def one_value_returned_twice(x):
    y = x * 2
    return y, y, [y]


@program(G, graphs=1, breaks=0)
def input_and_derived_output(x):
    return x, x + 1, x.detach()


@program(G, fallbacks=None)
def reshape_of_an_input(x):
    return x.reshape([12]), x.reshape([3, 4])


@program(X, graphs=1, breaks=0)
def clone_and_assign(x):
    return x.clone(), paddle.assign(x), x.clone().detach()


@program(X, fallbacks=None)
def casts(x):
    return (
        x.astype("float16"),
        x.cast(paddle.int32),
        x.astype("bool"),
        x.astype(paddle.float64),
        x.half() if hasattr(x, "half") else x,
    )


@program(tensor(0, 4), graphs=1, breaks=0)
def empty_tensors(x):
    return x + 1, x.sum(), paddle.concat([x, x])


@program(paddle.to_tensor(2.5), graphs=1, breaks=0)
def zero_dimensional(x):
    return x + 1, x.reshape([1]), paddle.stack([x, x]), x * x.unsqueeze(0), x.shape


@program(X, paddle.to_tensor([1 + 2j, 3 - 1j]), fallbacks=None)
def complex_numbers(x, z):
    return z * z, z.real(), z.imag(), z.abs(), x + 1


@program(X, graphs=1, breaks=0)
def einsum_and_friends(x):
    return (
        paddle.einsum("ij,kj->ik", x, x),
        paddle.outer(x[0], x[1]),
        paddle.cumsum(x, axis=1),
        x.tile([2, 1]),
        x.expand([2, 3, 4]),
    )


@program(X, fallbacks=None)
def gather_scatter(x):
    index = paddle.to_tensor([0, 2])
    return (
        paddle.gather(x, index),
        paddle.scatter(x, index, x[:2] * 0),
        paddle.index_select(x, index, axis=1),
        F.one_hot(index, 4),
    )


@program(X, fallbacks=None)
def static_results_of_tensor_shapes(x):
    return paddle.zeros(paddle.shape(x)), x.reshape(x.shape), paddle.full(x.shape, 2.0), paddle.arange(x.shape[0])


@program(X, fallbacks=None)
def dynamic_results(x):
    return paddle.nonzero(x > 0), paddle.unique((x > 0).astype("int32")), paddle.masked_select(x, x > 0)


@program(G, H, graphs=1, breaks=0)
def auto_cast_inside(x, y):
    with paddle.amp.auto_cast(enable=True, level="O1", dtype="bfloat16"):
        a = x @ y.T
        b = a + 1
    return a.astype("float32"), b.astype("float32"), a.dtype


@program(G, H, fallbacks=None)
def gradients_taken_inside(x, y):
    z = (x * y).sum()
    (g,) = paddle.grad(z, [x])
    return z, g


@program(G, H, fallbacks=None, backward=False)
def backward_inside(x, y):
    loss = (x * y).sum()
    loss.backward()
    return loss, x.grad * 2


@program(G, fallbacks=None)
def tensor_hooks(x):
    y = x * 2
    y.register_hook(lambda g: g * 10)
    return y * 3


@program(X, fallbacks=None)
def iteration_over_a_tensor(x):
    total = paddle.zeros([4])
    for row in x:
        total = total + row
    a, b, c = x
    return total, a + b + c, [r.sum() for r in x], list(enumerate(x))[0][0]


@program(X, fallbacks=None)
def attributes_of_tensors(x):
    y = x + 1
    y.tag = "t"
    return y, y.tag, y.name == x.name, y.is_leaf, y.persistable, str(y.place)


@program(X, fallbacks=None)
def grad_attributes(x):
    return x + 1, x.grad, x.is_leaf, x.stop_gradient


@program(X, Y, graphs=1, breaks=0)
def out_of_order_use(x, y):
    a = x + 1
    b = y * 2
    c = b - a
    del a, b
    return c


@program(X, fallbacks=None)
def contains_and_bool(x):
    return 1.0 in x, bool((x > -100).all()), x + 1


@program(X, fallbacks=None)
def python_protocols_of_tensors(x):
    y = x.sum()
    return float(y), int(y * 10), round(float(y), 3), y.item(), x.tolist(), x.numpy(), f"{float(y):.2f}"


@program(tensor(2, 5, 4, grad=True), graphs=1, breaks=0)
def attention(x):
    scores = x @ x.transpose([0, 2, 1]) / math.sqrt(x.shape[-1])
    mask = paddle.tril(paddle.ones([5, 5], dtype="bool"))
    scores = paddle.where(mask, scores, paddle.full_like(scores, -1e9))
    return F.softmax(scores, -1) @ x


@program(X, fallbacks=None)
def layers_made_inside(x):
    return nn.ReLU()(x), nn.Softmax(axis=0)(x), nn.Flatten(0)(x)


@pytest.mark.parametrize(("function", "args", "expectations"), program)
def test_equals_eager(function, args, expectations):
    check(function, *args, **expectations)
