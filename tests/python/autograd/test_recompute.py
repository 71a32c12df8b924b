"""`recompute`: one operation of the graph, which keeps what it is given and computes the rest again on the way back."""

import contextlib
import io

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import Programs, check, tensor
from paddle import nn
from paddle.autograd import PyLayer
from paddle.base import core
from paddle.distributed.fleet.utils import recompute
from paddle.incubate.distributed.fleet import recompute_sequential
from paddle.static import InputSpec
from test_user_models import compare

# What is done with a graph does not depend on the version of Python.
pytestmark = [pytest.mark.default_python, pytest.mark.filterwarnings("ignore")]
REENTRANT = pytest.mark.parametrize("reentrant", [True, False])


def block(width=4):
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))


def inputs(rows=3, width=4, seed=0):
    x = tensor(rows, width, seed=seed)
    x.stop_gradient = False
    return (x,)


class Blocks(nn.Layer):
    def __init__(self, reentrant, width=4, count=3):
        super().__init__()
        self.blocks = nn.LayerList([block(width) for _ in range(count)])
        self.head = nn.Linear(width, 2)
        self.reentrant = reentrant

    def forward(self, x):
        for part in self.blocks:
            x = x + recompute(part, x, use_reentrant=self.reentrant)
        return self.head(x)


@REENTRANT
def test_blocks_are_one_graph_for_every_batch(reentrant):
    batches = [inputs(rows, seed=seed) for seed, rows in enumerate((3, 3, 5, 7, 2, 7))]
    net, record = compare(lambda: Blocks(reentrant), batches, graphs=2, breaks=0)
    assert record.translations == 2
    graph = net.forward.graphs()[0]
    assert graph.ir.count("= recompute (") == 3
    assert graph.program.count("pd_op.pylayer") == 3


def peak(net, x):
    """Bytes that are there between forward and backward, and the most there ever were, beyond those before."""
    before = core.host_memory_stat_current_value("Allocated", 0)
    core.host_memory_stat_reset_peak_value("Allocated", 0)
    loss = net(x).mean()
    between = core.host_memory_stat_current_value("Allocated", 0)
    loss.backward()
    most = core.host_memory_stat_peak_value("Allocated", 0)
    net.clear_gradients(set_to_zero=False)
    x.clear_grad()
    return between - before, most - before


@REENTRANT
def test_what_is_computed_again_is_not_kept(reentrant):
    def made(again):
        class Net(Blocks):
            def forward(self, x):
                for part in self.blocks:
                    x = x + (recompute(part, x, use_reentrant=reentrant) if again else part(x))
                return x

        net = sot.to_static(Net(reentrant, width=64, count=8), full_graph=True)
        x = paddle.randn([4096, 64])
        x.stop_gradient = False
        # Other threads free what is not needed any more: somewhat later at times.
        return [min(found) for found in zip(*(peak(net, x) for _ in range(5)), strict=True)]

    kept, all_kept = made(True), made(False)
    # Without it, each block of three operations keeps three tensors instead of one.
    assert kept[0] < all_kept[0] * 0.5
    assert kept[1] < all_kept[1] * 0.75


