"""Code objects that users meet in tracebacks hash and compare as any others do, without a look at the user's objects.

Template engines, for one, ask of each frame whether its code is among those that they know.
"""

import paddle
import paddle_sot_rs as sot
import pytest


class Failure(Exception):
    pass


class Kind(type):
    def __hash__(cls):
        raise AssertionError("the code object of a frame asks a class")


class Thing(metaclass=Kind):
    __hash__ = None

    def __init__(self, x, name):
        self.x, self.name = x, name
        _fail(x, name)


TABLE = {}


def _fail(x, *given):
    x.numpy()
    raise Failure(*given)


def _text_for_an_inner_call(x):
    return _fail(x + 1, f"{x.ndim!r} is undefined")


def _text_behind_the_call(x):
    name, y = "_".join(["a", "b"]), x * 2
    return int(f"{name}x"), y


def _constructor(x):
    return Thing(x * 2, "_".join(["a", "b"]))


def _global(x):
    global RESULT
    RESULT = {"n": x * 2}
    return _fail(x, "_".join(["a", "b"]))


def _item(x):
    name, kind = "_".join(["a", "b"]), Thing
    TABLE[name] = x * 2
    return _fail(x, [name, kind]), kind


def _instance(x):
    made = Thing.__new__(Thing)
    made.x, made.name = x * 2, "_".join(["a", "b"])
    return _fail(x, made), made


@pytest.mark.parametrize(
    "function", [_text_for_an_inner_call, _text_behind_the_call, _constructor, _global, _item, _instance]
)
def test_they_hash(function):
    expected = None
    for run in (function, sot.to_static(function)):
        for _ in range(2):
            with pytest.raises((Failure, ValueError)) as caught:
                run(paddle.ones([2]))
            step, names = caught.tb, []
            while step is not None:
                code = step.tb_frame.f_code
                assert code not in {_fail.__code__.replace(co_name="other")}
                assert code == code and hash(code) == hash(code)
                names.append(code.co_name)
                step = step.tb_next
            expected = expected or names
            assert names == expected
