"""Two that become one object. See `changes.py`."""

# ruff: noqa: B008, B018, E721, UP042

import paddle
import pytest
from changes import X, cases, ns, run_case
from harness import translate
from paddle import nn

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

CASES, case = cases()


@case
def two_tensor_arguments():
    a, b = X + 1, X + 2

    def f(x, y=b):
        return x is y, x + y, x in [1, 2][:0]

    yield f
    yield (a, a)
    yield (a, b)
    yield (b, b)


@case
def tensor_is_a_parameter():
    net = nn.Linear(3, 3)
    w = paddle.ones([3, 3])
    yield lambda x, w=w: (w is net.weight, x @ w + net.bias, net(x))
    yield (X, net.weight)
    yield (X, w)


@case
def tensor_argument_is_in_closure_list():
    items = [X + 1, X + 2]
    yield lambda x: ([x is item for item in items], x + items[0])
    yield (items[0],)
    yield (items[1],)
    items[1] = items[0]
    yield (X,)


@case
def lists_in_a_dict():
    a, b = [1], [2]
    d = {"a": a, "b": b}

    def f(x):
        d["a"].append(7)
        n = sum(d["b"])
        d["a"].pop()
        return x * n

    yield f
    d["b"] = d["a"]
    yield
    d["b"] = [3]
    yield


@case
def dicts_in_lists():
    a, b = {"k": 1}, {"k": 2}
    items = [a, b]

    def f(x):
        items[0]["k"] += 1
        k = items[1]["k"]
        items[0]["k"] -= 1
        return x * k

    yield f
    items[1] = a
    yield


@case
def objects_in_attributes():
    a, b = ns(k=1), ns(k=2)
    box = ns(a=a, b=b)

    def f(x):
        box.a.k += 1
        k = box.b.k
        box.a.k -= 1
        return x * k, box.a is box.b

    yield f
    box.b = a
    yield
    box.b = ns(k=4)
    yield


@case
def object_argument_is_attribute_of_another():
    a = ns(k=1, other=None)
    b = ns(k=2, other=a)

    def f(x, one=ns(k=9), two=b):
        one.k += 1
        k = two.other.k
        one.k -= 1
        return x * k

    yield f
    yield (X, a, b)
    b.other = b
    yield (X, b, b)
    yield (X, a, b)


@case
def layer_argument_is_a_sublayer():
    inner = nn.Linear(3, 3)
    net = nn.Sequential(inner, nn.ReLU())
    yield lambda x, one=nn.Linear(3, 3): (one is net[0], net(x) + one(x))
    yield (X, inner)
    yield (X, net[1])


@case
def unread_list_is_another():
    a, b = [1], [2]

    def f(x, one=a, two=b):
        one.append(5)
        n = len(two)
        one.pop()
        return x * n

    yield f
    yield (X, a, a)
    yield (X, b, a)


@case
def unread_list_only_appended():
    a, b = [1], [2]

    def f(x, one=a, two=b):
        one.append(x)
        two.append(1)
        return len(one), len(two)

    translated = translate(f)
    for one, two in ((a, b), (a, a), (b, a), (b, b)):
        one.clear()
        two.clear()
        expected = f(X, one, two)
        one.clear()
        two.clear()
        assert translated(X, one, two) == expected
    yield lambda x: x


@case
def function_arguments_that_are_one():
    def a(x):
        return x + 1

    def b(x):
        return x + 2

    yield lambda x, f=a, g=b: (f is g, f == g, f(g(x)))
    yield (X, a, a)
    yield (X, b, b)
    a.k = 1
    yield (X, b, a)


@case
def nested_function_is():
    def a():
        return 1

    def f(x, g=a):
        def own():
            return 1

        return x * 2, g is own, g == own, g is a

    yield f
    yield (X, lambda: 1)


@pytest.mark.parametrize("steps", CASES)
def test_change(steps):
    run_case(steps)


def test_a_dictionary_becomes_that_of_an_object():
    class Box:
        def __init__(self, number):
            self.number = number

    def write_the_dict(table, box, x):
        table["number"] = 2
        box.number += 3
        return x * box.number

    def write_the_object(table, box, x):
        box.number = 5
        return x * table["number"]

    def read_the_object(table, box, x):
        table["number"] = 7
        return x * box.number

    for function in (write_the_dict, write_the_object, read_the_object):
        translated, kept = translate(function), []
        for same in (False, False, True, False, True, True) * 20:
            found = []
            for call in (function, translated):
                box = Box(4)
                table = vars(box) if same else {"number": 4}
                found.append((call(table, box, paddle.ones([2])).tolist(), box.number, table["number"]))
                # The next object lies where this one did, its dictionary elsewhere.
                kept.append(vars(box))
                del box
            assert found[0] == found[1], (function.__name__, same)
