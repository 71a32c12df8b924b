"""Other threads: training in eager mode during translations, and one function called from many."""

import gc
import os
import subprocess
import sys
import threading
import time
import traceback

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from paddle import nn

SECONDS = float(os.environ.get("PADDLE_SOT_THREAD_TEST_SECONDS", "5"))


def in_threads(*bodies):
    errors = []

    def guarded(body):
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_another_thread_trains_in_eager_mode_while_this_one_translates():
    done = threading.Event()
    losses = []

    def eager():
        net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1D(4), nn.ReLU(), nn.Linear(4, 1))
        optimizer = paddle.optimizer.SGD(0.01, parameters=net.parameters())
        while not (done.is_set() and losses):
            x = paddle.ones([3, 4]) * paddle.arange(4).astype("float32")
            loss = (net(x) - paddle.zeros([3, 1])).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))

    def translate():
        x = paddle.randn([3, 4])
        try:
            for _ in range(40):
                net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1D(4), nn.Linear(4, 4))
                net.eval()
                expected = net(x)
                assert np.allclose(expected.numpy(), sot.to_static(net, min_graph_size=0)(x).numpy(), 1e-5, 1e-6)
        finally:
            done.set()

    in_threads(eager, translate)
    assert np.isfinite(losses).all()


def test_one_function_from_eight_threads():
    @sot.to_static(min_graph_size=0)
    def f(x, k):
        y = x * k + 1
        if y.sum() > 0:
            return y
        return -y

    def body(k):
        def run():
            x = paddle.full([4], float(k) - 3.5)
            for _ in range(50):
                y = x.numpy() * k + 1
                assert np.allclose(f(x, k).numpy(), y if y.sum() > 0 else -y)

        return run

    in_threads(*[body(k) for k in range(8)])


def network():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


def variable(number):
    x = paddle.full([2, 4], float(number))
    x.stop_gradient = False
    return x


def test_one_network_trains_in_eight_threads(impatient):
    """Paddle says that a scope can be used again before its backward has emptied it."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        net = network()
        translated = sot.to_static(net, min_graph_size=0)

        def body(number, net=net, translated=translated):
            def run():
                for _ in range(6):
                    x, plain = variable(number), variable(number)
                    translated(x).sum().backward()
                    net(plain).sum().backward()
                    assert np.allclose(x.grad.numpy(), plain.grad.numpy(), atol=1e-5)

            return run

        in_threads(*[body(number) for number in range(8)])


def test_one_thread_asks_for_gradients_while_others_train(impatient):
    """What `paddle.grad` gives back to programs is not put where another thread runs one. Paddle's own
    `grad` is for one thread at a time."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        net = network()
        translated = sot.to_static(net, min_graph_size=0)

        def gradients(net=net, translated=translated):
            for at in range(12):
                found = []
                for function in (translated, net):
                    x = variable(at)
                    found += paddle.grad(function(x).sum(), [x], create_graph=at % 2 == 1)
                assert np.allclose(found[0].numpy(), found[1].numpy(), atol=1e-5)

        def body(number, net=net, translated=translated):
            def run():
                for at in range(6):
                    x, plain = variable(number), variable(number)
                    for function, given in ((translated, x), (net, plain)):
                        loss = function(given).sum()
                        loss.backward(retain_graph=at % 2 == 1)
                        if at % 2 == 1:
                            loss.backward()
                    assert np.allclose(x.grad.numpy(), plain.grad.numpy(), atol=1e-5)

            return run

        in_threads(gradients, *[body(number) for number in range(5)])


def test_a_hook_may_wait_for_another_thread():
    """It runs a program for the first time. For that the pass of autograd would have to be over: call by call, then."""
    net = network()
    translated = sot.to_static(net, min_graph_size=0)
    found = []

    def wait(gradient):
        other = sot.to_static(lambda x: (x * 2 + 1).exp(), min_graph_size=0)
        thread = threading.Thread(target=lambda: found.append(other(paddle.ones([2]))))
        thread.start()
        thread.join()

    x = variable(1)
    y = x * 2
    y.register_hook(wait)
    translated(y).sum().backward()
    assert np.allclose(found[0].numpy(), np.exp(3.0))
    plain = variable(1)
    net(plain * 2).sum().backward()
    assert np.allclose(x.grad.numpy(), plain.grad.numpy())


MANY_GRAPHS = """
import gc, os, threading
import paddle
import paddle_sot_rs as sot
import paddle.nn.functional as F
from paddle import nn

def threads():
    return len(os.listdir("/proc/self/task"))

def translate():
    x = paddle.ones([2, 4])
    for _ in range(200):
        sot.to_static(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), min_graph_size=0)(x)
        gc.collect()
        found.append(threads())
    done.set()

found, done = [], threading.Event()
with paddle.no_grad():
    both = [threading.Thread(target=done.wait), threading.Thread(target=translate)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
print(max(found) - found[0])
"""


