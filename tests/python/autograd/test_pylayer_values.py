"""What goes into a `PyLayer` and comes out of it: arguments, results, gradients and the context, as in eager mode."""

import re

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.autograd import PyLayer

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

BACKENDS = {
    "paddle": {"backend": "paddle"},
    "eager": {"backend": "eager"},
    "pylayer": {"backend": "pylayer"},
    "cinn": {"backend": "cinn"},
    "around cinn": {"backend": "pylayer", "options": {"around": "cinn"}},
}


def seen(function, stops=()):
    """Results and gradients of three steps, or the words of what was raised."""
    rng = np.random.default_rng(4)
    numbers = [rng.normal(size=[3, 4]).astype("float32") for _ in range(2)]
    steps = []
    for _ in range(3):
        tensors = [paddle.to_tensor(value, stop_gradient=at in stops) for at, value in enumerate(numbers)]
        step = []
        try:
            results = paddle.utils.flatten(function(*tensors))
            trained = [it for it in results if isinstance(it, paddle.Tensor) and not it.stop_gradient]
            step += [(it.numpy(), it.stop_gradient) if isinstance(it, paddle.Tensor) else it for it in results]
            if trained:
                sum((it * it.detach().cos()).sum() for it in trained).backward()
        except (RuntimeError, ValueError, OSError) as error:
            words = re.sub("0x[0-9a-f]+", "", str(error))
            step.append((type(error), words if "(InvalidArgument)" in words else words.strip().splitlines()[-1]))
        step += [None if it.grad is None else it.grad.numpy() for it in tensors]
        step.append(paddle.is_grad_enabled())
        steps.append(step)
        pairs = zip(numbers, tensors, strict=True)
        numbers = [value if it.grad is None else value - 0.1 * it.grad.numpy() for value, it in pairs]
    return steps


def is_same(want, got, exact):
    if isinstance(want, np.ndarray):
        return np.array_equal(want, got) if exact else np.allclose(want, got, rtol=1e-5, atol=1e-6)
    if isinstance(want, (list, tuple)):
        return len(want) == len(got) and all(is_same(*pair, exact) for pair in zip(want, got, strict=True))
    return want == got


def compare(function, backend, stops=()):
    static = sot.to_static(function, min_graph_size=0, **BACKENDS[backend])
    want, got = seen(function, stops), seen(static, stops)
    assert is_same(want, got, "cinn" not in backend), (want, got)
    return sot.stats(static)


