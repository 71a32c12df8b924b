"""Forms in place take other arguments than their operations, and tensors that are views get another shape in place."""

import paddle
import pytest
from harness import check, tensor

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

X = tensor(1, 3, 4, grad=True)

OTHERWISE = {
    "two dims": lambda y: y.transpose_(0, 1),
    "dims by name": lambda y: y.transpose_(dim0=0, dim1=1),
    "a shape of numbers": lambda y: y.reshape_(3, 4),
    "a number for a shape": lambda y: y.reshape_(12),
    "an axis by another name": lambda y: y.cumsum_(dim=0),
    "a dim by another name": lambda y: y.squeeze_(dim=0),
    "the first dim by another name": lambda y: y.flatten_(start_dim=1),
    "an exponent": lambda y: y.pow_(exponent=2),
    "out": lambda y: y.exp_(out=None),
}
AS_THE_OPERATION = {
    "a list": lambda y: y.transpose_([0, 2, 1]),
    "a list by name": lambda y: y.reshape_(shape=[4, 3]),
    "another name": lambda y: y.add_(other=paddle.ones([4])),
    "bounds": lambda y: y.clip_(min=-1.0),
    "an axis": lambda y: y.unsqueeze_(0),
}


def changed(change):
    def function(x):
        y = x * 1.5
        change(y)
        return y + 1.0

    return function


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_the_form_does_with_them_is_what_eager_mode_does(name):
    check(changed(OTHERWISE[name]), X, fallbacks=None)


@pytest.mark.parametrize("name", AS_THE_OPERATION)
def test_what_both_take_is_captured(name):
    check(changed(AS_THE_OPERATION[name]), X, graphs=1, breaks=0)


def squeezed(x):
    y = (x * 2).transpose([0, 2, 1])
    same = y.squeeze_(0)
    return y + 1, same is y


def with_other_views(x):
    y = x * 2
    z = y.transpose([0, 2, 1])
    row = y[0]
    z.reshape_([3, 4])
    return z + 1, row, y


def without_gradients(x):
    y = (x * 2).detach().transpose([0, 2, 1])
    y.unsqueeze_(0)
    return y + 1, y.shape


def what_its_maker_keeps(x):
    y = paddle.exp(x).transpose([0, 2, 1])
    y.squeeze_(0)
    return y + 1


def the_base_changes_behind(x):
    y = x * 2
    z = y.transpose([0, 2, 1])
    z.squeeze_(0)
    y.add_(x)
    return z + 1, y


def without_recording(x):
    y = (x * 2).transpose([0, 2, 1])
    with paddle.no_grad():
        y.squeeze_(0)
    return y + 1


# These share the tensor behind the object, and so its shape.
def all_rows(x):
    y = (x * 2).detach()
    rows = y[0:1]
    rows.squeeze_(0)
    return y + 1, y.shape, rows.shape


def detached(x):
    y = x * 2
    z = y.detach()
    z.squeeze_(0)
    return z + 1, y.shape, z.shape


def detached_twice(x):
    y = (x * 2).detach()
    a, b = y.detach(), y.detach()
    b.transpose_([0, 2, 1])
    return a + 1, y.shape, b


def detached_from_a_view(x):
    y = (x * 2).detach().transpose([0, 2, 1])
    z = y.detach()
    y.squeeze_(0)
    return z + 1, z.shape, y


RAISES_BACKWARD = [what_its_maker_keeps, without_recording]


@pytest.mark.parametrize("function", [squeezed, without_gradients])
def test_views_of_another_shape(function):
    check(function, X, graphs=1, breaks=0)


@pytest.mark.parametrize(
    "function", [what_its_maker_keeps, the_base_changes_behind, with_other_views, without_recording]
)
def test_views_that_are_left_to_the_interpreter(function):
    check(function, X, fallbacks=None, backward=function not in RAISES_BACKWARD)


# What they are views of is another view from then on, and they are not.
def a_row_of_the_view(x):
    y = (x * 2).detach().transpose([0, 2, 1])
    row = y[0]
    y.unsqueeze_(0)
    return y, row


def a_row_of_it_in_another_order(x):
    y = (x * 2).detach()[0].t()
    row = y[0]
    y.transpose_([1, 0])
    row.fill_(1.0)
    return y, row


def a_view_of_rows(x):
    y = x * 2
    rows = y[0, 0:2]
    turned = rows.t()
    rows.reshape_([-1])
    return rows, turned, y


def a_row_behind_it(x):
    y = (x * 2).detach().transpose([0, 2, 1])
    y.squeeze_(0)
    row = y[0]
    y.unsqueeze_(0)
    return y, row


VIEWED = [a_row_of_the_view, a_row_of_it_in_another_order, a_view_of_rows, a_row_behind_it]


@pytest.mark.parametrize("function", VIEWED)
def test_views_that_have_views_are_left_to_the_interpreter(function):
    check(function, X, fallbacks=None, backward=False)


@pytest.mark.parametrize("function", [all_rows, detached, detached_twice, detached_from_a_view])
def test_tensors_that_share_a_shape_are_left_to_the_interpreter(function):
    check(function, X, fallbacks=None, backward=False)
