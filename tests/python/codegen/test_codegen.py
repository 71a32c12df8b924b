"""Generated code rebuilds values: aliasing, cycles, cells, iterators, and whatever is on the stack."""

import collections
import functools
import traceback

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from support import check

X = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3))
Point = collections.namedtuple("Point", "a b")


def translate(function):
    return sot.to_static(function, min_graph_size=0)


class Node:
    def __init__(self, value):
        self.value = value
        self.next = None


def shared_tuple(x):
    pair = (x + 1,)
    return pair, pair


def shared_list(x):
    items = [x + 1]
    return {"a": items, "b": [items]}


def list_in_itself(x):
    items = [x + 1]
    items.append(items)
    return items


def dict_in_itself(x):
    table = {"x": x + 1}
    table["me"] = (table,)
    return table


def objects_in_a_ring(x):
    a, b = Node(x + 1), Node(2)
    a.next, b.next = b, a
    return a


def input_comes_back(x, y):
    z = x + y
    return x, z, y


def test_one_tuple_in_two_places_is_one_tuple():
    result = translate(shared_tuple)(X)
    assert result[0] is result[1]


def test_one_list_in_two_places_is_one_list():
    result = translate(shared_list)(X)
    assert result["a"] is result["b"][0]


def test_a_list_can_contain_itself():
    function = translate(list_in_itself)
    for _ in range(2):
        result = function(X)
        assert result[1] is result
        assert len(result) == 2


def test_a_dict_can_contain_itself_through_a_tuple():
    result = translate(dict_in_itself)(X)
    assert result["me"][0] is result


def test_objects_in_a_ring():
    result = translate(objects_in_a_ring)(X)
    assert result.next.next is result
    assert result.next.value == 2


def test_an_input_that_is_returned_is_the_same_object():
    y = X * 2
    result = translate(input_comes_back)(X, y)
    assert result[0] is X
    assert result[2] is y


def recursive_closure(x):
    def down(n):
        return x if n == 0 else down(n - 1) + 1

    print(float(x.sum()))
    return down(3)


def returned_closure(x):
    count = 0

    def bump():
        nonlocal count
        count += 1
        return count

    print(float(x.sum()))
    bump()
    return bump() + count, x


def empty_cell(x):
    def late():
        return y

    print(float(x.sum()))
    y = x + 1
    return late()


def function_with_everything(x):
    def inner(a, b=2, *, c=3) -> int:
        return a + b + c

    inner.tag = "t"
    print(float(x.sum()))
    return x + inner(1), inner.tag, inner.__defaults__, inner.__kwdefaults__, inner.__name__


def partial_and_method(x):
    add = functools.partial(int.__add__, 2)
    join = "-".join
    print(float(x.sum()))
    return x + add(3), join(["a", "b"])


def stack_below_a_break(x):
    return (x + 1, [x * 2, {"k": (x - 1, float(x.sum()))}], 3)


def keywords_below_a_break(x):
    return dict(a=x + 1, b=float(x.sum()), c=(x * 2).sum())


def named_tuple_across_a_break(x):
    point = Point(x + 1, b=2)
    print(float(x.sum()))
    return point, point.a


def kinds_across_a_break(x):
    span, numbers, letters = slice(1, 3), range(2, 9, 3), {"a", "b"}
    frozen = frozenset([1, 2])
    ordered = collections.OrderedDict(a=1, b=x + 1)
    print(float(x.sum()))
    return list(range(5))[span], list(numbers), letters, frozen, ordered


def iterators_across_a_break(x):
    result = []
    items = [1, 2, 3, 4]
    walk, back, zipped = iter(items), reversed(items), zip(items, "abcd")
    next(walk), next(back), next(zipped)
    numbered = enumerate(items, 5)
    next(numbered)
    print(float(x.sum()))
    items.append(9)
    result += [list(walk), list(back), list(zipped), list(numbered)]
    return result, x


def dict_iterators_across_a_break(x):
    table = {"a": 1, "b": 2, "c": 3}
    keys, values, pairs = iter(table), iter(table.values()), iter(table.items())
    next(keys), next(values), next(pairs)
    print(float(x.sum()))
    table["b"] = 7
    return list(keys), list(values), list(pairs), x


def dict_grows_under_its_iterator(x):
    table = {"a": 1, "b": 2}
    keys = iter(table)
    next(keys)
    print(float(x.sum()))
    table["c"] = 3
    return list(keys)


def argument_iterated_and_grown(x, items):
    seen = []
    for item in items:
        if len(items) < 5:
            items.append(item + 1)
        print(float(x.sum()))
        seen.append(item)
    return seen, x


def dict_argument_iterated(x, table):
    table["new"] = x + 1
    total = x * 0
    for key, value in table.items():
        print(key)
        total = total + value
    return total


