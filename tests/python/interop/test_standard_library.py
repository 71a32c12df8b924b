"""The standard library's own Python code, translated: every result as in plain Python."""

# ruff: noqa  -- short cases, side by side
import argparse, ast, base64, calendar, collections, colorsys, configparser, contextlib, csv, dataclasses, datetime, difflib, email.utils, enum
import fnmatch, fractions, functools, graphlib, heapq, html, inspect, io, ipaddress, itertools, json, operator, pathlib, plistlib, posixpath
import pprint, reprlib, shlex, statistics, string, textwrap, urllib.parse, uuid

import pytest
from support import check
import paddle

text = "The quick brown fox jumped over the lazy dog and then some more words follow here to be wrapped. " * 3


def _config():
    c = configparser.ConfigParser()
    c.read_string("[a]\nx=1\ny=%(x)s2\n[b]\nz=true")
    return c.sections(), c["a"]["y"], c.getboolean("b", "z")


def _args():
    p = argparse.ArgumentParser()
    p.add_argument("--n", type=int, default=3)
    p.add_argument("f", nargs="*")
    a = p.parse_args(["--n", "5", "q", "r"])
    return a.n, a.f


def _csv():
    f = io.StringIO()
    w = csv.writer(f)
    w.writerow([1, "a,b", None])
    return f.getvalue(), list(csv.DictReader(["a,b", "1,2"]))


def _ordered():
    d = collections.OrderedDict(a=1, b=2)
    d.move_to_end("a")
    d["c"] = 3
    return list(d), list(reversed(d)), d == dict(b=2, a=1, c=3)


P = collections.namedtuple("P", "x y", defaults=[5])


def _nt():
    p = P(1)
    return p._replace(x=3), p._asdict(), p.y, p[0], [*p], P._make([1, 2])


@dataclasses.dataclass(order=True)
class D:
    a: int = 1
    b: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.c = self.a * 2


def _dc():
    d = D(2)
    d.b.append(1)
    return dataclasses.asdict(d), d == D(2, [1]), D(1) < D(2), dataclasses.replace(d, a=7).c, repr(d)


class C(enum.Enum):
    R = 1
    G = 2


class Fl(enum.IntFlag):
    A = 1
    B = 2


def _enum():
    return C.R.name, C(2), [c for c in C], C["R"] is C.R, Fl.A | Fl.B, Fl.A in Fl(3), C.R == 1


@functools.singledispatch
def _sd(a):
    return "o"


@_sd.register
def _(a: int):
    return "i"


@_sd.register(list)
def _(a):
    return "l"


@functools.lru_cache(None)
def _fib(n):
    "doc"
    return n if n < 2 else _fib(n - 1) + _fib(n - 2)


@functools.total_ordering
class _Tot:
    def __init__(s, v):
        s.v = v

    def __eq__(s, o):
        return s.v == o.v

    def __lt__(s, o):
        return s.v < o.v


class _CP:
    n = 0

    @functools.cached_property
    def p(self):
        self.n += 1
        return self.n


def _cp():
    c = _CP()
    return c.p, c.p, c.n


log = []


@contextlib.contextmanager
def _cmgr(v):
    log.append("in")
    try:
        yield v
    except ValueError:
        log.append("ve")
    finally:
        log.append("out")


def _es():
    log.clear()
    with contextlib.ExitStack() as s:
        a = s.enter_context(_cmgr(1))
        s.callback(log.append, "cb")
    return a, list(log)


def _sup():
    with contextlib.suppress(KeyError):
        {}["a"]
    return 1


def _cm():
    log.clear()
    with _cmgr(2) as v:
        raise ValueError
    return v, list(log)


def _sio():
    s = io.StringIO()
    print("a", 1, sep="-", file=s)
    return s.getvalue()


def _quick(l):
    if len(l) < 2:
        return l
    p, *r = l
    return _quick([i for i in r if i < p]) + [p] + _quick([i for i in r if i >= p])


def _perm(l):
    return [[a] + p for i, a in enumerate(l) for p in _perm(l[:i] + l[i + 1 :])] if l else [[]]


def _sieve(n):
    s = [True] * n
    for i in range(2, int(n**0.5) + 1):
        if s[i]:
            s[i * i :: i] = [False] * len(s[i * i :: i])
    return [i for i in range(2, n) if s[i]]


def _queens(n):
    out = []

    def go(r, c, a, b, cur):
        if r == n:
            out.append(cur[:])
            return
        for i in range(n):
            if i in c or r + i in a or r - i in b:
                continue
            go(r + 1, c | {i}, a | {r + i}, b | {r - i}, cur + [i])

    go(0, set(), set(), set(), [])
    return out


