"""What looks like a builtin and is not, what is asked before anything else, and what order comes of."""

import collections
import contextlib
import typing

import paddle
import paddle_sot_rs as sot
import pytest


class Span(typing.NamedTuple):
    start: int
    end: int

    def index(self, at):
        return self.start + at

    def count(self):
        return self.end - self.start

    def __len__(self):
        return 9

    def __add__(self, other):
        return "added"


class Window(typing.NamedTuple):
    start: int

    def index(self, at):
        return self.start + at


class Plain(typing.NamedTuple):
    a: int
    b: int


class OwnArgs(Exception):
    args = 5


class LooksUp(Exception):
    def __getattribute__(self, name):
        return "own" if name == "args" else super().__getattribute__(name)


class Sized(typing.Protocol):
    def size(self): ...


@typing.runtime_checkable
class Named(typing.Protocol):
    name: str


class Both(Sized, Named):
    name = "n"

    def size(self):
        return 1


class Calls:
    def __get__(self, obj, owner):
        return 41


class OwnGet(paddle.nn.Layer):
    def __get__(self, obj, owner):
        return 42


class Holder:
    a = OwnGet()
    b = Calls()


SPAN = Span(3, 8)
WINDOW = Window(3)
NAN = float("nan")


def orders(x):
    one = collections.OrderedDict(a=1, b=2)
    other = collections.OrderedDict(b=2, a=1)
    plain = {"b": 2, "a": 1}
    return (
        one == other,
        one != other,
        one == plain,
        plain == other,
        one in [other],
        (one,) == (other,),
        one == one.copy(),
    )


def named_tuples(x):
    made = Span(1, 2)
    return SPAN.index(7), SPAN.count(), len(SPAN), SPAN + (1,), made.index(2), len(made), made + made, made._asdict()


def indexes(x):
    return WINDOW.index(7), Window(1).index(3), WINDOW.count(3)


def plain_named_tuples(x):
    made = Plain(1, 2)
    return made.index(2), made.count(1), made._replace(a=3), made._asdict(), made._fields, len(made), made + made


def clause(classes):
    def function(x):
        try:
            raise KeyError("k")
        except classes:
            return 1

    return function


def removed(x):
    elements = set()
    elements.add(1)
    elements.add(9)
    elements.discard(1)
    elements.add(2)
    return list(elements)


def discarded(x):
    elements = {1, 2}
    elements.discard(5)
    try:
        elements.remove(6)
    except KeyError:
        return sorted(elements)


def arguments(x):
    one, two, three = OwnArgs(1), LooksUp(1), ValueError(1)
    return one.args, two.args, three.args


def protocols(x):
    return issubclass(Both, Named)


def protocols_of_instances(x):
    return isinstance(Both(), Sized)


def named_protocol(x):
    return isinstance(Both(), Named)


def wrong_partial(x):
    import functools

    return functools.partial(5)


def wrong_keyword(x):
    with contextlib.nullcontext(bad=5) as value:
        return value


def right_keyword(x):
    with contextlib.nullcontext(enter_result=5) as value:
        return value


def wrong_grad(x):
    with paddle.no_grad(foo=1):
        return 1


def wrong_shape(x):
    return paddle.shape(x, foo=1)


def wrong_cast(x):
    return typing.cast(int, 5, foo=1)


def far(x):
    return list(enumerate("ab", 2**63 - 1))


def bound(x):
    return Holder().a, Holder().b


def of_nan(x):
    return hash(NAN)


CASES = [
    orders,
    named_tuples,
    indexes,
    plain_named_tuples,
    clause(int),
    clause((KeyError, int)),
    clause(((ValueError, KeyError), TypeError)),
    clause((ValueError, KeyError)),
    removed,
    discarded,
    arguments,
    protocols,
    protocols_of_instances,
    named_protocol,
    wrong_partial,
    wrong_keyword,
    right_keyword,
    wrong_grad,
    wrong_shape,
    wrong_cast,
    far,
    bound,
    of_nan,
]


def answer(function, x):
    try:
        return function(x)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("ask", CASES, ids=lambda it: it.__name__)
def test_as_in_plain_python(ask):
    def function(x):
        return ask(x), x * 2

    def shown(result):
        return result if isinstance(result[0], type) else (result[0], result[1].tolist())

    x = paddle.ones([2])
    static = sot.to_static(function, min_graph_size=0)
    expected = shown(answer(function, x))
    for _ in range(2):
        assert shown(answer(static, x)) == expected


def test_methods_of_a_named_tuple_that_change():
    def function(x):
        return Plain(1, 2).index(2), x * 2

    x = paddle.ones([2])
    static = sot.to_static(function, min_graph_size=0)
    assert static(x)[0] == 1
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])
    Plain.index = lambda self, value: "patched"
    try:
        assert static(x)[0] == function(x)[0] == "patched"
    finally:
        del Plain.index
    assert static(x)[0] == 1


def test_the_hash_of_a_number_that_differs():
    def function(x, number):
        return hash(number), x * 2

    x = paddle.ones([2])
    static = sot.to_static(function, min_graph_size=0)
    for number in [1.5, 2.5, NAN, 3.5, 4]:
        assert static(x, number)[0] == hash(number)
