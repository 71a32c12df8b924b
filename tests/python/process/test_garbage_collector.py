"""The garbage collector does not begin by itself while the engine translates, and is as it was behind that."""

import gc
import os
import sys
import threading

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.base.libpaddle import pir
from test_threads import in_the_middle_of_an_operation

X = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3))


def long(x):
    for _ in range(20):
        x = paddle.nn.functional.relu(x + 1)
    return x


def breaking(x):
    y = x * 2
    print(end="")
    return paddle.nn.functional.relu(y) + 1


def raising(x):
    y = x * 2
    return paddle.matmul(y, y)


@pytest.fixture
def collections():
    """Generations of the collections that run."""
    seen = []

    def note(phase, info):
        if phase == "start":
            seen.append(info["generation"])

    threshold = gc.get_threshold()
    gc.callbacks.append(note)
    yield seen
    gc.set_threshold(*threshold)
    gc.callbacks.remove(note)


def counted(function, collections):
    """How many collections a call makes, where each new object would make one."""
    gc.set_threshold(1, 1, 1)
    before = len(collections)
    try:
        return function(), len(collections) - before
    finally:
        gc.set_threshold(100_000)


@pytest.mark.parametrize("trains", [False, True])
def test_a_translation_makes_no_collection(trains, collections):
    x = X.detach()
    x.stop_gradient = not trains
    static = sot.to_static(long, min_graph_size=0)
    answer, count = counted(lambda: static(x), collections)
    assert np.array_equal(answer.numpy(), long(x).numpy())
    # What is around it makes some: a translation made more than one for each operator.
    assert count < 40
    assert sot.stats(static).graphs == 1


# Below zero it begins at each object.
THRESHOLDS = [(500, 7, 3), (0, 7, 3), (-1, 7, 3), (-9, 7, 3), (2**31 - 1, 7, 3)]


@pytest.mark.parametrize("threshold", THRESHOLDS, ids=lambda threshold: threshold[0])
@pytest.mark.parametrize("function", [long, breaking, raising])
def test_behind_a_translation_it_is_as_it_was(function, threshold):
    static = sot.to_static(function, min_graph_size=0)
    before = gc.get_threshold()
    gc.set_threshold(*threshold)
    try:
        for _ in range(2):
            try:
                static(X)
            except ValueError:
                assert function is raising
            assert gc.get_threshold() == threshold
    finally:
        gc.set_threshold(*before)


def test_what_others_set_meanwhile_stays(monkeypatch):
    before, seen = gc.get_threshold(), []

    def sets():
        seen.append(gc.isenabled())
        gc.set_threshold(600, 5, 4)
        gc.disable()

    try:
        in_the_middle_of_an_operation(monkeypatch, sets)
        assert gc.get_threshold() == (600, 5, 4)
        assert seen == [True]
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.set_threshold(*before)


def test_a_child_of_another_thread_collects(monkeypatch):
    """The translation that is under way is none of the child's."""
    before, codes = gc.get_threshold(), []

    def fork():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.get_threshold() == before else 1)
        codes.append(os.waitpid(child, 0)[1])

    thread = threading.Thread(target=fork)
    # It waits until Paddle is in eager mode again.
    in_the_middle_of_an_operation(monkeypatch, thread.start)
    thread.join()
    assert codes == [0]
    assert gc.get_threshold() == before


def test_what_is_collected_in_static_mode_ends_in_eager_mode():
    """Destructors of the user's run there where somebody collects by hand."""
    modes = []
    sot.to_static(long, min_graph_size=0)(X)
    # The engine's own import: its modules keep the builtins that they were made with.
    static_mode = sys.modules["paddle_sot_rs._paddle.static_mode"]

    class Node:
        def __del__(self):
            modes.append(paddle.in_dynamic_mode())

    window = static_mode.Window(pir.Program(), pir.Program(), lambda value: value)
    try:
        one, other = Node(), Node()
        one.other, other.other = other, one
        del one, other
        assert not paddle.in_dynamic_mode()
        gc.collect()
        assert not paddle.in_dynamic_mode()
    finally:
        window.close()
    assert modes == [True, True]
    assert paddle.in_dynamic_mode()
