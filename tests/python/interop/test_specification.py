"""`input_spec`, annotations and marks: what is said about arguments before the first call."""

import pickle
from typing import Annotated

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec


def scaled(x):
    return x.reshape([x.shape[0] * 2, -1]) * 2


def same_as_eager(static, function, *args):
    got, want = static(*args), function(*args)
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_open_dims_are_dynamic_from_the_first_call():
    static = sot.to_static(scaled, input_spec=[InputSpec([None, 4], "float32", "x")], min_graph_size=0)
    for size in (3, 5, 8, 2):
        same_as_eager(static, scaled, paddle.rand([size, 4]))
    assert sot.stats(static).translations == 1
    # 1 is special: it broadcasts.
    same_as_eager(static, scaled, paddle.rand([1, 4]))
    assert sot.stats(static).translations == 2


@pytest.mark.parametrize(
    ("argument", "error", "text"),
    [
        (
            lambda: paddle.rand([3]),
            ValueError,
            r"argument x: input_spec says rank 2 \(\[None, 4\]\), got rank 1 \(\[3\]\)",
        ),
        (lambda: paddle.rand([3, 5]), ValueError, r"argument x: input_spec says shape \[None, 4\], got \[3, 5\]"),
        (lambda: paddle.ones([3, 4], "int64"), TypeError, "argument x: input_spec says dtype float32, got int64"),
        (lambda: [1.0], TypeError, r"argument x: input_spec says a Tensor of shape \[None, 4\], got a list of 1"),
    ],
)
def test_wrong_arguments_are_errors(argument, error, text):
    static = sot.to_static(scaled, input_spec=[InputSpec([None, 4], "float32")], min_graph_size=0)
    for _ in range(2):
        with pytest.raises(error, match=text):
            static(argument())
        same_as_eager(static, scaled, paddle.rand([3, 4]))


def breaks_before_it_looks(x, times=2):
    sot.graph_break()
    return x * times


def never_looks(x, y):
    return y + 1


def test_arguments_that_no_graph_takes_are_checked():
    spec = [InputSpec([None, 4], "float32")]
    cases = [
        (breaks_before_it_looks, {}),
        (breaks_before_it_looks, {"times": 3}),
        (never_looks, {"y": paddle.ones([2])}),
    ]
    for function, rest in cases:
        static = sot.to_static(function, input_spec=spec, min_graph_size=0)
        for _ in range(3):
            same_as_eager(static, function, paddle.rand([3, 4]), *rest.values())
            with pytest.raises(ValueError, match="argument x: .* rank 1"):
                static(paddle.rand([3]), *rest.values())
            with pytest.raises(TypeError, match="argument x: input_spec says a Tensor"):
                static(None, *rest.values())
            with pytest.raises(ValueError, match="argument x: .* rank 1"):
                static(x=paddle.rand([3]), **rest)


def test_arguments_are_checked_after_a_failure():
    static = sot.to_static(lambda x, k: x * k, input_spec=[InputSpec([None, 4], "float32")], min_graph_size=0)
    for _ in range(5):
        with pytest.raises(Exception, match=""):
            static(paddle.rand([3, 4]), "no number")
        with pytest.raises(ValueError, match="argument x: .* rank 1"):
            static(paddle.rand([4]), 2)


def nested(pair, options):
    return pair[0] @ options["w"] + pair[1] * options["factor"]


def test_nested_structures():
    spec = [
        [InputSpec([None, 4]), InputSpec([None, 2])],
        {"w": InputSpec([4, 2]), "factor": 2.0},
    ]
    static = sot.to_static(nested, input_spec=spec, min_graph_size=0)
    for size in (3, 6, 4):
        pair = [paddle.rand([size, 4]), paddle.rand([size, 2])]
        same_as_eager(static, nested, pair, {"w": paddle.rand([4, 2]), "factor": 2.0})
    assert sot.stats(static).translations == 1
    with pytest.raises(TypeError, match=r"argument pair: input_spec says a list or tuple of 2, got a list of 1"):
        static([paddle.rand([3, 4])], {"w": paddle.rand([4, 2]), "factor": 2.0})
    with pytest.raises(TypeError, match=r"argument options: input_spec says a dict with the keys \['w', 'factor'\]"):
        static([paddle.rand([3, 4]), paddle.rand([3, 2])], {"w": paddle.rand([4, 2])})
    with pytest.raises(ValueError, match=r"argument pair\[1\]: .* rank 2"):
        static([paddle.rand([3, 4]), paddle.rand([3])], {"w": paddle.rand([4, 2]), "factor": 2.0})


def test_wrong_specifications_are_errors():
    with pytest.raises(TypeError, match="input_spec: expected a list or tuple, got InputSpec"):
        sot.to_static(scaled, input_spec=InputSpec([None, 4]))
    with pytest.raises(ValueError, match="input_spec: 2 entries, but the function takes 1"):
        sot.to_static(scaled, input_spec=[InputSpec([None, 4]), InputSpec([1])])
    with pytest.raises(ValueError, match=r"input_spec: argument x is given as 3, .*InputSpec\(shape, dtype\)"):
        sot.to_static(scaled, input_spec=[3])
    with pytest.raises(ValueError, match="input_spec: argument x is given as 3"):
        sot.to_static(input_spec=[3, 4])(lambda x, y: x + y)


def test_methods():
    class Net(paddle.nn.Layer):
        @sot.to_static(input_spec=[InputSpec([None, 4])], min_graph_size=0)
        def forward(self, x):
            return x * 2

    net = Net()
    for size in (3, 5):
        np.testing.assert_array_equal(net(paddle.ones([size, 4])).numpy(), np.full([size, 4], 2.0))
    assert sot.stats(net).translations == 1
    with pytest.raises(ValueError, match="argument x: .* rank 2"):
        net(paddle.ones([4]))


