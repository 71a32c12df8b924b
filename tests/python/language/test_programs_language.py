"""The Python language in one graph: locals, calls, containers, classes, contexts, exceptions, loops. (PYTEST_DONT_REWRITE)"""

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import operator
import types

import paddle
import pytest
from harness import Programs, check, tensor

program = Programs()
X, Y = tensor(3, 4), tensor(3, 4, seed=1)
G = tensor(3, 4, seed=2, grad=True)


@program(X, Y, graphs=1, breaks=0)
def positional_and_keyword_only(x, y):
    def f(a, /, b, *, c, d=4):
        return a + b * c - d

    return f(x, y, c=2), f(x, b=y, c=3, d=5)


@program(X, Y, graphs=1, breaks=0)
def star_arguments_of_every_kind(x, y):
    def f(*args, **kwargs):
        return args, kwargs

    first = f(x + 1, *[y], *(3,), k=1, **{"z": 2}, **{"w": 3})
    second = f(*(), **{})
    return first, second


@program(X, Y, graphs=1, breaks=0)
def defaults_are_evaluated_once(x, y):
    def f(a, seen=[]):  # noqa: B006
        seen.append(len(seen))
        return a + len(seen), list(seen)

    return f(x), f(y)


@program(X, Y, graphs=1, breaks=0)
def closures_share_cells(x, y):
    total = x

    def add(value):
        nonlocal total
        total = total + value

    def read():
        return total

    add(y)
    add(1)
    return read()


@program(X, Y, graphs=1, breaks=0)
def late_binding_in_loops(x, y):
    return [f(x) for f in [lambda v: v + i for i in range(3)]]


@program(X, Y, graphs=1, breaks=0)
def closures_over_loop_defaults(x, y):
    return [f(x) for f in [lambda v, i=i: v + i for i in range(3)]]


@program(X, Y, graphs=1, breaks=0)
def recursion(x, y):
    def power(value, n):
        return value if n == 0 else power(value * y, n - 1)

    return power(x, 4)


