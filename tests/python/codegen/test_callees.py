"""Functions called by a part that runs natively are translated themselves, through the evaluation hook."""

import sys

import paddle
import paddle_sot_rs as sot
import pytest
from harness import check, tensor
from paddle import nn

X = tensor(4, 8)
LOG = []


class Block(nn.Layer):
    """Breaks in the middle: the branch is on the tensor."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x, *, scale=1.0):
        x = nn.functional.relu(self.first(x)) * scale
        if x.sum() > 0:
            x = x + 1
        return nn.functional.relu(self.second(x))


class Model(nn.Layer):
    def __init__(self):
        super().__init__()
        self.blocks = nn.LayerList([Block() for _ in range(2)])
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        x = self.blocks[0](x * 2)
        x = self.blocks[1](x, scale=0.5)
        return self.head(x)


def test_breaks_inside_of_layers_leave_graphs_on_both_sides():
    paddle.seed(1)
    model = Model()
    record = check(model.forward, tensor(4, 8, grad=True), fallbacks=0)
    # Each block breaks the call in `Model.forward` and is split itself.
    statements = record.ops
    assert record.graphs >= 5, record
    assert statements >= 11, record


def helper(x, *rest, offset=1, **named):
    LOG.append((len(rest), offset, sorted(named)))
    y = x * 2 + offset
    z = y.numpy().sum()
    return y + float(z) + len(rest) + len(named)


def test_arguments_of_every_kind_reach_a_callee():
    def function(x):
        a = helper(x)
        b = helper(x, 1, 2, offset=3)
        return a + helper(b, 4, key=5, other=6)

    LOG.clear()
    check(function, X, fallbacks=0, watch=lambda: list(LOG), reset=LOG.clear)


def replaced(x, by=1):
    return x.exp() * by


def test_the_code_of_a_callee_is_replaced():
    class Called(type):
        def __call__(cls, x):
            return replaced(x) + 1

    class Made(metaclass=Called):
        pass

    def function(x):
        return Made(x * 2)

    first, other = replaced.__code__, (lambda x, by=1: x.sin() - by).__code__
    translated = sot.to_static(function, min_graph_size=0)
    try:
        for code in (first, other, first, other):
            replaced.__code__ = code
            for _ in range(2):
                assert (translated(X) == function(X)).all()
    finally:
        replaced.__code__ = first
    record = sot.stats(translated)
    # The metaclass breaks the graph; the callee is translated for each of its two codes.
    assert any("exp" in str(graph.ir) for graph in translated.graphs()), record
    assert any("sin" in str(graph.ir) for graph in translated.graphs()), record


def raises(x):
    y = x + 1
    print("before")
    if y.sum() > -1e9:
        raise ValueError("from a callee")
    return y


def test_an_exception_of_a_callee():
    def function(x):
        try:
            return raises(x * 2)
        except ValueError as error:
            return x + len(str(error))

    check(function, X, fallbacks=None)
    check(lambda x: raises(x * 2), X, fallbacks=None)


def counts(x, depth):
    y = x + depth
    print(float(y.sum()))
    return counts(y, depth - 1) if depth else y * 3


def test_recursion():
    check(lambda x: counts(x, 4) + 1, X, fallbacks=None)


def looks_at_its_locals(x):
    y = x * 2 + 1
    return y * 3 + len(locals())


def test_callees_of_a_frame_that_runs_as_it_is():
    def function(x):
        a = Block.forward(BLOCK, x)
        return a, len(locals())

    paddle.seed(2)
    global BLOCK
    BLOCK = Block()
    record = check(function, X, fallbacks=None)
    assert record.graphs >= 2, record


def test_what_looks_at_its_own_frame():
    check(lambda x: looks_at_its_locals(x) + 1, X, fallbacks=None)


def test_disabled_functions_and_what_they_call_are_left_alone():
    @sot.disable
    def native(x):
        return helper(x)

    def function(x):
        return native(x * 2) + 1

    translated = sot.to_static(function, min_graph_size=0)
    translated(X)
    assert sot.stats(translated).graphs == 2


def test_the_hook_is_gone_afterwards():
    from paddle_sot_rs import _core

    translated = sot.to_static(lambda x: helper(x) + 1, min_graph_size=0)
    translated(X)
    assert not _core.hook_is_installed()


def test_a_tracer_sees_the_callees():
    seen = []

    def trace(frame, event, arg):
        seen.append(frame.f_code.co_name)

    translated = sot.to_static(lambda x: helper(x) + 1, min_graph_size=0)
    translated(X)
    sys.settrace(trace)
    try:
        translated(X)
    finally:
        sys.settrace(None)
    assert "helper" in seen


@pytest.mark.parametrize("calls", [30])
def test_it_does_not_grow(calls):
    model = Model()
    translated = sot.to_static(model, min_graph_size=0)
    for _ in range(calls):
        translated(X)
    first = sot.stats(translated).translations
    for _ in range(calls):
        translated(X)
    assert sot.stats(translated).translations == first
