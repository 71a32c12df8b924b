"""Objects that note every special method that is called: each operation calls the same ones in the same order.

The operations are run on objects of classes without a base, and on those of subclasses of the builtin types, as
arguments and made inside of the function.
"""

import collections
import contextlib
import enum
import functools
import io
import re
import types

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, translate
from paddle import nn

# Which special methods are called is the same in each version of Python.
pytestmark = pytest.mark.default_python

LOG = []


def noting(name, result):
    def method(self, *args):
        LOG.append((name, len(args)))
        return result(self, *args) if callable(result) else result

    method.__name__ = name
    return method


RESULTS = {
    "__len__": 2,
    "__bool__": True,
    "__int__": 3,
    "__float__": 2.5,
    "__index__": 1,
    "__str__": "text",
    "__repr__": "REPR",
    "__hash__": 7,
    "__contains__": True,
    "__eq__": lambda self, other: self is other,
    "__ne__": lambda self, other: self is not other,
    "__lt__": True,
    "__le__": False,
    "__gt__": True,
    "__ge__": False,
    "__neg__": -1,
    "__pos__": 4,
    "__invert__": 9,
    "__abs__": 5,
    "__round__": 6,
    "__trunc__": 8,
    "__floor__": 2,
    "__ceil__": 3,
    "__format__": "formatted",
    "__bytes__": b"b",
    "__complex__": 1j,
    "__length_hint__": 2,
    "__enter__": lambda self: self,
    "__exit__": False,
    "__iter__": lambda self: iter([1, 2]),
    "__reversed__": lambda self: iter([2, 1]),
    "__call__": 12,
    "__getitem__": lambda self, key: [10, 20][key] if isinstance(key, int) else key,
    "__setitem__": None,
    "__delitem__": None,
    "__copy__": lambda self: self,
    "__deepcopy__": lambda self, memo: self,
    "keys": lambda self: ["a", "b"],
}
for _name in "add sub mul truediv floordiv mod pow lshift rshift and or xor matmul divmod".split():
    RESULTS[f"__{_name}__"] = RESULTS[f"__r{_name}__"] = lambda self, other, name=_name: (name,)
for _name in "add sub mul and or".split():
    RESULTS[f"__i{_name}__"] = lambda self, other: self
METHODS = {name: noting(name, result) for name, result in RESULTS.items()}


class Found:
    """A descriptor that answers with something other than a bound method."""

    def __init__(self, method):
        self.method = method

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self.method, instance)


def computed(method):
    return property(lambda self: functools.partial(method, self))


def noisy(name, base, methods=None, way=lambda method: method):
    names = METHODS if methods is None else [f"__{name}__" for name in methods.split()]
    return type(name, (base,), {name: way(METHODS[name]) for name in names})


CLASSES = {
    "plain": (noisy("Plain", object), ()),
    "descriptors": (noisy("Descriptors", object, way=Found), ()),
    "properties": (noisy("Properties", object, way=computed), ()),
    "sized": (noisy("Sized", object, "len iter contains eq bool getitem"), ()),
    "sequence": (noisy("Sequence", object, "getitem len hash"), ()),
    "dict": (noisy("Dict", dict, "len contains iter eq bool"), ({"a": 1, "b": 2},)),
    "list": (noisy("List", list, "len contains iter eq bool add radd iadd"), ([1, 2],)),
    "str": (noisy("Str", str, "len contains eq hash bool add radd str format"), ("ab",)),
    "int": (noisy("Int", int, "eq hash bool add radd str index int lt mul rmul"), (1,)),
    "float": (noisy("Float", float, "eq hash bool add radd str float lt mul rmul"), (1.5,)),
    "tuple": (noisy("Tuple", tuple, "len contains iter eq bool hash add getitem"), ((1, 2),)),
    "set": (noisy("Set", set, "len contains iter eq bool or"), ([1, 2],)),
}

