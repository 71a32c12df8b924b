"""Attributes of objects that change in captured branches and loops."""

import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

VALUES = [3, 0, 1, -3]


class Holder:
    kept = 7

    def __init__(self, value):
        self.value = value
        self.count = 0

    def add(self, more):
        self.value = self.value + more
        self.count += 1


class Doubled:
    """A setter that the branch calls, and what is behind it does not."""

    def __init__(self, value):
        self._value = value

    @property
    def value(self):
        return self._value

    @value.setter
    def value(self, new):
        self._value = new * 2


class Slots:
    __slots__ = ("count", "value")

    def __init__(self, value):
        self.value = value
        self.count = 1


def run(function, values, stops):
    x = paddle.to_tensor([1.5, -2.0])
    x.stop_gradient = stops
    made = []
    for value in values:
        result = function(x, paddle.to_tensor(value))
        results = result if isinstance(result, tuple) else (result,)
        made.append([it.tolist() if isinstance(it, paddle.Tensor) else it for it in results])
        if not results[0].stop_gradient:
            results[0].sum().backward()
            made.append(x.grad.tolist())
            x.clear_gradient()
    return made


def check(function, values=VALUES):
    for stops in (True, False):
        translated = sot.to_static(function, full_graph=True)
        assert run(translated, values, stops) == run(function, values, stops)
        stats = sot.stats(translated)
        assert stats.graphs == stats.translations and not stats.graph_breaks


def test_what_both_sides_or_one_set():
    def function(x, n):
        holder = Holder(x)
        if n > 0:
            holder.value = holder.value + 1
        else:
            holder.count = 5
            holder.value = x - 1
        return holder.value, holder.count

    check(function)


def test_methods_that_set():
    def function(x, n):
        holder, again = Holder(x), None
        again = holder
        if n > 0:
            again.add(x)
            if x.sum() < 0:
                holder.add(x * 2)
        return holder.value, again.count, holder is again

    check(function)


def test_new_attributes_of_both_sides():
    def function(x, n):
        holder = Holder(x)
        if n > 0:
            holder.more = x * 2
        else:
            holder.more = x * 3
        return holder.more, holder.kept

    check(function)


@pytest.mark.parametrize("made", [Doubled, Slots])
def test_setters_run_once_and_slots(made):
    def function(x, n):
        holder = made(x)
        if n > 0:
            holder.value = x * 4
        else:
            holder.value = x + 1
        for i in range(n):
            holder.value = holder.value + i
        return holder.value

    check(function)


def test_loops():
    def function(x, n):
        holder = Holder(x)
        for i in range(n):
            holder.add(x * i)
            if i > 0:
                holder.value = holder.value - 1
        return holder.value, holder.count

    check(function)


def test_loops_that_end_by_an_attribute():
    def function(x, n):
        holder = Holder(x)
        while holder.count < n:
            for _ in range(n):
                holder.value = holder.value * 0.5
            holder.count += 1
            if holder.value.sum() > 1:
                break
        return holder.value, holder.count

    check(function)


def test_tuples_and_lists_as_attributes():
    def function(x, n):
        holder = Holder((x, x * 2))
        for _ in range(n):
            holder.value = (holder.value[1], holder.value[0] + 1)
        return holder.value[0], holder.value[1]

    check(function)


def one_side_alone(x, n):
    holder = Holder(x)
    if n > 0:
        holder.more = x * 2
    return x * hasattr(holder, "more")


def two_orders(x, n):
    holder = Holder(x)
    if n > 0:
        holder.first = x
        holder.second = x * 2
    else:
        holder.second = x * 3
        holder.first = x
    return x * len(vars(holder)), list(vars(holder))


def class_attribute(x, n):
    holder = Holder(x)
    if n > 0:
        holder.kept = 3
    return x * holder.kept, "kept" in vars(holder)


def deleted(x, n):
    holder = Holder(x)
    if n > 0:
        del holder.value
    return x * holder.count


def new_in_a_loop(x, n):
    holder = Holder(x)
    for i in range(n):
        holder.more = x * i
    return holder.value


@pytest.mark.parametrize("function", [one_side_alone, two_orders, class_attribute, deleted, new_in_a_loop])
def test_what_dictionaries_show_breaks(function):
    translated = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    assert run(translated, VALUES, True) == run(function, VALUES, True)
    with pytest.raises(sot.GraphBreakError):
        sot.to_static(function, full_graph=True)(paddle.ones([2]), paddle.to_tensor(1))