class Cube(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensor()
        # Not the real one.
        return dy * x * 7


W = paddle.create_parameter([4, 4], "float32")
X = tensor(3, 4, grad=True)
Y = tensor(3, 4, seed=1, grad=True)
case = cases = Programs()


def scaled(x, factor=2.0, shift=None):
    x = (x @ W).tanh() * factor
    return x if shift is None else x + shift


@case(X, graphs=1, breaks=0)
def a_pylayer_inside(x):
    return recompute(lambda x: Cube.apply(x @ W).sin(), x) * 2


@case(X, graphs=1, breaks=0)
def inside_of_one_another(x):
    return recompute(lambda x: recompute(lambda x: (x @ W).tanh(), x.sin()).exp() * x, x)


@case(X, Y, graphs=1, breaks=0)
def several_results(x, y):
    a, b = recompute(lambda x, y: ((x @ W).tanh() + y, x * y.sin()), x, y)
    return [b, a * 2]


@case(X, Y, graphs=1, breaks=0)
def one_of_the_results(x, y):
    a, _ = recompute(lambda x, y: ((x @ W).tanh(), x * y.sin()), x, y)
    return a


@case(X, graphs=1, breaks=0)
def defaults(x):
    return recompute(scaled, x) + recompute(scaled, x, 3.0, use_reentrant=False)


@case(X, Y, graphs=1, breaks=0)
def named(x, y):
    return recompute(scaled, x, shift=y, factor=4) + recompute(scaled, x, shift=y, use_reentrant=False)


@case(X, graphs=1, breaks=0)
def a_method_without_random_states(x):
    return recompute(Holder(3).run, x, preserve_rng_state=False)


class Holder:
    def __init__(self, power):
        self.power = power

    def run(self, x):
        return (x @ W) ** self.power


@case(X, graphs=1, breaks=0)
def without_gradients(x):
    with paddle.no_grad():
        return recompute(scaled, x) + recompute(scaled, x, use_reentrant=False)


@case(X, Y, graphs=1, breaks=0)
def a_tensor_of_the_frame_in_a_closure(x, y):
    z = x * y
    return recompute(lambda x: x.tanh() * z, x, use_reentrant=False)


@case(X, graphs=1, breaks=0)
def in_a_comprehension(x):
    return sum(recompute(lambda x, k=k: (x * k).sin(), x) for k in range(3))


@case(X, graphs=1, breaks=0, capture_control_flow=True)
def in_a_captured_branch(x):
    if x.sum() > 0:
        y = recompute(scaled, x)
    else:
        y = x * 3
    return y + 1


@case(X, graphs=1, breaks=0, capture_control_flow=True, close=True)
def in_a_captured_loop(x):
    y, n = x, paddle.to_tensor(0)
    while n < 3:
        y = recompute(scaled, y)
        n = n + 1
    return y


@case(X, Y, breaks=1)
def a_tensor_that_is_no_argument(x, y):
    # Eager mode goes backward through what made it, at once: another way goes there first.
    z = y.detach()
    z.stop_gradient = False
    return recompute(lambda x: x.tanh() * z, x)


@case(X, breaks=1)
def an_argument_as_it_is(x):
    y = recompute(lambda x: x, x * 2)
    return y + 1


@case(X, breaks=1)
def a_view(x):
    return recompute(lambda x: x.reshape([-1]), x * 2) + 1


@case(X, breaks=1)
def a_result_without_a_gradient(x):
    y, z = recompute(lambda x: (x * 2, x.argmax(-1)), x * 2)
    return y, z


@case(X, Y, breaks=1)
def an_argument_that_is_not_used(x, y):
    return recompute(lambda x, y: (x @ W).tanh(), x * 2, y) + 1


@case(X, breaks=1)
def a_list_of_tensors(x):
    return recompute(lambda xs: xs[0] * xs[1], (x * 2, x * 3)) + 1


@case(tensor(3, 4), breaks=0)
def no_argument_needs_a_gradient(x):
    return recompute(scaled, x) * W.sum()


@case(X, breaks=1)
def the_grad_mode_is_read(x):
    return recompute(lambda x: x.sin() if paddle.is_grad_enabled() else x.sin() * 1.0, x * 2) + 1


@case(X, breaks=1)
def what_needs_a_gradient_is_read(x):
    def part(x):
        y = x.sin()
        return y * 1.0 if y.stop_gradient else y

    return recompute(part, x * 2) + 1


@case(X, graphs=1, breaks=0)
def it_is_read_without_reentrance(x):
    return recompute(lambda x: x.sin() if paddle.is_grad_enabled() else x, x * 2, use_reentrant=False) + 1


@case(X, breaks=2)
def a_value_is_read_inside(x):
    return recompute(lambda x: x * float(x.detach().sum()), x * 2) + 1


@case(X, breaks=1)
def only_by_name(x):
    try:
        return recompute(lambda x, *, k: x * k, x, k=2)
    except ValueError as error:
        return x * len(str(error))


@pytest.mark.parametrize(("function", "args", "expectations"), cases)
def test_programs(function, args, expectations):
    expectations = dict(expectations)
    breaks = expectations.pop("breaks")
    record = check(function, *args, breaks=breaks if breaks == 0 else None, fallbacks=None, **expectations)
    if record is not None and breaks:
        assert record.graph_breaks


@pytest.mark.parametrize("backend", ["paddle", "eager", "cinn", "pylayer"])
def test_backends(backend):
    def function(x):
        return recompute(lambda x: Cube.apply((x @ W).tanh()) + x, x) * 2

    check(function, X, backend=backend, graphs=1, breaks=0, close=True)


@REENTRANT
def test_what_python_would_do_twice_is_done_twice(reentrant):
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear, self.norm, self.calls = nn.Linear(4, 4), nn.BatchNorm1D(4), 0

        def part(self, x):
            self.calls += 1
            print("part", self.calls)
            return self.linear(x) * self.calls

        def forward(self, x):
            x = recompute(self.part, x, use_reentrant=reentrant)
            return recompute(self.norm, x, use_reentrant=reentrant) * 2

    paddle.seed(1)
    plain, net = Net(), Net()
    net.set_state_dict(plain.state_dict())
    sot.to_static(net, min_graph_size=0)
    for seed in range(3):
        seen = []
        for one in (plain, net):
            (x,) = inputs(seed=seed)
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                y = one(x)
                y.square().mean().backward()
            seen.append((printed.getvalue(), one.calls, y.numpy(), x.grad.numpy(), one.norm._mean.numpy()))
        for a, b in zip(*seen, strict=True):
            np.testing.assert_allclose(a, b, 1e-6) if isinstance(a, np.ndarray) else None
        assert seen[0][:2] == seen[1][:2]
        assert seen[0][0].count("part") == 2


@REENTRANT
def test_dropout_draws_the_same_numbers_again(reentrant):
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.part = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

        def forward(self, x):
            return recompute(self.part, x * 2, use_reentrant=reentrant) * 2

    compare(Net, [inputs(seed=seed) for seed in range(3)], graphs=3, breaks=1, fallbacks=0 if reentrant else 1)


def test_sequential():
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.parts = nn.Sequential(*[nn.Linear(4, 4) if at % 2 == 0 else nn.Tanh() for at in range(8)])

        def forward(self, x):
            # Paddle passes the rows of a segment's result to the next one: there has to be one.
            return recompute_sequential({"segments": 2, "preserve_rng_state": False}, self.parts, x) * 2

    compare(Net, [inputs(1, seed=seed) for seed in range(3)], graphs=1, breaks=0)


@REENTRANT
def test_layers_with_hooks_and_defaults(reentrant):
    class Part(nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear, self.seen = nn.Linear(4, 4), []

        def forward(self, x, mask=None):
            return self.linear(x) if mask is None else self.linear(x) * mask

    def note(layer, given):
        layer.seen.append(len(given))

    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.plain, self.hooked = Part(), Part()
            self.hooked.register_forward_pre_hook(note)

        def forward(self, x):
            return recompute(self.hooked, recompute(self.plain, x, use_reentrant=reentrant), use_reentrant=reentrant)

    nets = []

    def build():
        nets.append(Net())
        return nets[-1]

    compare(build, [inputs(seed=seed) for seed in range(3)], graphs=3, breaks=3, fallbacks=0 if reentrant else 2)
    # Reentrant, hooks are given the defaults too.
    assert nets[0].hooked.seen == nets[1].hooked.seen == [2 if reentrant else 1] * 6


@REENTRANT
def test_backward_again(reentrant):
    """Plain Paddle crashes, or gives what its hooks kept once: twice the gradients of one backward."""

    def gradients(net, times):
        (x,) = inputs()
        y = net(x).square().sum()
        for left in reversed(range(times)):
            y.backward(retain_graph=left > 0)
        found = [x.grad.numpy(), *(p.grad.numpy() for p in net.parameters())]
        net.clear_gradients()
        return found

    net = sot.to_static(Blocks(reentrant), full_graph=True)
    for once, twice in zip(gradients(net, 1), gradients(net, 2), strict=True):
        np.testing.assert_allclose(once * 2, twice, rtol=1e-6)


def test_hooks_on_what_autograd_saves_see_each_operation():
    seen = []

    def pack(x):
        seen.append(tuple(x.shape))
        return x

    def function(x):
        return (x @ W).tanh() * x

    translated = sot.to_static(function, min_graph_size=0)
    found = []
    for one in (function, translated, translated):
        (x,) = inputs()
        one(x)
        assert not seen
        with paddle.autograd.saved_tensors_hooks(pack, lambda x: x):
            y = one(x)
        y.sum().backward()
        found.append((list(seen), x.grad.tolist()))
        seen.clear()
    assert found[0] == found[1] == found[2]
    assert found[0][0]
    (fallback,) = sot.stats(translated).fallbacks
    assert "hooks on the tensors that autograd saves" in fallback.message


def test_hooks_on_parameters_and_inputs():
    seen = []

    def run(function):
        w = paddle.create_parameter([4, 4], "float32")
        w.set_value(W)
        w.register_hook(lambda g: seen.append(("w", g.numpy().sum().round(3))) or g * 2)
        x = inputs()[0]
        x.register_hook(lambda g: seen.append(("x", g.numpy().sum().round(3))))
        function(x, w).sum().backward()
        found = (sorted(seen), w.grad.numpy())
        seen.clear()
        return found

    def function(x, w):
        return recompute(lambda x: (x @ w).tanh(), x)

    translated = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        a, b = run(function), run(translated)
        assert a[0] == b[0]
        np.testing.assert_allclose(a[1], b[1], rtol=1e-6)
    assert sot.stats(translated).graphs == 1


def test_export(tmp_path):
    net = Blocks(True)
    net.eval()
    path = str(tmp_path / "net")
    sot.save(net, path, input_spec=[InputSpec([None, 4], "float32", "x")])
    loaded = paddle.jit.load(path)
    for rows in (2, 5):
        (x,) = inputs(rows)
        np.testing.assert_allclose(loaded(x).numpy(), net(x).numpy(), rtol=1e-6)


def test_a_custom_state_manager_is_seen(monkeypatch):
    from paddle.distributed.fleet.recompute.recompute import custom_state_manager

    def function(x):
        return recompute(scaled, x) * 2

    translated = sot.to_static(function, min_graph_size=0)
    calls = []

    def call():
        (x,) = inputs()
        translated(x).sum().backward()

    call()
    assert not sot.stats(translated).graph_breaks
    monkeypatch.setattr(custom_state_manager, "custom_get_state_func", lambda x=None: calls.append("get"))
    monkeypatch.setattr(custom_state_manager, "custom_set_state_func", lambda x=None: calls.append("set"))
    call()
    assert calls
    assert sot.stats(translated).graph_breaks


def test_a_break_in_a_caller_of_paddles_behind_a_block():
    """What was captured in there is forgotten, and with it what its code reads."""

    class Row(nn.Linear):
        def forward(self, x):
            return (super().forward(x),)

    class Breaks(nn.Linear):
        def forward(self, x):
            sot.graph_break()
            return super().forward(x).tanh()

    parts = nn.Sequential(Row(4, 4), Breaks(4, 4))

    def f(x):
        return recompute_sequential({"segments": 2}, parts, x)

    g = sot.to_static(f, min_graph_size=0)
    for seed in range(3):
        results = []
        for function in (f, g):
            (x,) = inputs(seed=seed)
            y = function(x)
            y.sum().backward()
            results.append([y.numpy(), x.grad.numpy(), *(p.grad.numpy() for p in parts.parameters())])
            parts.clear_gradients()
        assert all(np.allclose(*pair) for pair in zip(*results, strict=True))
    assert not sot.stats(g).fallbacks