OPERATIONS = """
len(s);bool(s);not s;int(s);float(s);str(s);repr(s);hash(s);1 in s;s == 1;1 == s;s != 1;s < 1;1 < s;s > s;-s;+s;~s
abs(s);round(s);round(s, 1);math.floor(s);math.ceil(s);math.trunc(s);f"{s}";f"{s!r}";f"{s:>3}";"%s" % s;"%s %r" % (s, s)
"{}".format(s);format(s);bytes(s);complex(s);s + 1;1 + s;s * 2;2 * s;s - 1;s / 2;s // 2;s % 2;s ** 2;s << 1;s & 1;s | 1
s ^ 1;s @ 1;divmod(s, 2);divmod(2, s);pow(s, 2);s[0];s["k"];s[0:1];list(s);tuple(s);set(s);frozenset(s);sorted(s);[*s]
(lambda *a: a)(*s);dict(s);{**s};(lambda **k: k)(**s);sum(s);max(s);min(s);any(s);all(s);iter(s);next(iter(s))
reversed(s);list(reversed(s));enumerate(s);list(enumerate(s));list(zip(s, s));list(map(abs, s));list(filter(None, s))
list(filter(None, [s]));isinstance(s, int);callable(s);s();s(1);[1, 2, 3][s];[1, 2, 3][s:];range(s);list(range(s))
"abc"[s];(1, 2)[s];{1: 2}.get(s);{s: 1};{s: 1}[s];{s};s in [s];s in [1];[1, s].index(s);[s].count(s);[1].count(s)
(s,) == (s,);[s] == [s];{1: s} == {1: s};s and 1;s or 1;1 if s else 2;copy.copy(s);copy.deepcopy(s);operator.add(s, 1)
operator.index(s);operator.truth(s);operator.contains(s, 1);operator.getitem(s, 0);operator.length_hint(s);chr(s);bin(s)
hex(s);ord(s);max(s, s);min([s, s]);sorted([s, s]);sum([s, s]);sum([1, 2], s);functools.reduce(lambda a, b: a, s)
functools.partial(s, 1)();list(itertools.chain(s, s));list(itertools.islice(s, 1));list(itertools.repeat(1, s))
list(itertools.product(s));",".join(s);",".join([s]);"a".replace("a", s);"ab".startswith(s);s.keys()
collections.Counter(s);collections.deque(s);collections.OrderedDict(s);dict.fromkeys(s);x * 1 if s else x;x + s;s + x
x * s;s * x;x[s];x[s:];x[:s];x.sum(s);x.reshape([s, -1]);paddle.full([s], 1.0);paddle.full([2], s);paddle.to_tensor(s)
paddle.to_tensor([s]);x.unsqueeze(s);x == s;x if 1 in s else x * 2;[a for a in s];{a: 1 for a in s};list(a for a in s)
print(s);print(s, sep="");getattr(s, "zz", 3);hasattr(s, "__len__");vars(s);type(s);s.__class__;s.__len__();s.__eq__(1)
type(s).__len__(s);s is s;id(s) == id(s);isinstance(s, collections.abc.Sized);isinstance(s, collections.abc.Iterable)
[*s, *s];(*s,);{*s};1 in {s: 1};{1: 2} == {2: s};slice(s);x[slice(s)];[0] * s;s * [0];"a" * s;(0,) * s;[1] + s;(1,) + s
"a" + s;[1].__add__(s);[3, 1].sort(key=s);max([1, 2], key=s);list(map(s, [1, 2]));list(filter(s, [1]));bool([s])
len([s]);str([s]);repr((s,));str({1: s});f"{[s]}";tuple([s]);s.__dict__;[0].extend(s);{1}.update(s);{1}.union(s);{1} | s
dict(a=1).update(s);[1, 2].insert(s, 3);[1, 2].pop(s);(1, 2).index(s);zip(*s);all([s]);any([s]);list(s.__iter__())
iter(s.__len__, 2);isinstance(s, (str, list));issubclass(type(s), object);s == s == s;0 < s < 5;not s == 1;s is not None
sorted([3, 1], reverse=s);[3, 1].sort(reverse=s);"a\\nb".splitlines(s);"a b".split(None, s);int("1", s);round(2.5, s)
x.shape + s;s + x.shape;x.shape * s;list.__len__(s);str.upper(s);dict.get(s, 1);list.append(s, 1);int.__add__(s, 1)
object.__eq__(s, 1);object.__eq__(x, s);object.__ne__(s, s);object.__hash__(s) and 1;int.__eq__(True, s);list.__len__(x)
""".replace("\n", ";").strip(";")

STATEMENTS = {
    "match": "match s:\n  case 1: r = 'one'\n  case [a, b]: r = a, b\n  case {'a': v}: r = v\n  case 'text': r = 't'\n"
    "  case int(): r = 'int'\n  case str(): r = 'str'\n  case _: r = 'none'",
    "unpack": "a, b = s\nr = a, b",
    "star": "a, *b = s\nr = a, b",
    "for": "r = 0\nfor v in s:\n  r += v if isinstance(v, int) else 1",
    "with": "with s as z:\n  r = z is s",
    "augment": "t = s\nt += 1\nt *= 2\nr = t is s",
    "extend": "t = [0]\nt += s\nr = t",
    "slice": "t = [0, 1]\nt[1:] = s\nr = t",
    "set item": "s[0] = 1\nr = 1",
    "delete item": "del s[0]\nr = 1",
    "exception": "try:\n  raise ValueError(s)\nexcept ValueError as e:\n  r = str(e), e.args[0] is s",
    "while": "r = 0\nwhile s and r < 2:\n  r += 1",
    "assert": "assert s, 'no'\nassert s == s\nr = 3",
    "yield from": "def g():\n  yield from s\nr = list(g())",
    "nested": "r = [(a, b) for a in s for b in s if s]",
}


def picture(value):
    """What can be seen of a result without calling its methods."""
    if isinstance(value, paddle.Tensor):
        return value.tolist(), str(value.dtype)
    if type(value) in (list, tuple):
        return type(value), [picture(item) for item in value]
    plain = (int, float, str, bytes, bool, complex, dict, set, frozenset, range, slice, type(None))
    if type(value) not in plain:
        return type(value).__name__
    before = len(LOG)
    text = repr(value)
    del LOG[before:]
    return type(value), text


