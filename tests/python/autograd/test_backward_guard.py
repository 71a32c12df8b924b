"""Code that runs again on the way back (`recompute`, `backward` of a PyLayer) and callers that change what it reads."""

import collections
import gc
import types
import weakref

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute

# What is done with a graph does not depend on the version of Python.
pytestmark = [pytest.mark.default_python, pytest.mark.filterwarnings("ignore")]

SCALE = 2.0
TABLE = {"scale": 2.0, "other": 1.0}
SIZES = [2.0, 3.0]
ORDERED = collections.OrderedDict(scale=2.0)
NAMES = {"double", "wide"}
MODULE = types.SimpleNamespace(scale=2.0)


class Settings:
    scale = 2.0
    unused = 1.0


class Slots:
    __slots__ = ("scale",)


SETTINGS, SLOTS = Settings(), Slots()


def factor():
    return 2.0


FACTOR = factor.__code__


def with_default(value=2.0):
    return value


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.other = nn.Linear(3, 3)
        self.linear.weight.set_value(paddle.arange(9, dtype="float32").reshape([3, 3]) / 8)
        self.other.weight.set_value(paddle.ones([3, 3]))
        self.layers = nn.LayerList([nn.Linear(3, 3, bias_attr=False)])
        self.layers[0].weight.set_value(paddle.eye(3))
        self.scale, self.inner = 2.0, Settings()
        self.weight = paddle.ones([3])

    def forward(self, v):
        return self.linear(v) * self.scale


NET = Net()
RELU = nn.functional.relu


def reset():
    global SCALE
    SCALE = 2.0
    TABLE.clear()
    TABLE.update(scale=2.0, other=1.0)
    SIZES[:] = [2.0, 3.0]
    ORDERED.clear()
    ORDERED.update(scale=2.0)
    NAMES.clear()
    NAMES.update(("double", "wide"))
    MODULE.scale = 2.0
    SETTINGS.__dict__.clear()
    Settings.scale, Settings.unused = 2.0, 1.0
    SLOTS.scale = 2.0
    factor.__code__, with_default.__defaults__ = FACTOR, (2.0,)
    nn.functional.relu = RELU
    NET.__init__()
    write_cell("cell", 2.0)
    write_cell("other", 1.0)


# Variables of a function around it, which another of its functions binds.
def around():
    cell, other = 2.0, 1.0

    def read(v):
        return v * cell + other * 0

    def write(name, value):
        nonlocal cell, other
        if name == "cell":
            cell = value
        else:
            other = value

    return read, write


read_cell, write_cell = around()


def by(block):
    return lambda x: recompute(block, x * 1.5)


def _set_global(value):
    global SCALE
    SCALE = value


READS = {
    "global": (lambda v: (v * SCALE).sin(), lambda: _set_global(5.0)),
    "attribute": (lambda v: (v * SETTINGS.scale).sin(), lambda: setattr(SETTINGS, "scale", 5.0)),
    "class_attribute": (lambda v: (v * SETTINGS.scale).sin(), lambda: setattr(Settings, "scale", 5.0)),
    "slot": (lambda v: (v * SLOTS.scale).sin(), lambda: setattr(SLOTS, "scale", 5.0)),
    "namespace": (lambda v: (v * MODULE.scale).sin(), lambda: setattr(MODULE, "scale", 5.0)),
    "item": (lambda v: (v * SIZES[0]).sin(), lambda: SIZES.__setitem__(0, 5.0)),
    "length": (lambda v: (v * len(SIZES)).sin(), lambda: SIZES.append(1.0)),
    "value": (lambda v: (v * TABLE["scale"]).sin(), lambda: TABLE.update(scale=5.0)),
    "missing_key": (lambda v: (v * TABLE.get("more", 2.0)).sin(), lambda: TABLE.update(more=5.0)),
    "ordered": (lambda v: (v * ORDERED["scale"]).sin(), lambda: ORDERED.update(scale=5.0)),
    "element": (lambda v: (v * (2.0 if "double" in NAMES else 5.0)).sin(), lambda: NAMES.remove("double")),
    "cell": (lambda v: read_cell(v).sin(), lambda: write_cell("cell", 5.0)),
    "code": (lambda v: (v * factor()).sin(), lambda: setattr(factor, "__code__", (lambda: 5.0).__code__)),
    "default": (lambda v: (v * with_default()).sin(), lambda: setattr(with_default, "__defaults__", (5.0,))),
    "missing_attribute": (
        lambda v: (v * getattr(SETTINGS, "more", 2.0)).sin(),
        lambda: setattr(SETTINGS, "more", 5.0),
    ),
    "of_what_is_inside": (lambda v: (v * NET.inner.scale).sin(), lambda: setattr(NET.inner, "scale", 5.0)),
    "of_a_layer": (lambda v: NET(v).sin(), lambda: setattr(NET, "scale", 5.0)),
    "layer": (lambda v: NET.linear(v).sin() * NET.scale, lambda: setattr(NET, "linear", NET.layers[0])),
    "parameter": (
        lambda v: NET.linear(v).sin(),
        lambda: setattr(NET.linear, "weight", NET.other.weight),
    ),
    "hook": (
        lambda v: NET.linear(v).sin(),
        lambda: NET.linear.register_forward_post_hook(lambda layer, given, result: result * 5),
    ),
    "layers": (
        lambda v: sum(layer(v) for layer in NET.layers).sin(),
        lambda: NET.layers.append(NET.other),
    ),
    "module": (lambda v: nn.functional.relu(v).sin(), lambda: setattr(nn.functional, "relu", nn.functional.silu)),
    "tensor": (lambda v: (v * NET.weight).sin(), lambda: setattr(NET, "weight", paddle.full([3], 5.0))),
}

