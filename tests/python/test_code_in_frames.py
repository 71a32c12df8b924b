"""Code objects that user code meets in frames hash and compare as any others do, and without a look at user objects."""

import sys

import paddle
import paddle_sot_rs as sot
import pytest
from paddle_sot_rs.debug import force_translation

SEEN = []


def _codes():
    """What a caller is doing, as debuggers and template engines ask: of each frame, whether they know its code."""
    frame = sys._getframe(1)
    while frame is not None:
        SEEN.append(frame.f_code in {_codes.__code__})
        assert frame.f_code == frame.f_code
        frame = frame.f_back


class Marked(dict):
    __hash__ = None


class Watched:
    def __hash__(self):
        raise AssertionError("the code object of a frame asks")

    def __eq__(self, other):
        raise AssertionError("the code object of a frame compares")


TABLE = {"a": [1, 2]}
MARKED = Marked(a=1)
WATCHED = Watched()
TEXT = "".join(["comp", "uted"])


def _with_list(x):
    kept = [x, TABLE]
    _codes()
    return kept


def _with_objects(x, given=WATCHED):
    kept = MARKED, given, TEXT, x * 2
    sot.graph_break()
    _codes()
    return kept[3]


def _that_writes(x):
    global COUNT
    COUNT = {"n": x}
    sys.modules[__name__].OTHER = [1]
    _codes()
    return x + 1


def _that_raises(x):
    TABLE["n"] = [x.sum() > 0]
    text = TEXT + "!"
    sot.graph_break()
    raise ValueError(text)


@pytest.mark.parametrize("function", [_with_list, _with_objects, _that_writes])
@pytest.mark.parametrize("forced", [False, True])
def test_they_hash(function, forced):
    seen = []
    for run in (function, function if forced else sot.to_static(function)):
        SEEN.clear()
        if forced and seen:
            with force_translation():
                for _ in range(3):
                    run(paddle.ones([2]))
        else:
            for _ in range(3):
                run(paddle.ones([2]))
        assert SEEN
        seen.append(set(SEEN))
    assert seen == [{False}] * 2


def test_those_in_tracebacks_hash():
    for run in (_that_raises, sot.to_static(_that_raises)):
        for _ in range(2):
            with pytest.raises(ValueError, match="computed!") as caught:
                run(paddle.ones([2]))
            step = caught.tb
            while step is not None:
                assert step.tb_frame.f_code not in {_codes.__code__}
                step = step.tb_next
