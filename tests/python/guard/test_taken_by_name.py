"""Functions and classes that only have the name or the module of another. See `changes.py`."""

# ruff: noqa: A001, B018, E721, UP030, UP031, UP032, UP042

import abc
import enum
import functools
import math
from unittest import mock

import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from changes import X, cases, run_case

CASES, case = cases()


def with_globals(source, **names):
    exec(source, names)
    return names


def wraps_relu(scale):
    @functools.wraps(F.relu)
    def mine(x):
        return x * scale[0]

    return mine


@case
def function_that_wraps_one_of_paddle():
    scale = [1.0]
    mine = wraps_relu(scale)
    yield lambda x: mine(x)
    scale[0] = 5.0
    yield


@case
def function_that_wraps_one_of_paddle_below_no_grad():
    scale = [1.0]
    mine = paddle.no_grad()(wraps_relu(scale))
    yield lambda x: mine(x)
    scale[0] = 5.0
    yield


@case
def object_that_wraps_a_function_of_paddle():
    scale = [1.0]

    class Mine:
        def __init__(self):
            functools.update_wrapper(self, F.relu)

        def __call__(self, x):
            return x * scale[0]

    mine = Mine()
    yield lambda x: mine(x)
    scale[0] = 5.0
    yield


@case
def function_with_the_module_and_name_of_another():
    scale = [1.0]

    def mine(x):
        return x * scale[0]

    mine.__module__, mine.__name__ = "paddle.tensor.math", "abs"
    yield lambda x: mine(x)
    scale[0] = 5.0
    yield


@case
def function_executed_as_a_module_of_paddle():
    names = with_globals("def mine(x): return x * scale", scale=1.0, __name__="paddle.tensor.math")
    mine = names["mine"]
    yield lambda x: mine(x)
    names["scale"] = 5.0
    yield


@case
def public_function_replaced_by_one_that_wraps_it():
    old, scale = F.relu, [3.0]

    @functools.wraps(old)
    def mine(x):
        return old(x) * scale[0]

    yield lambda x: F.relu(x)
    with mock.patch.object(F, "relu", mine):
        yield
        scale[0] = 4.0
        yield
    yield


@case
def method_of_tensors_from_a_module_that_begins_like_paddle():
    names = with_globals("def mine(self): return self * scale", scale=3.0, __name__="paddlenlp.utils")
    yield lambda x: x.abs()
    with mock.patch.object(paddle.Tensor, "abs", names["mine"]):
        yield
        names["scale"] = 4.0
        yield
    yield


@case
def method_of_tensors_that_wraps_the_old_one():
    old, scale = paddle.Tensor.abs, [3.0]

    @functools.wraps(old)
    def mine(self):
        return old(self) * scale[0]

    yield lambda x: x.abs()
    with mock.patch.object(paddle.Tensor, "abs", mine):
        yield
        scale[0] = 4.0
        yield
    yield


@case
def forward_that_wraps_the_old_one():
    relu, old, scale = paddle.nn.ReLU(), paddle.nn.ReLU.forward, [3.0]

    @functools.wraps(old)
    def mine(self, x):
        return old(self, x) * scale[0]

    yield lambda x: relu(x)
    with mock.patch.object(paddle.nn.ReLU, "forward", mine):
        yield
        scale[0] = 4.0
        yield
    yield


@case
def call_of_layers_that_is_the_users():
    relu, scale = paddle.nn.ReLU(), [3.0]

    def mine(self, x):
        return x * scale[0]

    yield lambda x: relu(x)
    with mock.patch.object(paddle.nn.Layer, "__call__", mine):
        yield
        scale[0] = 4.0
        yield
    yield


@case
def class_named_range():
    class range:
        def __init__(self):
            self.start, self.stop, self.step = 1, 5, 2

        def __iter__(self):
            return iter("abc")

        def __len__(self):
            return 77

    it = range()
    yield lambda x: (x + 1, list(it), len(it), [i for i in it], it.stop)
    it.stop = 9
    yield
    range.__len__ = lambda self: 78
    yield


