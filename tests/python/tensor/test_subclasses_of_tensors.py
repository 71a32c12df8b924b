"""Subclasses of tensors with special methods of their own: Python finds them in front of Paddle's."""

import paddle
import paddle_sot_rs as sot
import pytest

pytestmark = pytest.mark.default_python


class Named(paddle.Tensor):
    """Answers with the name of what was called."""

    def __bool__(self):
        return False


def name(method, answer=None):
    setattr(Named, method, lambda self, *args: answer or method)


for method in ("add", "radd", "iadd", "mul", "rmul", "matmul", "neg", "lt", "getitem"):
    name(f"__{method}__")
name("__len__", 77)
Named.__iter__ = lambda self: iter("abc")
Named.__setitem__ = lambda self, key, value: None


def changed_in_place(named, plain):
    named += 1
    return named


def written(named, plain):
    named[0] = 1.0
    return named.numpy().tolist()


def decides(named, plain):
    return plain + 1 if named else plain - 1


FUNCTIONS = {
    "added": lambda named, plain: named + 1,
    "added to a tensor": lambda named, plain: plain + named,
    "added to a number": lambda named, plain: 1 + named,
    "a product": lambda named, plain: 2 * named,
    "matmul": lambda named, plain: named @ plain,
    "negated": lambda named, plain: -named,
    "compared": lambda named, plain: named < 1,
    "compared from behind": lambda named, plain: plain > named,
    "an item": lambda named, plain: named[0],
    "length": lambda named, plain: len(named),
    "rows": lambda named, plain: list(named),
    "unpacked": lambda named, plain: [*named],
    "a sum of both": lambda named, plain: sum([named, named]),
    "changed in place": changed_in_place,
    "written": written,
    "decides": decides,
}


@pytest.mark.parametrize("control_flow", [False, True])
@pytest.mark.parametrize("what", FUNCTIONS)
def test_own_methods_are_called(what, control_flow):
    function = FUNCTIONS[what]
    static = sot.to_static(function, min_graph_size=0, capture_control_flow=control_flow)
    for _ in range(2):
        given = [(Named(paddle.ones([1])), paddle.full([1], 3.0)) for _ in range(2)]
        expected, found = function(*given[0]), static(*given[1])
        assert type(found) is type(expected)
        assert str(found) == str(expected)


class Later(paddle.Tensor):
    """A subclass that has no method of its own yet."""


def test_a_method_that_comes_later():
    static = sot.to_static(lambda given: given + 1, min_graph_size=0)
    assert static(Later(paddle.ones([2]))).tolist() == [2.0, 2.0]
    assert sot.stats(static).graphs == 1
    Later.__add__ = lambda self, other: "mine"
    assert static(Later(paddle.ones([2]))) == "mine"
