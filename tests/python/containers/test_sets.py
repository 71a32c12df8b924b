"""Sets that come from outside: membership, truth, length and order are guarded, changes break the graph."""

import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn

X = paddle.to_tensor([1.0, 2.0])


def agree(function, *calls, graphs=None, breaks=0, before=None):
    """`calls` are the further arguments; `before` are changes to be made before each."""
    static = sot.to_static(function, min_graph_size=0)
    for at, arguments in enumerate(calls):
        if before:
            before[at]()
        expected = function(X, *arguments)
        assert expected.tolist() == static(X, *arguments).tolist()
    record = sot.stats(static)
    assert sum(it.count for it in record.graph_breaks) == breaks and not record.fallbacks
    if graphs is not None:
        assert record.graphs == graphs
    return record


class Kind:
    pass


@pytest.mark.parametrize(
    ("keys", "others"),
    [
        ({"a", "b"}, {"b", "c"}),
        (frozenset({"a", "b"}), frozenset({"c"})),
        ({"a", 1, None, b"x", (1, "y")}, {True, "b"}),
        ({Kind, "a"}, {"b", int}),
        (set(), {"a"}),
    ],
    ids=["texts", "frozen", "mixed", "classes", "empty"],
)
@pytest.mark.parametrize("key", ["a", 1, None, b"x", (1, "y"), Kind])
def test_membership(keys, others, key):
    def function(x, names):
        y = x * 2 if key in names else x * 3
        return y + 1 if "b" not in names else y - 1

    different = (key in keys, "b" in keys) != (key in others, "b" in others)
    kinds = type(keys) is not type(others)
    agree(
        function,
        [keys],
        [keys],
        [set(keys)],
        [others],
        [keys],
        graphs=1 + (different or kinds) + isinstance(keys, frozenset),
    )


def test_what_else_is_in_a_set_does_not_matter():
    names = {"a"}

    def function(x):
        return x * 2 if "a" in names else x * 3

    changes = [lambda: None, lambda: names.add("b"), lambda: names.add(3.5), lambda: names.discard("a"), names.clear]
    agree(function, *[[]] * 5, graphs=2, before=changes)


def test_truth_and_length():
    def is_filled(x, names):
        return x * 2 if names else x * 3

    def length(x, names):
        return x * len(names)

    agree(is_filled, [set()], [{1}], [{2, 3}], [{"a"}], [set()], graphs=2)
    agree(length, [{1}], [{2}], [{2, 3}], [frozenset()], graphs=3)


def test_order_of_elements():
    def function(x, names):
        text = ""
        for at, name in enumerate(names):
            x = x * (at + 1) + len(name)
            text += name
        return x * sum(map(ord, text[:1])) + len(sorted(names))

    texts = ["abc", "de", "f", "ghij", "klmno"]
    calls = [[{*texts[:n]}] for n in (0, 2, 3, 5, 5)] + [[frozenset(texts)]]
    # The same elements, in another order: they were put where others had been.
    crowded = {*range(100), *texts} - {*range(100)}
    agree(function, *calls, [crowded], breaks=0)


def test_elements_that_are_objects_break_the_graph():
    class Named:
        def __hash__(self):
            return hash("a")

        def __eq__(self, other):
            asked.append(other)
            return other == "a"

    asked = []

    def function(x, names):
        return x * 2 if "a" in names else x * 3

    names = {Named()}
    expected = function(X, names)
    count = len(asked)
    static = sot.to_static(function, min_graph_size=0)
    assert static(X, names).tolist() == expected.tolist()
    assert len(asked) == 2 * count
    assert [broken.message for broken in sot.stats(static).graph_breaks] == ["in on a set"]


def test_changes_break_the_graph():
    def grows(x, names):
        y = x * 2
        if "a" not in names:
            y = y + 1
            names.add("a")
        return y * len(names)

    static = sot.to_static(grows, min_graph_size=0)
    for start in (set(), {"a"}, {"b"}, {"a", "b"}):
        ours, theirs = set(start), set(start)
        for _ in range(2):
            assert static(X, ours).tolist() == grows(X, theirs).tolist()
            assert ours == theirs
    assert {broken.code for broken in sot.stats(static).graph_breaks} == {"UNSPS"}


def test_a_set_that_changes_while_a_loop_runs_over_it():
    def function(x, names):
        y = x * 1
        for name in names:
            y = y + len(name)
            names.add(name * 2)
        return y

    static = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        for call in (function, static):
            names = {"ab"}
            with pytest.raises(RuntimeError, match="Set changed size during iteration"):
                call(X, names)
            assert names == {"ab", "abab"}


def test_a_break_inside_of_a_loop_over_a_set():
    def function(x, names):
        y = x * 1
        for name in names:
            y = y + len(name)
            y = y * float(y.sum().numpy())
        return y

    names = {"a", "bcd", "efghi"}
    static = sot.to_static(function, min_graph_size=0)
    for _ in range(3):
        assert static(X, names).tolist() == function(X, names).tolist()
    assert sot.stats(static).graph_breaks


def test_sets_made_of_it_have_its_order():
    def function(x, names):
        copies = [set(names), frozenset(names), {*names}, names.copy(), names | {"z"}, names - {"a"}]
        y = x * 1
        for copy in copies:
            for at, name in enumerate(copy):
                y = y + at * len(name)
        return y

    static = sot.to_static(function, min_graph_size=0)
    for count in (0, 1, 4, 40):
        names = {"a" * n for n in range(count)} - {"a" * 2}
        assert static(X, names).tolist() == function(X, names).tolist()


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("scale", paddle.ones([2]), persistable=False)
        self.register_buffer("shift", paddle.ones([2]))
        self.skipped = {"linear.bias"}

    def forward(self, x):
        total = x
        for name, value in self.state_dict().items():
            if name not in self.skipped:
                total = total + value.sum()
        return self.linear(total)


def test_state_dict_inside_of_forward():
    net = Net()
    expected = net(X)
    sot.to_static(net, min_graph_size=0)
    assert (net(X) == expected).all() and (net(X) == expected).all()
    record = sot.stats(net)
    assert (record.graphs, record.graph_breaks, record.translations) == (1, [], 1)
    net.skipped.add("linear.weight")
    net._non_persistable_buffer_names_set.add("shift")
    assert (net(X) == net.linear(X)).all()
    net.skipped = frozenset(net.skipped)
    assert (net(X) == net.linear(X)).all()
    assert sot.stats(net).translations == 3
