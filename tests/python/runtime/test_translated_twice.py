"""`to_static` of one function, twice: one translation, as long as nothing tells them apart."""

import functools

import paddle
import paddle_sot_rs as sot
from paddle import nn


def double(x):
    return x * 2 + 1


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def helper(self, x):
        return self.linear(x) + 1


def test_it_is_the_one_that_is_alive():
    first = sot.to_static(double)
    first(paddle.ones([2]))
    second = sot.to_static(double)
    assert second is first and sot.stats(second).translations == 1
    assert sot.to_static(first) is first


def test_other_settings_are_others():
    first = sot.to_static(double)
    others = [
        sot.to_static(double, backend="eager"),
        sot.to_static(double, full_graph=True),
        sot.to_static(double, min_graph_size=0),
        sot.to_static(double, dynamic=False),
        sot.to_static(double, black_list=["nonzero"]),
        sot.to_static(double, input_spec=[paddle.static.InputSpec([2])]),
    ]
    assert len({id(each) for each in (first, *others)}) == 7
    # Input specifications may be changed by who holds them.
    assert sot.to_static(double, input_spec=[paddle.static.InputSpec([2])]) is not others[-1]


def test_marks_of_the_process_count():
    def marked(x):
        return double(x)

    first = sot.to_static(marked)
    sot.disable(lambda x: x)
    assert sot.to_static(marked) is not first


def test_methods_are_of_their_owner():
    one, other = Net(), Net()
    first = sot.to_static(one.helper)
    assert sot.to_static(one.helper) is first and sot.to_static(other.helper) is not first
    x = paddle.ones([1, 2])
    assert first(x).tolist() == one.helper(x).tolist() != sot.to_static(other.helper)(x).tolist()


def test_what_is_written_to_one_is_not_shared():
    first = sot.to_static(double)
    first.tag = "mine"
    second = sot.to_static(double)
    assert second is not first and not hasattr(second, "tag")
    double.later = 1
    try:
        assert sot.to_static(double).later == 1
    finally:
        del double.later


def test_nobody_is_kept_alive():
    import gc
    import weakref

    def short(x):
        return x

    watched = weakref.ref(short)
    sot.to_static(short)(paddle.ones([2]))
    del short
    gc.collect()
    assert watched() is None


def test_decorated_and_partial():
    @sot.to_static
    def function(x, k):
        return x * k

    made = sot.to_static(functools.partial(function, k=2))
    assert made.func is function