# Nothing of this is read.
OTHERS = {
    "another_global": (lambda v: (v * SCALE).sin(), lambda: TABLE.clear()),
    "another_attribute": (lambda v: (v * SETTINGS.scale).sin(), lambda: setattr(SETTINGS, "unused", 5.0)),
    "another_variable": (lambda v: v.sin() * factor(), lambda: write_cell("other", 5.0)),
    "the_same_again": (lambda v: (v * TABLE["scale"]).sin(), lambda: TABLE.update(scale=float("2.0"))),
    "another_layer": (lambda v: NET.linear(v).sin(), lambda: setattr(NET.other, "weight", NET.linear.weight)),
    "and_back": (
        lambda v: (v * MODULE.scale).sin(),
        lambda: (setattr(MODULE, "scale", 5.0), setattr(MODULE, "scale", 2.0)),
    ),
}


def gradient(function, change=None, x=None):
    reset()
    x = paddle.to_tensor([[0.5, 0.25, -0.5]], stop_gradient=False)
    y = function(x)
    if change is not None:
        change()
    y.sum().backward()
    return x.grad.numpy().tolist()


@pytest.mark.parametrize("backend", ["paddle", "eager", "cinn", "pylayer"])
@pytest.mark.parametrize("name", READS)
def test_refused_and_then_left_to_the_interpreter(name, backend):
    block, change = READS[name]
    program = by(block)
    expected, changed = gradient(program), gradient(program, change)
    assert expected != changed, "the change is not seen in plain Python"
    function = translate(program, backend=backend)
    assert_close(gradient(function), expected)
    record = sot.stats(function)
    assert (record.graphs, record.graph_breaks) == (1, [])
    with pytest.raises(RuntimeError, match="since the call: what recompute"):
        gradient(function, change)
    assert_close(gradient(function, change), changed)
    assert_close(gradient(function), expected)
    record = sot.stats(function)
    assert [it.message for it in record.graph_breaks] == [
        "recompute: what its code reads changes before it runs again on the way back"
    ]


def assert_close(a, b):
    assert np.allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OTHERS)
def test_others_may_change(name):
    block, change = OTHERS[name]
    program = by(block)
    expected = gradient(program)
    assert_close(gradient(program, change), expected)
    function = translate(program)
    for _ in range(2):
        assert_close(gradient(function, change), expected)
    record = sot.stats(function)
    assert (record.graph_breaks, record.fallbacks) == ([], [])
    # The layer is another one in each call.
    assert record.graphs == (2 if name == "another_layer" else 1)


class Scaled(PyLayer):
    """Its forward is not run again: what only that reads may change."""

    @staticmethod
    def forward(ctx, v):
        ctx.settings = SETTINGS
        return v * TABLE["other"]

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.settings.scale * SCALE