@case
def class_named_slice():
    class slice:
        start, stop, step = 1, 5, 2

        def __index__(self):
            return 0

    it, items = slice(), [1, 2, 3]
    yield lambda x: (x + 1, items[it], it.stop)
    it.stop = 3
    yield


@case
def class_named_cell():
    class cell:
        cell_contents = 4

        def __bool__(self):
            return False

    it = cell()
    yield lambda x: x * 2 if it else x * 3
    cell.__bool__ = lambda self: True
    yield


@case
def class_named_ufunc():
    class ufunc:
        __name__ = "sqrt"

        def __bool__(self):
            return False

        def __eq__(self, other):
            return True

        __hash__ = None

    it = ufunc()
    yield lambda x: (x * 2 if it else x * 3, it == 5, it.__name__)
    it.__name__ = "cbrt"
    yield
    ufunc.__eq__ = lambda self, other: False
    yield


@case
def class_named_property():
    class property:
        def __init__(self, function):
            self.fget = function

        def __get__(self, obj, of=None):
            return self.fget(obj) * 10

        def __set__(self, obj, value):
            raise AttributeError

    class Thing:
        @property
        def v(self):
            return 1

    thing = Thing()
    yield lambda x: (x + thing.v, thing.v)
    property.__get__ = lambda self, obj, of=None: 7
    yield


@case
def classes_derived_from_builtin_descriptors():
    class Tenfold(property):
        def __get__(self, obj, of=None):
            return self.fget(obj) * 10

    Tenfold.__name__ = "property"

    class Own(classmethod):
        def __get__(self, obj, of=None):
            return lambda: 77

    Own.__name__ = "classmethod"

    class Thing:
        v = Tenfold(lambda self: 1)
        w = Own(lambda of: 5)

    thing = Thing()
    yield lambda x: (x + thing.v, thing.v)
    yield
    Tenfold.__get__ = lambda self, obj, of=None: 8
    yield


@case
def class_method_of_a_derived_class():
    class Own(classmethod):
        def __get__(self, obj, of=None):
            return lambda: 77

    Own.__name__ = "classmethod"

    class Thing:
        w = Own(lambda of: 5)

    thing = Thing()
    yield lambda x: (x + 1, thing.w(), Thing.w())
    yield


@case
def template_with_an_attribute_of_a_class():
    class Thing:
        v = 1

    yield lambda x: (x + 1, "{0.v}".format(Thing), "{of.v}".format_map({"of": Thing}))
    Thing.v = 2
    yield


@case
def template_with_attributes_and_items_of_a_member():
    class Color(enum.Enum):
        RED = 1

    Color.RED.data = data = ["q"]
    yield lambda x: (x + 1, "{0.data[0]}".format(Color.RED), "{0[0].data}".format([Color.RED]))
    data[0] = "r"
    yield
    Color.RED.data = "st"
    yield


@case
def text_of_a_member_with_a_list():
    class Color(enum.Enum):
        RED = [1]

    yield lambda x: (x + 1, repr(Color.RED), f"{Color.RED!r}", "%r" % (Color.RED,), str([Color.RED]))
    Color.RED.value.append(2)
    yield


@case
def text_of_a_member_with_another_value():
    class Color(enum.Enum):
        RED = 1

    yield lambda x: (x + 1, repr(Color.RED), str(Color.RED), "{}".format((Color.RED,)))
    Color.RED._value_ = 2
    yield
    Color.RED._name_ = "BLUE"
    yield
    Color.__qualname__ = Color.__name__ = "Shade"
    yield


@case
def text_of_a_class():
    class Thing:
        pass

    yield lambda x: (x + 1, repr(Thing), str(Thing), f"{Thing}", "%s" % (Thing,), str([Thing]), repr({1: Thing}))
    Thing.__qualname__ = "Other"
    yield
    Thing.__module__ = "elsewhere"
    yield


@case
def text_of_an_enumeration():
    class Color(enum.Enum):
        RED = 1

    yield lambda x: (x + 1, repr(Color), f"{Color}")
    Color.__name__ = "Shade"
    yield


