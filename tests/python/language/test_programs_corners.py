"""Corners of Python where a translation through copies, or by analogy, would be silently wrong."""

# ruff: noqa  -- the corners are the point
import collections
import functools
import operator

import pytest
from harness import Programs, check, tensor

program = Programs()
X = tensor(2)


@program(X)
def list_imul_alias(x):
    a = [x.sum() * 0 + 1, 2]
    a = [1, 2]
    b = a
    a *= 2
    return x + len(b), b


@program(X, [1, 2])
def list_imul_arg(x, l):
    l *= 2
    return x + 1


@program(X, {1})
def set_ior_arg(x, s):
    s |= {2}
    return x + 1


@program(X)
def set_ior_alias(x):
    s = {1}
    r = s
    s |= {2}
    return x + len(r)


@program(X, {1, 2})
def set_iand_arg(x, s):
    s &= {2}
    return x + 1


@program(X, [1])
def op_iadd(x, l):
    operator.iadd(l, [2])
    return x + len(l)


@program(X, {"a": 1})
def op_setitem(x, d):
    operator.setitem(d, "b", 2)
    return x + len(d)


@program(X, [1, 2])
def op_delitem(x, l):
    operator.delitem(l, 0)
    return x + len(l)


@program(X)
def op_is(x):
    l = [1]
    return x + (1 if operator.is_(l, l) else 5)


@program(X, [1])
def op_is_not(x, l):
    return x + (1 if operator.is_not(l, l) else 5)


class E:
    def __init__(self, v):
        self.v = v

    def __eq__(self, o):
        return self.v == o.v

    __hash__ = None


@program(X, E(1), E(1))
def ne_from_eq(x, a, b):
    return x + 1 if a != b else x + 5


class B0:
    def __init__(s, v=0):
        s.v = v

    def __lt__(s, o):
        return True

    def __gt__(s, o):
        return True

    def __eq__(s, o):
        return "base"


class D0(B0):
    def __gt__(s, o):
        return False

    def __eq__(s, o):
        return "derived"


@program(X, B0(), D0())
def cmp_subclass(x, a, b):
    return (x + 1 if a < b else x + 5), a == b


@program(X, set(range(64)))
def set_order_removed(x, s):
    for i in list(range(64)):
        if i not in (1, 40):
            s.discard(i)
    return x + 1, list(s)


@program(X)
def set_order_local(x):
    s = set(range(64))
    for i in range(64):
        if i not in (1, 40):
            s.discard(i)
    return x + 1, list(s)


_s = set(range(64))
[_s.discard(i) for i in range(64) if i not in (1, 40)]


@program(X)
def set_order_global(x):
    return x + 1, [i for i in _s]


@program(X, frozenset([1]))
def frozen_add(x, s):
    return x + (1 if hasattr(s, "add") else 2)


class M:
    def keys(self):
        return ["ab", "cd"]

    def __iter__(self):
        return iter(["xy", "zw"])

    def __getitem__(self, k):
        return k * 2


@program(X, M())
def dict_of_mapping(x, m):
    return x + 1, dict(m)


@program(X)
def od_popitem(x):
    d = collections.OrderedDict([("a", 1), ("b", 2)])
    k = d.popitem(last=False)
    return x + k[1], k


@program(X)
def sum_str(x):
    try:
        return x + 1, sum(["a", "b"], "")
    except TypeError as e:
        return x + 2, str(e)


@program(X, [0.1] * 10)
def sum_float(x, l):
    return x + 1, sum(l)


@program(X)
def sum_float2(x):
    return x + 1, sum([1e16, 1.0, -1e16])


@program(X)
def min_empty(x):
    try:
        return min([])
    except ValueError as e:
        return x + 1, str(e)


@program(X)
def min_noargs(x):
    try:
        return min()
    except TypeError:
        return x + 1, "te"
    except ValueError:
        return x + 2, "v"


@program(X)
def dict_get_kw(x):
    try:
        return x + {"a": 1}.get("b", default=3)
    except TypeError:
        return x + 9


@program(X)
def str_mod_tensor(x):
    return x + 1, "%s" % x


@program(X)
def percent_list(x):
    return x + 1, "%s %d" % ([1, "a"], 3)