def outcome(function, arguments):
    LOG.clear()
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            found = function(*arguments)
        log = list(LOG)
        found = picture(found)
    except Exception as error:  # noqa: BLE001 - the same one is expected
        log = list(LOG)
        found = type(error), str(error)
    # Addresses, hashes of them, and names with counters.
    return re.sub(r"0x[0-9a-f]+|\b[0-9]{12,16}\b|(kept|tensor)_[0-9]+", "#", repr((found, log, out.getvalue())))


def check(made, given, inside):
    """Runs all operations, translated and not."""
    space = {**globals(), "Made": made, "GIVEN": given}
    bodies = {text: f"r = ({text})" for text in OPERATIONS.split(";")} | STATEMENTS
    different = []
    for title, body in bodies.items():
        head = "def f(x):\n y = x + 1\n s = Made(*GIVEN)\n" if inside else "def f(x, s):\n y = x + 1\n"
        lines = "".join(f" {line}\n" for line in body.splitlines())
        exec(f"{head}{lines} return r, y\n", space)
        function = space["f"]
        translated = translate(function)
        for _ in range(2):
            x = paddle.arange(4, dtype="float32")
            expected, found = (outcome(call, (x,) if inside else (x, made(*given))) for call in (function, translated))
            if expected != found:
                different.append(f"{title}: {expected} and {found}")
                break
        if not IDENTITY:
            sot.reset(translated)
    assert not different, "\n".join(different)


@pytest.mark.parametrize("inside", [False, True], ids=["argument", "made_inside"])
@pytest.mark.parametrize("kind", CLASSES)
def test_the_same_special_methods_are_called(kind, inside):
    check(*CLASSES[kind], inside)


def _raise(self, *args):
    raise StopIteration("odd")


ODD = {
    "None": None,
    "negative": -1,
    "list": [],
    "not implemented": NotImplemented,
    "itself": lambda self, *args: self,
    "tensor": lambda self, *args: paddle.ones([1]),
    "raises": _raise,
}


@pytest.mark.parametrize("answer", ODD)
@pytest.mark.parametrize("base", [object, str], ids=["object", "str"])
def test_what_special_methods_answer_with_is_checked(base, answer):
    """Most of Python's operations take no answer of another type."""
    names = [name for name in METHODS if name != "__call__"]
    if base is str:
        names = "__len__ __bool__ __eq__ __hash__ __iter__ __contains__ __getitem__ __add__ __radd__ __str__".split()
    made = type("Odd", (base,), {name: noting(name, ODD[answer]) for name in names})
    check(made, (), False)


class Measured(type):
    """A metaclass whose classes have a length, are compared and looked into."""


for _name in "len bool eq hash iter contains getitem add radd str lt neg int index reversed".split():
    setattr(Measured, f"__{_name}__", METHODS[f"__{_name}__"])


class Told(types.ModuleType):
    """A module that does more than modules do."""


class Kept(nn.Layer):
    """A layer that does more than layers do."""


for _name in "len bool eq hash iter contains getitem add radd str lt neg int index".split():
    setattr(Told, f"__{_name}__", METHODS[f"__{_name}__"])
    setattr(Kept, f"__{_name}__", METHODS[f"__{_name}__"])


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Asked(enum.Enum):
    A = 1
    __index__ = METHODS["__index__"]
    __float__ = METHODS["__float__"]
    __eq__ = METHODS["__eq__"]
    __hash__ = METHODS["__hash__"]


Named = collections.namedtuple("Named", "a b")
KINDS = {
    "class": lambda: Measured("Class", (), {}),
    "members": lambda: Asked,
    "member": lambda: Asked.A,
    "module": lambda: Told("told"),
    "layer": Kept,
    "exception": lambda: KeyError("k"),
    "flags": lambda: Flags.A | Flags.B,
    "deque": lambda: collections.deque([1, 2], maxlen=3),
    "ordered": lambda: collections.OrderedDict(a=1, b=2),
    "counter": lambda: collections.Counter("aab"),
    "partial": lambda: functools.partial(max, 3),
    "named": lambda: Named(1, 2),
    "array": lambda: np.arange(3),
    "scalar": lambda: np.float32(2.5),
    "bytes": lambda: b"ab",
    "range": lambda: range(3),
    "big": lambda: 2**70,
    "zero": lambda: -0.0,
    "empty": lambda: "",
    "iterator": lambda: map(str, [1, 2]),
    "items": lambda: {"a": 1}.items(),
    "proxy": lambda: types.MappingProxyType({"a": 1}),
    "bool tensor": lambda: paddle.to_tensor(True),
    "shape": lambda: paddle.ones([2, 3]).shape,
    "dtype": lambda: paddle.float32,
}


@pytest.mark.parametrize("kind", KINDS)
def test_operations_on_values_of_many_kinds(kind):
    check(KINDS[kind], (), False)