def map_and_filter_across_a_break(x):
    doubled = map(lambda n: n * 2, [1, 2, 3])
    odd = filter(lambda n: n % 2, [1, 2, 3, 4])
    next(doubled)
    print(float(x.sum()))
    return list(doubled), list(odd), x


def tensor_rows_across_a_break(x):
    total = paddle.zeros([3])
    for row in x:
        print(float(row.sum()))
        total = total + row
    return total


def nested_comprehension(x):
    return [[y * float(x.sum()) for y in (x, x + 1)] for _ in range(2)]


def deep_structure(x):
    head = None
    for i in range(300):
        head = (x, i, [head])
    depth = 0
    print(float(x.sum()))
    while head is not None:
        depth, head = depth + 1, head[2][0]
    return depth


@pytest.mark.parametrize(
    "function",
    [
        recursive_closure, returned_closure, empty_cell, function_with_everything, partial_and_method,
        stack_below_a_break, keywords_below_a_break, named_tuple_across_a_break, kinds_across_a_break,
        iterators_across_a_break, dict_iterators_across_a_break, dict_grows_under_its_iterator,
        map_and_filter_across_a_break, tensor_rows_across_a_break, nested_comprehension, deep_structure,
    ],
)  # fmt: skip
def test_values_survive_a_break(function):
    check(function, X)


def test_a_list_that_grows_while_it_is_iterated():
    check(argument_iterated_and_grown, X, [1, 2])


def test_a_dict_argument_that_grew_is_iterated():
    check(dict_argument_iterated, X, {"a": X + 2, "b": X + 3})


def long_loop(x, n):
    for _ in range(n):
        x = x + 1
        print(float(x.sum()))
    return x


def test_a_loop_that_breaks_in_every_round_does_not_nest():
    check(long_loop, X, 600, calls=1)


def many_locals(x):
    a, b, c, d, e, f, g, h = 1, 2, 3, 4, 5, 6, 7, 8
    i, j, k, l_, m, n, o, p = 1, 2, 3, 4, 5, 6, 7, 8
    rows = [[y * float(x.sum()) for y in (x, x + q)] for q in (a, b)]
    print(float(x.max()))
    return rows, (a, b, c, d, e, f, g, h), (i, j, k, l_, m, n, o, p)


def test_resuming_with_more_locals_than_fit_in_one_byte():
    check(many_locals, X)


def test_a_loop_goes_round_between_the_same_resume_functions():
    function = translate(long_loop)
    function(X, 5)
    few = sot.stats(function).translations
    function(X, 20)
    assert sot.stats(function).translations - few < 20


def raises_after_a_break(x):
    y = x + 1
    print(float(y.sum()))
    z = y + 2
    raise ValueError(float(z.sum()))


def test_a_traceback_shows_each_frame_once():
    def lines(function):
        with pytest.raises(ValueError, match="33") as caught:
            function(X)
        return [(entry.name, entry.lineno) for entry in traceback.extract_tb(caught.tb)][1:]

    function = translate(raises_after_a_break)
    assert lines(function) == lines(raises_after_a_break)
    assert lines(function) == lines(raises_after_a_break)


def with_block(x):
    with paddle.no_grad():
        y = x * 2
        print(paddle.is_grad_enabled(), float(y.sum()))
    z = x * 3
    print(paddle.is_grad_enabled())
    return y, z


def nested_with(x):
    with paddle.no_grad():
        with paddle.enable_grad():
            y = x * 2
            print(paddle.is_grad_enabled())
        print(paddle.is_grad_enabled())
        z = x * 3
    print(paddle.is_grad_enabled())
    return y, z


def with_and_exception(x):
    try:
        with paddle.no_grad():
            y = x * 2
            int("no")
    except ValueError:
        print(paddle.is_grad_enabled())
    return y


def flags(result):
    tensors = result if isinstance(result, tuple) else (result,)
    return [tensor.stop_gradient for tensor in tensors]


@pytest.mark.parametrize("function", [with_block, nested_with, with_and_exception])
def test_grad_mode_is_right_at_a_break(function):
    x = X * 1
    x.stop_gradient = False
    before = paddle.is_grad_enabled()
    translated = translate(function)
    for _ in range(2):
        expected, actual = function(x), translated(x)
        assert paddle.is_grad_enabled() == before
        assert flags(expected) == flags(actual)


class Base:
    def run(self, x):
        return x + 1


class Derived(Base):
    def run(self, x):
        print(float(x.sum()))
        inner = lambda: self  # noqa: E731
        return super().run(x), inner() is self


def method_with_super(x):
    return Derived().run(x)


def test_super_after_a_break():
    check(method_with_super, X)
    run = translate(Derived().run)
    result, same = run(X)
    assert same
    assert np.array_equal(result.numpy(), X.numpy() + 1)
