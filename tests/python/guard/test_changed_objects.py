"""What the frame does with objects of the user's. See `changes.py`."""

# ruff: noqa: B008, B018, E721, UP042

import contextlib
import typing

import numpy as np
import pytest
from changes import X, cases, ns, run_case
from paddle import nn

CASES, case = cases()


@case
def vars_of_an_object():
    thing = ns(a=1)
    yield lambda x: (x * 2, "b" in thing.__dict__, thing.__dict__.get("b", 3))
    thing.b = 5
    yield
    del thing.b
    yield


@case
def dict_of_an_object_is_replaced():
    class A:
        pass

    a = A()
    a.k = 1
    yield lambda x: x * a.k
    a.__dict__ = {"k": 5}
    yield


@case
def kwargs_absent():
    def g(x, **k):
        return x * k.get("k", 2)

    d = {}
    yield lambda x: g(x, **d)
    d["k"] = 5
    yield


@case
def varargs_length():
    def g(x, *a):
        return x * (len(a) + 1)

    items = []
    yield lambda x: g(x, *items)
    items.append(1)
    yield
    items.append("a")
    yield


@case
def with_class_that_gets_exit_true():
    class C:
        def __enter__(self):
            return 3

        def __exit__(self, *args):
            return None

    c = C()

    def f(x):
        with c as k:
            raise ValueError(k)
        return x * 2

    yield f
    C.__exit__ = lambda self, *args: True
    yield


@case
def suppress_other():
    box = ns(e=KeyError)

    def f(x):
        with contextlib.suppress(box.e):
            raise ValueError(3)
        return x * 2

    yield f
    box.e = ValueError
    yield


@case
def format_of_an_object():
    class A:
        pass

    a = A()
    yield lambda x: (x * 2, f"{a}" == "text", str(a) == "text")
    A.__str__ = lambda self: "text"
    yield


@case
def repr_of_an_object():
    class A:
        def __repr__(self):
            return "one"

    a = A()
    yield lambda x: (x * 2, f"{a!r}", f"{a}", str(a))
    A.__str__ = lambda self: "text"
    yield
    A.__format__ = lambda self, spec: "format"
    yield


@case
def index_of_an_object_as_number():
    class A:
        pass

    a = A()

    def f(x):
        try:
            return x * [1, 2, 3][a]
        except TypeError:
            return x

    yield f
    A.__index__ = lambda self: 2
    yield


@case
def del_added_to_class():
    log = []

    class A:
        pass

    def f(x):
        a = A()
        a.k = 2
        y = x * a.k
        del a
        log.append("end")
        result = y, list(log)
        log.clear()
        return result

    yield f
    A.__del__ = lambda self: log.append("gone")
    yield


@case
def delattr_added_to_class():
    class A:
        pass

    a = A()

    def f(x):
        a.k = 1
        del a.k
        return x * getattr(a, "k", 5)

    yield f
    A.__delattr__ = lambda self, name: None
    yield


@case
def del_of_class_attribute_absent():
    class A:
        pass

    a = A()

    def f(x):
        a.k = 1
        del a.k
        return x * getattr(a, "k", 5)

    yield f
    A.k = 7
    yield


@case
def init_subclass_and_slots():
    class A:
        __slots__ = ("a", "b")

    a = A()
    a.a = 1

    def f(x):
        try:
            return x * a.b
        except AttributeError:
            return x * a.a

    yield f
    a.b = 4
    yield
    del a.b
    yield


@case
def hasattr_of_method():
    class A:
        def m(self):
            return 1

    a = A()
    yield lambda x: x * 2 if hasattr(a.m, "flag") else x * 3
    A.m.flag = 1
    yield


@case
def hasattr_of_builtins_kinds():
    yield lambda x, v=1: (x * 2, hasattr(v, "append"), hasattr(v, "real"), hasattr(v, "keys"), hasattr(v, "shape"))
    yield (X, [])
    yield (X, {})
    yield (X, X)
    yield (X, "a")
    yield (X, ns(keys=1))
    yield (X, np.float32(1))


@case
def hasattr_of_numpy_array():
    yield lambda x, v=np.ones(3): (x * 2, hasattr(v, "flag"), isinstance(v, np.ndarray), isinstance(v, list))
    yield (X, [1.0])


@case
def numpy_subclass():
    class A(np.ndarray):
        pass

    yield lambda x, v=np.ones(3, "float32"): (x * 2, type(v) is np.ndarray, isinstance(v, A))
    yield (X, np.ones(3, "float32").view(A))


@case
def python_class_with_dict_subclass_of_config():
    class Config(dict):
        def __getattr__(self, name):
            return self.get(name)

    c = Config(a=1)
    yield lambda x: x * (c.b or 2) + c.a
    c["b"] = 5
    yield
    c.b = 7
    yield


@case
def generic_alias_and_annotations():
    class A(typing.Generic[typing.TypeVar("T")]):
        k = 1

    a = A[int]()
    yield lambda x: (x * 2, getattr(a, "__orig_class__", None) is None, isinstance(a, A))
    del a.__orig_class__
    yield


@case
def order_of_two_attributes_in_vars():
    thing = ns(a=1, b=2)
    yield lambda x: (x * 2, list(thing.__dict__.copy()))
    thing.a = thing.__dict__.pop("a")
    yield


@case
def class_of_a_layer():
    class Double(nn.ReLU):
        def forward(self, x):
            return x * 10

    class Plain(nn.Layer):
        def forward(self, x):
            return x * 2

    class Other(nn.Layer):
        def forward(self, x):
            return x * 5

    net = nn.Sequential(nn.ReLU(), Plain())
    yield lambda x: net(x)
    net[1].__class__ = Other
    yield
    net[0].__class__ = Double
    yield
    net[1].__class__ = Plain
    yield


@pytest.mark.parametrize("steps", CASES)
def test_change(steps):
    run_case(steps)
