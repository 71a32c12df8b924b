"""Tensors that share storage when they leave a graph: a later change of one shows in the others, as in eager mode."""

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from harness import Programs, check, tensor

program = Programs()
X = tensor(2, 3, 4)
P = tensor(2, 3, 4, grad=True)
NORM = paddle.nn.BatchNorm1D(3)


OPERATIONS = {
    "reshape": lambda x: x.reshape([6, 4]),
    "function": lambda x: paddle.reshape(x, shape=[4, 6]),
    "keyword": lambda x: paddle.transpose(x=x, perm=[1, 0, 2]),
    "item": lambda x: x[:, 1],
    "mask": lambda x: x[:, None, ..., 0],
    "attribute": lambda x: x.T,
    "split": lambda x: x.split(2)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "detach": lambda x: x.detach(),
    "chain": lambda x: x.flatten(1).transpose([1, 0])[1:3],
    "layer": paddle.nn.Flatten(),
    "layer by name": lambda x: FLATTEN(input=x),
    "input": lambda x: paddle.slice(input=x, axes=[1], starts=[0], ends=[2]),
    "other name": lambda x: paddle.reshape(input=x, shape=[4, 6]),
    "in another order": lambda x: paddle.flatten(start_axis=1, x=x),
    "several by another name": lambda x: paddle.unbind(input=x, axis=1)[1],
    "next to a size": lambda x: paddle.reshape(input=x, shape=[SIZE, 6]),
    "in a list": lambda x: paddle.cartesian_prod([x[0, 1]]),
    "no_grad": lambda x: without_grad(x),
    "cast": lambda x: x.astype("float64"),
    "real": lambda x: paddle.view_as_real(paddle.as_complex(x.reshape([3, 4, 2]))),
}
FLATTEN = paddle.nn.Flatten()
SIZE = paddle.to_tensor(4)


def without_grad(x):
    with paddle.no_grad():
        return x.reshape([8, 3])


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("x", [X, P], ids=["plain", "grad"])
def test_view_of_an_intermediate(name, x):
    operation = OPERATIONS[name]

    def function(x):
        y = x * 2 + 1
        return y, operation(y)

    check_changed(function, x)


@pytest.mark.parametrize("name", OPERATIONS)
def test_view_of_an_input(name):
    operation = OPERATIONS[name]

    def function(x):
        return x, operation(x), x + 1

    check_changed(function, X)


@pytest.mark.parametrize("name", OPERATIONS)
def test_two_views_of_something_that_stays(name):
    operation = OPERATIONS[name]

    def function(x):
        y = x * 2 + 1
        return operation(y), y.reshape([-1]), y.exp()

    check_changed(function, P)


def check_changed(function, x):
    translated = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        pictures = []
        for run in (function, translated):
            argument = x.clone().detach() if x.stop_gradient else x
            results = run(argument)
            shared = [[a.data_ptr() == b.data_ptr() for a in results] for b in results]
            with paddle.no_grad():
                for number, result in enumerate(results):
                    if result.is_leaf and not result.stop_gradient:
                        continue
                    result.add_(paddle.full([], number + 1, result.dtype))
            pictures.append(((results, argument), shared))
        (expected, pointers), (actual, found) = pictures
        assert pointers == found
        for a, b in zip(expected[0], actual[0], strict=True):
            assert a.numpy().tolist() == b.numpy().tolist()
        assert expected[1].numpy().tolist() == actual[1].numpy().tolist()
    assert not sot.stats(translated).fallbacks
    assert sot.stats(translated).graphs == 1


@program(X, graphs=2, breaks=1)
def written_through_a_view(x):
    y = x * 2
    view = y.reshape([6, 4])
    view[0] = 7
    return y, view + y.sum()


@program(X, graphs=2, breaks=1)
def written_under_a_view(x):
    y = x * 2
    view = y[0]
    y.add_(paddle.ones([]))
    return view * 1, y


