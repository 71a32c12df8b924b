"""What a class defines comes and goes. See `changes.py`."""

# ruff: noqa: B008, B018, E721, UP042

import collections
import collections.abc
import enum

import pytest
from changes import cases, ns, run_case

CASES, case = cases()


@case
def enum_eq_later():
    class Mode(enum.Enum):
        A = 1
        B = 2

    yield lambda x: x * 2 if Mode.A == Mode.B else x * 3
    Mode.__eq__ = lambda self, other: True
    yield


@case
def enum_value_changed():
    class Mode(enum.Enum):
        A = 1

    yield lambda x: x * Mode.A.value
    Mode.A._value_ = 5
    yield


@case
def intenum_members():
    class Mode(enum.IntEnum):
        A = 1
        B = 2

    box = ns(mode=Mode.A)
    yield lambda x: x * box.mode if box.mode == 1 else x * 10
    box.mode = Mode.B
    yield
    box.mode = 1
    yield


@case
def getattr_default_of_slots():
    class A:
        __slots__ = ("k",)

    a = A()
    yield lambda x: x * getattr(a, "k", 2)
    a.k = 3
    yield
    del a.k
    yield


@case
def hasattr_through_property_raises():
    box = [0]

    class A:
        @property
        def k(self):
            if not box[0]:
                raise AttributeError("k")
            return box[0]

    a = A()
    yield lambda x: x * getattr(a, "k", 2)
    box[0] = 3
    yield


@case
def class_attribute_becomes_data_descriptor():
    class A:
        k = 2

    a = A()
    a.k = 3
    yield lambda x: x * a.k
    A.k = property(lambda self: 7)
    yield
    A.k = 2
    yield


@case
def class_attribute_none_becomes_data_descriptor():
    class A:
        k = None

    a = A()
    a.k = 3
    yield lambda x: x * a.k
    A.k = property(lambda self: 7)
    yield


@case
def instance_attribute_shadows_function():
    class A:
        def k(self):
            return 2

    a = A()
    a.k = lambda: 3
    yield lambda x: x * a.k()
    A.k = property(lambda self: lambda: 7)
    yield


@case
def write_to_what_becomes_a_property():
    class A:
        k = 2
        _k = 1

    a = A()

    def f(x):
        a.k = 5
        return x * a.k, a._k

    yield f

    def setter(self, value):
        self._k = value

    A.k = property(lambda self: 3, setter)
    a.__dict__.clear()
    yield


@case
def setattr_added_to_class():
    class A:
        pass

    a = A()

    def f(x):
        a.k = 5
        return x * a.k

    yield f
    A.__setattr__ = lambda self, name, value: object.__setattr__(self, name, value + 1)
    yield


@case
def descriptor_class_gets_get():
    class D:
        k = 2

    class A:
        d = D()

    a = A()
    yield lambda x: x * a.d.k
    D.__get__ = lambda self, obj, cls: ns(k=9)
    yield


@case
def descriptor_class_gets_set():
    class D:
        def __get__(self, obj, cls):
            return 4

    class A:
        d = D()

    a = A()
    a.__dict__["d"] = 3
    yield lambda x: x * a.d
    D.__set__ = lambda self, obj, value: None
    yield


@case
def super_with_method_added_between():
    class A:
        def k(self):
            return 1

    class B(A):
        pass

    class C(B):
        def k(self):
            return super().k() + 1

    c = C()
    yield lambda x: x * c.k()
    B.k = lambda self: 10
    yield
    del B.k
    yield
    A.k = lambda self: 20
    yield


@case
def super_with_two_bases():
    class A:
        def k(self):
            return 1

    class Left(A):
        pass

    class Right(A):
        def k(self):
            return 5

    class C(Left, Right):
        def k(self):
            return super().k() + 1

    c = C()
    yield lambda x: x * c.k()
    Left.k = lambda self: 10
    yield
    del Left.k
    yield
    del Right.k
    yield


@case
def super_hasattr_absent():
    class A:
        pass

    class B(A):
        def k(self):
            return 1 if hasattr(super(), "k") else 2

    b = B()
    yield lambda x: x * b.k()
    A.k = lambda self: 3
    yield


@case
def super_init_added_between():
    class A:
        def __init__(self):
            self.k = 1

    class B(A):
        pass

    class C(B):
        def __init__(self):
            super().__init__()

    yield lambda x: x * C().k

    def init(self):
        self.k = 5

    B.__init__ = init
    yield


@case
def init_added_to_plain_class():
    class P:
        k = 1

    yield lambda x: x * P().k

    def init(self):
        self.k = 5

    P.__init__ = init
    yield
    del P.__init__
    yield


@case
def new_added_to_plain_class():
    class P:
        k = 1

    class Q:
        k = 4

    yield lambda x: x * P().k
    P.__new__ = lambda cls: Q()
    yield