class Product(PyLayer):
    """With other gradients than those of a product: only `backward` gives them."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, dy):
        a, b = ctx.saved_tensor()
        return dy * b * 2, dy * a * 3


class Trimmed(Product):
    """Says nothing of its last argument, which stops gradients."""

    @staticmethod
    def backward(ctx, dy):
        return Product.backward(ctx, dy)[0]


class Listed(PyLayer):
    @staticmethod
    def forward(ctx, parts, factor, last=None):
        ctx.save_for_backward(parts[0], parts[-1])
        ctx.factor, ctx.has_last = factor, last is not None
        return parts[0] * parts[-1] * factor + (0 if last is None else last)

    @staticmethod
    def backward(ctx, dy):
        first, second = ctx.saved_tensor()
        found = [dy * second * ctx.factor * 2, dy * first]
        return (found, dy * 5) if ctx.has_last else found


class Several(PyLayer):
    @staticmethod
    def forward(ctx, x):
        return 1, x * 2, None, x * 3, "words"

    @staticmethod
    def backward(ctx, a, b):
        return a * 5 + b * 7


class Casting(PyLayer):
    """`astype` to the same type is the tensor itself."""

    @staticmethod
    def forward(ctx, x):
        ctx.double, ctx.dtype, ctx.shape = x * 2, x.dtype, x.shape
        return x * 3

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.double.astype(ctx.dtype).reshape(ctx.shape)


class Unsaved(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.is_context = isinstance(ctx, paddle.autograd.PyLayerContext)
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        return dy * (7 if ctx.saved_tensor() is None else 2) * (3 if ctx.is_context else 5)


class Container(PyLayer):
    """The attributes behind the methods of the context."""

    @staticmethod
    def forward(ctx, x):
        ctx.container = (x, x > 0)
        ctx.non_differentiable = (ctx.container[1],)
        return x * 2, ctx.container[1]

    @staticmethod
    def backward(ctx, dy, _):
        return dy * ctx.container[0]


apply_product = Product.apply


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.apply_it = Casting.apply

    def forward(self, x, w):
        return self.apply_it(x) * w


CAPTURED = {
    "twice the same": lambda x, w: Product.apply(x, x) + w,
    "twice the same in the middle": lambda x, w: (lambda y: Product.apply(y, y) + y)(x * w),
    "a list": lambda x, w: Listed.apply([x, w * 2], 2.0),
    "a tuple": lambda x, w: Listed.apply((x, 3, w), 2.0) + x,
    "a list by name": lambda x, w: Listed.apply(parts=[x, w], factor=2.0, last=x + 1),
    "a list of the same": lambda x, w: Listed.apply([x, x], 2.0, w),
    "constants as results": lambda x, w: Several.apply(x * w),
    "the tensor itself": lambda x, w: Casting.apply(x) * w,
    "nothing is saved": lambda x, w: Unsaved.apply(x) * w,
    "attributes of the context": lambda x, w: Container.apply(x * w),
    "a bound method": lambda x, w: apply_product(x, w) + x,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CAPTURED)
def test_one_graph(name, backend):
    record = compare(CAPTURED[name], backend)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])


@pytest.mark.parametrize("backend", BACKENDS)
def test_apply_as_an_attribute(backend):
    net = Net()
    record = compare(lambda x, w: net(x, w), backend)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])


def test_apply_as_an_attribute_is_another_one():
    net = Net()
    static = sot.to_static(lambda x, w: net(x, w), min_graph_size=0)
    assert is_same(seen(net), seen(static), True)
    net.apply_it = Unsaved.apply
    assert is_same(seen(net), seen(static), True)
    forward = Unsaved.forward
    Unsaved.forward = staticmethod(lambda ctx, x: forward(ctx, x) + 1)
    try:
        assert is_same(seen(net), seen(static), True)
    finally:
        Unsaved.forward = staticmethod(forward)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [Product, Trimmed])
@pytest.mark.parametrize("stops", [(0,), (1,), (0, 1)])
def test_tensors_that_stop_gradients(kind, stops, backend):
    """Eager mode wants None for them at backward, or nothing where they are the last ones."""
    record = compare(lambda x, w: kind.apply(x, w), backend, stops)
    captured = len(stops) == 2 or (kind is Trimmed and stops == (1,))
    assert (record.graph_breaks == []) == captured
    if not captured:
        reason = "a gradient for a tensor that stops" if stops == (0,) or kind is Product else "fewer gradients"
        assert reason in record.graph_breaks[0].message


class OneList(Product):
    @staticmethod
    def backward(ctx, dy):
        return [dy, dy * 2]


class TooMany(Product):
    @staticmethod
    def backward(ctx, dy):
        return dy, dy, None


class Flat(Listed):
    @staticmethod
    def backward(ctx, dy):
        return dy, dy


class Raises(Product):
    @staticmethod
    def backward(ctx, dy):
        raise ValueError("not here")


class NoBackward(PyLayer):
    @staticmethod
    def forward(ctx, a, b):
        return a * b


def caught(x, w):
    # What `backward` will raise is nothing that this one catches.
    try:
        return Raises.apply(x, w)
    except ValueError:
        return x * 100


REFUSED = {
    "a list of gradients": (lambda x, w: OneList.apply(x, w), "something else than tensors and None"),
    "too many": (lambda x, w: TooMany.apply(x, w), "more gradients than"),
    "flat": (lambda x, w: Flat.apply([x, w], 1.0), "more gradients than"),
    "raises": (lambda x, w: Raises.apply(x, w), "backward raises"),
    "raises and is caught": (caught, "backward raises"),
    "no backward": (lambda x, w: NoBackward.apply(x, w), "backward raises"),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", REFUSED)
def test_backward_raises_as_in_eager_mode(name, backend):
    function, reason = REFUSED[name]
    record = compare(function, backend)
    assert reason in record.graph_breaks[0].message


class RaisesForward(Product):
    @staticmethod
    def forward(ctx, a, b):
        raise ValueError("not today")


def goes_on(x, w):
    try:
        y = RaisesForward.apply(x, w)
    except ValueError as error:
        y = x * w if "today" in str(error) else x
    return y * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_on_behind_a_forward_that_raises(backend):
    assert compare(goes_on, backend).graph_breaks == []


class Tanh(PyLayer):
    @staticmethod
    def forward(ctx, x):
        y = paddle.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensor()
        return dy * (1 - y * y)


def changes_the_result(x, w):
    y = Tanh.apply(x * w)
    y.add_(x)
    return y


def listens(x, w):
    # Eager mode calls the hook of such a tensor, and uses the gradient as it was.
    y = Tanh.apply(x * w)
    y.register_hook(lambda grad: grad * 3)
    return y * 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [changes_the_result, listens])
def test_what_the_context_keeps_is_the_tensor_itself(function, backend):
    """Also where eager mode computes with what it has become."""
    compare(function, backend)


class OwnArgument(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_not_inplace(x)
        x.add_(paddle.ones_like(x))
        return x

    @staticmethod
    def backward(ctx, dy):
        return dy


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_argument_that_was_changed_comes_back(backend):
    def function(x, w):
        y = x * w
        z = OwnArgument.apply(y)
        return z * 2, y, y is z

    with paddle.no_grad():
        compare(function, backend)


class Consistent(Tanh):
    @staticmethod
    def forward(ctx, x):
        ctx.set_grad_in_dtype_consistent(False)
        return Tanh.forward(ctx, x)


def test_gradients_of_another_dtype_have_a_reason():
    record = compare(lambda x, w: Consistent.apply(x) * w, "paddle")
    assert "set_grad_in_dtype_consistent(False)" in record.graph_breaks[0].message


class Wide(PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        return dy.astype("float64")


def test_a_gradient_of_another_dtype_is_named():
    record = compare(lambda x, w: Wide.apply(x) * 1.5, "paddle")
    assert "a gradient of FLOAT64 of shape [3, 4] for a tensor of FLOAT32" in record.fallbacks[0].message


class ChangesSaved(PyLayer):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensor()
        y.scale_(2.0)
        return dy * y


def test_what_backward_changes_is_there_for_all_to_see():
    """The result that it has saved."""

    def function(x, w):
        y = ChangesSaved.apply(x)
        return y, y + w

    results = []
    for run in (function, sot.to_static(function, min_graph_size=0)):
        x, w = (paddle.to_tensor([0.5, 1.0, -1.0], stop_gradient=False) for _ in range(2))
        y, z = run(x, w)
        y.retain_grads()
        (z * 1.5).sum().backward()
        results.append([it.tolist() for it in (y, y.grad, z, x.grad, w.grad)])
    assert results[0] == results[1]


class KeepsItsOwn(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensor()
        gradient = dy * x
        gradient.scale_(2.0)
        return gradient


def test_what_backward_makes_itself_it_may_change():
    record = compare(lambda x, w: KeepsItsOwn.apply(x) * w, "paddle")
    assert record.graphs == 1
    assert not record.graph_breaks
