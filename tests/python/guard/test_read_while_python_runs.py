"""Guards beside code that runs while they read: destructors of what is replaced, and other threads."""

import os
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Mapping

import paddle
import paddle_sot_rs as sot
import pytest

pytestmark = pytest.mark.default_python


class Holder:
    pass


class Part:
    def __init__(self, factor):
        self.factor = factor
        self.shift = paddle.full([2], float(factor))


ACTS = []


class Loud(Part):
    def __del__(self):
        for act in ACTS:
            act()


def function(holder, x):
    return x * holder.part.factor + holder.part.shift


def replace(holder, part):
    holder.part = part


def warmed(make):
    """A holder whose dictionary has values of its own, and the translated function, settled on it."""
    for _ in range(60):
        other = Holder()
        other.__dict__ = {"part": None}
        replace(other, None)
    holder = Holder()
    holder.__dict__ = {"part": make(2)}
    return holder, sot.to_static(function)


# `x.a = b` lets go of the old value before the dictionary has another version.
def test_a_destructor_sees_the_new_value():
    seen, x = [], paddle.ones([2])
    holder, translated = warmed(Loud)
    for factor in range(3, 8):
        for _ in range(3):
            assert (translated(holder, x) == function(holder, x)).all()
        ACTS.append(lambda: seen.append((translated(holder, x).tolist(), function(holder, x).tolist())))
        replace(holder, Loud(factor))
        ACTS.clear()
    assert len(seen) == 5
    assert all(own == plain for own, plain in seen)
    stats = sot.stats(translated)
    assert (stats.graphs, stats.graph_breaks) == (2, [])


# The object has no references left when the callback runs: nothing may take one.
def test_a_callback_sees_the_new_value():
    seen, x = [], paddle.ones([2])
    holder, translated = warmed(Part)
    for factor in range(3, 8):
        for _ in range(3):
            assert (translated(holder, x) == function(holder, x)).all()

        def gone(reference):
            seen.append((translated(holder, x).tolist(), function(holder, x).tolist()))

        reference = weakref.ref(holder.part, gone)
        replace(holder, Part(factor))
        del reference
    assert len(seen) == 5
    assert all(own == plain for own, plain in seen)
    stats = sot.stats(translated)
    assert (stats.graphs, stats.graph_breaks) == (2, [])


# What one guard has found is let go of while another one runs Python.
def test_found_and_let_go_of_by_a_later_guard(monkeypatch):
    holder, thing, x = Holder(), Holder(), paddle.ones([2, 3])
    holder.shift = paddle.ones([2, 3])

    def plain(holder, thing, x):
        shift = holder.shift * 2
        return shift + 1 if isinstance(thing, Mapping) else shift + x

    translated = sot.to_static(plain)
    for _ in range(3):
        assert (translated(holder, thing, x) == plain(holder, thing, x)).all()
    made = []

    def subclasshook(cls, other):
        if other is Holder and not made:
            holder.shift = paddle.full([2, 3], 7.0)
            made.extend(paddle.full([2, 3], 50.0) for _ in range(8))
        return NotImplemented

    with monkeypatch.context() as patch:
        patch.setattr(Mapping, "__subclasshook__", classmethod(subclasshook))
        # Another registration: abstract classes forget what was none of them.
        Mapping.register(type("Registered", (), {}))
        assert translated(holder, thing, x).tolist() in ([[3.0] * 3] * 2, [[15.0] * 3] * 2)
    assert made
    assert (translated(holder, thing, x) == plain(holder, thing, x)).all()
    stats = sot.stats(translated)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


STRESS = """
import sys
import threading
import time

import paddle
import paddle_sot_rs as sot
from paddle import nn


class Part(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner, self.scale = nn.Linear(4, 4), paddle.ones([4])

    def forward(self, x):
        return self.inner(x) * self.scale


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.part, self.norm = Part(), nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(self.part(x))


net, x, end, rounds = Net(), paddle.ones([2, 4]), time.time() + 6, [0]
net.eval()


def call():
    while time.time() < end:
        translated = sot.to_static(lambda x: net(x) + net.part.inner.weight.sum() + net.part.scale)
        with paddle.no_grad():
            for _ in range(6):
                assert translated(x).shape == [2, 4]
        rounds[0] += 1


def replace():
    at = 0
    while time.time() < end:
        at += 1
        net.part.inner.weight = paddle.create_parameter([4, 4], "float32")
        net.part.inner.bias = paddle.create_parameter([4], "float32", is_bias=True)
        net.part.scale = paddle.ones([4])
        if at % 7 == 0:
            net.part.inner = nn.Linear(4, 4)
        time.sleep(0.001 * (at % 5))


def eager():
    with paddle.no_grad():
        while time.time() < end:
            net(x)


sys.setswitchinterval(1e-6)
failed = []
threading.excepthook = lambda what: failed.append(what.exc_value)
threads = [threading.Thread(target=target) for target in (call, replace, eager)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed
print("rounds", rounds[0])
"""


# In a process of its own, which may die.
def test_parameters_are_replaced_by_another_thread():
    run = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(STRESS)]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=300, env=dict(os.environ), check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "rounds" in ended.stdout
