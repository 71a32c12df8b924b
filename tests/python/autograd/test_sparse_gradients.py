"""Gradients that are selected rows in eager mode: lookups of `sparse=True` are next to programs, not in them."""

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.distributed.fleet.utils import recompute

# What is done with a graph does not depend on the version of Python.
pytestmark = [pytest.mark.default_python, pytest.mark.filterwarnings("ignore")]

ROWS = 40


class Slots(nn.Layer):
    """One table for all slots, and two layers behind it."""

    def __init__(self, sparse=True):
        super().__init__()
        self.table = nn.Embedding(ROWS, 4, sparse=sparse)
        self.fc = nn.Linear(12, 4)

    def lookup(self, ids):
        return paddle.concat([self.table(slot) for slot in ids], axis=-1)

    def forward(self, ids):
        return (self.fc(self.lookup(ids)) * 2).tanh().sin().mean()


class ByPosition(Slots):
    def lookup(self, ids):
        return paddle.concat([F.embedding(slot, self.table.weight, None, None, 2.0, True) for slot in ids], axis=-1)


class ByName(Slots):
    def lookup(self, ids):
        return paddle.concat([F.embedding(slot, weight=self.table.weight, sparse=True) for slot in ids], axis=-1)


class Generated(Slots):
    def lookup(self, ids):
        return paddle.concat([paddle._C_ops.embedding(slot, self.table.weight, -1, True) for slot in ids], axis=-1)


class Computed(Slots):
    """What is looked up is computed first."""

    def lookup(self, ids):
        return paddle.concat([self.table((slot * 3 + 1).astype("int32") % ROWS) for slot in ids], axis=-1)


class InTurns(Slots):
    """What is looked up depends on what has a gradient."""

    def forward(self, ids):
        hidden = (self.fc(self.lookup(ids)) * 2).tanh()
        found = self.table(hidden.argmax(axis=-1))
        return (found * hidden).exp().sin().mean() + hidden.square().mean()


class Tied(Slots):
    """The table is a matrix, too: its gradient is dense."""

    def forward(self, ids):
        hidden = (self.fc(self.lookup(ids)) * 2).tanh()
        return F.cross_entropy(hidden @ self.table.weight.t(), ids[0])


class Padded(Slots):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(ROWS, 4, padding_idx=3, sparse=True)


class Tree(Slots):
    """A loss whose weight has selected rows, and its bias."""

    def __init__(self):
        super().__init__()
        self.loss = nn.HSigmoidLoss(4, 16, is_sparse=True)

    def forward(self, ids):
        hidden = (self.fc(self.lookup(ids)) * 2).tanh().sin()
        return self.loss(hidden, (ids[0] % 16).reshape([-1, 1])).mean()


def batches():
    numbers = np.random.RandomState(4)
    return [[paddle.to_tensor(numbers.randint(0, ROWS, 6)) for _ in range(3)] for _ in range(4)]


def train(net, call):
    optimizer = paddle.optimizer.Adam(0.05, parameters=net.parameters(), lazy_mode=True)
    seen = []
    for ids in batches():
        loss = call(ids)
        loss = sum(loss[1:], loss[0]) if isinstance(loss, tuple) else loss
        loss.backward()
        rows = [p.grad is not None and p.grad.is_selected_rows() for p in net.parameters()]
        optimizer.step()
        optimizer.clear_grad()
        seen.append((loss.numpy(), rows))
    return seen, [p.numpy() for p in net.parameters()]


def twins(build):
    paddle.seed(5)
    plain, net = build(), build()
    net.set_state_dict(plain.state_dict())
    return plain, net


def same(ours, plain, tolerance=0.0):
    for (loss, rows), (expected, expected_rows) in zip(ours[0], plain[0], strict=True):
        np.testing.assert_allclose(loss, expected, rtol=tolerance)
        assert rows == expected_rows
    for one, other in zip(ours[1], plain[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


NETWORKS = [Slots, ByPosition, ByName, Generated, Computed, InTurns, Tied, Padded, Tree]


@pytest.mark.parametrize("build", NETWORKS, ids=lambda build: build.__name__)
def test_training_equals_eager_mode(build):
    plain, net = twins(build)
    sot.to_static(net, min_graph_size=0)
    expected = train(plain, plain)
    assert any(any(rows) for _, rows in expected[0]) or build is Tied
    same(train(net, net), expected)
    stats = sot.stats(net)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])
    report = str(sot.explain(net)(batches()[0]))
    assert "of which" in report and " 0 are programs" not in report


@pytest.mark.parametrize("backend", ["cinn", "pylayer"])
def test_other_backends(backend):
    plain, net = twins(InTurns)
    sot.to_static(net, min_graph_size=0, backend=backend)
    same(train(net, net), train(plain, plain), 2e-6)
    assert [graph.backend for graph in sot.explain(net)(batches()[0]).graphs] == [
        "cinn" if backend == "cinn" else "paddle"
    ]


