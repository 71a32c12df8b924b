"""Attributes that were absent, or were none of a kind. See `changes.py`."""

# ruff: noqa: B008, B018, E721, UP042

import abc
import enum
import types

import paddle
import pytest
from changes import X, cases, run_case

CASES, case = cases()


@case
def hasattr_of_a_module():
    module = types.ModuleType("absent_module")
    yield lambda x: x * 2 if hasattr(module, "flag") else x * 3
    module.flag = 1
    yield
    del module.flag
    yield


@case
def getattr_default_of_a_module():
    module = types.ModuleType("absent_module")
    yield lambda x: x * getattr(module, "scale", 2)
    module.scale = 5
    yield


@case
def getattr_of_a_module_later():
    module = types.ModuleType("absent_module")
    yield lambda x: x * getattr(module, "scale", 2)
    module.__getattr__ = lambda name: 7
    yield
    del module.__getattr__
    yield


@case
def try_module_attribute():
    module = types.ModuleType("absent_module")

    def f(x):
        try:
            return x * module.scale
        except AttributeError:
            return x - 1

    yield f
    module.scale = 4
    yield


@case
def hasattr_of_an_instance_through_getattr_added():
    class Thing:
        pass

    thing = Thing()
    yield lambda x: x * getattr(thing, "scale", 2)
    Thing.__getattr__ = lambda self, name: 9
    yield


@case
def hasattr_of_an_instance_through_getattribute_added():
    class Thing:
        scale = 4

    thing = Thing()
    yield lambda x: x * thing.scale
    Thing.__getattribute__ = lambda self, name: 9
    yield


@case
def hasattr_absent_on_base():
    class A:
        pass

    class B(A):
        pass

    thing = B()
    yield lambda x: x * 2 if hasattr(thing, "k") else x * 3
    A.k = 1
    yield
    del A.k
    yield
    B.k = 1
    yield


@case
def hasattr_of_class():
    class A:
        pass

    class B(A):
        pass

    yield lambda x: x * 2 if hasattr(B, "k") else x * 3
    A.k = 1
    yield


@case
def hasattr_of_class_through_metaclass():
    class Meta(type):
        pass

    class A(metaclass=Meta):
        pass

    yield lambda x: x * 2 if hasattr(A, "k") else x * 3
    Meta.k = 1
    yield


@case
def hasattr_of_abstract_class_through_metaclass():
    class A(abc.ABC):  # noqa: B024
        pass

    yield lambda x: x * getattr(A, "k", 3)
    A.k = 5
    yield


@case
def metaclass_gets_a_property():
    class Meta(type):
        pass

    class A(metaclass=Meta):
        k = 2

    yield lambda x: x * A.k
    Meta.k = property(lambda cls: 7)
    yield


@case
def hasattr_of_tensor_instance():
    t = X + 1
    yield lambda x, t=t: x * 2 if hasattr(t, "note") else x * 3
    t.note = 1
    yield
    del t.note
    yield


@case
def getattr_default_of_tensor_argument():
    a, b = X + 1, X + 1
    b.note = 7
    yield lambda x: x * getattr(x, "note", 2)
    yield (a,)
    yield (b,)
    a.note = 5
    yield (a,)
    b.note = 6
    yield (b,)


@case
def hasattr_of_tensor_class():
    yield lambda x: x * 2 if hasattr(x, "absent_method") else x * 3
    paddle.Tensor.absent_method = lambda self: 1
    try:
        yield
    finally:
        del paddle.Tensor.absent_method
    yield


@case
def hasattr_of_parameter():
    p = paddle.create_parameter([3], "float32")
    yield lambda x: x * 2 if hasattr(p, "split_axis") else x * 3
    p.split_axis = 1
    yield


@case
def getattr_of_function_absent():
    def g():
        pass

    yield lambda x: x * getattr(g, "k", 2)
    g.k = 3
    yield
    del g.k
    yield


@case
def name_of_function():
    def g():
        pass

    yield lambda x: (x + 1, g.__name__, g.__doc__, g.__qualname__, g.__module__)
    g.__name__ = "h"
    yield
    g.__doc__ = "doc"
    yield
    g.__qualname__ = "q"
    yield
    g.__module__ = "m"
    yield


@case
def name_of_class():
    class A:
        pass

    a = A()
    yield lambda x: (x + 1, A.__name__, A.__doc__, A.__module__, type(a).__name__, a.__class__.__qualname__)
    A.__name__ = "B"
    yield
    A.__doc__ = "doc"
    yield
    A.__module__ = "m"
    yield
    A.__qualname__ = "q"
    yield


@case
def branch_on_name_of_class():
    class A:
        pass

    a = A()
    yield lambda x: x * 2 if a.__class__.__name__ == "A" else x * 3
    A.__name__ = "B"
    yield


@case
def doc_and_module_of_instance():
    class A:
        """one"""

    a = A()
    yield lambda x: (x + 1, a.__doc__, a.__module__)
    A.__doc__ = "two"
    yield
    a.__doc__ = "three"
    yield


@case
def annotations_and_dict_of_class():
    class A:
        a: int = 1

    yield lambda x: (x + 1, list(A.__annotations__))
    A.__annotations__["b"] = int
    yield


@case
def hasattr_of_enum_member():
    class Mode(enum.Enum):
        A = 1

    yield lambda x: x * 2 if hasattr(Mode.A, "scale") else x * 3
    Mode.scale = 1
    yield


@case
def attribute_of_enum_member():
    class Mode(enum.Enum):
        A = 1

        def __init__(self, number):
            self.scale = number * 2

    yield lambda x: x * Mode.A.scale
    Mode.A.scale = 9
    yield


@case
def property_of_enum_member():
    box = [2]

    class Mode(enum.Enum):
        A = 1

        @property
        def scale(self):
            return box[0]

    yield lambda x: x * Mode.A.scale
    box[0] = 9
    yield


@case
def method_of_enum_member():
    box = [2]

    class Mode(enum.Enum):
        A = 1

        def scale(self):
            return box[0] * self.value

    yield lambda x: x * Mode.A.scale()
    box[0] = 9
    yield
    Mode.scale = lambda self: 11
    yield


@case
def enum_truth_later():
    class Mode(enum.Enum):
        A = 1

    yield lambda x: x * 2 if Mode.A else x * 3
    Mode.__bool__ = lambda self: False
    yield


@case
def enum_eq_user():
    class Mode(enum.Enum):
        A = 1
        B = 2

        def __eq__(self, other):
            return True

        __hash__ = enum.Enum.__hash__

    yield lambda x: (x * 2 if Mode.A == Mode.B else x * 3, Mode.A in (Mode.B,), {Mode.A: 1}.get(Mode.B))


@case
def simple_namespace():
    settings = types.SimpleNamespace(gain=2, inner=types.SimpleNamespace(bias=X))
    yield lambda x: (x * settings.gain + settings.inner.bias, hasattr(settings, "more"), settings == settings.inner)
    settings.gain = 3
    yield
    settings.inner.bias = X * 2
    yield
    settings.inner.bias = 4
    yield
    settings.inner = types.SimpleNamespace(bias=4, gain=3)
    yield
    settings.more = None
    yield
    del settings.more, settings.inner.gain
    yield
    del settings.gain
    yield
    settings.__init__(gain=2)
    yield


@pytest.mark.parametrize("steps", CASES)
def test_change(steps):
    run_case(steps)
