"""What others see of what a frame uses: cells that functions share, iterators over lists that become shorter,
dictionaries of a layer by another name, iterators over a dict that the frame changes."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import Programs, check, tensor
from paddle import nn

program = Programs()
X = tensor(2, 3)


class World:
    def __init__(self, **attributes):
        self.log = []
        self.__dict__.update(attributes)


def counters():
    number = 0

    def count():
        nonlocal number
        number += 1

    def counted():
        return number

    return count, counted


def both(x, world):
    world.count()
    return x * world.counted()


def of_others(x, world):
    number = world.counted()
    world.count()
    return x * number + world.counted()


@pytest.mark.parametrize("function", [both, of_others])
def test_cells_that_become_the_same(function):
    """Of two functions, what one writes the other reads, or does not."""
    translated = sot.to_static(function, min_graph_size=0)
    for shared in (False, True, False, True):
        answers = []
        for run in (function, translated):
            (count, counted), (_, other) = counters(), counters()
            world = World(count=count, counted=counted if shared else other)
            answers.append(run(X, world).numpy())
        assert (answers[0] == answers[1]).all(), shared
    assert sot.stats(translated).translations == 2


def test_the_own_cell_becomes_that_of_another_function():
    def make(number):
        def function(x, other):
            nonlocal number
            number += 1
            return x * other()

        return function, lambda: number

    answers = []
    for run in (lambda function: function, lambda function: sot.to_static(function, min_graph_size=0)):
        function, own = make(10)
        called = run(function)
        answers.append([called(X, other).numpy() for other in (lambda: 3, own, lambda: 3, own)])
    assert all((a == b).all() for a, b in zip(*answers, strict=True))


@program(X, World(todo=[1, 2, 3, 4, 5, 6]), graphs=None, breaks=None)
def a_list_that_is_shorter_than_its_iterator_is_far(x, world):
    y = x * 0
    for value in world.todo:
        world.log.append(value)
        if value == 4:
            del world.todo[:3]
            world.log.append(x.sum().item())
            world.todo += [7, 8]
        y = y + value
    return y


@program(X, World(todo=[1, 2, 3]), graphs=None, breaks=None)
def an_enumeration_of_a_list_that_is_emptied(x, world):
    numbered = enumerate(world.todo)
    world.log += [next(numbered), next(numbered)]
    del world.todo[:]
    world.log.append(x.sum().item())
    world.todo.extend([6, 7, 8, 9])
    world.log.extend(numbered)
    return x + 1


@program(X, World(todo=[1, 2, 3]), graphs=None, breaks=None)
def a_reversed_list_that_becomes_shorter(x, world):
    for value in reversed(world.todo):
        world.log.append(value)
        world.todo.pop()
        world.todo.pop()
        world.log.append(x.sum().item())
    return x + 1


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", paddle.zeros([3]))


@pytest.mark.parametrize("shared", [[True], [False, True], [True, False, True]])
@pytest.mark.parametrize("first", ["written", "read"])
def test_the_buffers_of_a_layer_by_another_name(shared, first):
    def written(x, world):
        world.net.count = world.net.count + 1
        return world.buffers["count"] + x

    def read(x, world):
        before = world.buffers["count"]
        world.net.count = world.net.count + 1
        return before + world.buffers["count"] + x

    function = {"written": written, "read": read}[first]
    translated = sot.to_static(function, min_graph_size=0)
    for is_shared in shared:
        answers = []
        for run in (function, translated):
            net, other = Net(), Net()
            buffers = (net if is_shared else other)._buffers
            answers.append(run(X, World(net=net, buffers=buffers)).numpy())
            answers.append(net.count.numpy())
        assert (answers[0] == answers[2]).all()
        assert (answers[1] == answers[3]).all()


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.update(a=table.pop("a")),
        lambda table: [table.pop("b"), table.update(b=7)],
        lambda table: [table.pop("a"), table.update(d=7)],
        lambda table: [table.pop("c"), table.update(c=7, d=8)],
        lambda table: table.update(b=5),
    ],
)
@pytest.mark.parametrize("advance", [0, 1, 2])
def test_iterators_that_others_have_over_a_dict(change, advance):
    def function(x, table):
        change(table)
        return x + 1

    translated = sot.to_static(function, min_graph_size=0)
    answers = []
    for run in (function, translated, function, translated):
        table = {"a": 1, "b": 2, "c": 3}
        iterator = iter(table)
        seen = [next(iterator) for _ in range(advance)]
        run(X, table)
        try:
            seen.extend(iterator)
        except RuntimeError as error:
            seen.append(str(error))
        answers.append((seen, list(table.items())))
    assert answers[0] == answers[1] == answers[2] == answers[3]


@program(X, World(items=[1, 2, 3, 4, 5, 6]), graphs=0, breaks=0)
def a_slice_whose_values_shorten_the_list(x, world):
    def values():
        for _ in range(4):
            world.items.pop()
            yield 0

    world.items[1:5] = values()
    return x


class Looked:
    """A method of a context manager, seen when it is looked up."""

    def __init__(self, name):
        self.name = name

    def __get__(self, instance, owner):
        instance.log.append(self.name)
        return lambda *_: None


class Manager:
    __enter__ = Looked("enter")
    __exit__ = Looked("exit")

    def __init__(self):
        self.log = []


@program(X, Manager(), graphs=1, breaks=0)
def the_methods_of_a_context_manager(x, manager):
    with manager:
        y = x + 1
    return y


class Point:
    """Two of them may be neither less nor greater."""

    def __init__(self, a, b):
        self.a = a
        self.b = b

    def __lt__(self, other):
        return self.a < other.a and self.b < other.b


POINTS = [Point(*at) for at in ((3, 1), (1, 3), (2, 2), (0, 0), (5, 5), (1, 1), (4, 0))]


@program(X, POINTS, graphs=1, breaks=1)
def tuples_of_objects_are_sorted(x, points):
    return x + 1, [point[0].a for point in sorted([(point,) for point in points])]


@pytest.mark.parametrize(("function", "args", "expected"), program)
def test_equals_eager(function, args, expected):
    check(function, *args, fallbacks=None, **expected)