@program(X, breaks=1)
def argument_written_through_a_view(x):
    view = x.reshape([6, 4])
    view[0] = 7
    return x + 1


@program(P, graphs=2, breaks=1)
def gradients_through_a_written_view(x):
    y = x * 2
    view = y.reshape([6, 4])
    view[0] = 7
    return (view * 3).sum() + (y * y).sum()


@program(X, breaks=1)
def kept_in_a_list(x):
    y = x * 2
    parts = list(y.unbind(0))
    parts[0][0] = 5
    return y, parts


@program(X, breaks=None)
def view_has_no_static_form(x):
    y = x * 2
    view = paddle.view(y, [12, 2])
    view[0] = 3
    return y + 1, view


@program(X, graphs=2, breaks=1)
def storage_of_its_own(x):
    y = x[0].T
    z = y.contiguous()
    z.add_(paddle.ones([]))
    return z is y, z, x * 2


@program(X, graphs=1, breaks=1)
def storage_of_its_own_for_a_view_of_an_intermediate(x):
    y = x * 2
    z = y.transpose([0, 2, 1]).contiguous()
    z.add_(paddle.ones([]))
    return y, z


@program(X, graphs=2, breaks=2)
def storage_of_its_own_that_older_views_do_not_have(x):
    y = (x * 2).transpose([0, 2, 1])
    view = y[0]
    y.contiguous().add_(paddle.ones([]))
    return y, view


@program(P, graphs=1, breaks=0)
def storage_of_its_own_in_the_middle(x):
    return (x * 2).transpose([0, 2, 1]).contiguous().reshape([2, -1]) * 3


@program(X, graphs=1, breaks=1)
def strides_of_a_view(x):
    y = x * 2
    return y.transpose([2, 0, 1]).stride(), y


@program(X, graphs=2, breaks=1)
def complex_numbers_of_a_view_with_gaps(x):
    y = x[:, :, ::2].transpose([0, 2, 1])[..., :2]
    try:
        return paddle.as_complex(y), y.as_complex()
    except ValueError as error:
        return type(error), y * 2


@program(X, graphs=1, breaks=0)
def complex_numbers_of_a_new_tensor(x):
    return paddle.as_complex((x * 2).reshape([3, 4, 2])), (x + 1).flatten().reshape([12, 2]).as_complex()


@program(X, graphs=1, breaks=3)
def tensors_of_a_tensor_are_new_ones(x):
    y = paddle.as_tensor(x), paddle.tensor(data=x), paddle.asarray(x)
    return y, [part is x for part in y], x * 2


@program(X, graphs=1, breaks=1, fallbacks=None)
def questions_that_take_no_argument(x):
    y = x * 2
    try:
        return paddle.is_grad_enabled(y)
    except TypeError as error:
        return str(error), y


@program(X, graphs=1, breaks=1)
def a_tensor_instead_of_a_list(x):
    y = x * 2
    try:
        return paddle.concat(y)
    except ValueError as error:
        return type(error), y


@pytest.mark.parametrize(("function", "args", "expectations"), program)
def test_equals_eager(function, args, expectations):
    check(function, *args, **expectations)


PICKED = {
    "list": lambda b: b[[2, 0, 1]],
    "mask": lambda b: b[[True, False, True, True]],
    "tensor": lambda b: b[paddle.to_tensor([2, 0])],
    "list_behind_a_slice": lambda b: b[1:, [2, 0]],
    "slice": lambda b: b[1:],
    "number": lambda b: b[1],
    "numbers_and_slices": lambda b: b[None, 1, ..., :2],
}


@pytest.mark.parametrize("backend", ["paddle", "eager", "cinn"])
@pytest.mark.parametrize("name", PICKED)
def test_items_that_are_picked_are_a_tensor_of_their_own(name, backend):
    """What leaves the graph is the tensor that the gradient reads, as numbers that no version counts show."""

    def function(b):
        picked = PICKED[name](b)
        return (picked * picked).sum(), picked

    def run(call):
        b = paddle.arange(12.0).reshape([4, 3])
        b.stop_gradient = False
        loss, picked = call(b)
        picked.set_value(picked.detach() * 0.5)
        loss.backward()
        return b.grad.tolist(), b.tolist()

    translated = sot.to_static(function, backend=backend, dynamic=True, min_graph_size=0)
    for _ in range(2):
        assert run(translated) == run(function)
    record = sot.stats(translated)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])


