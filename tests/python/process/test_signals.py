"""Signals that arrive while a function is translated: handlers run when it is done, and what they raise is raised."""

import functools
import signal
import sys
import threading

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec

X = paddle.to_tensor([1.0, 2.0])
USER, ALARM = signal.SIGUSR1, signal.SIGALRM


@pytest.fixture
def send():
    """The signals that the backend `sending` gets, one list for each graph that it compiles."""
    coming = []

    def compiler(ir, metas):
        for number in coming.pop(0) if coming else ():
            signal.raise_signal(number)
        return ir

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, USER, ALARM)}
    # Shells let processes in the background ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sot.register_backend("sending", compiler)
    yield coming
    sot.unregister_backend("sending")
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _double(x):
    return x * 2 + 1


def _check(function, graphs):
    before = [signal.getsignal(number) for number in (signal.SIGINT, USER, ALARM)]
    assert np.array_equal(function(X).numpy(), _double(X).numpy())
    record = sot.stats(function)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (graphs, [], []), record
    assert [signal.getsignal(number) for number in (signal.SIGINT, USER, ALARM)] == before


def test_an_interrupt_is_raised_and_nothing_is_lost(send):
    send.append([signal.SIGINT])
    function = sot.to_static(_double, backend="sending", min_graph_size=0)
    with pytest.raises(KeyboardInterrupt):
        function(X)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    _check(function, 1)
    assert sot.stats(function).translations == 1


def test_a_time_limit_is_raised(send):
    """Whatever its handler raises: a plain exception would look like one of the call that is looked at."""

    def end(number, frame):
        raise TimeoutError(number)

    signal.signal(ALARM, end)
    send.append([ALARM])
    function = sot.to_static(_double, backend="sending", min_graph_size=0)
    with pytest.raises(TimeoutError, match=str(int(ALARM))):
        function(X)
    _check(function, 1)


def test_a_handler_that_returns_runs_once_in_the_frame_of_the_caller(send):
    seen = []
    signal.signal(USER, lambda number, frame: seen.append((number, frame)))
    send.append([USER])
    function = sot.to_static(_double, backend="sending", min_graph_size=0)
    _check(function, 1)
    assert [number for number, _ in seen] == [USER]
    assert seen[0][1].f_code is _check.__code__
    seen.clear()
    signal.raise_signal(USER)
    assert seen[0][1] is sys._getframe()


def test_the_others_run_where_one_raises(send):
    seen = []

    def end(number, frame):
        raise TimeoutError

    signal.signal(ALARM, end)
    signal.signal(USER, lambda number, frame: seen.append(number))
    send.append([ALARM, USER])
    function = sot.to_static(_double, backend="sending", min_graph_size=0)
    with pytest.raises(TimeoutError):
        function(X)
    assert seen == [USER]
    _check(function, 1)


def test_who_sends_it_twice_does_not_wait(send):
    """What was cut short is not kept."""
    seen = []

    def end(number, frame):
        seen.append(number)
        raise KeyboardInterrupt

    signal.signal(USER, end)
    send.append([USER, USER])
    function = sot.to_static(_double, backend="sending", min_graph_size=0)
    with pytest.raises(KeyboardInterrupt):
        function(X)
    assert seen == [USER, USER]
    assert sot.stats(function).fallbacks == []
    _check(function, 1)
    assert sot.stats(function).translations == 2


def test_behind_a_break_what_came_before_has_happened_once(send):
    notes = []

    def function(x):
        notes.append("first")
        y = x * 2
        sot.graph_break()
        notes.append("second")
        return y + 1

    send += [[], [signal.SIGINT]]
    translated = sot.to_static(function, backend="sending", min_graph_size=0)
    with pytest.raises(KeyboardInterrupt):
        translated(X)
    assert notes == ["first"]
    assert np.array_equal(translated(X).numpy(), _double(X).numpy())
    assert notes == ["first", "first", "second"]
    assert sot.stats(translated).graphs == 2


def test_other_threads_hold_nothing(send):
    """Handlers run in the main thread."""
    seen = []
    signal.signal(USER, lambda number, frame: seen.append(threading.current_thread()))
    send.append([USER])
    function = sot.to_static(_double, backend="sending", min_graph_size=0)
    thread = threading.Thread(target=function, args=(X,))
    thread.start()
    thread.join()
    assert seen == [threading.main_thread()]
    _check(function, 1)


@pytest.mark.parametrize("raises", [KeyboardInterrupt, TimeoutError, None])
@pytest.mark.parametrize("kind", ["method", "partial", "object"])
def test_signals_while_a_graph_runs(raises, kind):
    """The function does not run natively then as if its graph had failed."""
    seen = []

    class Watch:
        def end(self, number, frame):
            seen.append(number)
            if raises is not None:
                raise raises

        __call__ = end

    def compiler(ir, metas):
        def run(*tensors):
            signal.raise_signal(USER)
            return ir(*tensors)

        return run

    watch = Watch()
    handlers = {"method": watch.end, "partial": functools.partial(Watch.end, watch), "object": watch}
    before = signal.signal(USER, handlers[kind])
    sot.register_backend("sent", compiler)
    try:
        function = sot.to_static(_double, backend="sent", min_graph_size=0)
        for number in (1, 2, 3):
            if raises is None:
                assert np.array_equal(function(X).numpy(), _double(X).numpy())
            else:
                with pytest.raises(raises):
                    function(X)
            assert len(seen) == number
        assert (sot.stats(function).graphs, sot.stats(function).fallbacks) == (1, [])
    finally:
        sot.unregister_backend("sent")
        signal.signal(USER, before)


def test_an_export_is_interrupted_and_leaves_nothing(send, tmp_path):
    calls = []
    add = paddle.add

    def interrupted(*args, **kwargs):
        if not calls:
            calls.append(signal.raise_signal(signal.SIGINT))
        return add(*args, **kwargs)

    @sot.allow_in_graph
    def step(x):
        return interrupted(x, x)

    function = sot.to_static(lambda x: step(x) * 2)
    spec = [InputSpec([2], "float32", "x")]
    with pytest.raises(KeyboardInterrupt):
        sot.save(function, str(tmp_path / "net"), input_spec=spec)
    assert not list(tmp_path.iterdir())
    sot.save(function, str(tmp_path / "net"), input_spec=spec)
    assert list(tmp_path.iterdir())


class Opaque:
    """Something that leaves the calls inside of it to the interpreter."""

    def __enter__(self):
        sot.graph_break()

    def __exit__(self, *_):
        return False


def _outer(x):
    with Opaque():
        return list(map(_double, [x]))[0]


def test_a_callee_that_native_code_calls(send):
    send += [[signal.SIGINT]]
    function = sot.to_static(_outer, backend="sending", min_graph_size=0)
    with pytest.raises(KeyboardInterrupt):
        function(X)
    assert np.array_equal(function(X).numpy(), _double(X).numpy())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_thread_that_is_taken_for_the_main_thread(send, monkeypatch):
    """Libraries of green threads put functions of their own into `threading`."""
    function = sot.to_static(_double, backend="sending", min_graph_size=0)

    def call():
        monkeypatch.setattr(threading, "main_thread", threading.current_thread)
        results.append(function(X))
        monkeypatch.undo()

    results = []
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert np.array_equal(results[0].numpy(), _double(X).numpy())
    _check(function, 1)