def _lev(a, b):
    p = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        c = [i]
        for j, y in enumerate(b, 1):
            c.append(min(p[j] + 1, c[-1] + 1, p[j - 1] + (x != y)))
        p = c
    return p[-1]


def _mat(m):
    return [list(r) for r in zip(*m)], [[sum(a * b for a, b in zip(r, c)) for c in zip(*m)] for r in m]


def _roman(n):
    o = ""
    for v, s in (
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ):
        while n >= v:
            o += s
            n -= v
    return o


def _flatten(l):
    return sum(([*_flatten(i)] if isinstance(i, list) else [i] for i in l), [])


def _tree(l):
    for i in l:
        if isinstance(i, list):
            yield from _tree(i)
        else:
            yield i


def _send():
    def g():
        t = 0
        while True:
            v = yield t
            if v is None:
                return "x"
            t += v

    it = g()
    next(it)
    r = [it.send(2), it.send(5)]
    try:
        it.send(None)
    except StopIteration as e:
        r.append(e.value)
    return r


def _genret():
    def a():
        yield 1
        return 5

    def b():
        v = yield from a()
        yield v

    return list(b())


def _fibgen(n):
    a, b = 0, 1
    for _ in range(n):
        yield a
        a, b = b, a + b


class E1(Exception):
    def __init__(s, m, c):
        super().__init__(m)
        s.c = c


def _exc():
    r = []
    try:
        try:
            raise E1("a", 3)
        except E1 as e:
            r.append((str(e), e.c, e.args))
            raise KeyError("k") from e
        else:
            r.append("no")
        finally:
            r.append("f")
    except KeyError as k:
        r.append((repr(k), type(k.__cause__).__name__, k.__context__ is k.__cause__))
    for i in range(3):
        try:
            if i == 1:
                continue
            r.append(i)
        finally:
            r.append(-i)
    try:
        int("x")
    except (TypeError, ValueError) as v:
        r.append(str(v))
    try:
        assert 1 == 2, "msg"
    except AssertionError as v:
        r.append(str(v))
    return r


def _fin():
    def f():
        try:
            return 1
        finally:
            log.append("q")

    def g():
        for i in range(3):
            try:
                break
            finally:
                i = 9
        return i

    log.clear()
    return f(), g(), list(log)


class Mt(type):
    def __call__(c, *a):
        o = super().__call__(*a)
        o.tag = c.__name__
        return o

    def __getitem__(c, i):
        return i * 2


class MC(metaclass=Mt):
    def __init_subclass__(c, **k):
        c.k = k


class MD(MC, z=1):
    pass


def _meta():
    return MC().tag, MC[4], MD.k, MD().tag


class Ds:
    def __set_name__(s, o, n):
        s.n = "_" + n

    def __get__(s, o, t):
        return s if o is None else o.__dict__.get(s.n, 0)

    def __set__(s, o, v):
        o.__dict__[s.n] = v + 1


class DC:
    a = Ds()
    b = property(lambda s: s.a * 2)

    @staticmethod
    def s(v):
        return v

    @classmethod
    def c(cls, v):
        return cls.__name__, v


def _desc():
    d = DC()
    d.a = 3
    return d.a, d.b, DC.s(1), d.c(2), DC.c(3), vars(d)


class GA:
    def __getattr__(s, n):
        if n.startswith("x"):
            return n * 2
        raise AttributeError(n)

    def __setattr__(s, n, v):
        object.__setattr__(s, n, v * 2)

    def __delattr__(s, n):
        log.append(n)
        object.__delattr__(s, n)


def _ga():
    log.clear()
    g = GA()
    g.v = 2
    r = [g.v, g.xy, hasattr(g, "q"), getattr(g, "q", 7)]
    del g.v
    return r, list(log), vars(g)


class SL:
    __slots__ = ("a", "b")

    def __init__(s):
        s.a = 1


def _slots():
    s = SL()
    s.a += 1
    return s.a, hasattr(s, "b")


class A0:
    def f(s):
        return ["A"]


class B1(A0):
    def f(s):
        return ["B"] + super().f()


class C1(A0):
    def f(s):
        return ["C"] + super().f()


class D1(B1, C1):
    def f(s):
        return ["D"] + super().f()


def _mro():
    return D1().f(), [c.__name__ for c in D1.__mro__]


