"""Graph breaks of every kind: whatever cannot be captured, the outcome is that of plain Python. (PYTEST_DONT_REWRITE)"""

import contextlib
import json
import random
import sys

import numpy as np
import paddle
import pytest
from harness import Programs, check, tensor

program = Programs()
P, N = tensor(3, 4).abs() + 0.5, -tensor(3, 4).abs() - 0.5
G = tensor(3, 4, seed=2, grad=True)
BOTH = {"calls": [(N,)], "fallbacks": None}


@program(P, **BOTH)
def branch_with_early_returns(x):
    y = x * 2
    if y.mean() > 1:
        return y + 1
    if y.mean() > 0:
        return y + 2
    return y - 1


@program(P, **BOTH)
def branch_that_assigns(x):
    scale, log = 1, []
    if (x > 0).all():
        scale = 2
        log.append("positive")
    else:
        x = x.abs()
    return x * scale, log


@program(P, **BOTH)
def nested_branches(x):
    if x.sum() > 0:
        if x.max() > 2:
            return x * 3
        x = x + 1
    elif x.sum() < -5:
        x = x - 1
    return x * 2


@program(P, **BOTH)
def conditional_expressions(x):
    return (x if x.sum() > 0 else -x) + (1 if x[0, 0] > 0 else 2)


@program(P, **BOTH)
def short_circuits(x):
    return x + 1 if x.sum() > 0 and x.max() < 100 else x - 1, bool(x.sum() > 0 or x.min() > 0), not (x.sum() > 0)


@program(P, **BOTH)
def while_on_a_tensor(x):
    steps = 0
    while x.abs().sum() < 50:
        x = x * 2
        steps += 1
    return x, steps


@program(P, **BOTH)
def loop_with_break_on_a_tensor(x):
    for i in range(5):
        x = x + 1
        if x.sum() > 30:
            break
    else:
        x = x * 0
    return x, i


@program(P, **BOTH)
def loop_with_continue_on_a_tensor(x):
    total = x * 0
    for value in (x, -x, x * 2):
        if value.sum() < 0:
            continue
        total = total + value
    return total


@program(P, **BOTH)
def break_with_a_deep_stack(x):
    return [x + 1, {"a": (x * 2, float(x.sum())), "b": [x.mean().item()]}, f"{float(x.max()):.3f}", x - 1]


@program(P, **BOTH)
def break_between_call_arguments(x):
    def f(a, b, *, c):
        return a * b + c

    return f(x + 1, x.sum().item(), c=float(x.min()))


@program(P, **BOTH)
def numpy_in_the_middle(x):
    y = (x * 2).numpy()
    z = np.maximum(y, 0.5).sum()
    return x * float(z), y


@program(P, **BOTH)
def printing(x):
    y = x + 1
    print("before", y.shape)
    print(float(y.sum()))
    print(y.numpy().shape, end="!\n")
    return y * 2


@program(P, **BOTH)
def printing_a_tensor(x):
    y = x + 1
    print(y)
    return y * 2, str(y), repr(y)[:6]


@program(P, **BOTH)
def tensor_as_index_and_range(x):
    n = int(x.abs().sum()) % 3
    items = ["a", "b", "c"]
    return items[n], x * n, list(range(n)), x[n]


@program(P, **BOTH)
def tensor_in_collections(x):
    table = {x.shape[0]: x}
    return table[3] + 1, [x] == [x], x in [x]


@program(P, **BOTH)
def breaks_inside_with(x):
    with paddle.no_grad():
        y = x * 2
        value = float(y.sum())
        z = y + value
    return z, z.stop_gradient


@program(G, fallbacks=None)
def grad_state_survives_breaks(x):
    with paddle.no_grad():
        a = x * 2
        print(float(a.sum()))
        b = x * 3
    c = x * 4
    return a, b, c


@program(G, fallbacks=None)
def auto_cast_survives_breaks(x):
    with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
        a = x @ x.T
        print(float(a.sum()) > 0)
        b = x @ x.T
    c = x @ x.T
    return a.astype("float32"), b.dtype, c


@program(P, **BOTH)
def breaks_inside_try(x):
    log = []
    try:
        y = x * 2
        n = int(float(y.sum()))
        log.append(n > 0)
        z = y / max(n, 0)
    except ZeroDivisionError as error:
        log.append(str(error))
        z = x
    finally:
        log.append("finally")
    return z, log


@program(P, **BOTH)
def exception_from_a_broken_call(x):
    try:
        return x * [1, 2][int(float(x.sum() * 0)) + 5]
    except IndexError as error:
        return x + 1, str(error)


@program(P, **BOTH)
def break_in_a_callee(x):
    def inner(v):
        w = v * 2
        print(float(w.sum()) > 0)
        return w + 1

    return inner(x) + inner(x * 2)


@program(P, **BOTH)
def break_two_levels_down(x):
    def deep(v):
        return v * float(v.mean())

    def middle(v):
        return deep(v + 1) - 1

    return middle(x) * 2


@program(P, **BOTH)
def branch_in_a_callee(x):
    def sign(v):
        if v.sum() > 0:
            return 1
        return -1

    return x * sign(x) + sign(-x)


@program(P, **BOTH)
def break_in_a_comprehension(x):
    return [float(v.sum()) for v in (x, x * 2)], {i: (x + i).sum().item() for i in range(2)}


@program(P, **BOTH)
def break_in_a_generator(x):
    def values():
        for i in range(3):
            yield float((x + i).sum())

    return sum(values()), x + 1


@program(P, **BOTH)
def break_with_live_closure(x):
    count = 0

    def bump(v):
        nonlocal count
        count += 1
        return v + count

    a = bump(x)
    value = float(a.sum())
    b = bump(a)
    return b * value, count


