"""Globals, cells, imports, and the state of libraries. See `changes.py`."""

# ruff: noqa: B008, B018, E721, UP042

import contextvars
import dataclasses
import functools
import random
import sys
import types
import warnings
import weakref

import numpy as np
import pytest
from changes import X, cases, ns, run_case

CASES, case = cases()


@case
def global_absent_then_there():
    names = {"__builtins__": __builtins__}
    exec(
        "def f(x):\n    try:\n        return x * scale\n    except NameError:\n        return x - 1\n"
        "def g(x):\n    return x * max(2, 3)",
        names,
    )
    yield names["f"]
    names["scale"] = 5
    yield
    del names["scale"]
    yield


@case
def global_that_hides_a_builtin():
    names = {"__builtins__": __builtins__}
    exec("def inner(x):\n    return x * max(2, 3)\ndef f(x):\n    return inner(x)", names)
    yield names["f"]
    names["max"] = min
    yield
    del names["max"]
    yield


@case
def name_in_globals():
    names = {"__builtins__": __builtins__}
    exec("def f(x):\n    return x * 2 if 'scale' in globals() else x * 3", names)
    yield names["f"]
    names["scale"] = 1
    yield


@case
def cell_that_was_empty():
    def make():
        def f(x):
            try:
                return x * k
            except NameError:
                return x - 1

        yield f
        k = 4
        yield
        del k
        yield
        k = 5
        yield

    yield from make()


@case
def cells_with_the_same_content():
    a, b = [1], [2]

    def f(x):
        a.append(3)
        n = len(b)
        a.pop()
        return x * n, a is b

    yield f
    b = a
    yield
    b = [5]
    yield


@case
def import_inside_absent():
    sys.modules.pop("absent_module_xyz", None)

    def f(x):
        try:
            import absent_module_xyz
        except ImportError:
            return x - 1
        return x * absent_module_xyz.scale

    yield f
    module = types.ModuleType("absent_module_xyz")
    module.scale = 5
    sys.modules["absent_module_xyz"] = module
    yield
    del sys.modules["absent_module_xyz"]
    yield


@case
def import_of_what_the_function_takes_away():
    module = types.ModuleType("absent_module_xyz")
    module.scale = 5

    def f(x):
        sys.modules["absent_module_xyz"] = module
        import absent_module_xyz as present

        del sys.modules["absent_module_xyz"]
        try:
            import absent_module_xyz
        except ImportError:
            return x * present.scale
        return absent_module_xyz

    yield f
    module.scale = 6
    yield


@case
def import_name_absent():
    module = types.ModuleType("absent_module_xyz")
    sys.modules["absent_module_xyz"] = module

    def f(x):
        try:
            from absent_module_xyz import scale
        except ImportError:
            return x - 1
        return x * scale

    yield f
    module.scale = 4
    yield
    del sys.modules["absent_module_xyz"]
    yield


@case
def name_in_sys_modules():
    sys.modules.pop("absent_module_xyz", None)
    yield lambda x: x * 2 if "absent_module_xyz" in sys.modules else x * 3
    sys.modules["absent_module_xyz"] = types.ModuleType("absent_module_xyz")
    yield
    del sys.modules["absent_module_xyz"]
    yield


@case
def key_in_environment():
    import os

    os.environ.pop("ABSENT_XYZ", None)
    yield lambda x: x * int(os.environ.get("ABSENT_XYZ", "2"))
    os.environ["ABSENT_XYZ"] = "5"
    yield
    del os.environ["ABSENT_XYZ"]
    yield


@case
def singledispatch_registered_later():
    @functools.singledispatch
    def g(thing, x):
        return x * 2

    yield lambda x: g(1, x)
    g.register(int, lambda thing, x: x * 5)
    yield


@case
def lru_cache_cleared():
    box = [2]

    @functools.lru_cache
    def g(k):
        return box[0] * k

    yield lambda x: x * g(3)
    box[0] = 5
    yield
    g.cache_clear()
    yield


@case
def cached_property_absent():
    class A:
        @functools.cached_property
        def k(self):
            return 3

    a = A()
    yield lambda x: x * a.k
    a.__dict__["k"] = 5
    yield
    del a.__dict__["k"]
    yield


@case
def context_variable():
    var = contextvars.ContextVar("var")
    yield lambda x: x * var.get(2)
    var.set(5)
    yield
    var.set(6)
    yield


@case
def weak_reference():
    class A:
        k = 2

    a = A()
    ref = weakref.ref(a)
    yield lambda x: x * 2 if ref() is not None else x * 3
    del a
    yield


@case
def weak_value_dictionary():
    class A:
        k = 2

    a = A()
    d = weakref.WeakValueDictionary(a=a)
    yield lambda x: x * 2 if "a" in d else x * 3
    del a
    yield