@program(X, Y, fallbacks=None)
def decorated_functions(x, y):
    def twice(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            return f(f(*args, **kwargs))

        return inner

    @twice
    def step(value):
        return value * 2 + y

    return step(x), step.__name__


@program(X, Y, graphs=1, breaks=0)
def nested_comprehensions(x, y):
    table = {i: [x * i + j for j in range(i)] for i in range(4) if i % 2}
    return table, {i for i in range(3)}, [k for k in table]


@program(X, Y, graphs=1, breaks=0)
def generator_expressions(x, y):
    return sum(v * i for i, v in enumerate((x, y), start=1)), tuple(v + 1 for v in (x, y))


@program(X, Y, graphs=1, breaks=0)
def generators_with_send_order(x, y):
    log = []

    def source():
        log.append("start")
        yield x
        log.append("middle")
        yield y
        log.append("end")

    total = x * 0
    for value in source():
        log.append("body")
        total = total + value
    return total, log


@program(X, Y, fallbacks=None)
def yield_from(x, y):
    def inner():
        yield x
        return y

    def outer():
        last = yield from inner()
        yield last + 1

    return list(outer())


@program(X, Y, graphs=1, breaks=0)
def zip_enumerate_reversed(x, y):
    out = []
    for i, (a, b) in enumerate(zip(reversed([x, y]), [1, 2], strict=True)):
        out.append(a * b + i)
    return out


@program(X, Y, fallbacks=None)
def itertools_functions(x, y):
    pairs = list(itertools.product([1, 2], [3, 4]))
    chained = list(itertools.chain([x], [y]))
    return sum(a * b for a, b in pairs) + chained[0] + chained[1], list(itertools.islice([1, 2, 3], 2))


@program(X, Y, graphs=1, breaks=0)
def list_methods(x, y):
    items = [3, 1, 2]
    items.sort()
    items.extend([7])
    items.insert(0, 9)
    items.remove(2)
    items.reverse()
    popped = items.pop()
    return x + popped, items, items.index(3), items.count(7), items[1:] + [1], [0] * 3


@program(X, Y, graphs=1, breaks=0)
def dict_methods(x, y):
    table = {"a": x, "b": y}
    table.update(c=x + 1)
    table |= {"d": 4}
    missing = table.get("zz", 5)
    table.setdefault("e", 6)
    del table["b"]
    key, value = table.popitem()
    return table, missing, key, value, list(table), "a" in table, len(table)


@program(X, Y, graphs=1, breaks=0)
def dict_order_follows_insertion(x, y):
    table = {"a": 1, "b": 2}
    table["a"] = 3
    table["c"] = 4
    del table["a"]
    table["a"] = 5
    return x + sum(table.values()), list(table.items())


@program(X, Y, fallbacks=None)
def default_and_ordered_dicts(x, y):
    groups = collections.defaultdict(list)
    groups["k"].append(x + 1)
    groups["k"].append(y)
    order = collections.OrderedDict(a=1)
    order["b"] = 2
    return dict(groups), list(order)


@program(X, Y, fallbacks=None)
def set_methods(x, y):
    a, b = {1, 2, 3}, {2, 3, 4}
    return x + len(a & b), a | b, a - b, a ^ b, 2 in a, a <= b


@program(X, Y, graphs=1, breaks=0)
def slices_of_lists_and_tuples(x, y):
    items = [x, y, x + 1]
    items[0:2] = [y]
    del items[-1]
    return items, (1, 2, 3)[::-1], [1, 2, 3, 4][1::2]


@program(X, Y, graphs=1, breaks=0)
def unpacking(x, y):
    (a, (b, *c)), d = (x, (y, 1, 2)), 3
    *init, last = [a, b]
    return a + b + d, c, init, last


@program(X, Y, graphs=1, breaks=0)
def augmented_assignment_of_locals(x, y):
    n = 1
    n += 2
    n *= 3
    n -= 1
    n //= 2
    n **= 2
    n %= 7
    n <<= 2
    n |= 1
    n ^= 3
    n &= 14
    return x + n


@program(X, Y, graphs=1, breaks=0)
def integer_arithmetic_is_unbounded(x, y):
    big = 2**63 + 1
    return x + 1, big * big, -7 // 2, -7 % 3, 7 % -3, divmod(-7, 2), 1 << 70


@program(X, Y, graphs=1, breaks=0)
def float_arithmetic(x, y):
    zero, nan, inf = -0.0, float("nan"), float("inf")
    return x + 1, zero, nan != nan, inf - 1, round(2.5), round(2.675, 2), 1e308 * 10, 0.1 + 0.2


@program(X, Y, graphs=1, breaks=0)
def string_formatting(x, y):
    width, value = 8, 3.14159
    return (
        x + 1,
        f"{value:{width}.2f}|{'a'!r:>5}|{1_000_000:,}|{x.shape}",
        "%s-%05d" % ("k", 7),
        f"{1}{2}",
    )  # noqa: UP030, UP031, UP032


@program(X, Y, graphs=1, breaks=0)
def string_methods(x, y):
    text = " Layer.3.weight "
    parts = text.strip().split(".")
    return x + int(parts[1]), "-".join(parts), text.lower().startswith(" l"), parts[0].replace("L", "l"), "a" * 3


@program(X, Y, graphs=1, breaks=0)
def boolean_logic_returns_operands(x, y):
    return x + 1, 0 or "a", [] and 1, not [], None or 0, 1 and 2 and 3


@program(X, Y, graphs=1, breaks=0)
def identity_and_membership(x, y):
    z = x
    return x + y, z is x, z is not y, None is None, 3 in (1, 2, 3), "b" not in {"a": 1}


@program(X, Y, fallbacks=None)
def match_statement(x, y):
    def pick(value):
        match value:
            case {"k": [a, *rest], **others}:
                return a, rest, others
            case (1 | 2) as n if n > 1:
                return n
            case str(text):
                return text
            case [first, _]:
                return first
            case _:
                return None

    return x + 1, pick({"k": [1, 2], "z": 3}), pick(2), pick("s"), pick([x, y]), pick(1.5)


class Point:
    """A user class with class attributes, properties, class and static methods."""

    kind = "point"
    __slots__ = ("__dict__",)

    def __init__(self, x, y):
        self.x = x
        self.y = y

    @property
    def total(self):
        return self.x + self.y

    @total.setter
    def total(self, value):
        self.x = value - self.y

    @classmethod
    def of(cls, both):
        return cls(both, both)

    @staticmethod
    def scale(value, by=2):
        return value * by

    def __add__(self, other):
        return type(self)(self.x + other.x, self.y + other.y)

    def __getitem__(self, index):
        return (self.x, self.y)[index]

    def __len__(self):
        return 2

    def __iter__(self):
        yield self.x
        yield self.y

    def __contains__(self, item):
        return item == "x"

    def __call__(self, value):
        return value + self.x

    def __eq__(self, other):
        return isinstance(other, Point) and self.kind == other.kind

    def __hash__(self):
        return 7

    def __bool__(self):
        return False


class Point3(Point):
    kind = "point3"

    def __init__(self, x, y, z):
        super().__init__(x, y)
        self.z = z

    @property
    def total(self):
        return super().total + self.z


class Lazy:
    def __getattr__(self, name):
        if name == "missing":
            raise AttributeError("no missing here")
        return len(name)


@program(X, Y, graphs=1, breaks=0)
def user_class_protocols(x, y):
    p = Point(x, y) + Point.of(x)
    a, b = p
    return a + b, p[0], len(p), "x" in p, p(y), p == Point(1, 2), bool(p), p.kind, Point.scale(x)


@program(X, Y, graphs=1, breaks=0)
def property_setters(x, y):
    p = Point(x, y)
    p.total = x * 3
    return p.x, p.total


@program(X, Y, graphs=1, breaks=0)
def inheritance_and_super(x, y):
    p = Point3(x, y, 1)
    return p.total, p.kind, isinstance(p, Point), issubclass(Point3, Point), type(p).__name__


@program(X, Y, graphs=1, breaks=0)
def objects_can_be_returned(x, y):
    p = Point(x + 1, y)
    return p, [p]


@program(X, Y, graphs=1, breaks=0)
def dynamic_attributes(x, y):
    lazy = Lazy()
    lazy.real = 3
    return x + lazy.abc + lazy.real, hasattr(lazy, "missing"), getattr(lazy, "missing", 8)


@program(X, Y, fallbacks=None)
def setattr_and_delattr(x, y):
    p = Point(x, y)
    setattr(p, "w", 5)  # noqa: B010
    del p.x
    return y + p.w, hasattr(p, "x"), sorted(vars(p))


@dataclasses.dataclass
class Config:
    width: int = 3
    names: list = dataclasses.field(default_factory=list)
    scale: float = 2.0

    def apply(self, x):
        return x * self.scale + self.width


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    a: int
    b: int = 2


@program(X, Y, graphs=1, breaks=0)
def dataclasses_(x, y):
    config = Config(names=["a"])
    return config.apply(x), config.names, Frozen(1) == Frozen(1, 2), Frozen(1).b


class Mode(enum.Enum):
    TRAIN = 1
    TEST = 2


class Size(enum.IntEnum):
    SMALL = 4


@program(X, Y, fallbacks=None)
def enums(x, y):
    mode = Mode.TRAIN
    return x + (1 if mode is Mode.TRAIN else 2) + Size.SMALL, mode == Mode.TEST, mode.name, Mode(2).value


Named = collections.namedtuple("Named", "a b", defaults=[3])


@program(X, Y, fallbacks=None)
def named_tuples(x, y):
    n = Named(x)
    return n.a + n.b, n._replace(b=y), n._fields, Named(*[1, 2])


@program(X, Y, fallbacks=None)
def operator_functions(x, y):
    return (
        operator.add(x, y),
        operator.itemgetter(1)([x, y]),
        operator.attrgetter("kind")(Point),
        functools.reduce(operator.mul, [x, y, 2]),
    )


@program(X, Y, graphs=1, breaks=0)
def map_filter_sorted(x, y):
    rows = sorted([("b", 2), ("a", 1)], key=lambda row: row[1])
    return x + sum(map(lambda r: r[1], rows)), list(filter(lambda v: v > 1, [1, 2, 3])), max(rows, key=len), rows


@program(X, Y, graphs=1, breaks=0)
def partials(x, y):
    def f(a, b, c=1):
        return a * b + c

    g = functools.partial(f, y, c=3)
    return g(x), functools.partial(g, c=5)(x)


@program(X, Y, graphs=1, breaks=0)
def bound_methods_as_values(x, y):
    p = Point(x, y)
    method = p.__call__
    append = [].append
    append(1)
    return method(y), p.total


@program(X, Y, graphs=1, breaks=0)
def while_with_break_continue_else(x, y):
    i, seen = 0, []
    while i < 10:
        i += 1
        if i % 2:
            continue
        if i > 6:
            break
        seen.append(i)
        x = x + i
    else:
        x = x * 0
    for _ in range(2):
        pass
    else:
        x = x + 0.5
    return x, seen


@program(X, Y, graphs=1, breaks=0)
def try_else_finally(x, y):
    log = []
    for key in ("a", "b"):
        try:
            value = {"a": 1}[key]
        except KeyError as error:
            log.append(("caught", error.args))
            value = 2
        else:
            log.append("fine")
        finally:
            log.append(key)
        x = x * value
    return x, log


@program(X, Y, fallbacks=None)
def nested_handlers_and_reraise(x, y):
    log = []
    try:
        try:
            raise ValueError("inner")
        except ValueError:
            log.append(1)
            raise
        finally:
            log.append(2)
    except (KeyError, ValueError) as error:
        log.append(str(error))
    return x + len(log), log


@program(X, Y, graphs=1, breaks=0)
def return_in_finally_path(x, y):
    def f(value):
        try:
            return value + 1
        finally:
            log.append("left")

    log = []
    return f(x), log


@program(X, Y, fallbacks=None)
def exception_chaining(x, y):
    try:
        try:
            raise KeyError("k")
        except KeyError as error:
            raise RuntimeError("r") from error
    except RuntimeError as error:
        return x + 1, type(error.__cause__).__name__, error.__suppress_context__


class Failure(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


@program(X, Y, fallbacks=None)
def user_exceptions(x, y):
    try:
        raise Failure(3)
    except Failure as failure:
        return x + failure.code, str(failure)


@contextlib.contextmanager
def logged(log):
    log.append("enter")
    try:
        yield 2
    finally:
        log.append("exit")


class Manager:
    def __init__(self, swallow):
        self.swallow = swallow
        self.log = []

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(None if kind is None else kind.__name__)
        return self.swallow


@program(X, Y, fallbacks=None)
def context_managers_of_users(x, y):
    with Manager(True) as m:
        x = x + 1
        raise ValueError("swallowed")
    return x, m.log


@program(X, Y, fallbacks=None)
def contextlib_managers(x, y):
    log = []
    with logged(log) as n, contextlib.suppress(KeyError):
        x = x * n
    return x, log


@program(X, Y, graphs=1, breaks=0)
def several_contexts(x, y):
    with paddle.no_grad(), Manager(False) as m:
        z = x * y
    return z + 1, m.log


@program(G, Y, graphs=1, breaks=0)
def no_grad_inside(x, y):
    with paddle.no_grad():
        a = x * 2
    with paddle.enable_grad():
        b = x * 3
    return a, b, a.stop_gradient, b.stop_gradient


@paddle.no_grad()
def frozen(value):
    return value * 5


@program(G, Y, graphs=1, breaks=0)
def no_grad_decorator(x, y):
    return frozen(x) + x


@program(X, Y, graphs=1, breaks=0)
def assertions(x, y):
    assert x.shape == [3, 4], "shape"
    assert isinstance(y, paddle.Tensor)
    return x + y


@program(X, Y, fallbacks=None)
def type_tests(x, y):
    return x + 1, type(x) is paddle.Tensor, isinstance(3, int | str), isinstance(True, int), callable(len), float


@program(X, Y, fallbacks=None)
def global_constants_and_modules(x, y):
    return x + len(paddle.__version__.split(".")), operator.__name__, Mode.__members__.keys() == {"TRAIN", "TEST"}


@program(X, Y, graphs=1, breaks=0)
def conversions(x, y):
    return x + int("3") + float("2.5"), bool([]), str(3), list("ab"), tuple([1]), dict(a=1), set([1]), bytes(2)  # noqa: C405, C408, C409


@program(X, Y, fallbacks=None)
def locals_may_be_unbound_on_one_side(x, y):
    if x.shape[0] > 100:
        z = y
    try:
        return x + z
    except UnboundLocalError as error:
        return x + 1, type(error).__name__


@program(X, Y, graphs=1, breaks=0)
def deleted_locals(x, y):
    z = x + 1
    del z
    z = y
    return z + 1


@program(X, Y, graphs=1, breaks=0)
def long_functions_need_extended_arguments(x, y):
    values = [
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
        x, x, x, x, x, x, x, x, x, x, y, y, y, y, y, y, y, y, y, y, x, x, x, x, x, x, x, x, x, x, y, y, y, y, y, y, y,
    ]  # fmt: skip
    for value in values:
        if isinstance(value, int):
            if value % 3 == 0:
                x = x + value
            elif value % 3 == 1:
                x = x - value
            else:
                x = x * 1.01
        else:
            x = x + value
    return x


@program(X, Y, graphs=1, breaks=0)
def star_expressions_in_returns(x, y):
    rest = [y, 1]
    return x + 1, *rest, *(2, 3)


@program(X, Y, graphs=1, breaks=0)
def lambda_in_container(x, y):
    table = {"relu": paddle.nn.functional.relu, "double": lambda v: v * 2}
    for name in ("relu", "double"):
        x = table[name](x)
    return x


@program(X, Y, fallbacks=None)
def classes_made_inside(x, y):
    class Local:
        factor = 3

        def run(self, value):
            return value * self.factor

    return Local().run(x)


@program(X, Y, graphs=1, breaks=0)
def singledispatch_like_tables(x, y):
    handlers = {int: lambda v: x + v, str: lambda v: y + len(v)}
    return [handlers[type(v)](v) for v in (1, "abc")]


@program(X, Y, graphs=1, breaks=0)
def generators_kept_half_way(x, y):
    def numbers():
        yield 1
        yield 2
        yield 3

    source = numbers()
    first = next(source)
    rest = list(source)
    return x + first, rest, next(source, "end")


@program(X, Y, graphs=1, breaks=0)
def iterators_share_progress(x, y):
    it = iter([1, 2, 3, 4])
    pairs = list(zip(it, it, strict=False))
    return x + pairs[1][0], pairs


class Settings(types.SimpleNamespace):
    scale = 3

    def scaled(self, x):
        return x * self.scale * self.gain


@program(X, types.SimpleNamespace(gain=2, inner=types.SimpleNamespace(bias=G), steps=[]), graphs=1, breaks=0)
def simple_namespaces(x, settings):
    settings.steps.append(settings.gain)
    settings.last = x * settings.gain + settings.inner.bias
    settings.gain += 1
    settings.inner.name = "inner"
    missing = hasattr(settings, "other"), getattr(settings, "other", 5)
    del settings.inner.name
    return settings.last, missing, settings.inner is settings.inner, isinstance(settings, types.SimpleNamespace)


@program(X, Settings(gain=2), graphs=1, breaks=0)
def classes_on_simple_namespaces(x, settings):
    settings.result = settings.scaled(x)
    settings.scale = 7
    return settings.scaled(x), settings


class Checked:
    def __init__(self, kind):
        self.kind = kind

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, owned, owner=None):
        if owned is None:
            return self
        owned.log.append(f"get {self.name}")
        return getattr(owned, f"_{self.name}")

    def __set__(self, owned, value):
        owned.log.append(f"set {self.name}")
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name}: {type(value).__name__}")
        setattr(owned, f"_{self.name}", value)

    def __delete__(self, owned):
        owned.log.append(f"delete {self.name}")
        delattr(owned, f"_{self.name}")


class Owned:
    weight = Checked(paddle.Tensor)
    count = Checked(int)

    def __init__(self, weight, count):
        self.log = []
        self.weight = weight
        self.count = count

    @property
    def state(self):
        return self._state

    @state.setter
    def state(self, value):
        self.log.append("set state")
        self._state = value

    @state.deleter
    def state(self):
        self.log.append("delete state")
        del self._state


@program(X, Owned(G, 2), graphs=1, breaks=0)
def descriptors_that_are_set_and_deleted(x, owned):
    made = Owned(x, owned.count)
    made.count += 1
    made.weight = made.weight * made.count
    owned.state = made.weight
    owned.weight = owned.state + 1
    del made.count, owned.state
    return made, owned, hasattr(made, "count"), hasattr(owned, "state"), owned.weight


@program(X, fallbacks=None)
def descriptors_that_refuse(x):
    owned = Owned(x + 1, 1)
    owned.count = 2.5


@pytest.mark.parametrize(("function", "args", "expectations"), program)
def test_equals_eager(function, args, expectations):
    check(function, *args, **expectations)