def test_dense_tables_stay_in_the_program():
    plain, net = twins(lambda: Slots(sparse=False))
    sot.to_static(net, min_graph_size=0)
    same(train(net, net), train(plain, plain))
    (graph,) = sot.explain(net)(batches()[0]).graphs
    assert graph.program.count("pd_op.embedding") == 3


def test_without_gradients_it_is_one_program():
    plain, net = twins(Slots)
    sot.to_static(net, min_graph_size=0)
    ids = batches()[0]
    with paddle.no_grad():
        np.testing.assert_array_equal(net(ids).numpy(), plain(ids).numpy())
        (graph,) = sot.explain(net)(ids).graphs
    assert graph.program.count("pd_op.embedding") == 3
    plain.table.weight.stop_gradient = net.table.weight.stop_gradient = True
    for one in (plain, net):
        one(ids).backward()
    np.testing.assert_array_equal(net.fc.weight.grad.numpy(), plain.fc.weight.grad.numpy())
    (graph,) = sot.explain(net)(ids).graphs
    assert graph.program.count("pd_op.embedding") == 3


def test_several_results():
    class Several(Slots):
        def forward(self, ids):
            found = self.lookup(ids)
            hidden = (self.fc(found) * 2).tanh()
            return hidden.sin().mean(), (found * 3).exp().mean(), hidden.square().mean()

    plain, net = twins(Several)
    sot.to_static(net, min_graph_size=0)
    same(train(net, net), train(plain, plain))
    assert sot.stats(net).graph_breaks == []


def test_what_cannot_be_taken_apart_runs_call_by_call_and_is_counted():
    class Many(Slots):
        def forward(self, ids):
            hidden = (self.fc(self.lookup(ids)) * 2).tanh()
            return tuple((hidden * number).sum() for number in range(70))

    plain, net = twins(Many)
    sot.to_static(net, min_graph_size=0)
    same(train(net, net), train(plain, plain))
    stats = sot.stats(net)
    assert stats.graph_breaks == []
    assert [it for it in stats.fallbacks if "sparse gradient" in it.message], stats.fallbacks


def test_hooks_and_gradients_that_are_asked_for():
    plain, net = twins(Slots)
    sot.to_static(net, min_graph_size=0)
    seen = []
    for one in (plain, net):
        kinds = []
        one.fc.weight.register_hook(lambda gradient, kinds=kinds: kinds.append(gradient.numpy()))
        for ids in batches()[:2]:
            one(ids).backward()
        gradient = one.table.weight.grad
        seen.append((gradient.is_selected_rows(), gradient.numpy(), *kinds))
    for one, other in zip(*seen, strict=True):
        np.testing.assert_array_equal(one, other)


def branches(table, ids, x):
    if x.sum() > 0:
        found = F.embedding(ids, table, sparse=True) * x
    else:
        found = F.embedding(ids, table, sparse=True) + x
    return (found * 2).sin().sum()


def loop(table, ids, x):
    found = F.embedding(ids, table) * x
    while found.sum() < x.sum() * 40:
        found = found + F.embedding(ids, table, sparse=True).abs() + 1
    return (found * 2).sin().sum()


def block(table, ids, x):
    return (recompute(lambda ids, x: F.embedding(ids, table, sparse=True) * x, ids, x) * 2).sin().sum()


@pytest.mark.parametrize("function", [branches, loop, block], ids=lambda function: function.__name__)
def test_operations_with_nested_graphs_break_the_graph(function):
    ours = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    for factor in (1.0, 1.5, -1.0):
        seen = []
        for call in (function, ours):
            paddle.seed(2)
            table = paddle.rand([ROWS, 3])
            table.stop_gradient = False
            x = paddle.full([3], factor)
            x.stop_gradient = False
            loss = call(table, paddle.to_tensor([1, 5, 1]), x)
            loss.backward()
            gradient = table.grad
            seen.append((loss.numpy(), gradient.is_selected_rows(), gradient.numpy(), x.grad.numpy()))
        for one, other in zip(*seen, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    assert any("selected rows" in reason.message for reason in sot.stats(ours).graph_breaks)


def test_inside_control_flow_without_gradients_it_is_captured():
    ours = sot.to_static(branches, min_graph_size=0, full_graph=True)
    table, ids, x = paddle.rand([ROWS, 3]), paddle.to_tensor([1, 5, 1]), paddle.ones([3])
    np.testing.assert_array_equal(ours(table, ids, x).numpy(), branches(table, ids, x).numpy())
    assert sot.stats(ours).graphs == 1
