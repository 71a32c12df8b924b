"""What a class is a subclass of, and patterns, after the classes changed. See `changes.py`."""

# ruff: noqa: B008, B018, E721, UP042

import abc
import collections
import collections.abc
import numbers
import types
import typing

import pytest
from changes import X, cases, ns, run_case
from paddle import nn

CASES, case = cases()


@case
def isinstance_sized_by_len():
    class Thing:
        pass

    thing = Thing()
    yield lambda x: x * 2 if isinstance(thing, collections.abc.Sized) else x * 3
    Thing.__len__ = lambda self: 3
    yield
    del Thing.__len__
    yield


@case
def isinstance_iterable_by_iter():
    class Thing:
        pass

    thing = Thing()
    yield lambda x: x * 2 if isinstance(thing, collections.abc.Iterable) else x * 3
    Thing.__iter__ = lambda self: iter([])
    yield


@case
def isinstance_mapping_registered():
    class Thing:
        pass

    thing = Thing()
    yield lambda x: x * 2 if isinstance(thing, collections.abc.Mapping) else x * 3
    collections.abc.Mapping.register(Thing)
    yield


@case
def isinstance_typing_sequence_registered():
    class Thing:
        pass

    thing = Thing()
    yield lambda x: x * 2 if isinstance(thing, typing.Sequence) else x * 3
    collections.abc.Sequence.register(Thing)
    yield


@case
def isinstance_number_registered():
    class Thing:
        pass

    thing = Thing()
    yield lambda x: x * 2 if isinstance(thing, (int, numbers.Number)) else x * 3
    numbers.Number.register(Thing)
    yield


@case
def isinstance_base_registered():
    class Base:
        pass

    class Thing(Base):
        pass

    thing = Thing()
    yield lambda x: x * 2 if isinstance(thing, collections.abc.Set) else x * 3
    collections.abc.Set.register(Base)
    yield


@case
def isinstance_callable_abc():
    class Thing:
        pass

    thing = Thing()
    yield lambda x: x * 2 if isinstance(thing, collections.abc.Callable) else x * 3
    Thing.__call__ = lambda self: 3
    yield


@case
def isinstance_hashable_abc():
    class Thing:
        pass

    thing = Thing()
    yield lambda x: x * 2 if isinstance(thing, collections.abc.Hashable) else x * 3
    Thing.__hash__ = None
    yield


@case
def isinstance_bases():
    class A:
        pass

    class B:
        pass

    class C(A):
        pass

    thing = C()
    yield lambda x: x * 2 if isinstance(thing, B) else x * 3
    C.__bases__ = (B,)
    yield
    C.__bases__ = (A,)
    yield


@case
def issubclass_bases():
    class A:
        pass

    class B:
        pass

    class C(A):
        pass

    yield lambda x: x * 2 if issubclass(C, B) else x * 3
    C.__bases__ = (B,)
    yield


@case
def issubclass_abc():
    class C:
        pass

    yield lambda x: x * 2 if issubclass(C, collections.abc.Sized) else x * 3
    C.__len__ = lambda self: 1
    yield


@case
def isinstance_union_replaced():
    box = ns(kinds=int | str)
    yield lambda x: x * 2 if isinstance(x.ndim, box.kinds) else x * 3
    box.kinds = str | bytes
    yield


UNION = int | str


@case
def isinstance_union_global():
    global UNION
    UNION = int | str
    yield lambda x: x * 2 if isinstance(2, UNION) else x * 3
    UNION = str | bytes
    yield
    UNION = int | float
    yield


@case
def isinstance_union_argument():
    yield lambda x, kinds=int | str: x * 2 if isinstance(2, kinds) else x * 3
    yield (X, str | bytes)
    yield (X, float | int)


@case
def isinstance_typing_alias_argument():
    yield lambda x, kinds=typing.Sequence: x * 2 if isinstance([], kinds) else x * 3
    yield (X, typing.Mapping)
    yield (X, typing.Iterable)


@case
def isinstance_class_replaced():
    class A:
        pass

    class B:
        pass

    thing = A()
    yield lambda x, kind=B: x * 2 if isinstance(thing, kind) else x * 3
    yield (X, A)
    yield (X, (B, A))
    yield (X, (B,))


@case
def isinstance_user_abc_subclasshook():
    class Shape(abc.ABC):  # noqa: B024
        @classmethod
        def __subclasshook__(cls, other):
            return hasattr(other, "area") or NotImplemented

    class Square:
        pass

    thing = Square()
    yield lambda x: x * 2 if isinstance(thing, Shape) else x * 3
    Square.area = 3
    yield


@case
def isinstance_metaclass_check_later():
    class Meta(type):
        pass

    class A(metaclass=Meta):
        pass

    class Thing:
        pass

    thing = Thing()
    yield lambda x: x * 2 if isinstance(thing, A) else x * 3
    Meta.__instancecheck__ = lambda cls, one: True
    yield


