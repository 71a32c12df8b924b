"""Reads, writes and deletes of attributes on classes that note what is asked of them, compared with plain Python."""

import abc
import contextlib
import functools
import re
import sys
import types

import paddle
import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, Programs, check, tensor, translate

# Which methods are asked for attributes is the same in each version of Python.
pytestmark = pytest.mark.default_python

LOG = []


class Data:
    def __get__(self, instance, owner=None):
        LOG.append(("get", instance is None))
        return self if instance is None else getattr(instance, "_data", 0)

    def __set__(self, instance, value):
        LOG.append("set")
        object.__setattr__(instance, "_data", value)

    def __delete__(self, instance):
        LOG.append("delete")
        object.__delattr__(instance, "_data")


class NonData:
    def __get__(self, instance, owner=None):
        LOG.append(("computed", instance is None, owner.__name__))
        return len(LOG)


class Meta(type):
    def __getattr__(cls, name):
        LOG.append(("of the class", name))
        return name

    @property
    def own(cls):
        LOG.append("own")
        return cls.__name__

    def method(cls):
        LOG.append("method")
        return 4


def classes():
    """Fresh ones for each call: some operations change them."""

    class Common:
        k = 3
        data, computed = Data(), NonData()

        def __init__(self):
            self.__dict__.update(a=1, _data=5, items=[1])

        @property
        def p(self):
            LOG.append("p")
            return 7

        @p.setter
        def p(self, value):
            LOG.append(("p", value))

        @p.deleter
        def p(self):
            LOG.append("no p")

        @property
        def bad(self):
            LOG.append("bad")
            raise AttributeError("inner")

        @property
        def fixed(self):
            return 2

        def m(self, *args):
            LOG.append("m")
            return len(args)

        @staticmethod
        def static(*args):
            return len(args)

        @classmethod
        def made(cls, *args):
            return cls.__name__, len(args)

        @functools.cached_property
        def once(self):
            LOG.append("once")
            return 9

    class Fallback(Common):
        def __getattr__(self, name):
            LOG.append(("fallback", name))
            if name.startswith("z"):
                return name
            raise AttributeError(name)

    class Lookup(Common):
        def __getattribute__(self, name):
            if not name.startswith("__"):
                LOG.append(("lookup", name))
            return object.__getattribute__(self, name)

    class Writes(Common):
        def __setattr__(self, name, value):
            LOG.append(("write", name))
            object.__setattr__(self, name, value)

        def __delattr__(self, name):
            LOG.append(("delete", name))
            object.__delattr__(self, name)

    class Answers(Common):
        def __init__(self):
            pass

        __getattribute__ = staticmethod(lambda name: LOG.append(("answers", name)) or name)

    class Static(Common):
        __getattr__ = staticmethod(lambda name: LOG.append(("static", name)) or name)
        __setattr__ = staticmethod(lambda name, value: LOG.append(("write", name)))
        __delattr__ = staticmethod(lambda name: LOG.append(("delete", name)))

    class WithMeta(Common, metaclass=Meta):
        pass

    class Derived(Fallback):
        k = 8

        def m(self, *args):
            LOG.append("derived")
            return super().m(*args) + 1

        @property
        def p(self):
            return super().p + 1

        @classmethod
        def made(cls, *args):
            return super().made(*args)

    class Slots:
        __slots__ = ("a", "e")
        k = 3

        def __init__(self):
            self.a = 1

        def m(self, *args):
            return self.a

    class Abstract(abc.ABC):
        a = 1

        @abc.abstractmethod
        def m(self): ...

    class Concrete(Abstract):
        def m(self, *args):
            return self.a

    class Module(types.ModuleType):
        def __getattr__(self, name):
            LOG.append(("module", name))
            if name.startswith("z"):
                return name
            raise AttributeError(name)

    def module():
        made = Module("made")
        made.__dict__.update(a=1, items=[1], m=lambda *args: len(args))
        return made

    return {
        "common": Common,
        "fallback": Fallback,
        "lookup": Lookup,
        "writes": Writes,
        "answers": Answers,
        "static": Static,
        "metaclass": WithMeta,
        "derived": Derived,
        "slots": Slots,
        "concrete": Concrete,
        "module": module,
        "namespace": lambda: types.SimpleNamespace(a=1, items=[1]),
        "function": lambda: lambda *args: 3,
        "class": lambda: Common,
        "class with metaclass": lambda: WithMeta,
        "derived class": lambda: Derived,
    }


