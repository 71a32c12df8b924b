"""The raw evaluation hook: the four rows of its table, and what must not be disturbed."""

from __future__ import annotations

import gc
import sys
import threading
import traceback
import weakref

import pytest
from paddle_sot_rs.frame import CustomCode, hook_is_installed, set_eval_frame


@pytest.fixture(autouse=True)
def _no_hook_left():
    yield
    set_eval_frame(None)
    assert not hook_is_installed()


class Recorder:
    """A callback that answers by function name and notes what it was asked."""

    def __init__(self, answers=None):
        self.answers = answers or {}
        self.seen = []

    def __call__(self, frame):
        name = frame.f_code.co_name
        if frame.f_globals is globals():
            self.seen.append(name)
        return self.answers.get(name)


def hooked(callback, function, *args, **kwargs):
    set_eval_frame(callback)
    try:
        return function(*args, **kwargs)
    finally:
        set_eval_frame(None)


def inner(x):
    return x + 1


def outer(x):
    return inner(x) * 2


def double(x):
    return inner(x) * 20


def ignored(x):
    return -x


def test_as_it_is_and_callees_are_looked_at():
    recorder = Recorder({"outer": CustomCode(None, False)})
    assert hooked(recorder, outer, 1) == 4
    assert recorder.seen == ["outer", "inner"]


def test_as_it_is_and_callees_are_not_looked_at():
    recorder = Recorder({"outer": CustomCode(None, True)})
    assert hooked(recorder, outer, 1) == 4
    assert recorder.seen == ["outer"]


def test_new_code_and_callees_are_looked_at():
    recorder = Recorder({"outer": CustomCode(double.__code__, False)})
    assert hooked(recorder, outer, 1) == 40
    assert recorder.seen == ["outer", "inner"]


def test_new_code_and_callees_are_not_looked_at():
    recorder = Recorder({"outer": CustomCode(double.__code__, True)})
    assert hooked(recorder, outer, 1) == 40
    assert recorder.seen == ["outer"]


def test_frames_after_a_frame_with_ignored_callees_are_looked_at_again():
    recorder = Recorder({"outer": CustomCode(None, True)})
    set_eval_frame(recorder)
    outer(1)
    inner(1)
    set_eval_frame(None)
    assert recorder.seen == ["outer", "inner"]


def test_the_frame_shows_code_namespaces_and_bound_arguments():
    shown = []

    def callback(frame):
        if frame.f_code is target.__code__:
            shown.append((frame.f_globals, frame.f_builtins, frame.f_locals, frame.function))

    def target(a, /, b, c=3, *rest, d, e=5, **more):
        return a

    hooked(callback, target, 1, 2, d=4, x=7)
    [(f_globals, f_builtins, f_locals, function)] = shown
    assert f_globals is globals()
    assert f_builtins is __builtins__ or f_builtins is __builtins__.__dict__
    assert f_locals == {"a": 1, "b": 2, "c": 3, "rest": (), "d": 4, "e": 5, "more": {"x": 7}}
    assert function is target


def test_new_code_gets_every_kind_of_argument():
    def target(a, /, b, c=3, *rest, d, e=5, **more):
        return None

    def other(a, /, b, c=3, *rest, d, e=5, **more):
        return a, b, c, rest, d, e, more

    def callback(frame):
        if frame.f_code is target.__code__:
            return CustomCode(other.__code__, False)

    assert hooked(callback, target, 1, 2, d=4) == (1, 2, 3, (), 4, 5, {})
    assert hooked(callback, target, 1, 2, 6, 7, 8, d=4, e=0, x=9, a=1) == (
        1, 2, 6, (7, 8), 4, 0, {"x": 9, "a": 1},
    )  # fmt: skip


def test_new_code_shares_the_closure():
    counter = 0

    def target(step):
        nonlocal counter
        counter += 1

    def other(step):
        nonlocal counter
        counter += 10 * step
        return counter

    def callback(frame):
        if frame.f_code is target.__code__:
            return CustomCode(other.__code__, False)

    assert hooked(callback, target, 2) == 20
    assert counter == 20


