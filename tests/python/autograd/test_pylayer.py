"""`PyLayer`: the user's forward and backward become one custom operation of the graph."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute
from paddle.static import InputSpec

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


class CusTanh(PyLayer):
    @staticmethod
    def forward(ctx, x, scale=1.0):
        ctx.scale = scale
        y = paddle.tanh(x) * scale
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensor()
        # Twice the real gradient: only the user's backward gives it.
        return dy * (ctx.scale - paddle.square(y) / ctx.scale) * 2


class TwoInOneOut(PyLayer):
    @staticmethod
    def forward(ctx, a, b, factor):
        ctx.save_for_backward(a, b)
        ctx.factor = factor
        return a * b * factor

    @staticmethod
    def backward(ctx, dy):
        a, b = ctx.saved_tensor()
        return dy * b * ctx.factor * 3, None


class OneInTwoOut(PyLayer):
    @staticmethod
    def forward(ctx, x):
        top = paddle.maximum(x, paddle.zeros_like(x))
        mask = (x > 0).astype("float32")
        ctx.mark_non_differentiable(mask)
        ctx.save_for_backward(mask)
        return top, mask

    @staticmethod
    def backward(ctx, dy, dmask):
        (mask,) = ctx.saved_tensor()
        return dy * mask * 5 + dmask


def helper(x):
    return CusTanh.apply(x, 2.0)


class Nested(PyLayer):
    @staticmethod
    def forward(ctx, x):
        y = helper(x) + 1
        ctx.kept = y
        return y

    @staticmethod
    def backward(ctx, dy):
        return helper(dy) * ctx.kept


def plain(x, w):
    return CusTanh.apply(x * w) + x


def keyword(x, w):
    return CusTanh.apply(x, scale=3.0) * w


def no_gradient_for_one(x, w):
    return TwoInOneOut.apply(x, w, 2.0) + w


def several_outputs(x, w):
    top, mask = OneInTwoOut.apply(x * w)
    return top * 2 + mask, mask


def nested(x, w):
    return Nested.apply(x) * Nested.apply(w)


def under_no_grad(x, w):
    with paddle.no_grad():
        y = CusTanh.apply(x)
    return y * w


def in_a_loop(x, w):
    for _ in range(3):
        x = CusTanh.apply(x) + w
    return x


class Scale(nn.Layer):
    def __init__(self):
        super().__init__()
        self.weight = self.create_parameter([4])

    def forward(self, x):
        return x * self.weight + 1


scale = Scale()


class WithLayer(PyLayer):
    @staticmethod
    def forward(ctx, x, layer):
        ctx.x, ctx.layer = x, layer
        return layer(x)

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.layer.weight + ctx.x


def with_a_layer(x, w):
    return WithLayer.apply(x, scale) * w


def inside_auto_cast(x, w):
    with paddle.amp.auto_cast():
        y = CusTanh.apply(x * w)
    return y + x


class Parent(PyLayer):
    @classmethod
    def half(cls, x):
        return x / 2

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, x * 2)
        return Child.half(x)

    @staticmethod
    def backward(ctx, dy):
        x, twice = ctx.saved_tensor()
        return dy * x + twice


class Child(Parent):
    pass


def inherited(x, w):
    return Child.apply(x) * Parent.apply(w) + Child.apply(w)


FUNCTIONS = [
    *(plain, keyword, no_gradient_for_one, several_outputs, nested, under_no_grad, in_a_loop),
    *(with_a_layer, inside_auto_cast, inherited),
]


def tensors():
    rng = np.random.default_rng(5)
    return [paddle.to_tensor(rng.normal(size=[3, 4]).astype("float32"), stop_gradient=False) for _ in range(2)]


def outcome(function, inputs):
    result = function(*inputs)
    results = result if isinstance(result, tuple) else (result,)
    results[0].sum().backward()
    values = [(value.numpy(), value.stop_gradient) for value in results]
    return values, [None if value.grad is None else value.grad.numpy() for value in inputs]


@pytest.mark.parametrize("backend", ["paddle", "eager"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_one_graph(function, backend):
    static = sot.to_static(function, backend=backend, min_graph_size=0)
    for _ in range(2):
        want, got = outcome(function, tensors()), outcome(static, tensors())
        for (a, stop), (b, other) in zip(want[0], got[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
            assert stop == other
        for a, b in zip(want[1], got[1], strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-5)
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])
    with paddle.no_grad():
        inputs = tensors()
        a, b = function(*inputs), static(*inputs)
        first = (value[0] if isinstance(value, tuple) else value for value in (a, b))
        np.testing.assert_allclose(*(value.numpy() for value in first), rtol=1e-6)


class Clipped(PyLayer):
    @staticmethod
    def forward(ctx, x):
        if x.sum() > 0:
            y = x * 2
        else:
            y = x - 1
        ctx.save_for_backward(y)
        return y + 1

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensor()
        if y.sum() > 1:
            dy = dy * 7
        return dy * y


def branch_inside(x, w):
    return Clipped.apply(x - w) * w


def inside_a_branch(x, w):
    if x.sum() > 0:
        y = CusTanh.apply(x * w)
    else:
        y = CusTanh.apply(x, 4.0) * w
    return y + w


@pytest.mark.parametrize("backend", ["paddle", "eager"])
@pytest.mark.parametrize("function", [branch_inside, inside_a_branch], ids=lambda f: f.__name__)
def test_next_to_captured_control_flow(function, backend):
    static = sot.to_static(function, backend=backend, min_graph_size=0, capture_control_flow=True)
    for sign in (1, -1, 1):
        inputs = [
            [paddle.to_tensor(numbers.numpy() * sign, stop_gradient=False) for numbers in tensors()] for _ in range(2)
        ]
        want, got = outcome(function, inputs[0]), outcome(static, inputs[1])
        np.testing.assert_allclose(want[0][0][0], got[0][0][0], rtol=1e-6)
        for a, b in zip(want[1], got[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


def test_recompute():
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return recompute(lambda x: CusTanh.apply(self.linear(x)), x) + x

    paddle.seed(3)
    eager, static = Net(), Net()
    static.set_state_dict(eager.state_dict())
    sot.to_static(static, min_graph_size=0)
    for _ in range(2):
        want, got = outcome(eager, tensors()[:1]), outcome(static, tensors()[:1])
        np.testing.assert_allclose(want[0][0][0], got[0][0][0], rtol=1e-6)
        np.testing.assert_allclose(want[1][0], got[1][0], rtol=1e-5)
    for a, b in zip(eager.parameters(), static.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5)


def test_the_operator_is_there():
    static = sot.to_static(plain, min_graph_size=0)
    outcome(static, tensors())
    (graph,) = static.graphs()
    assert "pd_op.pylayer" in graph.program
    assert "static_pylayer" in graph.ir
    assert "CusTanh_backward" in graph.ir


class CusTanhNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 8)

    def forward(self, x):
        return CusTanh.apply(self.linear(x)).mean()


def test_training_and_export(tmp_path):
    paddle.seed(1)
    eager, static = CusTanhNet(), CusTanhNet()
    static.set_state_dict(eager.state_dict())
    sot.to_static(static)
    optimizers = [paddle.optimizer.SGD(0.5, parameters=net.parameters()) for net in (eager, static)]
    for _ in range(5):
        x = paddle.randn([6, 4])
        losses = []
        for net, optimizer in zip((eager, static), optimizers, strict=True):
            loss = net(x)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        assert losses[0] == losses[1]
    for a, b in zip(eager.parameters(), static.parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert sot.stats(static).graph_breaks == []
    sot.save(static, str(tmp_path / "net"), input_spec=[InputSpec([-1, 4], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "net"))
    for size in (1, 5):
        x = paddle.randn([size, 4])
        np.testing.assert_allclose(loaded(x).numpy(), eager(x).numpy(), rtol=1e-6)


def test_around_the_cinn_backend():
    static = sot.to_static(plain, backend="pylayer", options={"around": "cinn"})
    for _ in range(2):
        want, got = outcome(plain, tensors()), outcome(static, tensors())
        np.testing.assert_allclose(want[0][0][0], got[0][0][0], rtol=1e-6)
        for a, b in zip(want[1], got[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


def test_a_graph_of_one_operator_is_a_program():
    static = sot.to_static(helper, backend="pylayer")
    want, got = outcome(helper, tensors()[:1]), outcome(static, tensors()[:1])
    np.testing.assert_allclose(want[0][0][0], got[0][0][0], rtol=1e-6)
    np.testing.assert_allclose(want[1][0], got[1][0], rtol=1e-6)
    assert "pd_op.pylayer" in static.graphs()[0].program


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"around": "nope"}, ValueError, 'unknown backend "nope"'),
        ({"around": 3}, TypeError, "options: around: expected the name of a backend, got 3"),
        ({"around": "pylayer"}, ValueError, "around: a backend other than pylayer"),
        ({"fast": True}, ValueError, "has no option fast"),
    ],
)
def test_options_are_checked(options, error, text):
    with pytest.raises(error, match=text):
        sot.to_static(helper, backend="pylayer", options=options)


def test_the_example():
    script = Path(__file__).parents[3] / "examples" / "cus_tanh.py"
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("equal to eager") == 10


class SideEffect(CusTanh):
    seen = []

    @staticmethod
    def forward(ctx, x):
        SideEffect.seen.append(1)
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        return dy * 2


class Unmaterialised(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        return a * 2 if b is None else a * 2 + b * 3


class Mask(PyLayer):
    """Eager mode says that gradients go through the second result."""

    @staticmethod
    def forward(ctx, x):
        return x * 2, x > 0

    @staticmethod
    def backward(ctx, dy, dmask):
        return dy * 3


class NotInPlace(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_not_inplace(x)
        return x

    @staticmethod
    def backward(ctx, dy):
        return dy * 3


@pytest.mark.parametrize("kind", [SideEffect, Unmaterialised, Mask])
def test_what_cannot_be_captured_breaks(kind):
    def function(x, w):
        y = kind.apply(x * w)
        return (y[0] if isinstance(y, (tuple, list)) else y) + x

    static = sot.to_static(function, min_graph_size=0)
    want, got = outcome(function, tensors()), outcome(static, tensors())
    np.testing.assert_allclose(want[0][0][0], got[0][0][0], rtol=1e-6)
    for a, b in zip(want[1], got[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    assert "PyLayer" in sot.stats(static).graph_breaks[0].message


class MaskedOut(PyLayer):
    @staticmethod
    def forward(ctx, x):
        double, square, positive = x + x, x * x, x > 0
        ctx.mark_non_differentiable(double, positive)
        ctx.save_for_backward(x)
        return double, square, positive

    @staticmethod
    def backward(ctx, ddouble, dsquare, dpositive):
        (x,) = ctx.saved_tensor()
        return dsquare * 2 * x + ddouble


class NotInPlaceAfterAll(PyLayer):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_not_inplace(x, y)
        return x * y

    @staticmethod
    def backward(ctx, dz):
        return dz * 3, dz * 2


class Materialised(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(True)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        return b * 100 if a is None else a * 5 + b * 7


class UnmaterialisedPair(Unmaterialised):
    @staticmethod
    def backward(ctx, a, b):
        return b * 7 if a is None else a * 2 if b is None else a + b


class UnmaterialisedAlone(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        return None if dy is None else dy * 5


def marked_results(x, w):
    double, square, positive = MaskedOut.apply(x * w)
    return double * 2, square + double, positive


def not_in_place(x, w):
    y = x * 2
    return NotInPlaceAfterAll.apply(y, w) + y


def materialised(x, w):
    a, b = Materialised.apply(x * w)
    return a * 2, b * w


def unmaterialised_alone(x, w):
    return UnmaterialisedAlone.apply(x * w) + 1, x * w


MARKS = [
    # What captures it, how many graphs it is, and the words of its reason.
    (marked_results, 1, None),
    (not_in_place, 1, None),
    (materialised, 1, None),
    (unmaterialised_alone, 1, None),
    (lambda x, w: UnmaterialisedPair.apply(x * w), 1, "set_materialize_grads(False) with several outputs"),
    (lambda x, w: Mask.apply(x * w), 1, "a result of whole numbers or bools that is not marked"),
    (lambda x, w: NotInPlace.apply(x * w) + 1, 2, "forward returns an argument as it is"),
]
NAMES = ["marked", "not in place", "materialised", "alone", "None", "unmarked", "as it is"]


@pytest.mark.parametrize("backend", ["paddle", "eager", "pylayer"])
@pytest.mark.parametrize("at", [None, 0, -1], ids=["all", "first", "last"])
@pytest.mark.parametrize(("function", "graphs", "reason"), MARKS, ids=NAMES)
def test_marks_of_the_context(function, graphs, reason, at, backend):
    """Also where a gradient arrives at one of the results only."""
    static = sot.to_static(function, min_graph_size=0, backend=backend)
    for _ in range(2):
        seen = []
        for run in (function, static):
            x = paddle.to_tensor([1.0, -2.0, 3.0], stop_gradient=False)
            w = paddle.to_tensor([0.5, 1.5, 2.5], stop_gradient=False)
            results = paddle.utils.flatten(run(x, w))
            trained = [value for value in results if not value.stop_gradient and value.dtype == paddle.float32]
            trained = trained if at is None else [trained[at]]
            sum((value * value).sum() for value in trained).backward()
            grads = [None if leaf.grad is None else leaf.grad.numpy().tolist() for leaf in (x, w)]
            seen.append(([(value.numpy().tolist(), value.stop_gradient) for value in results], grads))
        assert seen[0] == seen[1]
    record = sot.stats(static)
    # The PyLayer is a callee where it runs natively, whose methods break for themselves.
    assert record.fallbacks == []
    if reason is None:
        assert (record.graphs, record.graph_breaks) == (graphs, [])
    else:
        assert reason in record.graph_breaks[0].message
        assert record.graphs >= graphs


FACTOR, PARAMETER = paddle.full([3], 3.0), paddle.create_parameter([3], "float32")


class Settings:
    factor = 1.0


class ByFactor(PyLayer):
    """What its backward uses, nothing else does."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        return dy * FACTOR


