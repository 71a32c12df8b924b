"""Small functions, each compared with plain Python, with the graphs and breaks it must take."""

import collections
import contextlib
import dataclasses
import functools
import math

import numpy as np
import paddle
import pytest
from paddle import nn
from support import check


def tensor(*shape, seed=0):
    return paddle.to_tensor(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


X, Y = tensor(3, 4), tensor(3, 4, seed=1)
GLOBAL = 3


def helper(x, scale=2.0, *rest, shift=0.0, **options):
    return x * scale + shift + len(rest) + len(options)


class Point:
    kind = "point"

    def __init__(self, x, y):
        self.x, self.y = x, y

    @property
    def total(self):
        return self.x + self.y

    @classmethod
    def origin(cls, like):
        return cls(like * 0, like * 0)

    @staticmethod
    def twice(x):
        return x * 2

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    def __call__(self, x):
        return x * self.x


class Point3(Point):
    def __init__(self, x, y, z):
        super().__init__(x, y)
        self.z = z

    @property
    def total(self):
        return super().total + self.z


@dataclasses.dataclass
class Pair:
    left: object
    right: object = None
    names: list = dataclasses.field(default_factory=list)


Named = collections.namedtuple("Named", "a b")


def one_graph(function):
    return pytest.param(function, id=function.__name__)


def arithmetic(x, y):
    return (x + y) * 2 - x / 3 @ y.T if False else (x + y) * 2 - x / 3


def reflected(x, y):
    return 1 - x + 2 / (y * y + 1) + 3 * x


def comparison(x, y):
    return x > y, x == y, 0.5 < x


def matmul(x, y):
    return x @ y.T


def slicing(x, y):
    return x[0], x[1:, ::2], y[..., -1], x[:, None]


def containers(x, y):
    items = [x, y]
    items.append(x + y)
    first, *rest = items
    table = {"a": first, "b": rest}
    table["c"] = table.pop("a")
    return items, table, (x, [y])


def nested_dict(x, y):
    return {"x": {"y": [x + 1]}, "z": y}


def comprehension(x, y):
    return [x * i for i in range(3) if i != 1], {k: y + k for k in (1, 2)}, sum(x + i for i in range(3))


def loop(x, y):
    for i, (a, b) in enumerate(zip([x, y], [y, x])):
        x = x + a * i + b
    while i < 3:
        i += 1
        x = x + i
    return x


def closure(x, y):
    def inner(z):
        return z + y

    return inner(x)


def nonlocal_counter(x, y):
    count = 0

    def bump():
        nonlocal count
        count += 1
        return x + count

    return bump() + bump(), count


def call_forms(x, y):
    args, options = (2.0, 1, 2), {"shift": 1.0, "other": 5}
    return helper(x), helper(x, 3.0), helper(x, *args, **options), helper(scale=4.0, x=y)


def lambdas(x, y):
    return (lambda a, b=y: a + b)(x)


def classes(x, y):
    point = Point(x, y) + Point.origin(x)
    return point.total, point.kind, Point.twice(x), point(y)


def inheritance(x, y):
    return Point3(x, y, x).total


def dataclass_(x, y):
    pair = Pair(x, right=y)
    pair.names.append("n")
    return pair.left + pair.right, pair.names


def named_tuple(x, y):
    value = Named(x, b=y)
    a, b = value
    return value.a + b, value


def with_no_grad(x, y):
    with paddle.no_grad():
        z = x * 2
    return z + y, z.stop_gradient


def try_except(x, y):
    try:
        z = {}["missing"]
    except KeyError:
        z = x
    finally:
        w = y
    return z + w


def raise_and_catch(x, y):
    try:
        raise ValueError("no")
    except (TypeError, ValueError) as error:
        return x + len(error.args)


def conditional(x, y):
    if x.shape[0] == 3 and GLOBAL > 2:
        return x + y
    return x - y


def metadata(x, y):
    return x.shape, x.ndim, x.dtype == paddle.float32, x.size, len(x), x.dim()


def formatting(x, y):
    return x + 1, f"{x.shape[0]:>4}|{'a'!r}", "%d" % 3, "{}".format(2.5)  # noqa: UP031, UP032


def builtins_(x, y):
    return (
        x + max(1, 2) + min([3, 4]) + abs(-2) + sum([1, 2]) + len("ab"),
        sorted([3, 1, 2], reverse=True),
        list(map(lambda i: i * 2, [1, 2])),
        list(filter(None, [0, 1])),
        any([0, 1]),
        all([]),
        isinstance(x, paddle.Tensor),
        math.sqrt(4.0),
        list(reversed([1, 2])),
        divmod(7, 2),
    )


def strings(x, y):
    return x, ["a", "b"], "x".join(["1", "2"]), "abc".upper()[::-1], "b" in "abc"


def generator(x, y):
    def items():
        yield x
        yield y

    return [item + 1 for item in items()]


def partial_(x, y):
    return functools.partial(helper, scale=3.0)(x)


def reduce_(x, y):
    return functools.reduce(lambda a, b: a + b, [x, y, x])


def ternary_none(x, y):
    z = None
    return (x if z is None else y) + (z or 1)


def star_unpack(x, y):
    a, *b = (x, y, x)
    return [*b, a], {"k": a}


def swap(x, y):
    x, y = y, x
    return x, y


def identity(x, y):
    return x, y, x


def aliases(x, y):
    items = [x + 1]
    return items, items


def walrus(x, y):
    if (n := len([1, 2])) > 1:
        x = x * n
    return x


def functional(x, y):
    return nn.functional.relu(x), nn.functional.softmax(y, axis=-1), paddle.concat([x, y], axis=0)


def multiple_outputs(x, y):
    a, b = paddle.split(x, 2, axis=1)
    values, indices = paddle.topk(y, 2)
    return a, b, values, indices


def creation(x, y):
    return paddle.zeros([2]) + 1, paddle.arange(4), paddle.full([2, 2], 3.0), paddle.ones_like(x)


def dropout(x, y):
    return nn.functional.dropout(x, 0.5), paddle.rand([2])


def isinstance_chain(x, y):
    return x + (1 if isinstance([], (list, tuple)) else 2) + hasattr(x, "reshape") + getattr(Point, "nope", 5)


def null_context(x, y):
    with contextlib.nullcontext(y) as z:
        return x + z


def early_return_in_loop(x, y):
    for i in range(10):
        if i == 2:
            return x + i
    return y


def chained_comparison(x, y):
    return x + (1 < 2 < 3)


def set_operations(x, y):
    return x + len({1, 2} | {2, 3} if False else {1, 2})


def dict_iteration(x, y):
    total = x
    for key, value in {"a": x, "b": y}.items():
        total = total + value + len(key)
    return total


def tensor_iteration(x, y):
    return [row * 2 for row in x]


def everything(x, y):
    def scaled(value, by=2.0):
        return value * by

    total = x
    with paddle.no_grad():
        bias = y.mean()
    try:
        for i in range(2):
            total = total + sum(scaled(v) for v in [x, y]) * i
    finally:
        total = total + bias
    return total


ONE_GRAPH = [
    arithmetic, reflected, comparison, matmul, slicing, containers, nested_dict, comprehension, loop, closure,
    nonlocal_counter, call_forms, lambdas, classes, inheritance, dataclass_, named_tuple, with_no_grad, try_except,
    raise_and_catch, conditional, formatting, builtins_, generator, partial_, reduce_, ternary_none, walrus,
    functional, multiple_outputs, creation, dropout, isinstance_chain, null_context, early_return_in_loop,
    chained_comparison, set_operations, dict_iteration, tensor_iteration, everything, aliases,
]  # fmt: skip
NO_GRAPH = [metadata, strings, star_unpack, swap, identity]


@pytest.mark.parametrize("function", map(one_graph, ONE_GRAPH))
def test_is_one_graph_and_equals_eager(function):
    check(function, X, Y, graphs=1, breaks=0)


@pytest.mark.parametrize("function", map(one_graph, NO_GRAPH))
def test_needs_no_graph_and_equals_eager(function):
    check(function, X, Y, graphs=0, breaks=0)


def test_returned_arguments_are_the_same_objects():
    import paddle_sot_rs as sot

    a, b = sot.to_static(swap)(X, Y)
    assert a is Y and b is X


def test_two_names_for_one_list_stay_one_list():
    import paddle_sot_rs as sot

    a, b = sot.to_static(aliases, min_graph_size=0)(X, Y)
    assert a is b
