"""Backends are swapped while other threads run translated functions."""

import gc
import threading
import weakref

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

SWAPS = 1000
THREADS = 8


class Marked:
    """A backend that runs graphs as they are, and notes in which calls."""

    def __init__(self, number):
        self.number = number

    def __call__(self, ir, metas):
        def run(*inputs):
            calls.seen.append(self.number)
            return ir(*inputs)

        return run


class Calls(threading.local):
    def __init__(self):
        self.seen = []


calls = Calls()


@pytest.fixture
def backend():
    sot.register_backend("swapped", Marked(0))
    yield "swapped"
    sot.unregister_backend("swapped")


def middle(x):
    # Called by the part between two graphs.
    return (x * 2 + 1).tanh()


def breaking(x, k):
    y = x * k + 1
    if float(y.sum()) > 0:
        y = y - 1
    for value in [float(y[0])]:
        y = y + value
    z = list(map(middle, [y]))[0]
    print(end="")
    return z * 3 + y


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.last = nn.Linear(4, 4)

    def forward(self, x):
        return self.last(nn.functional.relu(self.first(x)))


def inputs(thread):
    return paddle.to_tensor(np.linspace(-1 + thread, 1, 4, dtype="float32")), thread + 0.5


def under_load(call, expected, swaps):
    """Eight threads call while this one swaps; the answer is how many calls there were."""
    stop, errors, made = threading.Event(), [], [0] * THREADS

    def work(thread):
        try:
            wanted = expected(thread)
            while not stop.is_set():
                calls.seen.clear()
                found = call(thread)
                np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
                assert len(set(calls.seen)) == 1, f"one call saw {calls.seen}"
                made[thread] += 1
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for number in range(1, swaps + 1):
        sot.swap_backend("swapped", Marked(number))
        # Lets the others in: calls must happen between swaps.
        if stop.wait(0.002):
            break
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
    return sum(made)


def test_each_call_sees_one_backend_from_start_to_end(backend):
    f = sot.to_static(breaking, backend=backend, min_graph_size=0)
    made = under_load(
        lambda thread: f(*inputs(thread)).numpy(), lambda thread: breaking(*inputs(thread)).numpy(), SWAPS
    )
    assert made > 2 * THREADS
    assert sot.stats(f).fallbacks == []


def test_networks_keep_their_results_and_gradients(backend):
    nets = [Net() for _ in range(THREADS)]
    translated = [sot.to_static(Net(), backend=backend, min_graph_size=0) for _ in range(THREADS)]
    for net, other in zip(nets, translated):
        other.set_state_dict(net.state_dict())

    def step(net, thread):
        x, _ = inputs(thread)
        y = net(x)
        y.square().sum().backward()
        found = [y.numpy(), *(parameter.grad.numpy().reshape([-1]) for parameter in net.parameters())]
        net.clear_gradients()
        return np.concatenate([part.reshape([-1]) for part in found])

    made = under_load(
        lambda thread: step(translated[thread], thread), lambda thread: step(nets[thread], thread), SWAPS // 4
    )
    assert made > 2 * THREADS


def test_a_backend_swapped_inside_of_a_call_takes_over_at_the_next_one(backend):
    def swaps_itself(x):
        y = x + 1
        sot.swap_backend("swapped", Marked(calls.seen[-1] + 1))
        z = list(map(middle, [y]))[0]
        print(end="")
        return z * 2

    f = sot.to_static(swaps_itself, backend=backend, min_graph_size=0)
    for number in range(3):
        calls.seen.clear()
        f(inputs(1)[0])
        assert set(calls.seen) == {number} and len(calls.seen) >= 3


def test_backends_that_were_swapped_out_are_freed(backend):
    f = sot.to_static(breaking, backend=backend, min_graph_size=0)
    f(*inputs(1))
    gone = []
    for number in range(50):
        marked = Marked(number)
        gone.append(weakref.ref(marked))
        sot.swap_backend("swapped", marked)
        del marked
        f(*inputs(1))
    gc.collect()
    assert sum(ref() is not None for ref in gone) <= 1
    graphs = len(sot.report.static_function(f).graphs())
    sot.swap_backend("swapped", Marked(0))
    f(*inputs(1))
    assert len(sot.report.static_function(f).graphs()) <= graphs


def test_a_function_that_a_backend_could_not_compile_is_tried_with_the_next_one(backend):
    def broken(ir, metas):
        raise RuntimeError("cannot compile")

    sot.swap_backend("swapped", broken)
    f = sot.to_static(middle, backend=backend, min_graph_size=0)
    x, _ = inputs(1)
    for _ in range(5):
        f(x)
    assert [reason.count for reason in sot.stats(f).fallbacks] == [3]
    sot.swap_backend("swapped", Marked(7))
    calls.seen.clear()
    assert np.array_equal(f(x).numpy(), middle(x).numpy())
    assert calls.seen == [7]
