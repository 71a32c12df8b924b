"""Side effects and errors: each effect once, in order, on the right object; errors with type, message and line. (PYTEST_DONT_REWRITE)"""

import collections
import dataclasses

import paddle
import pytest
from harness import Programs, check, tensor

program = Programs()
X, Y = tensor(3, 4), tensor(3, 4, seed=1)
LOG = []
COUNT = 0
TABLE = {"n": 0}


class Box:
    shared = []

    def __init__(self, value=0):
        self.value = value
        self.items = []

    @property
    def double(self):
        LOG.append("double read")
        return self.value * 2

    def bump(self):
        self.value += 1
        return self


@dataclasses.dataclass
class State:
    step: int = 0
    last: object = None


@program(X, [1], graphs=1)
def list_argument(x, items):
    items.append(x + 1)
    items.insert(0, "first")
    items += [3]
    items[1] = items[1] + 1
    return items


@program(X, {"a": 1, "b": 2}, graphs=1)
def dict_argument(x, table):
    table["a"] += 1
    table["c"] = x + 1
    removed = table.pop("b")
    return removed, list(table)


@program(X, {1, 2}, fallbacks=None)
def set_argument(x, values):
    values.add(3)
    values.discard(1)
    return x + len(values)


@program(X, Box(1), graphs=1)
def attributes_of_an_argument(x, box):
    box.value += 2
    box.items.append(x * 2)
    box.fresh = x + box.value
    return box.fresh


@program(X, Box(1), graphs=1)
def methods_with_effects(x, box):
    return x + box.bump().bump().value, box


@program(X, Box(3), graphs=1, watch=lambda: list(LOG), reset=LOG.clear)
def properties_run_once(x, box):
    return x + box.double


@program(X, State(), graphs=1)
def dataclass_state(x, state):
    state.step += 1
    state.last = x * state.step
    return state.last


def _reset_globals():
    global COUNT
    COUNT = 0
    LOG.clear()
    TABLE["n"] = 0
    Box.shared.clear()


@program(X, graphs=1, watch=lambda: (COUNT, list(LOG), dict(TABLE), list(Box.shared)), reset=_reset_globals)
def global_state(x):
    global COUNT
    COUNT += 1
    LOG.append(COUNT)
    TABLE["n"] += 1
    Box.shared.append("s")
    return x + COUNT


@program(X, [0], graphs=1)
def effects_before_and_after_a_read(x, items):
    before = items[0]
    items[0] = 5
    after = items[0]
    return x + before, x + after


@program(X, [1, 2], fallbacks=None)
def effects_around_a_break(x, items):
    items.append("before")
    value = float(x.sum())
    items.append("after")
    return x * value


@program(X, [1, 2], fallbacks=None)
def effects_before_an_error(x, items):
    items.append("kept")
    raise ValueError(f"{len(items)} items")


@program(X, Box(), fallbacks=None)
def effects_in_a_callee_that_fails(x, box):
    def inner():
        box.value = 7
        raise KeyError("k")

    try:
        inner()
    except KeyError:
        box.items.append("caught")
    return x + box.value


@program(X, (lambda a: (a, a))([1]), graphs=1)
def aliased_arguments(x, pair):
    pair[0].append(2)
    return x + len(pair[1]), pair[0] is pair[1]


@program(X, [X, X], graphs=1)
def the_same_tensor_twice(x, items):
    return x + items[0], items[0] is items[1]


@program(X, [], graphs=1)
def self_referring_list(x, items):
    items.append(items)
    return x + len(items)


@program(X, collections.OrderedDict(a=1), fallbacks=None)
def ordered_dict_argument(x, table):
    table["b"] = x + 1
    table.move_to_end("a")
    return list(table)


@program(X, collections.deque([1], maxlen=2), fallbacks=None)
def deque_argument(x, queue):
    queue.append(2)
    queue.append(3)
    return x + queue[0]


@program(X, collections.defaultdict(list), fallbacks=None)
def defaultdict_argument(x, table):
    table["k"].append(x + 1)
    return len(table)


@program(X, bytearray(b"ab"), fallbacks=None)
def bytearray_argument(x, data):
    data[0] = 99
    return x + len(data)


@program(X, [3, 1, 2], graphs=1)
def sorting_in_place(x, items):
    items.sort(reverse=True)
    items.reverse()
    return x + items[0]


@program(X, [1, 2, 3], graphs=0)
def deleting(x, items):
    del items[0]
    items.clear()
    items.extend(range(3))
    return x


@program(X, Y, fallbacks=None)
def tensor_arguments_in_place(x, y):
    x.add_(y)
    x[0] = 0.0
    y.zero_()
    return x + y


@program(X, [tensor(2, 2)], fallbacks=None)
def tensor_in_a_list_in_place(x, items):
    items[0] += 1
    items[0].scale_(3.0)
    return x


@program(X, Box(), fallbacks=None)
def tensor_attribute_in_place(x, box):
    box.value = x.clone()
    box.value += 1
    return box.value


@program(X, fallbacks=None)
def error_of_a_wrong_shape(x):
    y = x + 1
    return paddle.matmul(y, x)


@program(X, fallbacks=None)
def error_of_a_missing_name(x):
    y = x + 1
    return y + undefined_name  # noqa: F821


@program(X, fallbacks=None)
def error_of_a_missing_attribute(x):
    return (x + 1).no_such_method()


@program(X, fallbacks=None)
def error_of_a_wrong_call(x):
    def f(a, b):
        return a + b

    return f(x)


@program(X, fallbacks=None)
def error_of_a_wrong_type(x):
    return x + 1, len(5)


@program(X, fallbacks=None)
def error_of_a_missing_key(x):
    y = x + 1
    return y * {"a": 1}["b"]


@program(X, fallbacks=None)
def error_of_an_index(x):
    return x * [1, 2][4]


@program(X, fallbacks=None)
def error_of_a_tensor_index(x):
    return (x + 1)[7]


@program(X, fallbacks=None)
def error_of_unpacking(x):
    a, b = x + 1
    return a, b


@program(X, fallbacks=None)
def error_of_division(x):
    return x + 1 // (len(x.shape) - 2)


@program(X, fallbacks=None)
def error_of_an_assertion(x):
    assert x.shape[0] == 4, "wrong"
    return x


@program(X, fallbacks=None)
def error_with_a_cause(x):
    try:
        {}["k"]  # noqa: B018
    except KeyError as error:
        raise RuntimeError("outer") from error


@program(X, fallbacks=None)
def error_from_recursion(x):
    def forever(v):
        return forever(v + 1) if v is not None else v

    try:
        return forever(1)
    except RecursionError as error:
        return x + 1, type(error).__name__


@program(X, fallbacks=None)
def stop_iteration_from_next(x):
    try:
        return next(iter([]))
    except StopIteration:
        return x + 1


@program(X, fallbacks=None)
def system_exit_is_not_swallowed(x):
    try:
        raise SystemExit(3)
    except SystemExit as error:
        return x + error.code


@pytest.mark.parametrize(("function", "args", "expectations"), program)
def test_equals_eager(function, args, expectations):
    check(function, *args, **expectations)