CASES = {
    "wrap": lambda x: (x + 1, textwrap.wrap(text, 40)),
    "dedent": lambda x: (x + 1, textwrap.dedent("   a\n    b\n   c")),
    "indent": lambda x: (x + 1, textwrap.indent("a\nb\n\nc", "> ")),
    "shorten": lambda x: (x + 1, textwrap.shorten(text, 30)),
    "mean": lambda x: (x + 1, statistics.mean([1, 2, 3, 4.5]), statistics.median([3, 1, 2]), statistics.mode("aabbb")),
    "stdev": lambda x: (
        x + 1,
        statistics.pstdev([1.5, 2.5, 2.5, 2.75, 3.25, 4.75]),
        statistics.quantiles([1, 2, 3, 4, 5, 6]),
    ),
    "frac": lambda x: (
        x + 1,
        str(fractions.Fraction(3, 4) + fractions.Fraction("0.125")),
        fractions.Fraction(7, 3).limit_denominator(2) == 2,
    ),
    "colorsys": lambda x: (x + 1, colorsys.rgb_to_hsv(0.2, 0.4, 0.4), colorsys.hls_to_rgb(0.5, 0.3, 0.7)),
    "template": lambda x: (x + 1, string.Template("$who likes $what").substitute(who="tim", what="kung pao")),
    "capwords": lambda x: (x + 1, string.capwords("hello world foo")),
    "difflib": lambda x: (x + 1, difflib.get_close_matches("appel", ["ape", "apple", "peach", "puppy"])),
    "ratio": lambda x: (x + 1, difflib.SequenceMatcher(None, "abcd", "bcde").ratio()),
    "unified": lambda x: (x + 1, list(difflib.unified_diff(["a", "b"], ["a", "c"]))),
    "json": lambda x: (x + 1, json.dumps({"a": [1, 2.5, None, True, "x"], "b": {"c": 1}}, indent=1, sort_keys=True)),
    "jsonl": lambda x: (x + 1, json.loads('{"a":[1,2.5,null,true,"x"],"b":{"c":1}}')),
    "literal": lambda x: (x + 1, ast.literal_eval("{'a':[1,2,(3,)],'b':-1.5}")),
    "astdump": lambda x: (x + 1, ast.dump(ast.parse("x=1+2"))),
    "shlex": lambda x: (x + 1, shlex.split("a 'b c' d\\ e"), shlex.quote("it's")),
    "fnmatch": lambda x: (x + 1, fnmatch.filter(["a.py", "b.txt"], "*.py"), fnmatch.translate("*.py")),
    "posix": lambda x: (
        x + 1,
        posixpath.join("a", "b", "../c"),
        posixpath.normpath("a/./b/../c"),
        posixpath.splitext("x.tar.gz"),
        posixpath.relpath("/a/b", "/a/c"),
        posixpath.commonpath(["/a/b", "/a/c"]),
    ),
    "calendar": lambda x: (x + 1, calendar.month(2024, 2), calendar.monthrange(2023, 2), calendar.isleap(2000)),
    "urlparse": lambda x: (
        x + 1,
        urllib.parse.urlparse("http://u:p@h:80/p;q?a=1&b=2#f").netloc,
        urllib.parse.quote("a b/c"),
        urllib.parse.urlencode({"a": 1, "b": "x y"}),
        urllib.parse.parse_qs("a=1&b=2&a=3"),
    ),
    "html": lambda x: (x + 1, html.escape('<a&"b>'), html.unescape("&lt;a&amp;")),
    "pprint": lambda x: (x + 1, pprint.pformat({"a": list(range(30)), "b": {"c": "d" * 50}}, width=40)),
    "reprlib": lambda x: (x + 1, reprlib.repr(list(range(100)))),
    "graphlib": lambda x: (
        x + 1,
        list(graphlib.TopologicalSorter({"d": ["b", "c"], "b": ["a"], "c": ["a"]}).static_order()),
    ),
    "b64": lambda x: (
        x + 1,
        base64.b32encode(b"hello"),
        base64.b85encode(b"hello world"),
        base64.urlsafe_b64encode(b"\xff\xfe"),
    ),
    "ip": lambda x: (
        x + 1,
        str(ipaddress.ip_network("192.168.0.0/28").broadcast_address),
        [str(a) for a in ipaddress.ip_network("10.0.0.0/30").hosts()],
        str(ipaddress.ip_address("::1")),
    ),
    "config": lambda x: (x + 1, _config()),
    "argparse": lambda x: (x + 1, _args()),
    "csv": lambda x: (x + 1, _csv()),
    "path": lambda x: (
        x + 1,
        str(pathlib.PurePosixPath("/a/b/c.txt").with_suffix(".py")),
        pathlib.PurePosixPath("/a/b").parts,
        pathlib.PurePosixPath("a/b/c").match("*/c"),
    ),
    "heapq": lambda x: (
        x + 1,
        list(heapq.merge([1, 4], [2, 3])),
        heapq.nlargest(2, [5, 1, 9]),
        heapq.nsmallest(2, [5, 1, 9], key=lambda v: -v),
    ),
    "counter": lambda x: (
        x + 1,
        collections.Counter("abracadabra").most_common(2),
        collections.Counter(a=3) - collections.Counter(a=1),
        sorted(collections.Counter("aab").elements()),
    ),
    "chainmap": lambda x: (
        x + 1,
        dict(collections.ChainMap({"a": 1}, {"a": 2, "b": 3})),
        list(collections.ChainMap({"a": 1}, {"b": 2})),
    ),
    "userdict": lambda x: (
        x + 1,
        dict(collections.UserDict(a=1)),
        collections.UserList([1, 2]) + [3],
        collections.UserString("ab") + "c",
    ),
    "ordered": lambda x: (x + 1, _ordered()),
    "namedtuple": lambda x: (x + 1, _nt()),
    "dataclass": lambda x: (x + 1, _dc()),
    "enum": lambda x: (x + 1, _enum()),
    "singledispatch": lambda x: (x + 1, _sd(1), _sd("a"), _sd([1])),
    "lru": lambda x: (x + 1, _fib(10)),
    "total": lambda x: (x + 1, _Tot(1) < _Tot(2), _Tot(1) >= _Tot(2), _Tot(1) == _Tot(1)),
    "cached": lambda x: (x + 1, _cp()),
    "exitstack": lambda x: (x + 1, _es()),
    "suppress": lambda x: (x + 1, _sup()),
    "ctxmgr": lambda x: (x + 1, _cm()),
    "accumulate": lambda x: (
        x + 1,
        list(itertools.accumulate([1, 2, 3])),
        list(itertools.chain([1], [2])),
        list(itertools.islice(itertools.count(), 3)),
        list(itertools.groupby("aab")).__len__(),
        list(itertools.product("ab", [1, 2])),
        list(itertools.combinations("abc", 2)),
        list(itertools.zip_longest([1], [2, 3])),
        list(itertools.takewhile(lambda v: v < 2, [1, 2, 1])),
        list(itertools.starmap(pow, [(2, 3)])),
        list(itertools.pairwise([1, 2, 3])),
    ),
    "date": lambda x: (
        x + 1,
        str(datetime.date(2024, 2, 29) + datetime.timedelta(days=366)),
        datetime.date(2024, 1, 1).isocalendar()[1],
    ),
    "sig": lambda x: (x + 1, str(inspect.signature(_fib.__wrapped__)), inspect.getdoc(_fib)),
    "stringio": lambda x: (x + 1, _sio()),
    "uuid": lambda x: (x + 1, str(uuid.UUID("12345678123456781234567812345678"))),
    "email": lambda x: (x + 1, email.utils.parseaddr("A B <a@b.c>")),
    "plist": lambda x: (x + 1, plistlib.dumps({"a": [1, "x"]})),
    "qs": lambda x: (
        x + 1,
        _quick([3, 6, 1, 8, 2, 9, 2]),
        _perm([1, 2, 3]),
        _sieve(30),
        _queens(5),
        _lev("kitten", "sitting"),
        _mat([[1, 2], [3, 4]]),
        _roman(1994),
        _flatten([1, [2, [3, [4]]]]),
    ),
    "gen": lambda x: (x + 1, list(_tree([1, [2, [3]], 4])), _send(), _genret(), list(_fibgen(10))),
    "exc": lambda x: (x + 1, _exc()),
    "fin": lambda x: (x + 1, _fin()),
    "meta": lambda x: (x + 1, _meta()),
    "desc": lambda x: (x + 1, _desc()),
    "getattr": lambda x: (x + 1, _ga()),
    "slots": lambda x: (x + 1, _slots()),
    "mro": lambda x: (x + 1, _mro()),
    "fmt": lambda x: (
        x + 1,
        f"{3.14159:>10.2f}|{'a':^5}|{1000000:,}|{255:#x}|{0.5:%}|{[1, 2]!r:>10}|{True}",
        "%5.1f %s %r %%" % (1.25, "a", "b"),
        "{0[a]} {1.real}".format({"a": 1}, 2),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_plain_python(name):
    check(CASES[name], paddle.to_tensor([1.0, 2.0]), fallbacks=None)
