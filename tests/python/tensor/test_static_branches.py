"""Functions of Paddle whose code does something else while a program is built than in eager mode: checks that are left
out, arguments that are written to, other dtypes. Such calls break the graph."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle.nn import functional as F

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


def floats(*shape):
    x = paddle.arange(int(np.prod(shape)), dtype="float32").reshape(shape) * 0.25 + 0.5
    x.stop_gradient = False
    return x


def sizes(*numbers):
    made = paddle.to_tensor(numbers)
    made.stop_gradient = False
    return made


def split(x, parts):
    return paddle.split(x, parts), parts


def reshaped(x, shape):
    return x.reshape(shape), shape.stop_gradient


CALLS = {
    "gammaincc of negative numbers": (paddle.gammaincc, lambda: [paddle.to_tensor([-1.0, 2.0]), floats(2)]),
    "gammainc of negative numbers": (lambda x, y: x.gammainc(y), lambda: [floats(2), paddle.to_tensor([-1.0, 2.0])]),
    "istft of another size": (
        lambda x: paddle.signal.istft(x, n_fft=8, onesided=False),
        lambda: [paddle.ones([5, 6]) + 0j],
    ),
    "inner by name": (lambda x, y: paddle.inner(x, y=y), lambda: [floats(3, 1), floats(1)]),
    "inner by names": (lambda x, y: paddle.inner(x=x, y=y), lambda: [floats(1), floats(4, 1)]),
    "npair_loss of nothing": (
        lambda x, y, labels: F.npair_loss(anchor=x, positive=y, labels=labels),
        lambda: [floats(0, 4), floats(0, 4), paddle.ones([0])],
    ),
    "split by tensors": (split, lambda: [floats(3), [paddle.to_tensor(1), 2]]),
    "split method by tensors": (
        lambda x, parts: (x.split(parts), parts),
        lambda: [floats(3), [paddle.to_tensor(1), 2]],
    ),
    "split by tensors of the function": (
        lambda x: split(x, [paddle.to_tensor(1), 2]),
        lambda: [floats(3)],
    ),
    "reshape by what wants a gradient": (reshaped, lambda: [floats(2, 3), sizes(3, 2)]),
    "crop by what wants a gradient": (lambda x, s: paddle.crop(x, s), lambda: [floats(2, 3), sizes(2, 1)]),
    "clip of whole numbers": (
        lambda x, a: paddle.clip(x, a, 3),
        lambda: [paddle.arange(5), paddle.to_tensor(1.5, "float16")],
    ),
    "clip of whole numbers by name": (
        lambda x, a: x.clip(max=a),
        lambda: [paddle.arange(5), paddle.to_tensor(1.5, "bfloat16")],
    ),
    "labels that are floats": (F.cross_entropy, lambda: [floats(3, 4), paddle.to_tensor([1.0, 0.0, 2.0])]),
    "labels that are bytes": (F.cross_entropy, lambda: [floats(3, 4), paddle.to_tensor([1, 0, 2], "uint8")]),
    "convolution with a bias of dims": (
        lambda x, w, b: F.conv2d(x, w, b, data_format="NHWC"),
        lambda: [floats(2, 5, 5, 3), floats(4, 3, 3, 3), floats(1, 4, 1, 1)],
    ),
    "dropout of everything": (
        lambda x, p: F.dropout(x, p, axis=0, training=True),
        lambda: [floats(3, 4), paddle.to_tensor(1.0)],
    ),
    "dropout2d of everything": (F.dropout2d, lambda: [floats(2, 2, 2, 2), paddle.to_tensor(1.0)]),
    "roll along a tensor": (lambda x, a: paddle.roll(x, 1, dims=a), lambda: [floats(2, 2), paddle.to_tensor(1)]),
    "full of a complex number": (lambda x: (paddle.full([2], 1 + 2j, dtype="float32"), x), lambda: [floats(2)]),
    "full by name of a complex number": (
        lambda x: (paddle.full(shape=[2], fill_value=1 + 2j, dtype="float32"), x),
        lambda: [floats(2)],
    ),
    "new_full of a complex number": (lambda x: (x.new_full([2], 1 + 2j), x), lambda: [floats(2)]),
    "linspace beyond int32": (
        lambda x: (paddle.linspace(0, 2**53 + 1, 2, dtype="int32"), x),
        lambda: [floats(2)],
    ),
}


def seen(value):
    if isinstance(value, paddle.Tensor):
        numbers = value.astype("float32") if value.dtype == paddle.bfloat16 else value
        return str(value.dtype), value.stop_gradient, numbers.tolist()
    if isinstance(value, list | tuple):
        return type(value), [seen(item) for item in value]
    return value


def outcome(function, make):
    args = make()
    try:
        result = function(*args)
        tensors = [it for it in paddle.utils.flatten(result) if isinstance(it, paddle.Tensor)]
        wanted = [it for it in tensors if not it.stop_gradient and it.is_floating_point()]
        if wanted:
            sum(it.sum() for it in wanted).backward()
        found = seen(result)
    except Exception as error:  # noqa: BLE001 - compared
        # What follows names the line of Paddle's own code.
        found = type(error), str(error).split("\n")[0]
    grads = [it.grad for it in args if isinstance(it, paddle.Tensor)]
    return found, seen(args), [None if grad is None else grad.tolist() for grad in grads]


@pytest.mark.parametrize("name", CALLS)
def test_equals_eager(name):
    function, make = CALLS[name]
    translated = translate(lambda *args: function(*args))
    for _ in range(3):
        assert outcome(translated, make) == outcome(function, make)


def test_losses_print_nothing(capfd):
    translated = sot.to_static(lambda *args: F.gaussian_nll_loss(*args), min_graph_size=0)
    args = [floats(3), floats(3), paddle.zeros([3])]
    assert translated(*args).tolist() == F.gaussian_nll_loss(*args).tolist()
    assert "Variable" not in "".join(capfd.readouterr())


def test_what_differs_in_no_way_is_captured():
    def function(x, labels):
        y = paddle.split(x, [1, 2])[1].reshape([2, 4]).clip(0.5, paddle.to_tensor(2.0))
        return F.cross_entropy(y, labels) + paddle.inner(y, y).sum() + paddle.full([1], 2.0, "float32")

    translated = sot.to_static(function, min_graph_size=0)
    args = [floats(3, 4), paddle.to_tensor([1, 2])]
    np.testing.assert_allclose(translated(*args).numpy(), function(*args).numpy(), rtol=1e-6)
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])
