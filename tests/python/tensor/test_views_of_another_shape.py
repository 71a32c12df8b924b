"""`Tensor.view()`, `Tensor.view_as()`, `paddle.view()`: in the graph where the numbers lie in order, and in storage
that is shared as in eager mode, also behind `contiguous()`."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate


def both(x):
    h = x * 1
    return h, h.view(-1)


def changed_behind(x):
    h = x * 1
    v = h.view(6)
    h.add_(paddle.ones([1]))
    return v, h


def added(x):
    """The gradients of three uses are summed in eager mode's order."""
    h = x.sin()
    a = h.view([3, 2]).view(2, 3)
    b = h.cos()
    return ((a - b) * h).sum()


CAPTURED = {
    "all": lambda x: (x * 2).view(-1),
    "a tuple": lambda x: (x * 2).view((3, 2)),
    "a list": lambda x: (x * 2).view([3, 2]),
    "numbers": lambda x: (x * 2).view(3, 2),
    "by name": lambda x: (x * 2).view(shape_or_dtype=[6]),
    "the function": lambda x: paddle.view(x * 1, [6]),
    "the function with numbers": lambda x: paddle.view(x * 1, 3, 2),
    "as another": lambda x: (x * 1).view_as(paddle.zeros([3, 2])),
    "an argument": lambda x: x.view(6) + 1,
    "what is returned": lambda x: x.view(6),
    "with a dim": lambda x: (x * 1).view(x.shape[0], -1),
    "the shape that is there": lambda x: (x * 1).view([2, 3]),
    "one behind another": lambda x: (x * 1).view(3, 2).view(-1).view(2, 3) + 1,
    "a row": lambda x: (x * 1)[1].view(3, 1),
    "behind contiguous": lambda x: (x * 1).t().contiguous().view(6),
    "of heads": lambda x: x.view(2, 1, 3).transpose([1, 0, 2]).reshape([2, 3]),
    "what it is of, too": both,
    "summed gradients": added,
}

LEFT = {
    "by another name": lambda x: (x * 2).view(size=[6]),
    "a dtype": lambda x: (x * 1).view("int32"),
    "another size": lambda x: (x * 1).view(4),
    "written through": lambda x: (x * 1).view(-1).add_(paddle.ones([6])),
    "written behind it": changed_behind,
}


def given(trains):
    x = (paddle.arange(6, dtype="float32").reshape([2, 3]) / 7).cos()
    x.stop_gradient = not trains
    return x


def observed(function, x):
    """What it gives, the gradients, and what of it changes with the first of the results."""
    try:
        results = function(x)
        results = results if isinstance(results, tuple) else (results,)
        found = [(y.tolist(), y.shape, y.dtype, y.stop_gradient, y.is_leaf) for y in results]
        if not results[0].stop_gradient:
            sum((y * y).sum() for y in results).backward()
            found.append(x.grad.tolist())
    except (ValueError, NotImplementedError) as error:
        return type(error)
    with paddle.no_grad():
        results[0].set_value(results[0] * 0)
    return *found, [y.tolist() for y in results], x.tolist()


@pytest.mark.parametrize("backend", ["paddle", "cinn", "eager"])
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", CAPTURED)
def test_they_are_captured(name, trains, backend):
    function = CAPTURED[name]
    translated = translate(lambda x: function(x), backend=backend)
    for _ in range(2):
        if backend != "cinn":
            assert observed(translated, given(trains)) == observed(function, given(trains))
        else:
            translated(given(trains))
    stats = sot.stats(translated)
    assert stats.graph_breaks == stats.fallbacks == [] and stats.graphs <= 1


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", LEFT)
def test_others_are_left_to_the_interpreter(name, trains):
    function = LEFT[name]
    translated = translate(lambda x: function(x))
    for _ in range(2):
        assert observed(translated, given(trains)) == observed(function, given(trains))
    assert sot.stats(translated).graph_breaks


def test_an_argument_of_another_order_is_refused_as_in_eager_mode():
    translated = translate(lambda x: x.view(6) + 1)
    assert translated(given(False)).tolist() == (given(False).view(6) + 1).tolist()
    for function in (translated, lambda x: x.view(6) + 1):
        with pytest.raises(ValueError, match="view"):
            function(given(False).t())


def test_dims_that_differ_between_calls():
    translated = translate(lambda x: x.view(x.shape[0], 2, -1).sum(-1))
    for rows in (2, 3, 5, 7):
        x = paddle.arange(6.0 * rows).reshape([rows, 6])
        assert translated(x).tolist() == x.view(rows, 2, -1).sum(-1).tolist()
    assert sot.stats(translated).graphs <= 2 and sot.stats(translated).graph_breaks == []


@pytest.mark.parametrize("changed", [0, 1])
def test_behind_contiguous_changes_show_in_the_view(changed):
    def changes(x):
        whole = (x * 1).t().contiguous()
        view = whole.reshape([-1])
        (whole, view)[changed].add_(paddle.ones([1]))
        return whole, view

    translated = translate(changes)
    assert observed(translated, given(False)) == observed(changes, given(False))