def member_and_special_method(base, name):
    def steps():
        values = {"A": "1", "B": "2"} if base is enum.StrEnum else {"A": 1, "B": 2}
        of = base("Of", values)
        a = of.A

        def f(x):
            found = [x + 1]
            for read in (lambda: read_all[0](a), lambda: read_all[1](a)):
                try:
                    found.append(read())
                except TypeError as error:
                    found.append(str(error))
            return found

        read_all = READS[name]
        yield f
        setattr(of, name, lambda self, *args: ANSWERS.get(name, 7))
        yield

    return steps


ANSWERS = {"__str__": "s", "__repr__": "r", "__format__": "f", "__float__": 1.5}
READS = {
    "__str__": (lambda a: str(a), lambda a: "%s" % a),
    "__repr__": (lambda a: repr(a), lambda a: f"{a!r}"),
    "__format__": (lambda a: f"{a}", lambda a: "{}".format(a)),
    "__int__": (lambda a: int(a), lambda a: "%d" % a),
    "__index__": (lambda a: hex(a), lambda a: int(a)),
    "__float__": (lambda a: float(a), lambda a: math.sqrt(a)),
    "__round__": (lambda a: round(a), lambda a: round(a, 1)),
    "__abs__": (lambda a: abs(a), lambda a: -abs(a)),
    "__len__": (lambda a: len(a), lambda a: len(a) + 1),
}
for BASE in (enum.Enum, enum.IntEnum, enum.StrEnum):
    for NAME in READS:
        CASES.append(pytest.param(member_and_special_method(BASE, NAME), id=f"{BASE.__name__}{NAME}"))


@case
def name_of_a_cached_function():
    @functools.lru_cache
    def g(a):
        return a

    yield lambda x: (x + 1, g.__name__, g.__doc__)
    g.__name__ = "h"
    yield
    g.__doc__ = "changed"
    yield


@case
def metaclass_named_abcmeta():
    class ABCMeta(abc.ABCMeta):
        def __call__(cls, *args):
            return "called"

        def __instancecheck__(cls, obj):
            return True

    class Base(metaclass=ABCMeta):
        pass

    Base.__module__ = "collections.abc"
    yield lambda x: (x + 1, Base(), isinstance(cases, Base))
    yield


@case
def class_named_uniontype():
    class UnionType:
        __args__ = (int,)

    union = UnionType()

    def f(x):
        try:
            return x + 1, isinstance(1, union)
        except TypeError:
            return x + 2

    yield f
    yield


@case
def class_that_says_it_is_from_math():
    answer = [2.0]

    class sqrt:
        def __new__(cls, number):
            return answer[0]

    sqrt.__module__ = "math"
    yield lambda x: x * sqrt(4)
    answer[0] = 3.0
    yield


@case
def items_of_a_container_that_says_it_is_from_paddle():
    class LayerList(paddle.nn.LayerList):
        def __iter__(self):
            return iter(list(super().__iter__())[::-1])

        def __getitem__(self, at):
            return super().__getitem__(1 - at)

    LayerList.__module__ = "paddle.nn.layer.container"
    layers = LayerList([paddle.nn.Tanh(), paddle.nn.Sigmoid()])
    yield lambda x: (layers[0](x), [layer(x) for layer in layers])
    yield


@pytest.mark.parametrize("steps", CASES)
def test_change(steps):
    run_case(steps)


def test_functions_of_paddle_are_in_the_graph():
    def f(x):
        x = F.softmax(paddle.nn.ReLU()(x.abs()), axis=-1)
        return paddle.linalg.norm(paddle.concat([x, paddle.matmul(x, x.T).sum() + x]))

    translated = sot.to_static(f, min_graph_size=0)
    assert translated(X).item() == f(X).item()
    assert sot.stats(translated).graph_breaks == []


def test_a_container_that_says_it_is_from_paddle():
    class LayerList(paddle.nn.LayerList):
        def __init__(self, layers):
            super().__init__(reversed(layers))

    LayerList.__module__ = "paddle.nn.layer.container"
    first, second = paddle.nn.Tanh(), paddle.nn.Sigmoid()
    translated = sot.to_static(lambda x: LayerList([first, second])[0](x))
    for _ in range(3):
        assert translated(X).tolist() == paddle.nn.functional.sigmoid(X).tolist()