OPERATIONS = """
r = s.a
r = s.k
r = s.data
r = s.computed
r = s.p
r = s.fixed
r = s.bad
r = s.once, s.once
r = s.zz
r = s.missing
r = s.m(1, 2)
r = s.static(1)
r = s.made(1)
f = s.m; r = f(1)
s.a = 5; r = s.a
s.new = 5; r = s.new
s.a += 1; r = s.a
s.k += 1; r = s.k
s.data = 6; r = s.data
s.computed = 6; r = s.computed
s.p = 6; r = s.p
s.p += 1; r = s.p
s.fixed = 3; r = 1
s.m = 4; r = s.m
s.once = 4; r = s.once
del s.a; r = hasattr(s, "a")
del s.data; r = s.data
del s.p; r = 1
del s.k; r = 1
del s.missing; r = 1
s.a = 5; del s.a; s.a = 6; r = s.a
s.k = 9; del s.k; r = s.k
r = getattr(s, "a")
r = getattr(s, "missing", 3)
r = getattr(s, "zz", 3)
r = getattr(s, "bad", 3)
r = hasattr(s, "a"), hasattr(s, "missing"), hasattr(s, "bad"), hasattr(s, "p")
setattr(s, "a", 7); r = s.a
setattr(s, "b", 7); r = s.b
delattr(s, "a"); r = 1
r = type(s).k
r = type(s).data
r = type(s).computed
r = type(s).p
r = type(s).m(s, 1)
r = type(s).made(2)
r = type(s).static(2)
r = type(s).zq
r = type(s).own
r = type(s).method()
r = type(s).__name__, type(s).__qualname__, type(s).__module__
r = s.__class__.__name__
r = s.__dict__
r = sorted(vars(s))
r = s.__dict__["a"]
s.__dict__["a"] = 9; r = s.a
s.__dict__["k"] = 9; r = s.k
s.__dict__["p"] = 9; r = s.p
s.__dict__["data"] = 9; r = s.data
s.__dict__["computed"] = 9; r = s.computed
r = "a" in s.__dict__, "zz" in s.__dict__
r = s.__doc__
r = object.__getattribute__(s, "a")
object.__setattr__(s, "a", 8); r = s.a
object.__delattr__(s, "a"); r = hasattr(s, "a")
r = operator.attrgetter("a", "k")(s)
r = operator.methodcaller("m", 1)(s)
r = s.items; r.append(2); s.items += [3]; r = s.items, s.items is r
type(s).k = 11; r = s.k
type(s).new = 11; r = s.new
type(s).m = lambda q, *args: "patched"; r = s.m()
del type(s).k; r = getattr(s, "k", None)
s.__class__ = type(s); r = s.a
r = s.m.__name__, s.m.__self__ is s, s.m.__func__ is type(s).__dict__.get("m")
r = s.m == s.m, s.m is s.m
r = [getattr(s, name, None) for name in ("a", "k", "zz")]
s.x = x; r = s.x + 1
s.t = y; s.t = s.t * 2; r = s.t
s.items = [x, y]; r = s.items[1]
r = copy.copy(s).a
r = str(type(s))[:8]
r = dir(s)[-3:]
r = super(type(s), s).k
r = super(type(s), s).m(1)
s.a, s.b = 1, 2; r = s.a, s.b
[s.a, *s.b] = 1, 2, 3; r = s.b
r = [s.a for s.a in (1, 2)], s.a
for s.a in (1, 2): pass
with contextlib.nullcontext(4) as s.a: r = s.a
""".strip().splitlines()
OPERATIONS += [
    "match s:\n  case object(a=1, k=v): r = v\n  case object(a=v): r = 'a', v\n  case _: r = 'no'",
    "try: r = s.missing\nexcept AttributeError as e: r = str(e), e.name, e.obj is s",
    "try: s.missing\nexcept AttributeError: r = 'caught'",
]


