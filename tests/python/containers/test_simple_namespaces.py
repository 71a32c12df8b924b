"""`types.SimpleNamespace`: made, read and changed in the graph."""

import types

import paddle
import pytest
from harness import check, translate


class Derived(types.SimpleNamespace):
    def doubled(self):
        return self.a * 2


HELD = types.SimpleNamespace(scale=2.0, parts=[1])


def answers(x):
    y = x * 2
    return types.SimpleNamespace(loss=y.sum(), y=y, none=None)


def changes(x):
    made = types.SimpleNamespace(a=1, **{"b": 2})
    made.c = made.a + made.b
    made.a += 5
    del made.b
    return x * made.c, made, hasattr(made, "b"), getattr(made, "d", 7)


def nested(x):
    made = types.SimpleNamespace(inner=types.SimpleNamespace(x=x), parts=HELD.parts)
    made.inner.own = made
    made.parts.append(3)
    HELD.made = made.inner
    return made.inner.x * len(made.parts), made


def unpacked(x):
    made = types.SimpleNamespace(**vars(HELD))
    return x * made.scale


def shown(x):
    made = types.SimpleNamespace(a=1)
    return x * 2, repr(made), made == types.SimpleNamespace(a=1), made == made


def derived(x):
    made = Derived(a=3)
    return x * made.doubled(), made


def behind_a_break(x):
    made = types.SimpleNamespace(a=1, x=x * 2)
    print(made.a)
    made.b = made.x + 1
    return made


def refused(x):
    try:
        types.SimpleNamespace(1, 2)
    except TypeError:
        return x * 2
    return x


def reset():
    HELD.__dict__.clear()
    HELD.__dict__.update(scale=2.0, parts=[1])


def watch():
    return vars(HELD)


@pytest.mark.parametrize("function", [answers, changes])
def test_in_the_graph(function):
    check(function, paddle.ones([2]), graphs=1, breaks=0)


@pytest.mark.parametrize("function", [nested, unpacked, shown, derived, behind_a_break, refused])
def test_is_right(function):
    check(function, paddle.ones([2]), reset=reset, watch=watch)


def test_a_new_one_each_time():
    translated = translate(answers)
    first, second = (translated(paddle.ones([2])) for _ in range(2))
    assert first is not second
    assert type(first) is types.SimpleNamespace
    assert list(vars(first)) == ["loss", "y", "none"]
