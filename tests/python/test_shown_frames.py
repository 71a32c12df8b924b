"""What looks at the locals of a frame behind a graph break, by whatever name it is called."""

import sys
import traceback

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