@case
def isinstance_runtime_protocol():
    @typing.runtime_checkable
    class Named(typing.Protocol):
        name: str

    class Thing:
        pass

    thing = Thing()
    yield lambda x: x * 2 if isinstance(thing, Named) else x * 3
    thing.name = "a"
    yield


@case
def match_sequence_registered():
    class Thing:
        pass

    thing = Thing()

    def f(x):
        match thing:
            case [*_]:
                return x * 2
            case _:
                return x * 3

    yield f


@case
def match_class_attribute_absent():
    class Thing:
        pass

    thing = Thing()

    def f(x):
        match thing:
            case Thing(k=k):
                return x * k
            case _:
                return x * 3

    yield f
    thing.k = 5
    yield
    del thing.k
    yield
    Thing.k = 6
    yield


@case
def match_args_changed():
    class Thing:
        __match_args__ = ("a",)
        a, b = 4, 5

    thing = Thing()

    def f(x):
        match thing:
            case Thing(k):
                return x * k
            case _:
                return x * 3

    yield f
    Thing.__match_args__ = ("b",)
    yield


class First(type):
    pass


class Property(type):
    k = property(lambda cls: 9)


class Attribute(type):
    def __getattribute__(cls, name):
        return 5 if name == "k" else type.__getattribute__(cls, name)


class Says(type):
    def __instancecheck__(cls, thing):
        return True

    def __subclasscheck__(cls, thing):
        return True

    def __bool__(cls):
        return False

    def __eq__(cls, other):
        return True

    def __call__(cls):
        return 70

    __hash__ = type.__hash__


class AbstractProperty(abc.ABCMeta):
    k = property(lambda cls: 9)

    def __call__(cls):
        return 70

    def __eq__(cls, other):
        return True

    __hash__ = abc.ABCMeta.__hash__


class Other:
    pass


OF_CLASSES = {
    "attribute": lambda x, cls: x * cls.k,
    "name": lambda x, cls: (x * 2, cls.__name__, cls.__class__.__name__),
    "isinstance": lambda x, cls: x * 2 if isinstance(Other(), cls) else x * 3,
    "issubclass": lambda x, cls: x * 2 if issubclass(Other, cls) else x * 3,
    "truth": lambda x, cls: x * 2 if cls else x * 3,
    "type": lambda x, cls: (x * 2, type(cls).__name__),
    "isinstance of it": lambda x, cls: x * 2 if isinstance(cls, Property) else x * 3,
    "equality": lambda x, cls: x * 2 if cls == Other else x * 3,
    "call": lambda x, cls: (x * 2, isinstance(cls(), int)),
}


@pytest.mark.parametrize("name", OF_CLASSES)
def test_metaclasses_that_are_exchanged_are_noticed(name):
    def concrete():
        class Thing(metaclass=First):
            k = 1

        yield lambda x: OF_CLASSES[name](x, Thing)
        for meta in (Property, Attribute, Says, First):
            Thing.__class__ = meta
            yield

    def abstract():
        class Thing(abc.ABC):  # noqa: B024
            k = 1

        yield lambda x: OF_CLASSES[name](x, Thing)
        for meta in (AbstractProperty, abc.ABCMeta):
            Thing.__class__ = meta
            yield

    run_case(concrete)
    run_case(abstract)


class Lazy(types.ModuleType):
    k = property(lambda self: 10)


class Looking(types.ModuleType):
    def __getattribute__(self, name):
        return 5 if name == "k" else super().__getattribute__(name)


class Harmless(types.ModuleType):
    other = property(lambda self: 10)


@case
def class_of_a_module():
    module = types.ModuleType("made")
    module.k = 1
    yield lambda x: x * module.k
    for of in (Lazy, Looking, Harmless, types.ModuleType):
        module.__class__ = of
        yield


@case
def class_of_a_module_changes():
    class Made(types.ModuleType):
        pass

    module = Made("made")
    module.k = 1
    yield lambda x: x * module.k
    Made.k = property(lambda self: 10)
    yield
    Made.k = 7
    yield
    del Made.k
    yield
    Made.__getattribute__ = Looking.__getattribute__
    yield


@case
def class_that_a_layer_says_it_has():
    class Net(nn.Layer):
        __class__ = property(lambda self: Lazy)

    net = Net()
    yield lambda x: x * 2 if isinstance(net, Lazy) else x * 3


@case
def class_that_a_layer_says_it_has_from_then_on():
    class Net(nn.Layer):
        pass

    net = Net()
    yield lambda x: x * 2 if isinstance(net, Lazy) else x * 3
    Net.__getattribute__ = lambda self, name: Lazy if name == "__class__" else object.__getattribute__(self, name)
    yield
    del Net.__getattribute__
    yield


@pytest.mark.parametrize("steps", CASES)
def test_change(steps):
    run_case(steps)