class ByParameter(ByFactor):
    @staticmethod
    def backward(ctx, dy):
        return dy * PARAMETER.sum()


class ByNumber(ByFactor):
    @staticmethod
    def backward(ctx, dy):
        return dy * 3 + Settings.factor


@pytest.mark.parametrize("backend", ["paddle", "eager", "pylayer", "cinn"])
@pytest.mark.parametrize("layer", [ByFactor, ByParameter, ByNumber])
@pytest.mark.parametrize("control_flow", [False, True])
def test_what_only_backward_uses(layer, backend, control_flow, monkeypatch):
    def function(x):
        if control_flow and x.sum() < 100:
            x = layer.apply(x) * 1.5
        return layer.apply(x).sin()

    static = sot.to_static(function, min_graph_size=0, backend=backend, capture_control_flow=True)
    for factor in (1.0, 1.0, 2.5, 3.5, 4.5):
        monkeypatch.setattr(Settings, "factor", factor)
        found = []
        for run in (function, static):
            x = paddle.to_tensor([1.0, -2.0, 3.0], stop_gradient=False)
            run(x).sum().backward()
            found.append(x.grad.numpy())
        np.testing.assert_allclose(*found, rtol=1e-6)
    record = sot.stats(static)
    assert (record.graph_breaks, record.fallbacks) == ([], [])