@case
def init_of_exception_added():
    class E(Exception):
        pass

    def f(x):
        try:
            raise E(3)
        except E as e:
            return x * e.args[0]

    yield f

    def init(self, k):
        self.args = (k + 1,)

    E.__init__ = init
    yield


@case
def str_of_exception_added():
    class E(Exception):
        pass

    def f(x):
        try:
            raise E("a")
        except E as e:
            return x + 1, str(e)

    yield f
    E.__str__ = lambda self: "b"
    yield


@case
def exception_bases():
    class E(Exception):
        pass

    class F(Exception):
        pass

    class G(E):
        pass

    def f(x):
        try:
            raise G()
        except F:
            return x + 1
        except E:
            return x + 2
        except Exception:
            return x + 3

    yield f
    G.__bases__ = (F,)
    yield


@case
def named_tuple_defaults():
    P = collections.namedtuple("P", "a b", defaults=[3])
    yield lambda x: x * P(1).b
    P.__new__.__defaults__ = (5,)
    yield


@case
def named_tuple_method_added():
    P = collections.namedtuple("P", "a b")
    p = P(1, 2)
    yield lambda x: x * len(P(1, 2) + p)
    P.__add__ = lambda self, other: (1,) * 9
    yield


@case
def named_tuple_bool_added():
    P = collections.namedtuple("P", "a b")
    yield lambda x: x * 2 if P(1, 2) else x * 3
    P.__bool__ = lambda self: False
    yield


@case
def named_tuple_given_bool_added():
    P = collections.namedtuple("P", "a b")
    p = P(1, 2)
    yield lambda x: x * 2 if p else x * 3
    P.__bool__ = lambda self: False
    yield


@case
def named_tuple_eq_added():
    P = collections.namedtuple("P", "a b")
    yield lambda x: x * 2 if P(1, 2) == (1, 2) else x * 3
    P.__eq__ = lambda self, other: False
    yield


@case
def named_tuple_iter_added():
    P = collections.namedtuple("P", "a b")

    def f(x):
        a, b = P(1, 2)
        return x * a + b + sum(P(3, 4))

    yield f
    P.__iter__ = lambda self: iter((5, 6))
    yield


@case
def named_tuple_property_becomes():
    P = collections.namedtuple("P", "a b")
    yield lambda x: x * P(1, 2).a
    P.a = property(lambda self: 7)
    yield


@case
def what_a_descriptor_does_when_it_is_set():
    class Scaled:
        by = 2

        def __get__(self, owned, owner=None):
            return owned._held

        def __set__(self, owned, value):
            owned._held = value * self.by

        def __delete__(self, owned):
            owned._held = self.by

    class Owner:
        held = Scaled()

    def function(x):
        owner = Owner()
        owner.held = x
        first = owner.held
        del owner.held
        return first, owner.held

    yield function
    Scaled.by = 3
    yield
    Owner.__dict__["held"].by = 4
    yield
    Scaled.__set__ = lambda self, owned, value: setattr(owned, "_held", value - 1)
    yield
    Scaled.__delete__ = lambda self, owned: None
    yield
    Owner.held = Scaled()
    yield
    del Owner.held
    yield


@case
def what_is_written_over_gains_a_setter():
    class Held:
        pass

    class Owner:
        held = Held()

    owner = Owner()

    def f(x):
        owner.held = 5
        return x * 2, owner.__dict__.get("held")

    yield f
    Held.__set__ = lambda self, owner, value: vars(owner).update(held=value * 100)
    yield
    del Held.__set__
    yield
    Held.__delete__ = lambda self, owner: None
    yield


@case
def what_super_finds_gains_a_getter():
    class Held:
        by = 2

    class Base:
        held = Held()

    class Owner(Base):
        held = 3

        def of_base(self):
            return super().held

    owner = Owner()
    yield lambda x: (x * 2, getattr(owner.of_base(), "by", 7))
    Held.__get__ = lambda self, owner, of=None: 4
    yield
    del Held.__get__
    yield


@case
def what_a_class_holds_gains_a_getter():
    class Held:
        by = 2

    class Owner:
        held = Held()

    yield lambda x: (x * 2, getattr(Owner.held, "by", 7))
    Held.__get__ = lambda self, owner, of=None: 4
    yield
    del Held.__get__
    yield


@case
def special_method_gains_a_getter():
    class Length:
        def __call__(self):
            return 3

    class Owner:
        __len__ = Length()

    owner = Owner()
    yield lambda x: x * len(owner)
    Length.__get__ = lambda self, owner, of=None: lambda: 5
    yield
    del Length.__get__
    yield


@pytest.mark.parametrize("steps", CASES)
def test_change(steps):
    run_case(steps)