class Network(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.state = None
        self.mode = 0
        self.register_buffer("mean", paddle.zeros([1, 2]))

    def forward(self, x, n):
        y = self.linear(x)
        if n > 0:
            self.state = y + 1
            self.mean = self.mean + y.detach()
            self.mode = 1
        else:
            self.state = y - 1
            self.mean = self.mean - 1
            self.mode = 2
        return self.state * self.mean, self.mode


def test_attributes_and_buffers_of_layers():
    shown = []
    for translate in (False, True):
        paddle.seed(1)
        network = Network()
        called = sot.to_static(network, full_graph=True) if translate else network
        shown.append([])
        for n in VALUES:
            result, mode = called(paddle.to_tensor([[1.0, -2.0]]), paddle.to_tensor(n))
            state = [network.state, *network.buffers()]
            shown[-1].append([result.tolist(), mode, network.mode, *(it.tolist() for it in state)])
            shown[-1].append(sorted(dict(network.named_buffers())))
    assert shown[0] == shown[1]


class Ordered(nn.Layer):
    def forward(self, x, n):
        if n > 0:
            self.first = 1
            self.second = 2
        else:
            self.second = 3
            self.first = 4
        return x * self.first


def test_attributes_of_others_keep_their_order():
    for n in VALUES:
        network = Ordered()
        called = sot.to_static(network, capture_control_flow=True, min_graph_size=0)
        x = paddle.to_tensor([1.0, 2.0])
        assert called(x, paddle.to_tensor(n)).tolist() == (x if n > 0 else x * 4).tolist()
        assert list(vars(network))[-2:] == (["first", "second"] if n > 0 else ["second", "first"])


class Kept(nn.Layer):
    def __init__(self):
        super().__init__()
        self.state = None

    def forward(self, x, n):
        if n > 0:
            self.state = x
        else:
            self.state = x - 1
        return self.state * 2


def test_an_attribute_is_the_tensor_that_was_given():
    network = Kept()
    called = sot.to_static(network, capture_control_flow=True, min_graph_size=0)
    for n in VALUES:
        x = paddle.to_tensor([1.0, 2.0])
        assert called(x, paddle.to_tensor(n)).tolist() == (x * 2 if n > 0 else x * 2 - 2).tolist()
        assert (network.state is x) == (n > 0)


def test_files(tmp_path):
    def function(x):
        holder = Holder(x.sum() * 0)
        for i in range(x.shape[0]):
            if x[i].sum() > 0:
                holder.add(x[i].sum())
        return holder.value * holder.count

    sot.save(function, str(tmp_path / "m"), input_spec=[InputSpec([None, 2], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "m"))
    for size in (3, 1, 7):
        x = paddle.randn([size, 2])
        assert loaded(x).tolist() == function(x).tolist()


class Rows(nn.Layer):
    def __init__(self):
        super().__init__()
        self.pair = None

    def forward(self, x, n):
        self.mode = 0
        if n > 0:
            self.pair = [x, 1]
        else:
            self.pair = [x - 1, 2]
        return x * 2


class Again(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second = 1, 2

    def forward(self, x, n):
        if n > 0:
            del self.first
            self.first = 3
        else:
            self.first = 4
        return x * self.first


class Views(nn.Layer):
    def forward(self, x, n):
        if n > 0:
            self.whole = x * 2
            self.part = self.whole[:1]
        else:
            self.whole = x * 3
            self.part = self.whole[:1]
        self.part[0] = 7.0
        return x * 1


NAMES = ("pair", "first", "second", "whole", "part")


@pytest.mark.parametrize("made", [Rows, Again, Views])
def test_tensors_in_containers_deletions_and_views_break(made):
    for n in VALUES:
        shown = []
        for translate in (False, True):
            network = made()
            x, number = paddle.to_tensor([1.0, 2.0]), paddle.to_tensor(n)
            called = sot.to_static(network, capture_control_flow=True, min_graph_size=0) if translate else network
            result = called(x, number)
            state = {name: getattr(network, name, None) for name in NAMES}
            held = state["pair"][0] is x if state["pair"] else None
            shown.append([result.tolist(), [name for name in vars(network) if name in state], held, str(state)])
        assert shown[0] == shown[1]
    with pytest.raises(sot.GraphBreakError):
        sot.to_static(made(), full_graph=True)(paddle.ones([2]), paddle.to_tensor(1))
