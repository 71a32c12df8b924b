"""What stands behind many reads of one another: lists of linked nodes, nests of containers."""

import signal
from functools import partial

import paddle
import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, tensor, translate


class Node:
    def __init__(self, value, following):
        self.value = value
        self.following = following


def linked(values):
    node = None
    for value in reversed(values):
        node = Node(value, node)
    return node


def nested(kind, depth):
    nest = kind()
    for _ in range(depth):
        nest = [nest] if kind is list else (nest,)
    return nest


def walk(x, node):
    total = 0
    while node is not None:
        total += node.value
        node = node.following
    return x * total


def depth_of(x, nest):
    depth = 0
    while nest:
        nest = nest[0]
        depth += 1
    return x * depth


def check(program, *arguments):
    """Such arguments cannot be copied: each is made twice."""
    translated = translate(program)
    for make in arguments:
        results = []
        for run in (program, translated):
            given = make()
            result = run(tensor(3, seed=1), given)
            results.append((result.tolist(), getattr(given, "seen", lambda: None)()))
        assert results[0] == results[1]
    return None if IDENTITY else sot.stats(translated)


@pytest.mark.parametrize("length", [100, 1000, 3000])
def test_linked_nodes_are_walked_part_by_part(length):
    ones = [1] * length
    last = [*ones[1:], 0.5]
    record = check(walk, *[partial(linked, values) for values in (ones, ones, last)])
    if IDENTITY:
        return
    assert bool(record.graph_breaks) == (length > 500)
    # Parts share their resume functions, however many there are.
    assert record.translations <= 16


@pytest.mark.parametrize("kind", [list, tuple])
def test_nests_of_containers(kind):
    check(depth_of, *[partial(nested, kind, depth) for depth in (2000, 2000, 1999, 3)])


class Weighted:
    def __init__(self, weight, following):
        self.weight = weight
        self.following = following

    def seen(self):
        node = self
        while node.following is not None:
            node = node.following
        return node.weight.tolist()


def weighted(length):
    node = Weighted(tensor(3, seed=1), None)
    for _ in range(length):
        node = Weighted(None, node)
    return node


def test_a_tensor_behind_many_nodes():
    def program(x, node):
        while node.following is not None:
            node = node.following
        node.weight.add_(x)
        return node.weight * 2

    check(program, *[partial(weighted, length) for length in (253, 254, 255, 256, 257, 600)])


OF_ITSELF = partial(print)
OF_ITSELF.__setstate__((OF_ITSELF, (), {}, {}))


def test_a_partial_of_itself():
    def function(x):
        y = x * 2
        sot.graph_break()
        return y + 1, OF_ITSELF.func is OF_ITSELF

    static = sot.to_static(function, min_graph_size=0)
    before = signal.signal(signal.SIGUSR1, OF_ITSELF)
    try:
        for _ in range(2):
            result, same = static(paddle.ones([2]))
            assert result.tolist() == [3.0, 3.0] and same
    finally:
        signal.signal(signal.SIGUSR1, before)
    # It counts as one that may look at frames.
    assert (sot.stats(static).graphs, sum(it.count for it in sot.stats(static).graph_breaks)) == (2, 1)
