"""`contextvars.ContextVar`: what one is set to at the call is guarded, setting one breaks the graph."""

import contextvars
import threading

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, translate

SCALE = contextvars.ContextVar("SCALE", default=3)
UNSET = contextvars.ContextVar("UNSET")


def reads(x):
    return x * SCALE.get()


def test_each_value_has_a_translation():
    translated, x = translate(reads), paddle.ones([2])

    def run():
        found = [translated(x).tolist()]
        for value in (4, 5, 4):
            SCALE.set(value)
            found.append(translated(x).tolist())
        return found

    expected = [[value, value] for value in (3, 4, 5, 4)]
    for _ in range(2):
        assert contextvars.Context().run(run) == expected
    record = sot.stats(translated)
    assert (record.graphs, record.graph_breaks) == (3, [])


def test_other_threads_have_others():
    translated, x, found = translate(reads), paddle.ones([2]), []

    def other():
        found.append(translated(x).tolist())

    def run():
        SCALE.set(7)
        found.append(translated(x).tolist())
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    contextvars.Context().run(run)
    assert found == [[7, 7], [3, 3]]


def test_defaults_and_what_raises():
    def given(x):
        return x * UNSET.get(7) + SCALE.get(9)

    def raises(x):
        try:
            return x * UNSET.get()
        except LookupError:
            return x * 2

    def run():
        for _ in range(2):
            found = [translate(function)(paddle.ones([2])).tolist() for function in (given, raises)]
            assert found == expected[UNSET.get(None)]
            UNSET.set(4)

    expected = {None: [[16, 16], [2, 2]], 4: [[13, 13], [4, 4]]}
    contextvars.Context().run(run)
    contextvars.Context().run(check, given, paddle.ones([2]), graphs=1, breaks=0)
    contextvars.Context().run(check, raises, paddle.ones([2]), graphs=1, breaks=0)


def test_tensors_and_lists():
    held = contextvars.ContextVar("held")

    def function(x):
        scale, more = held.get()
        more.append(1)
        return x * scale, len(more), more is held.get()[1]

    def run(of):
        found = []
        for value in (2.0, 3.0, 3.0):
            held.set((paddle.full([2], value), [1, 2]))
            result = of(paddle.ones([2]))
            found.append((result[0].tolist(), *result[1:], held.get()[1]))
        return found

    translated = translate(function)
    assert contextvars.Context().run(run, translated) == contextvars.Context().run(run, function)
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


class Scaled:
    def __init__(self, value):
        self.value = value

    def __enter__(self):
        self.token = SCALE.set(self.value)
        return self

    def __exit__(self, *error):
        SCALE.reset(self.token)


def enters(x):
    with Scaled(5):
        x = x * SCALE.get()
    return x + SCALE.get()


def sets(x):
    SCALE.set(SCALE.get() + 1)
    return x * SCALE.get()


@pytest.mark.parametrize(("function", "breaks"), [(enters, 3), (sets, 1)])
def test_what_sets_one(function, breaks):
    translated, x = translate(function), paddle.ones([2])
    for of in (function, translated):
        found = contextvars.Context().run(lambda of=of: [of(x).tolist() for _ in range(3)] + [SCALE.get()])
        assert found == contextvars.Context().run(lambda: [function(x).tolist() for _ in range(3)] + [SCALE.get()])
    assert sum(it.count for it in sot.stats(translated).graph_breaks) <= 3 * breaks