@program(P, **BOTH)
def break_with_live_iterators(x):
    out = []
    for i, (a, b) in enumerate(zip([x, x + 1], [1, 2], strict=True)):
        out.append(float(a.sum()) * b + i)
    return out, x


@program(P, **BOTH)
def break_with_live_dict_iterator(x):
    total = 0
    for name, value in {"a": x, "bb": x * 2}.items():
        total += float(value.sum()) * len(name)
    return x * total


@program(P, **BOTH)
def break_keeps_aliases(x):
    items = []
    both = (items, items)
    items.append(x + 1)
    print(float(x.sum()) > 0)
    both[0].append(2)
    return items, both


@program(P, **BOTH)
def break_keeps_objects(x):
    class Box:
        pass

    box = Box()
    box.value = x + 1
    box.me = box
    print(float(x.sum()) > 0)
    box.value = box.value * 2
    return box.value, box.me is box


@program(P, **BOTH)
def random_module(x):
    random.seed(3)
    return x * random.random(), random.randint(0, 10)


@program(P, **BOTH)
def numpy_random(x):
    np.random.seed(3)
    return x * float(np.random.rand())


@program(P, **BOTH)
def paddle_random_around_a_break(x):
    a = paddle.rand([2])
    print(float(a.sum()) >= 0)
    b = paddle.rand([2])
    return a, b, x


@program(P, **BOTH)
def c_extension_calls(x):
    return json.dumps({"n": x.shape[0]}), x + len(json.loads("[1, 2]"))


@program(P, **BOTH)
def item_assignment_from_item(x):
    y = x.clone()
    y[0, 0] = float(x[1, 1])
    return y


@program(P, **BOTH)
def exec_and_eval(x):
    return x + eval("1 + 2"), (lambda: locals())() == {}


@program(P, **BOTH)
def locals_and_globals(x):
    y = x + 1
    return y, sorted(locals()), "program" in globals()


@program(P, **BOTH)
def super_old_builtins(x):
    return x + 1, id(x) == id(x), hash("a") == hash("a"), sorted({"b": 1, "a": 2}), chr(ord("a") + 1), hex(255)


@program(P, **BOTH)
def break_inside_two_loops(x):
    out = []
    for i in range(2):
        for j in range(2):
            x = x + i * j
            out.append(x.sum().item())
    return out, x


@program(P, **BOTH)
def break_in_finally(x):
    log = []
    try:
        y = x + 1
    finally:
        log.append(float(x.sum()) > 0)
    return y, log


@program(P, **BOTH)
def break_in_except(x):
    try:
        raise ValueError("v")
    except ValueError as error:
        value = float(x.sum())
        return x * value, str(error)


@program(P, **BOTH)
def suppress_around_a_break(x):
    log = []
    with contextlib.suppress(KeyError):
        log.append(float(x.sum()) > 0)
        {}["missing"]  # noqa: B018
        log.append("never")
    return x + 1, log


@program(P, **BOTH)
def recursion_with_breaks(x):
    def halve(v, depth):
        if depth == 0 or v.abs().sum() < 1:
            return v
        return halve(v / 2, depth - 1)

    return halve(x, 3)


@program(P, **BOTH)
def many_breaks(x):
    for _ in range(6):
        x = x + float(x.mean()) * 0.1
    return x


@program(P, **BOTH)
def lambda_with_a_break(x):
    f = lambda v: v * float(v.sum())  # noqa: E731
    return f(x) + f(x + 1)


@program(P, **BOTH)
def sorted_with_tensor_keys(x):
    return [float(v.sum()) for v in sorted([x * 3, x, x * 2], key=lambda v: float(v.sum()))]


@program(P, **BOTH)
def max_over_tensors(x):
    return max(x.sum(), x.mean()), max([1, 2], default=0)


@program(P, **BOTH)
def assertion_messages(x):
    assert x.sum() > 0, f"sum was {x.shape}"
    return x + 1


@program(P, **BOTH)
def conversions_in_formatting(x):
    return f"{x.sum().item():.1f}", "%.1f" % x.sum().item(), "{}".format(x.ndim), x  # noqa: UP030, UP031, UP032


@program(P, **BOTH)
def walrus_on_a_tensor(x):
    if (s := x.sum()) > 0:
        return s * 2
    return s


@program(P, **BOTH)
def break_then_exception(x):
    y = x + 1
    print(float(y.sum()) > 0)
    raise RuntimeError("after the break")


@program(P, **BOTH)
def exception_through_levels(x):
    def inner(v):
        print("inner")
        return v + {}[1]

    return inner(x * 2)


@program(P, **BOTH)
def user_iterators_with_breaks(x):
    class Count:
        def __init__(self):
            self.n = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            if self.n > 3:
                raise StopIteration
            return float(x.sum()) + self.n

    return list(Count()), x + 1


class ReadsValues:
    def __init__(self, x):
        self.x = x

    @property
    def total(self):
        return float(self.x.sum())

    def scaled(self):
        return self.x * 2


class ReadsOfSuper(ReadsValues):
    def run(self):
        y = self.scaled()
        y = y * super().total + super().scaled() * super(ReadsOfSuper, self).total  # noqa: UP008
        return y + len(super().__doc__ or "none")


@program(P, calls=[(N,)], fallbacks=0 if sys.version_info >= (3, 12) else None)
def attributes_of_super_break(x):
    return ReadsOfSuper(x).run() + 1


@pytest.mark.parametrize(("function", "args", "expectations"), program)
def test_equals_eager(function, args, expectations):
    check(function, *args, **expectations)
