"""Classes that a function makes go when it lets them go, and no translation is made for each of them."""

import gc
import weakref

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate


def deleted(x):
    gone = []

    class C:
        pass

    kept = weakref.ref(C, lambda _: gone.append("C"))
    y = x + 1
    del C
    gc.collect()
    return y.tolist(), gone, kept() is None


def in_a_cell(x):
    gone = []

    class C:
        def value(self):
            return x

    def read():
        return C  # noqa: F821

    kept = weakref.ref(C, lambda _: gone.append("C"))
    y = read()().value() * 2
    del read, C
    gc.collect()
    return y.tolist(), gone, kept() is None


def with_an_instance(x):
    gone = []

    class C:
        def __init__(self, value):
            self.value = value

    one = C(x)
    kept = weakref.ref(C, lambda _: gone.append("C"))
    y = one.value + 1
    del one, C
    before = list(gone)
    gc.collect()
    return y.tolist(), before, gone, kept() is None


def callbacks_that_are_methods(x):
    gone = []

    class C:
        def __init__(self, value):
            self.value = value

        def went(self, *ignored):
            gone.append("instance")

    one, other = C(x), C(x * 2)
    one.other = other
    other.kept = weakref.ref(one, other.went)
    other.other = one
    kept = weakref.ref(C, lambda _: gone.append("C"))
    del one, other, C
    gc.collect()
    return gone, kept() is None


@pytest.mark.parametrize("function", [deleted, in_a_cell, with_an_instance, callbacks_that_are_methods])
def test_they_go_as_in_eager_mode(function):
    translated = translate(function)
    x = paddle.ones([2])
    for _ in range(3):
        assert translated(x) == function(x)


def test_a_settled_call_translates_nothing():
    def computes(x):
        class Scale:
            def __init__(self, by):
                self.by = by

        return x * Scale(2.0).by + 1

    translated = translate(computes)
    x = paddle.ones([2])
    for _ in range(5):
        assert translated(x).tolist() == [3.0, 3.0]
    before = sot.stats(translated).translations
    for _ in range(5):
        translated(x)
    assert sot.stats(translated).translations == before


def test_those_of_a_factory_are_captured():
    def factory():
        class Scale:
            def __init__(self, by):
                self.by = by

        return Scale

    scale = factory()
    translated = translate(lambda x: x * scale(2.0).by + 1)
    assert translated(paddle.ones([2])).tolist() == [3.0, 3.0]
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])
