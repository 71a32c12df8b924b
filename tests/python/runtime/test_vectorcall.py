"""Calls of settled functions that go straight to the original: arguments, errors, depth and who looks on."""

import functools
import itertools
import sys
import threading

import paddle
import paddle_sot_rs as sot
import pytest

# By then calls that are alike go straight to the original.
SETTLED = 120


def settled(function, *given):
    translated = sot.to_static(function)
    for _ in range(SETTLED):
        translated(*given)
    assert [reason.id for reason in sot.stats(translated).fallbacks] == ["PSR0806"]
    return translated


def added(x, y=2, *rest, scale=1, **named):
    return (x + y) * scale, rest, named


def outcome(call):
    try:
        result, rest, named = call()
        return result.tolist(), len(rest), sorted(named)
    except Exception as err:
        return type(err), str(err)


CALLS = {
    "as it was": lambda f, x: f(x),
    "another number": lambda f, x: f(x, 3),
    "a tensor in the place of a number": lambda f, x: f(x, x),
    "more than there are names for": lambda f, x: f(x, 3, 4, 5),
    "by name": lambda f, x: f(x=x),
    "by names that take the rest": lambda f, x: f(x, scale=3, other=4),
    "a name twice": lambda f, x: f(x, x=x),
    "nothing": lambda f, x: f(),
    "another shape": lambda f, x: f(paddle.ones([2, 3])),
    "another dtype": lambda f, x: f(x.astype("float64")),
    "an operand that does not fit": lambda f, x: f(x, "text"),
    "through partial": lambda f, x: functools.partial(f, x)(5, scale=2),
    "through starmap": lambda f, x: next(itertools.starmap(f, [(x, 4)])),
    "through map": lambda f, x: next(map(f, [x])),
    "an unpacked tuple": lambda f, x: f(*(x, 6)),
    "an unpacked dict": lambda f, x: f(**{"x": x, "y": 6}),
    "through its class": lambda f, x: type(f).__call__(f, x, 7),
    "through its attribute": lambda f, x: f.__call__(x, 7),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_form_of_call_is_that_of_the_original(name):
    x = paddle.ones([4])
    translated = settled(added, x)
    for _ in range(3):
        found = outcome(lambda: CALLS[name](translated, x))
        expected = outcome(lambda: CALLS[name](added, x))
        if name == "through its attribute":
            assert found[0] == expected[0]
        assert found == expected


def test_a_method_is_bound_to_its_object():
    class Scaled:
        def __init__(self, by):
            self.by = by

        def plain(self, x):
            return x * self.by

        translated = sot.to_static(plain)

    x = paddle.ones([4])
    one, two = Scaled(2.0), Scaled(3.0)
    for _ in range(SETTLED):
        assert one.translated(x).tolist() == one.plain(x).tolist()
        assert two.translated(x).tolist() == two.plain(x).tolist()
    bound = one.translated
    assert (bound.__self__, bound.__func__) == (one, Scaled.__dict__["translated"])
    assert bound(x).tolist() == one.plain(x).tolist()
    assert Scaled.translated(two, x).tolist() == two.plain(x).tolist()


def test_a_bound_method_that_is_translated_keeps_its_object():
    class Scaled:
        by = 2.0

        def plain(self, x):
            return x * self.by

    kept = Scaled()
    translated = settled(kept.plain, paddle.ones([4]))
    kept.by = 5.0
    assert translated(paddle.ones([4])).tolist() == kept.plain(paddle.ones([4])).tolist()


def test_what_the_original_raises_arrives_with_its_frames():
    def function(x, fails):
        if fails:
            raise ValueError("failed")
        return x + 1

    translated = settled(function, paddle.ones([4]), 0)
    for _ in range(3):
        with pytest.raises(ValueError, match="failed") as caught:
            translated(paddle.ones([4]), 1)
        assert caught.traceback[-1].name == "function"
        assert len(caught.traceback) == 2


@pytest.mark.parametrize("limit", [300, 1000])
def test_recursion_ends_where_that_of_plain_python_ends(limit):
    def depth_of(call):
        depth = 0

        def counted(x):
            nonlocal depth
            depth += 1
            return call(counted, x)

        with pytest.raises(RecursionError):
            counted(paddle.ones([4]))
        return depth

    translated = settled(lambda x: x + 1, paddle.ones([4]))

    def once(again, x):
        return again(translated(x))

    def plain(again, x):
        return again((lambda x: x + 1)(x))

    before = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(limit)
        assert abs(depth_of(once) - depth_of(plain)) <= 2
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("depth", [10, 60, 150, 250, 800])
def test_settled_functions_call_themselves(depth):
    def plain(x, again, n):
        return again(x + 1, again, n - 1) if n else x

    leaf = sot.to_static(plain)
    for _ in range(SETTLED):
        leaf(paddle.ones([2]), leaf, 0)
    assert leaf(paddle.ones([2]), leaf, depth).tolist() == [depth + 1.0] * 2


def test_a_profiler_sees_the_frame_of_the_original():
    x = paddle.ones([4])

    def function(x):
        return x + 1

    translated = settled(function, x)
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append((event, frame.f_code.co_name)))
    try:
        translated(x)
    finally:
        sys.setprofile(None)
    assert seen.count(("call", "function")) == 1


def test_threads_call_one_settled_function():
    x = paddle.ones([4])
    translated = settled(lambda x: x * 2 + 1, x)
    found = []

    def run():
        found.extend(translated(paddle.full([4], float(n))).tolist()[0] for n in range(300))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted([2.0 * n + 1 for n in range(300)] * 4)


def test_what_other_arguments_make_of_it_is_found():
    """Another way through, which a flag decides, is translated at once."""

    def function(x, deep=False):
        for _ in range(30 if deep else 1):
            x = paddle.tanh(x)
        return x

    x = paddle.ones([4])
    translated = settled(function, x)
    for _ in range(2):
        assert translated(x, True).tolist() == function(x, True).tolist()
    stats = sot.stats(translated)
    assert (stats.translations, stats.graphs, stats.graph_breaks) == (2, 2, [])


def test_translations_are_found_again_behind_a_reset():
    x = paddle.ones([4])
    translated = settled(lambda x: x + 1, x)
    translated.reset()
    assert translated(x).tolist() == [2.0] * 4
    stats = sot.stats(translated)
    assert (stats.translations, stats.graphs, stats.fallbacks) == (1, 1, [])