@pytest.mark.default_python
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted there")
def test_executors_end_while_another_thread_lives():
    run = subprocess.run([sys.executable, "-c", MANY_GRAPHS], check=True, capture_output=True, text=True)
    assert int(run.stdout) < 100


def in_the_middle_of_an_operation(monkeypatch, do):
    """Translates a function; calls `do` while Paddle is in static mode for one of its operations."""
    activation = sys.modules["paddle.nn.functional.activation"]
    asked = activation.in_dynamic_or_pir_mode
    calls = []

    def ask():
        if not paddle.in_dynamic_mode() and not calls:
            calls.append(1)
            do()
        return asked()

    monkeypatch.setattr(activation, "in_dynamic_or_pir_mode", ask)
    translated = sot.to_static(lambda x: F.relu(x) * 2, min_graph_size=0)
    assert translated(paddle.to_tensor([1.0, -2.0])).tolist() == [2.0, 0.0]
    assert calls and sot.stats(translated).graphs == 1


def test_other_threads_have_tracebacks_and_the_garbage_collector_while_one_translates(monkeypatch):
    inside, looked = threading.Event(), threading.Event()
    seen = {}

    def look():
        inside.wait()
        try:
            try:
                raise ValueError("other")
            except ValueError:
                seen["traceback"] = traceback.format_exc()
            seen["stack"] = traceback.extract_stack()[-1].name
            seen["limited"] = hasattr(sys, "tracebacklimit")
            seen["collects"] = gc.isenabled()
            gc.disable()
        finally:
            looked.set()

    thread = threading.Thread(target=look)
    thread.start()

    def let_look():
        inside.set()
        looked.wait()

    before, callbacks = traceback.extract_stack, list(gc.callbacks)
    try:
        in_the_middle_of_an_operation(monkeypatch, let_look)
        assert not gc.isenabled()
    finally:
        gc.enable()
    thread.join()
    assert "in look" in seen.pop("traceback")
    assert seen == {"stack": "look", "limited": False, "collects": True}
    assert traceback.extract_stack is before and gc.callbacks == callbacks


def test_garbage_that_is_collected_in_the_middle_of_an_operation_dies_in_eager_mode(monkeypatch):
    seen = []

    class Ring:
        def __init__(self):
            self.ring = self

        def __del__(self):
            frames = traceback.extract_stack()
            seen.append((paddle.in_dynamic_mode(), (paddle.ones([2]) + 1).tolist(), frames[-1].name))

    def collect():
        Ring()
        gc.collect()
        seen.append(paddle.in_dynamic_mode())

    in_the_middle_of_an_operation(monkeypatch, collect)
    assert seen == [(True, [2.0, 2.0], "__del__"), False]


def test_the_stack_is_shown_whoever_replaces_what_shows_it(monkeypatch):
    """Also where that happens while an operation is made: as here, in the middle of a collection, any thread may."""
    monkeypatch.setattr(traceback, "extract_stack", traceback.extract_stack)
    known, replaced = traceback.extract_stack, []

    def replace(phase, info):
        if traceback.extract_stack is not known and not replaced:
            replaced.append(traceback.extract_stack)
            traceback.extract_stack = lambda *args, **kwargs: replaced[0](*args, **kwargs)

    gc.callbacks.append(replace)
    try:
        in_the_middle_of_an_operation(monkeypatch, gc.collect)
    finally:
        gc.callbacks.remove(replace)
    assert replaced
    sot.to_static(lambda x: paddle.tanh(x) * 3, min_graph_size=0)(paddle.ones([3]))
    assert traceback.extract_stack()[-2].name == "test_the_stack_is_shown_whoever_replaces_what_shows_it"


def test_a_collection_while_nobody_but_the_engine_listens():
    """Its own listeners are found among others, which may compare as they like."""

    class Listener:
        def __call__(self, phase, info):
            pass

        def __eq__(self, other):
            gc.collect()
            return self is other

    listener = Listener()
    gc.callbacks.append(listener)
    try:
        static = sot.to_static(lambda x: paddle.tanh(x) * 2, min_graph_size=0)
        assert static(paddle.ones([3])).tolist() == (paddle.tanh(paddle.ones([3])) * 2).tolist()
        assert paddle.in_dynamic_mode()
    finally:
        gc.callbacks.pop(next(at for at, it in enumerate(gc.callbacks) if it is listener))


FIRST_DIVISION = """
import threading
import paddle
import paddle_sot_rs as sot

translated = sot.to_static(lambda x: (x / 3.0).exp(), min_graph_size=0)
translated(paddle.ones([2]))
found = []
thread = threading.Thread(target=lambda: found.append(type(paddle.ones([2]) + 1)))
thread.start()
thread.join()
assert sot.stats(translated).graphs == 1
assert found == [paddle.Tensor], found
"""


def test_threads_begin_in_eager_mode_behind_the_first_division():
    # What asks for Paddle's own division is asked once, and sets what threads begin with.
    subprocess.run([sys.executable, "-c", FIRST_DIVISION], check=True, capture_output=True, text=True)
