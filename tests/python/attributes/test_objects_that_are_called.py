"""Objects that are called note which attributes they are asked for: no more than in plain Python."""

import functools

import paddle
import pytest
from harness import translate

LOG: list[str] = []


class Noting:
    def __getattr__(self, name):
        LOG.append(name)
        raise AttributeError(name)


class Called(Noting):
    def __call__(self, x):
        return x + 1


class Named(Called):
    @property
    def __name__(self):
        LOG.append("name")
        return "recompute"


class Everything(Noting):
    def __getattribute__(self, name):
        LOG.append(name)
        return object.__getattribute__(self, name)

    def __call__(self, x):
        return x * 2


def plain(x, it):
    try:
        return it(x * 2)
    except TypeError:
        return x


def cast(x, it):
    with paddle.amp.auto_cast(False):
        try:
            return it(x * 2)
        except TypeError:
            return x


def partial(x, it):
    try:
        return functools.partial(it, x * 2)()
    except TypeError:
        return x


def mapped(x, it):
    try:
        return list(map(it, [x, x * 2]))
    except TypeError:
        return [x]


def key(x, it):
    try:
        return sorted([x.sum() * 0 + 2, x.sum() * 0 + 1], key=it)
    except TypeError:
        return [x]


@pytest.mark.parametrize("made", [Noting, Called, Named, Everything])
@pytest.mark.parametrize("function", [plain, cast, partial, mapped, key])
def test_they_are_asked_what_they_are_asked_in_plain_python(function, made):
    seen = []
    for each in (function, translate(function)):
        LOG.clear()
        for _ in range(3):
            answer = each(paddle.ones([2]), made())
            seen.append((len(answer), list(LOG)))
    assert seen[:3] == seen[3:], seen
