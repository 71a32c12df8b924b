"""`module.name = value`: a write to a global of the module, done behind the graph."""

import sys
import types

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, translate

CODE = """
step = 1
def doubled():
    global step
    step = step * 2
    return step
"""


def made(kind=types.ModuleType):
    module = kind("a_module_of_the_program")
    exec(CODE, module.__dict__)
    return module


CONFIG = made()
sys.modules[CONFIG.__name__] = CONFIG


def counts(x):
    CONFIG.step = CONFIG.step + 1
    y = x * CONFIG.step
    CONFIG.step += 1
    return y + CONFIG.doubled() + CONFIG.step


def adds(x):
    CONFIG.added = [x * 2]
    CONFIG.added.append(1)
    return x + len(CONFIG.added), CONFIG.added


def reset():
    CONFIG.step = 1
    vars(CONFIG).pop("added", None)


def watch():
    return CONFIG.step, getattr(CONFIG, "added", None)


@pytest.mark.parametrize("function", [counts, adds])
def test_is_written(function):
    check(function, paddle.ones([2]), reset=reset, watch=watch, graphs=1, breaks=0)


def test_values_that_differ_between_calls():
    translated, x = translate(counts), paddle.ones([2])
    for _ in range(5):
        before = CONFIG.step
        expected = counts(x).tolist(), CONFIG.step
        CONFIG.step = before
        assert (translated(x).tolist(), CONFIG.step) == expected
    reset()
    assert sot.stats(translated).graph_breaks == []


class Watched(types.ModuleType):
    seen = []

    def __setattr__(self, name, value):
        Watched.seen.append(name)
        super().__setattr__(name, value)


class Computing(types.ModuleType):
    @property
    def step(self):
        return self.__dict__.get("own", 3)

    @step.setter
    def step(self, value):
        self.__dict__["own"] = value * 2


@pytest.mark.parametrize("kind", [Watched, Computing])
def test_modules_that_see_it(kind):
    module = made(kind)

    def function(x):
        module.step = 5
        return x * module.step

    translated, x = translate(function), paddle.ones([2])
    for of in (function, translated, translated):
        Watched.seen.clear()
        assert of(x).tolist() == ([5, 5] if kind is Watched else [10, 10])
        assert Watched.seen == (["step"] if kind is Watched else [])


def test_a_module_that_is_watched_later():
    module = made()

    def function(x):
        module.step = 5
        return x * module.step

    translated, x = translate(function), paddle.ones([2])
    assert translated(x).tolist() == [5, 5]
    Watched.seen.clear()
    module.__class__ = Watched
    assert translated(x).tolist() == [5, 5]
    assert Watched.seen == ["step"]


def test_what_others_read_is_set_at_once():
    import warnings

    def function(x):
        y = x * 2
        before, warnings.filters = warnings.filters, [*warnings.filters]
        warnings.filters.insert(0, ("ignore", None, Warning, None, 0))
        warnings.warn("not seen", stacklevel=1)
        warnings.filters = before
        return y + 1

    translated, x = translate(function), paddle.ones([2])
    with pytest.warns(UserWarning, match="^seen$"):
        for _ in range(2):
            assert translated(x).tolist() == [3, 3]
        warnings.warn("seen", stacklevel=1)


def deleted(x):
    CONFIG.step = 4
    del CONFIG.step
    try:
        return x * CONFIG.step
    except AttributeError:
        return x * 9


def test_deletion():
    check(deleted, paddle.ones([2]), reset=reset)
    reset()