def picture(value):
    if isinstance(value, paddle.Tensor):
        return value.tolist()
    if type(value) in (list, tuple):
        return type(value), [picture(item) for item in value]
    if type(value) is dict:
        return {name: picture(item) for name, item in value.items()}
    return value if type(value) in (int, float, str, bool, type(None)) else type(value).__name__


@pytest.mark.parametrize("kind", classes())
def test_attributes_are_looked_up_as_in_plain_python(kind):
    space, different = dict(globals()), []
    for body in OPERATIONS:
        if kind == "class with metaclass" and "type(s).k" in body:
            # That is the metaclass of this module.
            continue
        lines = "".join(f" {line}\n" for line in body.splitlines())
        exec(f"def f(x, s):\n y = x + 1\n r = 0\n{lines} return r, y\n", space)
        translated = translate(space["f"])
        for number in range(3):
            found = []
            for call in (space["f"], translated):
                subject = classes()[kind]()
                if number == 2 and kind not in ("slots", "function"):
                    with contextlib.suppress(TypeError, AttributeError):
                        object.__setattr__(subject, "k", 33)
                LOG.clear()
                try:
                    result = call(paddle.ones([2]), subject)
                    log, result = list(LOG), picture(result)
                except Exception as error:  # noqa: BLE001 - the same one is expected
                    log, result = list(LOG), (type(error), str(error))
                after = isinstance(getattr(subject, "__dict__", None), dict) and picture(dict(subject.__dict__))
                found.append(re.sub("0x[0-9a-f]+", "0x", repr((result, log, after))))
            if found[0] != found[1]:
                different.append(f"{body!r}: {found[0]} and {found[1]}")
                break
        if not IDENTITY:
            sot.reset(translated)
    assert not different, "\n".join(different)


programs = Programs()
X = tensor(2, 3)


def log(*args):
    """Notes what it is called with, and answers with 3."""
    LOG.append([type(arg).__name__ for arg in args])
    return 3


class Slots:
    __slots__ = ("x",)


Slots.y = Slots.x


class Others:
    __slots__ = ()
    x = Slots.x


def slots(value):
    made = Slots()
    made.x = value
    return made


@programs(X, graphs=1, breaks=3)
def a_new_slot_by_two_names(x):
    a = Slots()
    a.x = 5
    r = a.y
    a.y = 7
    return r, a.x, a.y, x * 2


@programs(X, slots(1), graphs=1, breaks=3)
def a_given_slot_by_two_names(x, a):
    a.x = 5
    r = a.y
    a.y = 7
    return r, a.x, a.y, x * 2


@programs(X, graphs=1, breaks=0)
def a_slot_by_its_name(x):
    a = Slots()
    a.x = 5
    return a.x, a, x * 2


@programs(X, graphs=0, breaks=1)
def the_slot_of_another_class(x):
    a = Others()
    a.x = 5
    return a.x, x * 2


class Caller:
    def __call__(self, *args):
        return log(*args)

    def method(self, *args):
        return log(*args)


CALLED = {
    "partial": functools.partial(log, "p"),
    "object": Caller(),
    "bound": Caller().method,
    "static": staticmethod(log),
    "function": log,
}


@pytest.mark.parametrize("base", [object, dict, list])
@pytest.mark.parametrize("kind", CALLED)
def test_setattr_that_is_no_function_is_not_given_the_object(kind, base):
    made = type("Made", (base,), {"__setattr__": CALLED[kind]})

    def of_new(x):
        a = made()
        a.q = 4
        return x * 2

    given = made()

    def of_given(x):
        given.q = 4
        return x * 2

    # It warns that it will be a method.
    warns = kind == "partial" and sys.version_info >= (3, 13)
    for function in (of_new, of_given):
        check(function, X, graphs=1, breaks=int(warns), watch=LOG.copy, reset=LOG.clear)


