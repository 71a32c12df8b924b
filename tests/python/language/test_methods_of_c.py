"""Methods of objects written in C that are not simulated: reading one goes on, the call breaks the graph once."""

import array
import io
import re
import threading
import types

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate


class Held:
    def __init__(self):
        self.out = io.StringIO()
        self.lock = threading.Lock()
        self.match = re.match("a(b)", "ab")
        self.bytes = bytearray(b"abc")
        self.view = memoryview(b"abc")
        self.numbers = array.array("i", [1, 2])
        self.array = np.arange(3)
        self.iterator = iter([1, 2])


def writes(held, x):
    y = x * 2
    held.out.write("written")
    return y + 1, held.out.getvalue()


def locks(held, x):
    held.lock.acquire()
    y = x * 2
    held.lock.release()
    return y, held.lock.locked()


def matches(held, x):
    return x * len(held.match.group(1)), held.match.groups()


def grows(held, x):
    held.bytes.append(3)
    return x * 2, bytes(held.bytes)


def keeps_the_method(held, x):
    write = held.out.write
    y = x * 2
    write("a")
    return y + write("bc"), type(write), write.__name__, write.__self__ is held.out, held.out.getvalue()


def answers(held, x):
    return x * 2, held.bytes.append


def of_numbers(held, x):
    held.numbers.append(3)
    return x * 2, held.numbers.tolist()


def of_a_view(held, x):
    return x * 2, held.view.tolist(), held.view.hex()


@pytest.mark.parametrize(
    ("function", "breaks"),
    [
        (writes, None),
        (locks, 3),
        (matches, 2),
        (of_a_view, 2),
        (of_numbers, 2),
        (grows, None),
        (keeps_the_method, None),
    ],
)
def test_one_break_for_a_call(function, breaks):
    translated = translate(function)
    for _ in range(2):
        held, twin, x = Held(), Held(), paddle.ones([2])
        expected, actual = function(held, x), translated(twin, x)
        assert str(expected) == str(actual)
        assert held.out.getvalue() == twin.out.getvalue()
        assert held.bytes == twin.bytes
    assert breaks is None or sum(it.count for it in sot.stats(translated).graph_breaks) == breaks


def test_the_method_is_the_same():
    held = Held()
    translated = translate(answers)
    for _ in range(2):
        method = translated(held, paddle.ones([2]))[1]
        assert type(method) is types.BuiltinMethodType
        assert method.__self__ is held.bytes
        method(7)
    assert held.bytes == b"abc\x07\x07"


def test_another_class_in_the_next_call():
    class Wrapped(io.StringIO):
        def write(self, text):
            return super().write(text * 2)

    held, translated = Held(), translate(writes)
    for out in (io.StringIO(), Wrapped(), io.StringIO(), Wrapped()):
        held.out = out
        translated(held, paddle.ones([2]))
        assert out.getvalue() == "written" * (2 if type(out) is Wrapped else 1)