@program(X, {"a": 1})
def dict_grow(x, d):
    try:
        for k in d:
            d[k + "x"] = 1
    except RuntimeError as e:
        return x + 1, str(e)
    return x + 2


@program(X, {"a": 1})
def view_live(x, d):
    v = d.values()
    d["b"] = 2
    return x + sum(v), list(v)


@program(X)
def nan_in(x):
    n = float("nan")
    return x + 1, [n in [n], [n] == [n], n == n, float("nan") in [float("nan")]]


@program(X)
def float_key_big(x):
    d = {10**18: 1}
    return x + d.get(1e18, 7)


@program(X, (1, 2))
def tuple_ident(x, t):
    return x + 1, t[:] is t, t * 1 is t, t + () is t, tuple(t) is t


@program(X)
def empty_tuple(x):
    return x + 1, tuple([]) is ()


@program(X, frozenset([1]))
def fs_ident(x, s):
    return x + 1, frozenset(s) is s, s.copy() is s


@program(X, {1, 2, 3})
def set_rest(x, s):
    return x + 1, s - {1}, s ^ {9}, s < {1, 2, 3, 4}, s.isdisjoint({7})


@program(X, [3, 1, 2])
def sort_key(x, l):
    l.sort(key=lambda v: -v)
    return x + l[0]


@program(X)
def map_partial(x):
    it = iter([1, 2, 3])
    z = list(zip([1], it))
    return x + next(it), z


@program(X, [1, 2, 3])
def list_self_extend(x, l):
    l.extend(l)
    l[1:2] = l
    return x + len(l)


@program(X, [1, 2, 3])
def list_slice_del(x, l):
    del l[::2]
    return x + len(l)


@program(X)
def tensor_in_list(x):
    y = x.sum()
    return x + ([1, y].index(1))


@program(X)
def str_methods(x):
    return x + 1, "a,b".split(","), "x".join(["1", "2"]), b"ab", f"{3.14159:.2f}{'a'!r:>5}", "%(k)s" % {"k": 1}


@program(X)
def divide(x):
    try:
        1 // 0
    except ZeroDivisionError as e:
        return x + 1, str(e)


@program(X)
def strict_zip(x):
    try:
        list(zip([1], [1, 2], strict=True))
    except ValueError as e:
        return x + 1, str(e)


@program(X)
def reduce_(x):
    return functools.reduce(operator.add, [x, x, 1])


@program(X)
def reduce_empty(x):
    try:
        functools.reduce(operator.add, [])
    except TypeError:
        return x + 1


@program(X, [1, 2])
def iadd_tuple(x, l):
    m = l
    l += (3,)
    return x + len(m), l is m


@program(X)
def imul_nested(x):
    a = [[1]]
    b = a
    a *= 2
    a[0].append(5)
    return x + 1, a, b, a[0] is a[1]


@program(X)
def partial_kw(x):
    f = functools.partial(int, base=2)
    return x + f("101")


class L(list):
    pass


@program(X, L([1, 2]))
def listsub(x, l):
    return x + len(l), l[0], [i for i in l]


class W:
    def __init__(s, v):
        s.v = v

    def __add__(s, o):
        return NotImplemented


class WR:
    def __radd__(s, o):
        return 7


@program(X, W(1), WR())
def radd(x, a, b):
    return x + (a + b)


@program(X, W(1), W(2))
def add_same_type(x, a, b):
    try:
        a + b
    except TypeError as e:
        return x + 1, str(e)


@program(X, [1])
def index_error(x, l):
    try:
        l[5]
    except IndexError as e:
        return x + 1, str(e)


@program(X, {})
def key_error(x, d):
    try:
        d["k"]
    except KeyError as e:
        return x + 1, str(e)


@program(X)
def bool_dunder(x):
    class Z:
        def __len__(s):
            return 0

    return x + 1 if Z() else x + 2


@program(X, collections.defaultdict(list))
def ddict(x, d):
    d["a"].append(1)
    return x + len(d)


@program(X, collections.deque([1, 2]))
def deq(x, d):
    d.append(3)
    return x + len(d)


@pytest.mark.parametrize(("function", "args", "expectations"), program)
def test_equals_eager(function, args, expectations):
    check(function, *args, fallbacks=None, **expectations)
