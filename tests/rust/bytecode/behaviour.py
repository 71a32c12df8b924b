"""Modules whose functions were assembled by us do what the originals do: results, errors, lines."""

import functools
import importlib
import importlib.util
import inspect  # noqa: F401 - not in the middle of a trace
import io
import re
import sys
import textwrap
import traceback
import types

FUNCTION = 0x1  # CO_OPTIMIZED
#: Files of the modules under test. What others do depends on what their caches hold.
TRACED = {"corners.py"}


def changed(code, change):
    """`code` with all functions in it changed, not the bodies of modules and classes."""
    consts = tuple(changed(c, change) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    code = code.replace(co_consts=consts)
    return change(code) if code.co_flags & FUNCTION else code


def load(name, change):
    """A private copy of a module of the standard library."""
    spec = importlib.util.find_spec(name)
    code = compile(spec.loader.get_source(name), spec.origin, "exec", dont_inherit=True)
    module = importlib.util.module_from_spec(spec)
    TRACED.add(spec.origin)
    real = importlib.import_module(name)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        exec(changed(code, change), module.__dict__)
    finally:
        sys.modules[name] = real
    return module


def load_source(source, change):
    module = types.ModuleType("corners")
    exec(changed(compile(source, "corners.py", "exec", dont_inherit=True), change), module.__dict__)
    return module


def places(error):
    """Function, line and columns of every frame of every traceback of an error."""
    found = []
    while error is not None:
        for frame, line in traceback.walk_tb(error.__traceback__):
            code = frame.f_code
            if code.co_filename != __file__:
                tb = [t for t in walk(error.__traceback__) if t.tb_frame is frame][0]
                found.append((code.co_qualname, line, list(code.co_positions())[tb.tb_lasti // 2]))
        error = error.__cause__ or error.__context__
    return found


def walk(tb):
    while tb is not None:
        yield tb
        tb = tb.tb_next


def outcome(run):
    """What a call gives or raises, and the lines it runs on the way."""
    events = []

    def text(value):
        return re.sub("0x[0-9a-f]+", "0x...", value)

    def trace(frame, event, arg):
        if frame.f_code.co_filename not in TRACED:
            return None
        events.append((frame.f_code.co_qualname, event, frame.f_lineno, sorted(frame.f_locals)))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = ("returns", text(repr(run())))
    except BaseException as e:
        sys.settrace(before)
        result = ("raises", type(e).__name__, text(str(e)), places(e))
    finally:
        sys.settrace(before)
    return result, events


DATA = {
    "text": 'h\u00e9llo "quoted" \n tab\t \U0001f600',
    "numbers": [1, -2, 3.5, 1e300, float("inf"), float("nan"), 10**30],
    "nested": {"empty": [], "none": None, "flags": [True, False], "deep": [[[[{}]]]]},
    3: "an integer key",
}
TEXT = """
    A paragraph with some-hyphenated words, andaverylongwordthatdoesnotfitinanylineatall, and
    \ttabs.  Two spaces after a full stop.  The end

      indented more
"""
PROGRAM = '''
@decorate(1, *a, k=2, **b)
async def f(a, /, b: int = 1, *args, c, d=lambda x: -x ** 2, **kw) -> "r":
    """doc"""
    async with a as (x, y), b:
        async for i in g(): yield await i
    else_ = [i async for i in x if i if not j for j in {*k} for k in {1: 2, **z}]
    return
class A(B, metaclass=C):
    x: int
    def m(self):
        nonlocal_ = f"{self!r:>{width}} {x=} {{}}" "tail"
        try: del a[1:2, ..., ::3], b.c
        except (E, F) as e: raise G from e
        except: raise
        else: pass
        finally: global q; assert x, "why"
match point:
    case Point(x=0, y=[1, *rest]) | {"k": v, **more} as p if (w := p): pass
    case -1 | "s" | None: ...
    case _: pass
while not (a and b or c) if d else e < f <= g != h is not i not in j:
    x @= y // z << 1 | ~w; break
'''


def json_encoder(m):
    m.c_make_encoder = None
    m.encode_basestring_ascii = m.py_encode_basestring_ascii
    m.encode_basestring = m.py_encode_basestring
    loop = []
    loop.append(loop)
    yield lambda: m.JSONEncoder().encode(DATA)
    yield lambda: m.JSONEncoder(indent=2, ensure_ascii=False, skipkeys=True).encode(DATA)
    yield lambda: list(m.JSONEncoder(separators=(",", ":")).iterencode(DATA))
    yield lambda: m.JSONEncoder(sort_keys=True).encode({"b": 1, "a": (2, 3)})
    yield lambda: m.JSONEncoder(default=str).encode([object, {1j: 2}])
    yield lambda: m.JSONEncoder(allow_nan=False).encode(DATA)
    yield lambda: m.JSONEncoder().encode({"a": [1, object]})
    yield lambda: m.JSONEncoder().encode(loop)


def json_decoder(m, scanner):
    def decoder(**options):
        made = m.JSONDecoder(**options)
        made.parse_string = m.py_scanstring
        made.scan_once = scanner.py_make_scanner(made)
        return made

    good = '{"a": [1, -2.5e3, true, null, "\\u00e9\\ud83d\\ude00\\n"], "b": {"c": {}}, "n": [NaN, -Infinity]}'
    yield lambda: decoder().decode(good)
    yield lambda: decoder(object_pairs_hook=list, parse_float=str).decode(good)
    yield lambda: decoder(object_hook=sorted).decode(good)
    yield lambda: decoder().raw_decode("[1] and more")
    texts = (
        "",
        "[1",
        '{"a" 1}',
        '{"a": 1,}',
        '"\\x"',
        '"open',
        '"\\ud8"',
        "[1] 2",
        "\ufeff1",
        "{1: 2}",
        "[1,]",
        '"\n"',
    )
    for bad in texts:
        yield lambda bad=bad: decoder().decode(bad)


def text_wrap(m):
    yield lambda: m.wrap(TEXT, 20)
    yield lambda: m.fill(TEXT, 15, initial_indent="* ", subsequent_indent="  ", break_long_words=False)
    yield lambda: m.fill(TEXT, 40, fix_sentence_endings=True, expand_tabs=False, replace_whitespace=False)
    yield lambda: m.wrap(TEXT, 12, max_lines=2, placeholder="...")
    yield lambda: (m.dedent(TEXT), m.indent(TEXT, "> "), m.shorten(TEXT, 30))
    yield lambda: m.indent(TEXT, "# ", lambda line: "tab" in line)
    yield lambda: m.wrap(TEXT, 0)
    yield lambda: m.wrap(TEXT, 5, max_lines=1, placeholder="too long a placeholder")


def syntax_trees(m):
    # `compile` makes nodes of the real module; the functions look only at their names and fields.
    yield lambda: m.unparse(m.parse(PROGRAM))
    yield lambda: m.unparse(m.parse(textwrap.dedent(PROGRAM)).body[0])
    yield lambda: m.dump(m.parse(PROGRAM), indent=1, include_attributes=True)
    yield lambda: [type(n).__name__ for n in m.walk(m.parse(PROGRAM))]
    yield lambda: m.literal_eval("[1, -2.5, (3+4j), {'a': {5}}, b'x', None, set()]")
    yield lambda: m.get_docstring(m.parse(PROGRAM).body[0])
    yield lambda: m.get_source_segment(PROGRAM, m.parse(PROGRAM).body[1])
    yield lambda: m.dump(m.increment_lineno(m.parse("a\nb"), 5), include_attributes=True)
    yield lambda: m.literal_eval("f(1)")
    yield lambda: m.literal_eval("{1: [2, x]}")
    yield lambda: m.parse("a b")
    yield lambda: m.dump(3)
    yield lambda: m.unparse(m.Module([m.Expr(object())], []))


def data_classes(m):
    def make():
        @m.dataclass(order=True, frozen=True)
        class Point:
            x: int
            y: list = m.field(default_factory=list, compare=False)

        p = Point(1)
        return p, m.replace(p, x=2), m.asdict(p), m.astuple(p), p < Point(2), m.fields(p)

    def bad():
        @m.dataclass
        class Wrong:
            x: int = 1
            y: list = []

    yield make
    yield bad
    yield lambda: m.make_dataclass("D", ["a", ("b", int)])(1, 2)
    yield lambda: m.asdict(3)
    yield lambda: setattr(m.make_dataclass("D", ["a"], frozen=True)(1), "a", 2)


def context_managers(m):
    def stack(fail, suppress):
        log = []
        try:
            with m.ExitStack() as s:
                s.callback(log.append, "callback")
                s.enter_context(m.closing(io.StringIO()))
                if suppress:
                    s.enter_context(m.suppress(ValueError))
                s.push(lambda *e: log.append(e[0]))
                if fail:
                    int("many")
        finally:
            log.append("end")
        return log

    @m.contextmanager
    def manager(catch):
        try:
            yield 1
        except ValueError:
            if not catch:
                raise KeyError("other")  # noqa: B904 - the context is looked at

    def use(catch, error):
        with manager(catch) as x:
            if error:
                raise error
        return x

    @m.contextmanager
    def stops_not():
        yield 1
        yield 2

    def use_it():
        with stops_not():
            pass

    yield lambda: stack(False, False)
    yield lambda: stack(True, True)
    yield lambda: stack(True, False)
    yield lambda: use(True, None)
    yield lambda: use(True, ValueError())
    yield lambda: use(False, ValueError())
    yield lambda: use(False, StopIteration("stop"))
    yield use_it
    yield lambda: stops_not()(use_it)()


def other(diff, fractions, statistics, heap, strings):
    yield lambda: list(diff.unified_diff("one two three".split(), "two three four".split()))
    yield lambda: list(diff.ndiff(["a\n", "bcd\n"], ["b\n", "bcx\n"]))
    yield lambda: diff.get_close_matches("appel", ["ape", "apple", "peach"])
    yield lambda: diff.get_close_matches("a", ["b"], n=0)
    yield lambda: fractions.Fraction("3.14") ** -2 + fractions.Fraction(1, 3) // 2
    yield lambda: fractions.Fraction(3.25).limit_denominator(3)
    yield lambda: fractions.Fraction(1, 0)
    yield lambda: fractions.Fraction("x")
    yield lambda: (statistics.quantiles([1, 5, 2, 8]), statistics.stdev([1.5, 2.5, 4]), statistics.mode("abca"))
    yield lambda: statistics.mean([])
    yield lambda: (heap.nsmallest(2, [3, 1, 2], key=lambda v: -v), list(heap.merge([1, 4], [2, 3], reverse=False)))
    yield lambda: strings.Formatter().vformat("{0!r:>{w}} {k[a].real}", ["x"], {"w": 5, "k": {"a": 1j}})
    yield lambda: strings.Formatter().format("{0} {}", 1)
    yield lambda: strings.Template("$a ${b} $$").substitute(a=1)
    yield lambda: strings.Template("$a ${b} $$ $").safe_substitute(a=1)


CORNERS = """
import contextlib

def finally_wins(n):
    for i in range(n):
        try:
            if i == 1:
                continue
            if i == 3:
                return i
            1 / (i - 2)
        except ZeroDivisionError as e:
            log = [str(e)]
        finally:
            if i == 4:
                break
    else:
        return "else"
    return "end"

def groups(which):
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), ExceptionGroup("h", [KeyError(3)])])
    except* ValueError as e:
        found = [repr(e)]
    except* (TypeError, KeyError) as e:
        if which:
            raise OSError("new") from e
        found.append(repr(e))
    return found

def inner(log):
    try:
        while True:
            try:
                log.append((yield len(log)))
            except ValueError as e:
                log.append(repr(e))
                yield "caught"
    finally:
        log.append("closed")

def outer(log):
    x = yield from inner(log)
    return x

def generators():
    log = []
    g = outer(log)
    out = [next(g), g.send("a"), g.throw(ValueError("v")), next(g)]
    g.close()
    g = outer(log)
    next(g)
    try:
        g.throw(KeyError("k"))
    except KeyError as e:
        out.append(repr(e))
    return out, log

class Awaitable:
    def __init__(self, value): self.value = value
    def __await__(self):
        got = yield self.value
        return got

@contextlib.asynccontextmanager
async def manager(log):
    log.append(await Awaitable("enter"))
    try:
        yield log
    except ZeroDivisionError:
        log.append(await Awaitable("error"))
    log.append("exit")

async def numbers(n):
    for i in range(n):
        yield i + await Awaitable("number")

async def work(log):
    async with manager(log) as l:
        async for i in numbers(3):
            l.append(i)
        l.append([i async for i in numbers(2) if i])
        1 / 0
    return log

def drive(coroutine):
    sent, i = [], 0
    try:
        while True:
            sent.append(coroutine.send(i or None))
            i += 1
    except StopIteration as e:
        return sent, e.value

def asynchronous():
    return drive(work([]))

def matches(value):
    match value:
        case {"kind": kind, **rest} if rest:
            return kind, rest
        case [first, *_, last] | (first, last):
            return first, last
        case str(s) | bytes(s):
            return s
        case complex(real=r, imag=0.0):
            return r
        case None | True:
            return "singleton"
    raise LookupError(value)

def closures(n, *args, k=[], **kw):
    total = 0
    def add(x, times=2):
        nonlocal total
        total += x * times
        def names(): return sorted(kw), args, k, total
        return names
    made = [add(i) for i in range(n)]
    del n
    table = {i: (lambda: i)() for i in range(3)}
    return [f() for f in made], table, {*args}, [(*args, *k)], f"{total!r:>5}|{total:{len(args)}}"

def unbound():
    try:
        x = 1
        del x
        return x
    finally:
        del unbound_too

def chained(a, b):
    assert a < b <= 9, (
        a
        and
        b
    )
    a, *b = b, \\
        a, 1
    return (a
            .real), b[
                5]

class Base:
    def m(self): return [type(self).__name__]

class Derived(Base):
    def m(self): return super().m() + [__class__.__name__, super(Derived, self).m()]
"""


def many_lines():
    """Jumps over more than 255 and more than 65,535 code units; the lengths around 256 one by one."""
    for size in [*range(35, 45), 6000]:
        lines = "\n".join(f"            t = t + x * {n % 7} - (t > {n})" for n in range(size))
        yield (
            size,
            f"""
def long(x):
    t = 0
    for i in range(3):
        if x > i:
{lines}
        try:
            if t > 100:
                return t, 1 / (x - 3)
        except ZeroDivisionError:
            continue
    return t
""",
        )


def corners(m):
    for n in (1, 2, 3, 4, 5):
        yield lambda n=n: m.finally_wins(n)
    yield lambda: m.groups(False)
    yield lambda: m.groups(True)
    yield m.generators
    yield m.asynchronous
    for value in ({"kind": 1}, {"kind": 1, "b": 2}, [1, 2, 3], (1, 2), "s", b"b", 1 + 0j, None, 5):
        yield lambda value=value: m.matches(value)
    yield lambda: m.closures(3, 1, 2, k=[4], z=1)
    yield m.unbound
    yield lambda: m.chained(1, 2)
    yield lambda: m.chained(2, 1)
    yield lambda: m.Derived().m()


def workloads(change):
    def named(*names):
        return [load(name, change) for name in names]

    yield "json.encoder", json_encoder(*named("json.encoder"))
    yield "json.decoder", json_decoder(*named("json.decoder", "json.scanner"))
    yield "textwrap", text_wrap(*named("textwrap"))
    yield "ast", syntax_trees(*named("ast"))
    yield "dataclasses", data_classes(*named("dataclasses"))
    yield "contextlib", context_managers(*named("contextlib"))
    yield "others", other(*named("difflib", "fractions", "statistics", "heapq", "string"))
    yield "corners", corners(load_source(CORNERS, change))
    for size, source in many_lines():
        long = load_source(source, change).long
        yield f"{size} lines", [functools.partial(long, x) for x in (-1, 0, 1, 2, 3, 100)]


def outcomes(change):
    for name, runs in workloads(change):
        for index, run in enumerate(runs):
            yield (name, index), outcome(run)


def check(round_trip):
    count, wrong, made = 0, [], set()

    def change(code):
        # What runs is ours and not the original.
        made.add(code.co_filename)
        back = round_trip(code)
        assert back is not code
        return back

    for (case, expected), (_, got) in zip(outcomes(lambda code: code), outcomes(change), strict=True):
        count += 1
        if expected != got:
            what = [pair for pair in zip(expected[1], got[1]) if pair[0] != pair[1]][:1]
            wrong.append((case, expected[0], got[0], what))
    assert len(made) >= 13, made
    return count, wrong