def updates_an_item(x, rows, variance):
    mean = rows[0]
    return F.batch_norm(x, mean, variance, training=True), mean * 1, rows * 1


def updates_a_slice(x, rows, variance):
    return F.batch_norm(x, rows[1][:], variance, training=True), rows * 1


def updates_without_gradients(x, rows, variance):
    return F.batch_norm(x, rows[1], variance.detach(), training=True), rows * 1, variance + 0


def updates_what_it_made(x, rows, variance):
    mean = rows[0] * 1
    flat = mean.reshape([1, 3])
    return F.batch_norm(x, mean, variance, training=True), mean, flat, flat + 1


def updates_what_has_views(x, rows, variance):
    view = variance.detach()
    return F.batch_norm(x, rows.sum(0), variance, training=True), view * 2


def updates_of_a_layer(x, rows, variance):
    view = NORM._mean.detach()
    return NORM(x), view * 2


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        *(updates_an_item, updates_a_slice, updates_without_gradients),
        *(updates_what_it_made, updates_what_has_views, updates_of_a_layer),
    ],
)
def test_running_statistics_that_share_storage(function, grad):
    """They are updated in place: the call is made on real tensors."""
    found = []
    static = sot.to_static(function, min_graph_size=0)
    for run in (function, static):
        rows, variance = paddle.arange(6, dtype="float32").reshape([2, 3]), paddle.ones([3])
        for which in (NORM._mean, NORM._variance):
            which.set_value(paddle.ones([3]))
        for seed in range(3):
            x = tensor(4, 3, seed=seed, grad=grad)
            seen = [*run(x, rows, variance), rows, variance, NORM._mean, NORM._variance]
            found.append([it.numpy() for it in seen])
    for want, got in zip(found[:3], found[3:], strict=True):
        for one, other in zip(want, got, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert [it.code for it in sot.stats(static).graph_breaks] == ["UNSPS"]


@pytest.mark.parametrize("grad", [False, True])
def test_views_of_running_statistics_behind_what_updates_them(grad):
    def function(x, rows, variance):
        y = F.batch_norm(x, rows, variance, training=True)
        return y, rows.reshape([1, 3]) * 2, variance.detach()

    check(function, tensor(4, 3, grad=grad), paddle.zeros([3]), paddle.ones([3]), graphs=1, breaks=0)


@program(X, graphs=2, breaks=2)
def views_of_several_tensors(x):
    y = x[0] * 2
    parts = paddle.atleast_3d(x * 3, y)
    y.add_(paddle.ones([]))
    return y, parts


@program(X, graphs=1, breaks=1)
def one_of_several_tensors_by_name(x):
    y = x * 2
    z = paddle.reshape(x=y, shape=paddle.to_tensor([4, 6]))
    wide = paddle.expand_as(x=y[0], y=x)
    y.add_(paddle.ones([]))
    return y, z, wide


@program(X, graphs=1, breaks=0)
def what_is_computed_from_several_tensors_is_no_view(x):
    y = x * 2
    z = paddle.einsum("ijk,ijk->ijk", y, x)
    wide, _ = paddle.broadcast_tensors([y[0], x])
    y.scale_(3.0)
    return y, z, wide, paddle.expand_as(y, x), paddle.reshape(y, [x.shape[0], -1])


@program(X, graphs=1, breaks=0)
def the_shape_that_it_has_by_name(x):
    y = x * 2
    return y, paddle.reshape(x=y, shape=[2, 3, 4]) is y, y.reshape(shape=[2, 3, 4]) is y, paddle.reshape(y, [24]) is y