def test_arguments_that_are_cells_reach_new_code():
    def target(x):
        return lambda: x

    def other(x):
        return lambda: x + 1

    def callback(frame):
        if frame.f_code is target.__code__:
            return CustomCode(other.__code__, True)

    assert hooked(callback, target, 4)() == 5


def test_new_code_with_other_parameters_is_refused():
    recorder = Recorder({"inner": CustomCode((lambda a, b: a).__code__, True)})
    with pytest.raises(ValueError, match="parameters and free variables"):
        hooked(recorder, inner, 1)


def test_a_wrong_answer_is_an_error():
    with pytest.raises(TypeError, match="CustomCode or None"):
        hooked(lambda frame: 3, inner, 1)
    with pytest.raises(TypeError, match="callable or None"):
        set_eval_frame(3)


def test_what_the_callback_raises_the_call_raises():
    class Oops(Exception):
        pass

    def callback(frame):
        if frame.f_code is inner.__code__:
            raise Oops

    with pytest.raises(Oops):
        hooked(callback, outer, 1)


def raises(x):
    raise KeyError(x)


def raises_other(x):
    inner(x)
    raise IndexError(x)


def calls_raises(x):
    try:
        raises(x)
    except LookupError as err:
        return err
    finally:
        inner(x)


def test_exceptions_leave_replaced_frames_as_they_are():
    recorder = Recorder({"raises": CustomCode(raises_other.__code__, False)})
    err = hooked(recorder, calls_raises, 3)
    assert type(err) is IndexError
    names = [entry.name for entry in traceback.extract_tb(err.__traceback__)]
    assert names == ["calls_raises", "raises_other"]
    assert recorder.seen == ["calls_raises", "raises", "inner", "inner"]


def test_exceptions_pass_through_frames_that_run_as_they_are():
    for answer in (None, CustomCode(None, True)):
        err = hooked(Recorder({"calls_raises": answer}), calls_raises, 3)
        assert type(err) is KeyError
        assert [entry.name for entry in traceback.extract_tb(err.__traceback__)] == ["calls_raises", "raises"]


def test_the_exception_being_handled_is_visible_in_new_code():
    def target():
        return None

    def other():
        return sys.exc_info()[0]

    def run():
        try:
            raise OSError
        except OSError:
            return target()

    def callback(frame):
        if frame.f_code is target.__code__:
            return CustomCode(other.__code__, True)

    assert hooked(callback, run) is OSError


def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


def test_recursion_as_deep_as_plain_python_allows():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(30_000)
    try:
        assert hooked(lambda frame: None, depth, 20_000) == 20_000
        assert hooked(Recorder({"inner": CustomCode(None, True)}), depth, 20_000) == 20_000
    finally:
        sys.setrecursionlimit(limit)
    assert not hook_is_installed()


def test_endless_recursion_raises_recursion_error():
    for answer in (None, CustomCode(None, True), CustomCode(depth.__code__, False)):
        with pytest.raises(RecursionError):
            hooked(Recorder({"depth": answer}), depth, -1)


def numbers(n):
    for i in range(n):
        yield inner(i)


def test_generators_run_as_they_are():
    recorder = Recorder({"numbers": CustomCode(None, True)})
    assert hooked(recorder, lambda: list(numbers(3))) == [1, 2, 3]
    assert recorder.seen == ["<lambda>", "inner", "inner", "inner"]


def test_throwing_into_generators_and_closing_them():
    log = []

    def generator():
        while True:
            try:
                yield 1
            except ValueError:
                log.append("thrown")
            finally:
                log.append("finally")

    def run():
        it = generator()
        next(it)
        it.throw(ValueError())
        it.close()

    hooked(lambda frame: None, run)
    assert log == ["thrown", "finally", "finally"]