@pytest.mark.parametrize(
    ("change", "is_read"),
    [
        (lambda: _set_global(5.0), True),
        (lambda: setattr(Settings, "scale", 5.0), True),
        (lambda: TABLE.update(other=5.0), False),
        (lambda: setattr(SETTINGS, "unused", 5.0), False),
    ],
)
def test_of_a_pylayer(change, is_read):
    def program(x):
        return Scaled.apply(x * 1.5).sin()

    expected, changed = gradient(program), gradient(program, change)
    assert (expected != changed) == is_read
    function = translate(program)
    assert_close(gradient(function), expected)
    if is_read:
        with pytest.raises(RuntimeError, match="since the call"):
            gradient(function, change)
    for _ in range(2):
        assert_close(gradient(function, change), changed)
    assert sum(it.count for it in sot.stats(function).graph_breaks) == is_read


ARRAY = np.ones(3, "float32")


class ByArray(PyLayer):
    @staticmethod
    def forward(ctx, v):
        return v * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * paddle.to_tensor(ARRAY)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: recompute(lambda v: (v * paddle.to_tensor(ARRAY)).sin(), x * 1.5),
        lambda x: recompute(lambda v: (v * paddle.assign(ARRAY)).sin(), x * 1.5),
        lambda x: recompute(lambda v: (v * ARRAY).sin(), x * 1.5),
        lambda x: ByArray.apply(x * 1.5).sin(),
    ],
)
def test_arrays_are_left_to_the_interpreter(program):
    """What they hold nobody can compare."""
    function = translate(program)
    for number in (2.0, 5.0):
        ARRAY[:] = 1.0
        expected = gradient(program, lambda number=number: ARRAY.fill(number))
        ARRAY[:] = 1.0
        assert_close(gradient(function, lambda number=number: ARRAY.fill(number)), expected)
    assert sot.stats(function).graph_breaks


@pytest.mark.parametrize("through", ["layer", "parameter"])
def test_parameters_that_are_frozen_in_between(through):
    def program(x):
        block = NET.linear if through == "layer" else lambda v: (v @ NET.linear.weight).sin()
        return recompute(block, x * 1.5)

    def frozen(call):
        gradient(call, lambda: setattr(NET.linear.weight, "stop_gradient", True))
        return NET.linear.weight.grad

    function = translate(program)
    gradient(function)
    assert NET.linear.weight.grad is not None
    with pytest.raises(RuntimeError, match="since the call"):
        frozen(function)
    assert frozen(program) is frozen(function) is None


def test_numbers_that_differ_between_calls():
    """They are inputs of the graph, and read again in plain Python all the same."""

    def program(x):
        return recompute(lambda v: (v * SETTINGS.scale).sin(), x * 1.5)

    def run(call, scale, then):
        reset()
        SETTINGS.scale = scale
        x = paddle.to_tensor([[0.5, 0.25, -0.5]], stop_gradient=False)
        y = call(x)
        SETTINGS.scale = then
        y.sum().backward()
        return x.grad.numpy().tolist()

    function = translate(program)
    for scale in (1.0, 2.0, 3.0, 4.0):
        assert_close(run(function, scale, scale), run(program, scale, scale))
    assert sot.stats(function).graphs == 2
    with pytest.raises(RuntimeError, match="SETTINGS.*[.]scale has changed since the call"):
        run(function, 5.0, 6.0)
    assert_close(run(function, 5.0, 6.0), run(program, 5.0, 6.0))


def test_only_gradients_that_run_the_code_again():
    def program(x, z):
        return recompute(lambda v: (v * SCALE).sin(), x * 1.5), (z * 2).sin()

    reset()
    x, z = (paddle.ones([3]) for _ in range(2))
    x.stop_gradient = z.stop_gradient = False
    function = translate(program)
    y, other = function(x, z)
    _set_global(5.0)
    other.sum().backward()
    assert z.grad is not None
    with pytest.raises(RuntimeError, match="SCALE.* has changed since the call"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="SCALE.* has changed since the call"):
        paddle.grad(y.sum(), x)
    _set_global(2.0)
    y.sum().backward()
    found = x.grad.numpy()
    x.clear_grad()
    program(x, z)[0].sum().backward()
    assert_close(found, x.grad.numpy())