SPEC = [InputSpec([None, 4])]


class NamedOtherwise(paddle.nn.Layer):
    @sot.to_static(input_spec=SPEC, min_graph_size=0)
    def forward(this, x):  # noqa: N805
        return x * 2

    @sot.to_static(input_spec=SPEC, min_graph_size=0)
    def __call__(*args):
        return args[1] * 2

    @classmethod
    @sot.to_static(input_spec=SPEC, min_graph_size=0)
    def inside(cls, x):
        return x * 2

    @sot.to_static(input_spec=SPEC, min_graph_size=0)
    @classmethod
    def outside(cls, x):
        return x * 2

    @staticmethod
    @sot.to_static(input_spec=SPEC, min_graph_size=0)
    def without(x):
        return x * 2


@pytest.mark.parametrize("name", ["forward", "__call__", "inside", "outside", "without"])
def test_methods_whatever_they_call_their_object(name):
    static = getattr(NamedOtherwise(), name)
    for size in (3, 5, 8):
        np.testing.assert_array_equal(static(paddle.ones([size, 4])).numpy(), np.full([size, 4], 2.0))
    assert sot.stats(static).translations == 1
    with pytest.raises(ValueError, match=r"argument (x|args\[1\]): .* rank 2"):
        static(paddle.ones([4]))


def plain(x):
    return x * 2


def test_functions_that_are_methods_too():
    static = sot.to_static(plain, input_spec=SPEC, min_graph_size=0)

    class Net(paddle.nn.Layer):
        twice = staticmethod(static)

    copied = pickle.loads(pickle.dumps(NamedOtherwise.__dict__["forward"].specification))
    assert copied.skips_self and copied((NamedOtherwise(), paddle.ones([3, 4])), None)[0][1] == [0]
    for called in (static, Net().twice):
        same_as_eager(called, plain, paddle.rand([3, 4]))


def test_functions_of_a_class_that_are_called_without_an_object():
    class Losses:
        of = sot.to_static(plain, input_spec=SPEC, min_graph_size=0)

    same_as_eager(Losses.of, plain, paddle.rand([3, 4]))
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        Losses().of(paddle.rand([3, 4]))


def annotated(x: Annotated[paddle.Tensor, sot.DynamicDims(0)], y):
    return x * 2 + y


def test_annotations():
    static = sot.to_static(annotated, min_graph_size=0)
    for size in (3, 5, 8):
        same_as_eager(static, annotated, paddle.rand([size, 4]), paddle.rand([4]))
    assert sot.stats(static).translations == 1
    with pytest.raises(ValueError, match="dims: expected dims counted from 0, got -1"):
        sot.DynamicDims(-1)


def test_mark_dynamic():
    static = sot.to_static(scaled, min_graph_size=0)
    x = paddle.rand([3, 4])
    sot.mark_dynamic(x, 0)
    same_as_eager(static, scaled, x)
    same_as_eager(static, scaled, paddle.rand([7, 4]))
    assert sot.stats(static).translations == 1


def test_mark_static():
    static = sot.to_static(scaled, min_graph_size=0)
    for size in (3, 5, 7):
        x = paddle.rand([size, 4])
        sot.mark_static(x)
        same_as_eager(static, scaled, x)
    stats = sot.stats(static)
    assert (stats.translations, stats.graphs) == (3, 3)
    x = paddle.rand([9, 4])
    sot.mark_dynamic(x, -2)
    same_as_eager(static, scaled, x)
    same_as_eager(static, scaled, paddle.rand([11, 4]))
    assert sot.stats(static).translations == 4


def test_wrong_marks_are_errors():
    x = paddle.rand([3, 4])
    with pytest.raises(ValueError, match="dims: expected dims of a tensor of rank 2, got 2"):
        sot.mark_dynamic(x, 2)
    with pytest.raises(TypeError, match="tensor: expected a Tensor, got int"):
        sot.mark_static(3)


def test_arguments_that_hold_themselves_many_times_are_looked_at_in_bounded_time():
    def function(x, items):
        return x * len(items)

    static = sot.to_static(function, min_graph_size=0)
    items = [1, 2]
    items += [items] * 100
    for _ in range(2):
        same_as_eager(static, function, paddle.rand([2, 4]), items)
    assert sot.stats(static).translations == 1


def changed(spec, shape):
    spec.shape = shape
    return spec


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        (["float32"], ValueError, "argument x is given as 'float32', and no entry describes a tensor"),
        ([[2, 3]], ValueError, r"argument x is given as \[2, 3\], and no entry describes a tensor"),
        ([(None, 8)], ValueError, r"argument x is given as \(None, 8\), and no entry describes a tensor"),
        ([changed(InputSpec([2]), ("n",))], ValueError, "argument x has 'n' in the place of dim 0; write its size"),
        ([changed(InputSpec([2]), (-5,))], ValueError, "argument x has -5 in the place of dim 0"),
        ([InputSpec([True])], ValueError, "argument x has True in the place of dim 0"),
        ([[InputSpec([2], 5)]], TypeError, r"argument x\[0\] has the dtype 5; write one of Paddle's, such as"),
        ([{"a": InputSpec([2], None)}], TypeError, r"argument x\['a'\] has the dtype None"),
        ([InputSpec([2])] * 3, ValueError, "input_spec: 3 entries, but the function takes 2 positional arguments"),
    ],
)
def test_a_specification_that_is_none_is_an_error_where_it_is_given(spec, error, text):
    with pytest.raises(error, match=text):
        sot.to_static(never_looks, input_spec=spec)