def test_coroutines_run_as_they_are():
    async def wait(x):
        return inner(x)

    async def agen():
        yield await wait(1)

    async def main():
        return [x async for x in agen()] + [await wait(5)]

    def run():
        coroutine = main()
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value

    assert hooked(lambda frame: None, run) == [2, 6]


def test_module_and_class_bodies_are_not_shown():
    names = []
    source = "class A:\n    x = 1\n    def f(self):\n        return self.x\ny = A().f()\n"
    namespace = {}
    hooked(lambda frame: names.append(frame.f_code.co_name), exec, source, namespace)
    assert namespace["y"] == 1
    assert "f" in names
    assert "<module>" not in names
    assert "A" not in names


def test_nothing_leaks_over_many_calls():
    argument = object()
    target = CustomCode(double.__code__, False)

    class Number(int):
        pass

    value = Number(3)
    recorder = lambda frame: target if frame.f_code is outer.__code__ else None  # noqa: E731

    def run(times):
        for _ in range(times):
            outer(value)
            keywords(argument, b=argument)

    def keywords(a, *rest, b=None, **more):
        return a

    watched = [argument, value, outer.__code__, double.__code__, target, keywords, globals()]
    hooked(recorder, run, 1000)
    gc.collect()
    counts = [sys.getrefcount(item) for item in watched]
    blocks = sys.getallocatedblocks()
    hooked(recorder, run, 100_000)
    gc.collect()
    assert [sys.getrefcount(item) for item in watched] == counts
    assert abs(sys.getallocatedblocks() - blocks) < 500


def test_nothing_leaks_when_replaced_frames_raise():
    answer = CustomCode(raises_other.__code__, True)
    callback = lambda frame: answer if frame.f_code is raises.__code__ else None  # noqa: E731
    key = object()

    def run(times):
        for _ in range(times):
            calls_raises_quietly(key)

    def calls_raises_quietly(x):
        try:
            raises(x)
        except (IndexError, TypeError):
            pass

    hooked(callback, run, 100)
    counts = sys.getrefcount(key), sys.getrefcount(answer), sys.getrefcount(raises)
    blocks = sys.getallocatedblocks()
    hooked(callback, run, 20_000)
    assert (sys.getrefcount(key), sys.getrefcount(answer), sys.getrefcount(raises)) == counts
    assert abs(sys.getallocatedblocks() - blocks) < 500


def test_arguments_die_with_the_replaced_call():
    class Thing:
        pass

    def target(x):
        return None

    def other(x):
        return 1

    def callback(frame):
        if frame.f_code is target.__code__:
            return CustomCode(other.__code__, True)

    def run():
        thing = Thing()
        alive = weakref.ref(thing)
        target(thing)
        del thing
        return alive

    assert hooked(callback, run)() is None


def test_replaced_frames_cross_chunks_of_the_data_stack():
    many_locals = "".join(f"    v{i} = n\n" for i in range(300))
    big = f"def f(n, g):\n{many_locals}    return n if n == 0 else g(n - 1, g)\n"
    namespace = {}
    exec(big, namespace)
    exec(big.replace("return n if", "return 100 if"), other := {})
    f, code = namespace["f"], other["f"].__code__
    answer = CustomCode(code, False)

    def callback(frame):
        return answer if frame.f_code is f.__code__ else None

    for _ in range(3):
        assert hooked(callback, f, 200, f) == 100


def test_tracing_runs_the_users_own_frames():
    recorder = Recorder({"outer": CustomCode(double.__code__, False)})
    lines = []

    def tracer(frame, event, arg):
        lines.append((frame.f_code.co_name, event))
        return None

    def run():
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            return outer(1)
        finally:
            sys.settrace(before)

    assert hooked(recorder, run) == 4
    assert ("outer", "call") in lines
    assert recorder.seen == ["run"] if sys.gettrace() is None else True


