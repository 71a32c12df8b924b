"""Comparisons, truth, iteration and order. See `changes.py`."""

# ruff: noqa: B008, B018, E721, UP042

import enum

import pytest
from changes import X, cases, ns, run_case
from paddle import nn

CASES, case = cases()


@case
def eq_between_two_classes():
    class K:
        pass

    class L(K):
        pass

    a, b = K(), L()
    yield lambda x: (x * 2, a == b, b == a, a != b)
    L.__eq__ = lambda self, other: True
    yield
    del L.__eq__
    K.__eq__ = lambda self, other: True
    yield


@case
def eq_of_object_and_number():
    class K:
        pass

    a = K()
    yield lambda x: (x * 2, a == 1, 1 == a, a in (1, None), None == a)  # noqa: E711
    K.__eq__ = lambda self, other: other == 1
    yield


@case
def lt_added_to_class():
    class K:
        def __init__(self, k):
            self.k = k

        def __lt__(self, other):
            return self.k < other.k

    class L(K):
        pass

    a, b = K(1), L(2)
    yield lambda x: (x * 2, a < b, b > a, [o.k for o in sorted([b, a])])
    L.__gt__ = lambda self, other: False
    yield


@case
def radd_of_a_subclass():
    class A:
        def __add__(self, other):
            return 1

        def __radd__(self, other):
            return 2

    class B(A):
        pass

    a, b = A(), B()
    yield lambda x: x * (a + b)
    B.__radd__ = lambda self, other: 5
    yield
    del B.__radd__
    yield


@case
def iadd_added():
    class A:
        def __add__(self, other):
            return 1

    a = A()

    def f(x):
        b = a
        b += 1
        return x * b

    yield f
    A.__iadd__ = lambda self, other: 7
    yield


@case
def reflected_operator_added():
    class A:
        def __rmul__(self, other):
            return 3

    class B:
        pass

    a, b = A(), B()
    yield lambda x: x + b * a
    B.__mul__ = lambda self, other: 8
    yield


@case
def hash_of_user_object_later():
    class K:
        pass

    a = K()
    yield lambda x: (x * 2, hash(a) == object.__hash__(a))
    K.__hash__ = lambda self: 5
    yield


@case
def truth_absent_then_there():
    class A:
        pass

    class B(A):
        pass

    thing = B()
    yield lambda x: (x + 1, bool(thing), not thing, 1 if thing else 2, any([thing]), thing and 3)
    A.__len__ = lambda self: 0
    yield
    A.__bool__ = lambda self: True
    yield
    B.__bool__ = lambda self: False
    yield
    B.__bool__ = None
    yield


@case
def truth_of_a_class():
    class Meta(type):
        pass

    class A(metaclass=Meta):
        pass

    yield lambda x: x * 2 if A else x * 3
    Meta.__bool__ = lambda cls: False
    yield


@case
def truth_of_a_class_with_len():
    class Meta(type):
        def __len__(cls):
            return 0

    class A(metaclass=Meta):
        pass

    class Mode(enum.Enum):
        pass

    yield lambda x: (x * 2 if A else x * 3, 1 if Mode else 2)


@case
def truth_of_a_layer():
    net = nn.ReLU()
    yield lambda x: x * 2 if net else x * 3
    nn.ReLU.__len__ = lambda self: 0
    try:
        yield
    finally:
        del nn.ReLU.__len__
    yield


@case
def truth_of_layer_list():
    net = nn.LayerList()
    yield lambda x: x * 2 if net else x * 3
    net.append(nn.ReLU())
    yield


@case
def callable_object():
    class A:
        pass

    a = A()
    yield lambda x: x * 2 if callable(a) else x * 3
    A.__call__ = lambda self: 1
    yield


@case
def callable_things():
    things = [int.__dict__["real"], type.__dict__["__mro__"] if "__mro__" in type.__dict__ else 1, len, int, 3, "a"]
    yield lambda x: (x * 2, [callable(t) for t in things])


@case
def len_of_an_object_by_getattr():
    class A:
        def __getattr__(self, name):
            raise AttributeError(name)

    a = A()

    def f(x):
        try:
            return x * len(a)
        except TypeError:
            return x

    yield f
    A.__len__ = lambda self: 4
    yield


@case
def contains_absent():
    class A:
        def __iter__(self):
            return iter([1, 2])

    a = A()
    yield lambda x: x * 2 if 3 in a else x * 3
    A.__contains__ = lambda self, k: True
    yield


@case
def iteration_by_getitem():
    class A:
        def __getitem__(self, k):
            if k > 2:
                raise IndexError
            return k

    a = A()
    yield lambda x: (x * 2, [k for k in a], list(a))
    A.__iter__ = lambda self: iter([7])
    yield


@case
def length_hint_added():
    log = [1]

    class A:
        def __iter__(self):
            return iter([1, 2])

    a = A()
    yield lambda x: (x * 2, list(a), log.clear())

    def hint(self):
        raise ValueError(2)

    A.__length_hint__ = hint
    yield


@case
def len_added_to_what_is_listed():
    class A:
        def __iter__(self):
            return iter([1, 2])

    a = A()
    yield lambda x: (x * 2, list(a))

    def length(self):
        raise ValueError("no length")

    A.__len__ = length
    yield


@case
def types_of_two():
    class A:
        pass

    class B:
        pass

    yield lambda x, a=A(), b=B(): (x * 2, type(a) is type(b), type(a) == type(b), type(a) in (A, int))
    yield (X, A(), A())
    yield (X, B(), A())
    yield (X, 1, 1)
    yield (X, 1, True)
    yield (X, X, X)
    yield (X, iter([]), iter([]))
    yield (X, iter([]), iter(()))


@case
def type_of_none_or():
    yield lambda x, a=None: (x * 2, a is None, type(a).__name__)
    yield (X, 1)
    yield (X, object())
    yield (X, [])
    yield (X, None)


@case
def class_of_instance_is():
    class A:
        pass

    class B:
        pass

    a = A()
    yield lambda x: x * 2 if a.__class__ is A else x * 3
    a.__class__ = B
    yield


@case
def set_order_of_arguments():
    yield lambda x, a="a", b="b": (x * 2, list({a, b, "c"}))
    yield (X, "b", "a")
    yield (X, "q", "z")


@case
def frozenset_global():
    box = ns(names=frozenset(["a"]))
    yield lambda x: x * 2 if "b" in box.names else x * 3
    box.names = frozenset(["b"])
    yield
    box.names = {"b"}
    yield


@case
def set_argument():
    yield lambda x, names=frozenset("a"): x * 2 if "b" in names else x * 3
    yield (X, frozenset("b"))
    yield (X, set("b"))
    yield (X, ["b"])


@case
def range_and_slice_arguments():
    yield lambda x, r=range(3): (x * 2, 3 in r, r == range(3), len(r))
    yield (X, range(4))
    yield (X, range(0, 3, 1))
    yield (X, range(0))


@pytest.mark.parametrize("steps", CASES)
def test_change(steps):
    run_case(steps)