@case
def weak_key_dictionary():
    class A:
        k = 2

    a, b = A(), A()
    d = weakref.WeakKeyDictionary()
    d[a] = 4
    yield lambda x, k=b: x * d.get(k, 2)
    yield (X, a)
    d[b] = 5
    yield (X, b)


@case
def warnings_filters():
    def f(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.warn("text", stacklevel=2)
        return x * 2, len(caught)

    yield f
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@case
def random_state():
    def f(x):
        return x * random.random()

    def g(x):
        random.seed(5)
        return f(x)

    yield g


@case
def numpy_random_state():
    def g(x):
        np.random.seed(5)
        return x * float(np.random.rand())

    yield g


@case
def dataclass_with_a_field_default():
    @dataclasses.dataclass
    class C:
        k: int = 2

    yield lambda x: x * C().k
    C.__init__.__defaults__ = (5,)
    yield
    C.__init__ = lambda self: setattr(self, "k", 8)
    yield


@case
def dataclass_eq():
    @dataclasses.dataclass
    class C:
        k: int = 2

    a, b = C(), C(3)
    yield lambda x: (x * 2, a == b)
    b.k = 2
    yield
    C.__eq__ = lambda self, other: False
    yield


@case
def partial_replaced():
    f1 = functools.partial(lambda x, k: x * k, k=2)
    f2 = functools.partial(lambda x, k: x * k, k=3)
    yield lambda x, f=f1: f(x)
    yield (X, f2)
    f1.keywords["k"] = 9
    yield (X, f1)


@case
def bound_methods_compared():
    class A:
        def m(self):
            return 1

    a, b = A(), A()
    yield lambda x, f=a.m, g=b.m: (x * 2, f == g, f is g, f in [g])
    yield (X, a.m, a.m)
    f = a.m
    yield (X, f, f)


@case
def builtin_methods_compared():
    a, b = [], []
    yield lambda x, f=a.append, g=b.append: (x * 2, f == g, f is g)
    yield (X, a.append, a.append)
    f = a.append
    yield (X, f, f)


@case
def default_argument_identity():
    def g(x, k=[]):  # noqa: B006
        return x * (len(k) + 1), k is box[0]

    box = [g.__defaults__[0]]
    yield lambda x: g(x)
    box[0] = []
    yield
    g.__defaults__ = (box[0],)
    yield
    g.__defaults__ = None
    g.__defaults__ = ([],)
    yield


SENTINEL = object()


@case
def sentinel_default():
    yield lambda x, k=SENTINEL: x * 2 if k is SENTINEL else x * 3
    yield (X, object())
    yield (X, None)
    yield (X, 3)
    yield (X, SENTINEL)


@case
def sentinel_in_attribute():
    box = ns(k=object(), s=object())
    yield lambda x: x * 2 if box.k is box.s else x * 3
    box.k = box.s
    yield
    box.s = object()
    yield


@case
def sentinel_of_class():
    class Missing:
        pass

    one = Missing()
    yield lambda x, k=None: x * 2 if k is one else x * 3
    yield (X, one)
    yield (X, Missing())
    yield (X, Missing)


@case
def names_in_texts_of_exceptions():
    class Shown:
        pass

    class Failure(Exception):
        pass

    def function(x):
        inner, outer = Failure("a"), Failure(Failure("b"))
        return x * 2, str(KeyError(Shown)), repr(inner), str(outer), str(OSError(1, "no", Shown))

    yield function
    Shown.__qualname__ = "Renamed"
    yield
    Failure.__name__ = "Other"
    yield


@case
def names_in_other_texts():
    class Shown:
        pass

    class Slice:
        pass

    template, named = "%s", "{c}"

    def function(x):
        text = template
        text %= (Shown,)
        return x * 2, text, repr(slice(Slice)), named.format(c=Shown)

    yield function
    Shown.__qualname__ = "Renamed"
    yield
    Slice.__qualname__ = "Other"
    yield


@case
def modules_that_are_none():
    sys.modules["zz_module"] = module = types.ModuleType("zz_module")

    def function(x):
        import zz_module

        return x * 2, zz_module is module

    yield function
    sys.modules["zz_module"] = None
    yield
    sys.modules["zz_module"] = module
    yield
    sys.modules["zz_module"] = types.ModuleType("zz_module")
    yield
    del sys.modules["zz_module"]


@case
def submodules_that_are_none():
    package, module = types.ModuleType("zz_package"), types.ModuleType("zz_package.module")
    package.__path__, package.module = [], module
    sys.modules.update({"zz_package": package, "zz_package.module": module})

    def function(x):
        import zz_package.module

        return x * 2, zz_package is package

    yield function
    sys.modules["zz_package.module"] = None
    yield
    sys.modules["zz_package.module"] = module
    sys.modules["zz_package"] = None
    yield
    sys.modules["zz_package"] = package
    yield
    del sys.modules["zz_package"], sys.modules["zz_package.module"]


@pytest.mark.parametrize("steps", CASES)
def test_change(steps):
    run_case(steps)
