"""Cases of something that was absent, was not so, or was another object, and no longer is.

A case is a generator. It first gives the function, then changes something before every further step; a step may give
the arguments of its calls.
"""

import types

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, _Picture, difference, translate

X = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3) - 1)


def cases():
    """A list of cases and the decorator that adds to it."""
    found = []

    def case(function):
        found.append(pytest.param(function, id=function.__name__))
        return function

    return found, case


def ns(**attributes):
    return types.SimpleNamespace(**attributes)


def run_case(steps):
    """The translation notices every change and agrees with plain Python; nothing is translated again without one."""
    run = steps()
    function = next(run)
    translated = translate(function)

    def outcome(call, args):
        paddle.seed(3)
        try:
            return _Picture().of(("returned", call(*args)))
        except Exception as error:  # noqa: BLE001 - the same one is expected
            return _Picture().of(("raised", type(error), str(error)))

    def agree(when, args):
        args = args or (X,)
        made = []
        # What cannot be captured is tried again a few times.
        for _ in range(8):
            expected, actual = outcome(function, args), outcome(translated, args)
            assert (found := difference(expected, actual, close=False)) is None, f"{when}: {found}"
            if not IDENTITY:
                made.append(sot.stats(translated).translations)
            if made[-2:-1] == made[-1:]:
                break
        assert made[-2:-1] == made[-1:], f"{when}: translated again, nothing had changed: {made}"

    agree("before", None)
    for number, args in enumerate(run, 1):
        agree(f"after change {number}", args)