def test_profiling_runs_the_users_own_frames():
    recorder = Recorder({"outer": CustomCode(double.__code__, False)})

    def run():
        sys.setprofile(lambda *_: None)
        try:
            return outer(1)
        finally:
            sys.setprofile(None)

    assert hooked(recorder, run) == 4


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")
def test_monitoring_runs_the_users_own_frames():
    recorder = Recorder({"outer": CustomCode(double.__code__, False)})
    for tool in (0, 3, 5):
        sys.monitoring.use_tool_id(tool, "test")
        try:
            assert hooked(recorder, outer, 1) == 4
        finally:
            sys.monitoring.free_tool_id(tool)
        assert hooked(recorder, outer, 1) == 40


def test_the_hook_is_installed_only_while_a_thread_listens():
    assert not hook_is_installed()
    assert set_eval_frame(len) is None
    assert hook_is_installed()
    assert set_eval_frame(None) is len
    assert not hook_is_installed()


def test_a_callback_can_replace_itself():
    seen = []

    def second(frame):
        seen.append(("second", frame.f_code.co_name))

    def first(frame):
        seen.append(("first", frame.f_code.co_name))
        set_eval_frame(second)

    hooked(first, outer, 1)
    assert seen == [("first", "outer"), ("second", "inner")]


def test_the_callback_itself_is_not_shown():
    def helper():
        return 0

    def callback(frame):
        helper()
        names.append(frame.f_code.co_name)

    names = []
    hooked(callback, inner, 1)
    assert names == ["inner"]


def test_threads_have_their_own_callbacks():
    main, other = Recorder(), Recorder({"outer": CustomCode(double.__code__, False)})
    results = []

    def work():
        set_eval_frame(other)
        results.extend(outer(1) for _ in range(200))

    set_eval_frame(main)
    thread = threading.Thread(target=work)
    thread.start()
    ours = [outer(1) for _ in range(200)]
    thread.join()
    set_eval_frame(None)
    assert ours == [4] * 200
    assert results == [40] * 200
    assert main.seen.count("outer") == 200
    assert other.seen.count("outer") == 200


def test_a_thread_that_ends_listens_no_more():
    thread = threading.Thread(target=lambda: set_eval_frame(Recorder()))
    thread.start()
    thread.join()
    for _ in range(200):
        if not hook_is_installed():
            break
        threading.Event().wait(0.01)
    assert not hook_is_installed()


def test_threads_that_do_not_listen_are_not_shown():
    recorder, results = Recorder(), []
    set_eval_frame(recorder)
    thread = threading.Thread(target=lambda: results.append(outer(1)))
    thread.start()
    thread.join()
    set_eval_frame(None)
    assert results == [4]
    assert "outer" not in recorder.seen


def paddles_hook(callback):
    core = pytest.importorskip("paddle").base.core
    return core.set_eval_frame(callback)


def paddles_answer():
    from paddle.jit.sot.opcode_translator.custom_code import CustomCode as PaddleCustomCode

    return PaddleCustomCode(None, False)


def test_a_hook_that_was_there_before_is_called_too():
    ours, theirs, answer = Recorder(), [], paddles_answer()

    def callback(frame, **kwargs):
        theirs.append(frame.f_code.co_name)
        return answer

    before = paddles_hook(callback)
    try:
        assert hooked(ours, outer, 1) == 4
    finally:
        paddles_hook(before)
    # To ours, their callback is a call like any other.
    assert [name for name in ours.seen if name != "callback"] == ["outer", "inner"]
    assert theirs.count("outer") == 1
    assert theirs.count("inner") == 1


def test_a_hook_set_on_top_of_ours_and_removed_does_no_harm():
    ours, answer = Recorder(), paddles_answer()
    set_eval_frame(ours)
    before = paddles_hook(lambda frame, **kwargs: answer)
    assert outer(1) == 4
    set_eval_frame(None)
    assert outer(1) == 4
    paddles_hook(before)
    assert outer(1) == 4
    ours.seen.clear()
    assert hooked(ours, outer, 1) == 4
    assert ours.seen == ["outer", "inner"]
