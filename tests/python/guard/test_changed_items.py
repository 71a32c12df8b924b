"""Keys, items and comparisons of objects. See `changes.py`."""

# ruff: noqa: B008, B018, E721, UP042

import collections
import collections.abc
import types

import numpy as np
import pytest
from changes import X, cases, ns, run_case
from paddle import nn

CASES, case = cases()


@case
def missing_of_dict_subclass():
    class D(dict):
        pass

    d = D(a=1)

    def f(x):
        try:
            return x * d["b"]
        except KeyError:
            return x

    yield f
    D.__missing__ = lambda self, key: 5
    yield


@case
def defaultdict_factory():
    d = collections.defaultdict(int)
    yield lambda x: x * (d["a"] + 2)
    d["a"] = 4
    yield
    d.default_factory = lambda: 7
    del d["a"]
    yield


@case
def get_of_ordered_dict():
    d = collections.OrderedDict(a=1)
    yield lambda x: x * d.get("b", 2) + ("b" in d)
    d["b"] = 5
    yield


@case
def key_in_chain_map():
    a, b = {"a": 1}, {"b": 2}
    d = collections.ChainMap(a, b)
    yield lambda x: x * d.get("c", 5) + d["b"]
    b["c"] = 7
    yield
    a["b"] = 9
    yield


@case
def key_in_mapping_proxy():
    a = {"a": 1}
    d = types.MappingProxyType(a)
    yield lambda x: x * d.get("b", 5) + ("b" in d)
    a["b"] = 7
    yield


@case
def key_of_user_class_gets_eq():
    class K:
        pass

    a, b = K(), K()
    yield lambda x: x * {a: 1, 1: 1}.get(b, 5)
    K.__eq__ = lambda self, other: True
    K.__hash__ = lambda self: 1
    yield


@case
def key_of_user_class_argument():
    class K:
        pass

    a, b = K(), K()

    def f(x, one=a, other=b):
        return x * {one: 2}.get(other, 5)

    yield f
    yield (X, a, a)
    yield (X, b, a)
    yield (X, b, b)


@case
def key_of_function_argument():
    def a():
        pass

    def b():
        pass

    def f(x, one=a, other=b):
        return x * {one: 2}.get(other, 5) + (one in {other}) + (one in (other,)) + [other].count(one)

    yield f
    yield (X, a, a)
    yield (X, b, a)
    yield (X, b, b)


@case
def key_of_class_argument():
    def f(x, one=int, other=str):
        return x * {one: 2}.get(other, 5) + (one in {other}) + (one in (other,)) + [other].count(one)

    yield f
    yield (X, int, int)
    yield (X, str, int)


@case
def key_of_tensor_argument():
    a, b = X + 1, X + 1

    def f(x, one=a, other=b):
        return x * {one: 2}.get(other, 5), len({one, other})

    yield f
    yield (X, a, a)
    yield (X, X, a)
    yield (X, X, X)
    yield (X, b, a)


@case
def key_of_layer_argument():
    a, b = nn.ReLU(), nn.ReLU()

    def f(x, one=a, other=b):
        return x * {one: 2}.get(other, 5), len({one, other}), one in [other], one == other

    yield f
    yield (X, a, a)
    yield (X, b, a)


@case
def key_of_module_argument():
    a, b = types.ModuleType("a"), types.ModuleType("a")

    def f(x, one=a, other=b):
        return x * {one: 2}.get(other, 5), one in [other], one == other, one is other

    yield f
    yield (X, a, a)
    yield (X, b, a)


@case
def index_of_an_object():
    class K:
        pass

    a, b, c = K(), K(), K()
    items = [a, b]
    yield lambda x, one=a: x * (items.index(one) + 2) + items.count(one)
    yield (X, b)
    yield (X, c)
    items.append(c)
    yield (X, c)
    items[0] = c
    yield (X, c)
    K.__eq__ = lambda self, other: True
    yield (X, c)


@case
def object_in_a_tuple_of_a_global():
    class K:
        pass

    a, b, c = K(), K(), K()
    box = ns(items=(a, b))
    yield lambda x, one=c: x * 2 if one in box.items else x * 3
    yield (X, a)
    box.items = (c,)
    yield (X, c)
    yield (X, a)


@case
def opaque_in_a_list():
    a, b = object(), object()
    items = [a]
    yield lambda x, one=b: (x * 2, one in items, items.count(one), one not in items, one == items[0])
    yield (X, a)
    items[0] = b
    yield (X, a)
    yield (X, b)


@case
def generator_in_a_list():
    a, b = iter([]), iter([])
    items = (a,)
    yield lambda x, one=b: (x * 2, one in items, one != items[0], (one, 1) == (items[0], 1))
    yield (X, a)


@case
def nan_by_identity():
    nan, other = float("nan"), float("nan")
    yield lambda x, a=nan, b=nan: (x * 2, a == b, a in [b], [a] == [b], (a,) == (b,), [b].count(a))
    yield (X, nan, other)
    yield (X, other, other)
    yield (X, nan, nan)


@case
def nan_in_a_global_list():
    nan, other = float("nan"), float("nan")
    items = [nan]
    yield lambda x, a=nan: (x * 2, a in items)
    yield (X, other)
    items[0] = other
    yield (X, other)
    yield (X, nan)


@case
def nan_of_numpy():
    yield lambda x: (x * 2, np.nan in [np.nan], float("nan") in [np.nan], [np.nan] == [np.nan])


@case
def identity_of_numbers():
    a, b = 1000, int("1000")
    yield lambda x, a=a, b=b: (x * 2, a is b, [a] == [b])
    yield (X, a, a)
    yield (X, b, b)
    yield (X, b, a)


@case
def identity_of_strings():
    a, b = "some text", "".join(["some ", "text"])
    yield lambda x, a=a, b=b: (x * 2, a is b)
    yield (X, a, a)
    yield (X, b, b)


@case
def identity_of_equal_tuples():
    a, b = (1, 2), tuple([1, 2])
    yield lambda x, a=a, b=b: (x * 2, a is b, a == b)
    yield (X, a, a)
    yield (X, b, b)
    yield (X, b, a)


@case
def identity_of_frozen_sets():
    a, b = frozenset([1]), frozenset([1])
    yield lambda x, a=a, b=b: (x * 2, a is b)
    yield (X, a, a)
    yield (X, a, b)


@case
def equality_of_sets():
    a, b = {1}, {2}
    yield lambda x, a=a, b=b: (x * 2, a == b, a is b)
    yield (X, a, a)
    b.clear()
    b.add(1)
    yield (X, a, b)


@case
def eq_added_to_class():
    class K:
        pass

    a, b = K(), K()
    yield lambda x: (x * 2, a == b, a != b, a in [b], [a] == [b], {"k": a} == {"k": b})
    K.__eq__ = lambda self, other: True
    yield
    K.__ne__ = lambda self, other: True
    yield
    del K.__eq__
    yield


@pytest.mark.parametrize("steps", CASES)
def test_change(steps):
    run_case(steps)
