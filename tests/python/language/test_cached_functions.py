"""Functions of `functools.lru_cache`: each call runs natively, with its cache and its statistics."""

import functools

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate


@functools.cache
def numbers(n, m=1):
    return [n * m]


class Sizes:
    def __init__(self, by):
        self.by = by

    @functools.lru_cache(maxsize=4)  # noqa: B019 - what binds here is the point
    def size(self, n):
        return n * self.by

    @functools.cache  # noqa: B019
    def mask(self, n):
        return paddle.tril(paddle.ones([n, n]))


def of_a_function(sizes, x):
    return x * numbers(3)[0] + numbers(4, m=2)[0], numbers(3)


def of_a_method(sizes, x):
    return x * sizes.size(4), sizes.by


def bound_first(sizes, x):
    size = sizes.size
    return x * size(4) + size(5), size(4)


def of_a_tensor(sizes, x):
    return x @ sizes.mask(2), sizes.mask(2)


@pytest.mark.parametrize(
    ("function", "breaks"), [(of_a_function, 3), (of_a_method, 1), (bound_first, 3), (of_a_tensor, 2)]
)
def test_the_cache_is_asked(function, breaks):
    def run(of):
        for cached in (numbers, Sizes.size, Sizes.mask):
            cached.cache_clear()
        found, sizes = [], Sizes(2)
        for by in (2, 2, 3):
            sizes.by = by
            first, second = of(sizes, paddle.ones([2, 2]))
            found.append((first.tolist(), second.tolist() if isinstance(second, paddle.Tensor) else second))
        return found, [cached.cache_info() for cached in (numbers, Sizes.size, Sizes.mask)]

    translated = translate(function)
    assert run(translated) == run(function)
    assert len({each.message + str(each.line) for each in sot.stats(translated).graph_breaks}) <= breaks
    assert all("_lru_cache_wrapper" in each.message for each in sot.stats(translated).graph_breaks)


def test_the_same_object_each_time():
    translated, sizes = translate(of_a_tensor), Sizes(1)
    assert translated(sizes, paddle.ones([2, 2]))[1] is translated(sizes, paddle.ones([2, 2]))[1]
