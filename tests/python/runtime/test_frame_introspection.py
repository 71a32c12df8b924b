"""What looks at the locals of a frame behind a graph break, by whatever name it is called."""

import inspect
import sys
import traceback
import warnings

import paddle
import paddle_sot_rs as sot
import pytest
from support import check

X = paddle.to_tensor([1.0, 2.0])


def of_the_enclosing_function(x, show):
    limit, other = 3, 4

    def inner(text):
        if float(x.sum()) > limit + other:
            return None
        return show(text)

    return inner("text"), inner("x") is x


def of_a_name_not_read_again(x, show):
    secret = len(x.shape) + 4
    y = x * secret
    sot.graph_break()
    return y + show("secret")


def in_a_loop(x, show):
    scale = 2

    def once(text):
        sot.graph_break()
        return show(text) * scale

    return [once(text) for text in ("scale", "text + text", "scale + 1")]


@pytest.mark.parametrize("program", [of_the_enclosing_function, of_a_name_not_read_again, in_a_loop])
def test_eval_by_another_name(program):
    check(lambda x: program(x, eval), X, fallbacks=None)
    check(program, X, eval, fallbacks=None)


def failing(x, show):
    scale, unused = 2, 30

    def inner(text):
        if len(text) > scale * unused:
            return text
        return show(text)

    return x, inner("1 // 0")


def test_tracebacks_show_locals_of_resume_functions():
    translated = sot.to_static(failing, min_graph_size=0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError) as caught:
            translated(X, eval)
        frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True).stack
        (inner,) = [frame.locals for frame in frames if frame.name == "inner"]
        assert (inner["scale"], inner["unused"]) == ("2", "30")


def test_free_variables_are_there_from_the_first_instruction():
    def outer(x):
        scale, unused = 2, 3

        def inner(y):
            sot.graph_break()
            return y * scale if float(y.sum()) else unused

        return inner(x + 1)

    translated = sot.to_static(outer, min_graph_size=0)
    expected = outer(X).tolist()
    translated(X)
    seen = []

    def profile(frame, event, arg):
        if event == "call" and frame.f_code.co_name == "inner":
            seen.append(dict(frame.f_locals))

    for _ in range(2):
        sys.setprofile(profile)
        try:
            result = translated(X)
        finally:
            sys.setprofile(None)
        assert result.tolist() == expected
    assert all(there["scale"] == 2 and there["unused"] == 3 for there in seen) and seen


def asks(name):
    return sys._getframe(1).f_locals.get(name)


def asks_behind_a_break(name):
    sot.graph_break()
    return sys._getframe(1).f_locals.get(name)


def asks_for_the_stack(name):
    return inspect.stack()[1].frame.f_locals.get(name)


def asks_the_frame_before(name):
    return inspect.currentframe().f_back.f_locals.get(name)


def asks_a_traceback(name):
    try:
        raise ValueError
    except ValueError as error:
        return error.__traceback__.tb_frame.f_back.f_locals.get(name)


def evaluate(text):
    frame = sys._getframe(1)
    return eval(text, frame.f_globals, frame.f_locals)


class Asking:
    def __mod__(self, name):
        return sys._getframe(1).f_locals.get(name)

    @property
    def secret(self):
        return sys._getframe(1).f_locals.get("secret")


ASKING = Asking()


def of_a_caller(x, ask):
    secret = 7  # noqa: F841
    y = x + 1
    sot.graph_break()
    return y, ask("secret")


def of_a_caller_in_a_cell(x, ask):
    def inner(y):
        secret = 7  # noqa: F841
        y = y + 1
        sot.graph_break()
        return y, ask("secret")

    return inner(x)


def of_a_caller_of_what_breaks(x, ask):
    secret = 7  # noqa: F841
    y = x + 1
    return y, asks_behind_a_break("secret"), ask("y") is y


@pytest.mark.parametrize("program", [of_a_caller, of_a_caller_in_a_cell, of_a_caller_of_what_breaks])
@pytest.mark.parametrize(
    "ask", [asks, asks_behind_a_break, asks_for_the_stack, asks_the_frame_before, asks_a_traceback]
)
def test_callees_read_locals_that_nothing_else_reads_again(program, ask):
    check(program, X, ask, fallbacks=None)


def test_texts_are_evaluated_with_the_locals_of_the_caller():
    def program(x):
        size = x.shape[0] * 2  # noqa: F841
        y = x + 1
        if y.sum() > 3:
            y = y * 2
        return y * evaluate("size + 1")

    check(program, X, fallbacks=None)


def test_methods_and_operators_read_the_locals_of_the_caller():
    def program(x):
        secret = 7  # noqa: F841
        y = x + 1
        sot.graph_break()
        return y, ASKING % "secret", ASKING.secret

    check(program, X, fallbacks=None)


class Warned(paddle.nn.Layer):
    def forward(self, x):
        y = x * 2
        sot.graph_break()
        warnings.warn("of the caller", stacklevel=2)
        return y + 1


class Called(paddle.nn.Layer):
    def forward(self, x):
        y = x * 2
        sot.graph_break()
        return y + 1, sys._getframe(1).f_code.co_name, sys._getframe(2).f_code.co_name


@pytest.mark.parametrize("layer", [Warned(), Called()])
def test_a_layer_is_the_caller_of_its_forward(layer):
    def program(x):
        return layer(x + 1)

    def run(function):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = function(X)
        return [str(result), [(str(one.message), one.filename, one.lineno) for one in caught]]

    expected = run(program)
    translated = sot.to_static(program, min_graph_size=0)
    assert [run(translated) for _ in range(3)] == [expected] * 3


def test_tracing_that_begins_inside():
    seen = []

    def watch(frame, event, arg):
        seen.append((frame.f_code.co_name, event, frame.f_lineno))
        return watch

    def callee(x):
        return x * 2

    def traced(x):
        y = callee(x + 1)
        sys.settrace(watch)
        y = callee(y)
        sys.settrace(None)
        return y + 1

    def profiled(x):
        y = callee(x + 1)
        sys.setprofile(watch)
        y = callee(y)
        sys.setprofile(None)
        return y + 1

    def run(function):
        seen.clear()
        result = function(X)
        return result.tolist(), [event for event in seen if event[0] in ("callee", "traced", "profiled")]

    for program in (traced, profiled):
        expected = run(program)
        translated = sot.to_static(program, min_graph_size=0)
        assert [run(translated) for _ in range(3)] == [expected] * 3