def test_calls_that_wait_for_each_other():
    """Each has what was there when it was made."""

    def program(x):
        return recompute(lambda v: (v * SETTINGS.scale).sin(), x * 1.5)

    reset()
    x = paddle.ones([3])
    x.stop_gradient = False
    function = translate(program)
    SETTINGS.scale = 3.0
    first = function(x)
    SETTINGS.scale = 4.0
    second = function(x)
    second.sum().backward()
    with pytest.raises(RuntimeError, match="since the call"):
        first.sum().backward()
    SETTINGS.scale = 3.0
    first.sum().backward()


def change_it():
    SETTINGS.scale = 5.0


def _native(how):
    # No byte code that the frame could be asked for.
    return eval(how, {"change_it": change_it})


def test_a_function_behind_a_break():
    """The frame does not say what it changes: the first gradient is refused, the others are right."""

    def program(x):
        y = recompute(lambda v: (v * SETTINGS.scale).sin(), x * 1.5)
        print(float(y.sum()))
        _native("change_it()")
        return y * 2

    expected = gradient(program)
    function = translate(program)
    with pytest.raises(RuntimeError, match="since the call"):
        gradient(function)
    for _ in range(2):
        assert_close(gradient(function), expected)


def test_what_the_frame_makes_and_returns():
    """The caller has it: the interpreter runs the operation."""

    def program(x):
        settings, sizes = Settings(), [2.0]
        settings.scale = 2.0
        y = recompute(lambda v: (v * settings.scale * sizes[0]).sin(), x * 1.5)
        return y, settings, sizes

    def run(call, which):
        x = paddle.to_tensor([[0.5, 0.25, -0.5]], stop_gradient=False)
        y, settings, sizes = call(x)
        if which:
            settings.scale = 5.0
        else:
            sizes[0] = 5.0
        y.sum().backward()
        return x.grad.numpy().tolist()

    function = translate(program)
    for which in (True, False):
        assert_close(run(function, which), run(program, which))
    assert sum(it.count for it in sot.stats(function).graph_breaks) == 1


def test_a_variable_that_a_returned_function_binds():
    def program(x):
        scale = 2.0

        def bind(value):
            nonlocal scale
            scale = value

        return recompute(lambda v: (v * scale).sin(), x * 1.5), bind

    def run(call):
        x = paddle.to_tensor([[0.5, 0.25, -0.5]], stop_gradient=False)
        y, bind = call(x)
        bind(5.0)
        y.sum().backward()
        return x.grad.numpy()

    function = translate(program)
    for _ in range(2):
        assert_close(run(function), run(program))


def test_what_the_frame_makes_and_keeps():
    def program(x):
        settings, sizes = Settings(), [2.0]
        settings.scale = 2.0
        return recompute(lambda v: (v * settings.scale * sizes[0]).sin(), x * 1.5)

    function = translate(program)
    assert_close(gradient(function), gradient(program))
    record = sot.stats(function)
    assert (record.graphs, record.graph_breaks) == (1, [])


@pytest.mark.parametrize("how", ["setattr(SETTINGS, 'scale', 5.0)", "SIZES.append(5.0)", "_set_global(5.0)"])
def test_what_the_frame_wrote_before(how):
    """Nothing tells whether that is still there: the interpreter runs the operation."""
    names = {"SETTINGS": SETTINGS, "SIZES": SIZES, "recompute": recompute, "SCALE": 2.0}
    writes = how.replace("_set_global(5.0)", "SCALE = 5.0").replace(
        "setattr(SETTINGS, 'scale', 5.0)", "SETTINGS.scale = 5.0"
    )
    exec(
        f"""
def program(x):
    global SCALE
    {writes}
    return recompute(lambda v: (v * (SETTINGS.scale + SIZES[-1] + SCALE)).sin(), x * 1.5)
""",
        names,
    )

    def change():
        SETTINGS.scale, names["SCALE"] = 7.0, 7.0
        SIZES.append(7.0)

    function = translate(names["program"])
    for _ in range(2):
        assert_close(gradient(function, change), gradient(names["program"], change))
    assert sot.stats(function).graph_breaks


def test_nothing_is_kept():
    class Held:
        scale = 2.0

    held = Held()
    alive = weakref.ref(held)

    def program(x, settings):
        return recompute(lambda v: (v * settings.scale).sin(), x * 1.5)

    function = translate(program)
    x = paddle.ones([3])
    x.stop_gradient = False
    for _ in range(2):
        function(x, held).sum().backward()
    del held
    gc.collect()
    assert alive() is None