def reading(expression, **space):
    """A function that reads this, and what it calls is captured."""
    exec(f"def function(x):\n r = {expression}\n return r, x * 2", space)
    return space["function"]


@pytest.mark.parametrize("kind", CALLED)
def test_get_that_is_no_function_is_given_the_descriptor(kind):
    held = type("Held", (), {"__get__": CALLED[kind]})()

    class Base:
        d = held

    class Owner(Base):
        pass

    # Of the class too: nothing runs while it is translated.
    for expression in ("Owner().d", "owner.d", "super(Owner, owner).d", "Owner.d", "Base.d"):
        function = reading(expression, Owner=Owner, Base=Base, owner=Owner())
        breaks = 0 if kind == "function" else 1
        check(function, X, graphs=1, breaks=breaks, watch=LOG.copy, reset=LOG.clear)


class Property(property):
    pass


PROPERTY = Property(lambda self: 4)


class Reads:
    made = PROPERTY


@programs(X, graphs=1, breaks=0)
def a_property_of_a_derived_class(x):
    return Reads.made is PROPERTY, x * 2


class Answers:
    """Whatever attribute it is asked for."""

    def __getattr__(self, name):
        if name.startswith("__deepcopy"):
            raise AttributeError(name)
        return log(name)


class Held:
    answers = Answers()


def test_what_a_class_holds_is_not_asked_when_it_is_written_over():
    def function(x, held):
        held.answers = 5
        return held, x * 2

    check(function, X, Held(), graphs=1, breaks=0, watch=LOG.copy, reset=LOG.clear)


def named(name):
    return property(lambda cls: log(name) and f"of the metaclass: {name}")


class Names(type):
    __name__, __doc__, __module__ = named("name"), named("doc"), named("module")
    __class__ = property(lambda cls: log("class") and int)


class Looked(type):
    def __getattribute__(cls, name):
        log(name)
        return type.__getattribute__(cls, name)


class Constants(type):
    """Of the metaclass."""


class Told:
    def __get__(self, instance, owner=None):
        return log("told")


def test_names_that_a_metaclass_says_are_asked_for_once():
    def made(of):
        class Thing(metaclass=of):
            k = 2

            def method(self):
                return 3

            def __call__(self):
                return 4

        return Thing

    thing, constant = made(Names), made(Constants)
    instance = thing()

    class WithDoc:
        __doc__ = Told()

    looked = made(Looked)
    of_looked = looked()

    class LookedMade(metaclass=Looked):
        def __new__(cls):
            return 5

    reads = {
        "thing.__name__": 0,
        "thing.__doc__": 0,
        "thing.__module__": 0,
        "thing.__class__": 0,
        "instance.k, instance.method(), instance(), isinstance(instance, thing)": 0,
        "setattr(instance, 'n', 3), instance.n": 0,
        "constant.__name__, constant.__doc__, constant.__module__, constant.__qualname__": 0,
        "constant.__class__ is Constants": 0,
        "WithDoc.__doc__": 1,
        "type(looked())": 0,
        "looked_made()": 2,
        "setattr(of_looked, 'n', 3), of_looked.k, of_looked.method(), of_looked(), type(of_looked)": 0,
    }
    space = {"thing": thing, "instance": instance, "constant": constant, "WithDoc": WithDoc, "Constants": Constants}
    space |= {"looked": looked, "of_looked": of_looked, "looked_made": LookedMade}
    for expression, breaks in reads.items():
        check(reading(expression, **space), X, graphs=1, breaks=breaks, watch=LOG.copy, reset=LOG.clear)


@pytest.mark.parametrize(("function", "args", "expectations"), programs)
def test_programs(function, args, expectations):
    check(function, *args, **expectations)
