"""`save`: files that Paddle reads without this package."""

import os
import subprocess
import sys

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.static import InputSpec

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

READ = """
import sys
import numpy as np
import paddle
assert "paddle_sot_rs" not in sys.modules
prefix, data = sys.argv[1:3]
inputs = np.load(data)
layer = paddle.jit.load(prefix)
layer.eval()
found = layer(*(paddle.to_tensor(inputs[name]) for name in sorted(inputs.files)))
found = found if isinstance(found, (list, tuple)) else [found]
config = paddle.inference.Config(prefix + ".json", prefix + ".pdiparams")
config.disable_glog_info()
predictor = paddle.inference.create_predictor(config)
names = predictor.get_input_names()
for name in names:
    predictor.get_input_handle(name).copy_from_cpu(inputs[name])
predictor.run()
inferred = [predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()]
named = {f"inferred_{at}": value for at, value in enumerate(inferred)}
np.savez(data + ".out", *[tensor.numpy() for tensor in found], **named)
"""


def read_elsewhere(prefix, tmp_path, **inputs):
    """What a fresh process without paddle_sot_rs computes: (through jit.load, through inference)."""
    data = str(tmp_path / "data.npz")
    np.savez(data, **inputs)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", READ, prefix, data], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(data + ".out.npz") as out:
        loaded = [out[name] for name in out.files if name.startswith("arr_")]
        inferred = [out[name] for name in out.files if name.startswith("inferred_")]
    return loaded, inferred


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 8)
        self.norm = nn.BatchNorm1D(8)
        self.second = nn.Linear(8, 3)
        self.scale = paddle.to_tensor([1.0, 2.0, 3.0])

    def forward(self, x, more=None):
        h = nn.functional.relu(self.norm(self.first(x)))
        b = x.shape[0]
        y = self.second(h) * self.scale + paddle.to_tensor([1.0, 0.0, 2.5])
        return {"y": y.reshape([b * 3]), "h": h if more is None else h + more["bias"]}


def trained():
    paddle.seed(3)
    net = Net()
    net.train()
    net(paddle.randn([16, 10]))  # running statistics
    net.eval()
    return net


@pytest.mark.parametrize("batch", [1, 4, 9])
def test_an_open_batch(tmp_path, batch):
    net = trained()
    prefix = str(tmp_path / "deep" / "net")
    sot.save(net, prefix, input_spec=[InputSpec([None, 10], "float32", "x")])
    assert sorted(os.listdir(tmp_path / "deep")) == ["net.json", "net.pdiparams", "net.pdiparams.info"]
    x = np.random.default_rng(batch).normal(size=[batch, 10]).astype("float32")
    want = net(paddle.to_tensor(x))
    for found in read_elsewhere(prefix, tmp_path, x=x):
        np.testing.assert_allclose(found[0], want["h"].numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[1], want["y"].numpy(), rtol=1e-5, atol=1e-6)


def test_constants_and_buffers(tmp_path):
    net = trained()
    prefix = str(tmp_path / "net")
    sot.save(net, prefix, input_spec=[InputSpec([None, 10], "float32", "x")])
    loaded = paddle.jit.load(prefix)
    states = {*loaded.state_dict()}
    # Two layers and a norm with two parameters and two statistics, and the tensor made in __init__;
    # not the list.
    assert len(states) == 9
    assert [tuple(tensor.shape) for tensor in loaded.state_dict().values()].count((3,)) == 2


def test_a_loaded_program_trains(tmp_path):
    net = trained()
    sot.save(net, str(tmp_path / "net"), input_spec=[InputSpec([None, 10], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "net"))
    loaded.train()
    x = paddle.randn([4, 10])
    sum(out.sum() for out in loaded(x)).backward()
    assert all(p.grad is not None for p in loaded.parameters() if not p.stop_gradient)


def test_nested_and_other_arguments(tmp_path):
    net = trained()
    prefix = str(tmp_path / "net")
    sot.save(net, prefix, input_spec=[InputSpec([4, 10]), {"bias": paddle.ones([8])}])
    x, bias = np.ones([4, 10], "float32"), np.full([8], 2.0, "float32")
    want = net(paddle.to_tensor(x), {"bias": paddle.to_tensor(bias)})
    found = paddle.jit.load(prefix)(paddle.to_tensor(x), paddle.to_tensor(bias))
    np.testing.assert_allclose(found[0].numpy(), want["h"].numpy(), rtol=1e-5, atol=1e-6)


def test_hooks_are_part_of_it(tmp_path):
    net = nn.Linear(4, 2)
    net.register_forward_post_hook(lambda layer, inputs, output: output * 10)
    sot.save(net, str(tmp_path / "net"), input_spec=[InputSpec([None, 4])])
    x = paddle.rand([3, 4])
    found = paddle.jit.load(str(tmp_path / "net"))(x)
    np.testing.assert_allclose(found.numpy(), net(x).numpy(), rtol=1e-5)


class Several(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    @sot.to_static(input_spec=[InputSpec([None, 4], "float32", "x")])
    def forward(self, x):
        return self.inner(x)

    @sot.to_static(input_spec=[InputSpec([None, 4], "float32", "y")])
    def doubled(self, y):
        return self.inner(y) * 2

    def tripled(self, z):
        return self.inner(z) * 3


def test_several_methods(tmp_path):
    net = Several()
    prefix = str(tmp_path / "net")
    sot.save(net, prefix)
    assert "net.doubled.json" in os.listdir(tmp_path)
    loaded = paddle.jit.load(prefix)
    x = paddle.rand([5, 4])
    np.testing.assert_allclose(loaded(x).numpy(), net(x).numpy(), rtol=1e-5)
    np.testing.assert_allclose(loaded.doubled(x).numpy(), net.doubled(x).numpy(), rtol=1e-5)
    sot.save(net, prefix, input_spec={"forward": [x], "tripled": [InputSpec([None, 4])]})
    np.testing.assert_allclose(paddle.jit.load(prefix).tripled(x).numpy(), net.tripled(x).numpy(), rtol=1e-5)


def test_functions(tmp_path):
    def function(x, scale):
        return x * scale, x

    sot.save(function, str(tmp_path / "f"), input_spec=[InputSpec([None, 2]), 3.0])
    x = paddle.rand([3, 2])
    doubled, same = paddle.jit.load(str(tmp_path / "f"))(x)
    np.testing.assert_array_equal(doubled.numpy(), x.numpy() * 3)
    np.testing.assert_array_equal(same.numpy(), x.numpy())


def breaks(x):
    if x.sum() > 0:
        y = 1.5
    else:
        y = x
    x.tolist()
    return x * y


def test_breaks_write_nothing(tmp_path):
    sot.save(scaled, str(tmp_path / "f"), input_spec=[InputSpec([None, 2])])
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    with pytest.raises(sot.GraphBreakError) as error:
        sot.save(breaks, str(tmp_path / "f"), input_spec=[InputSpec([None, 2])])
    assert "PSR0103 DDCF" in str(error.value) and "tolist()" in str(error.value)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


def scaled(x):
    return x * 2


def test_a_size_that_decides_is_no_export(tmp_path):
    def sized(x):
        return [x, x * 2] if x.shape[0] > 2 else [x]

    with pytest.raises(sot.GraphBreakError):
        sot.save(sized, str(tmp_path / "f"), input_spec=[InputSpec([None, 2])])
    assert not os.listdir(tmp_path)


def test_clear_errors(tmp_path):
    with pytest.raises(ValueError, match="input_spec: missing for forward"):
        sot.save(nn.Linear(2, 2), str(tmp_path / "f"))
    with pytest.raises(ValueError, match="path: expected a directory and a prefix"):
        sot.save(nn.Linear(2, 2), str(tmp_path) + "/", [InputSpec([1, 2])])
    with pytest.raises(TypeError, match="layer_or_fn: expected a Layer or a function, got int"):
        sot.save(3, str(tmp_path / "f"), [InputSpec([1, 2])])
    with pytest.raises(ValueError, match="input_spec: Linear has no method 'other'"):
        sot.save(nn.Linear(2, 2), str(tmp_path / "f"), {"other": []})


def test_concrete_program_and_code():
    static = sot.to_static(scaled, input_spec=[InputSpec([None, 2], "float32", "x")])
    program = static.concrete_program
    assert [value.shape for value in program.outputs] == [[-1, 2]]
    assert "pd_op.scale" in str(program.main_program)
    assert "__mul__" in static.code
    with pytest.raises(ValueError, match="concrete_program: give to_static an input_spec"):
        sot.to_static(scaled).concrete_program  # noqa: B018


def added(x, y, pair):
    return x + y, pair["a"] @ pair["b"].T + x.sum()


def test_open_dims_that_have_to_be_equal(tmp_path):
    """Two inputs with an open batch: nobody says that it is the same, the function wants it."""
    spec = [
        InputSpec([None, 3], "float32", "x"),
        InputSpec([None, 3], "float32", "y"),
        {"a": InputSpec([None, None], "float32", "a"), "b": InputSpec([2, None], "float32", "b")},
    ]
    prefix = str(tmp_path / "added")
    sot.save(added, prefix, input_spec=spec)
    loaded = paddle.jit.load(prefix)
    for batch in (1, 2, 6):
        x, y, a, b = paddle.rand([batch, 3]), paddle.rand([batch, 3]), paddle.rand([batch, 5]), paddle.rand([2, 5])
        for found, want in zip(loaded(x, y, a, b), added(x, y, {"a": a, "b": b}), strict=True):
            np.testing.assert_allclose(found.numpy(), want.numpy(), rtol=1e-5)


def test_what_fits_no_size_is_an_error():
    def never(x, y):
        return x.reshape([-1, 4]) + y.tolist()[0]

    with pytest.raises(sot.GraphBreakError):
        sot.jit.concrete_program(never, [InputSpec([None, 4]), InputSpec([None, 4])])


class Decorated(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 2)
        self.register_buffer("offset", paddle.ones([2]))

    @sot.to_static(input_spec=[InputSpec([None, 4], "float32", "x")])
    def forward(self, x):
        return self.inner(x) + self.offset

    @sot.to_static(input_spec=[InputSpec([None, 4], "float32", "x")])
    def scored(self, x):
        return self.inner(x) * 2


def test_programs_of_methods_that_a_class_decorates():
    net = Decorated()
    x = paddle.rand([3, 4])
    with pytest.raises(ValueError, match="forward is a method of a class, without the object"):
        net.forward.concrete_program  # noqa: B018
    program = sot.jit.concrete_program(net.scored, [InputSpec([None, 4])])
    assert [value.shape for value in program.outputs] == [[-1, 2]]
    assert len(program.parameters[0]) == 2
    want = net(x).numpy()
    static = sot.to_static(net, full_graph=True)
    assert static.forward.specification.input_spec is not None
    program = static.forward.concrete_program
    assert [value.shape for value in program.inputs] == [[-1, 4]]
    assert len(program.parameters[0]) == 3
    np.testing.assert_allclose(static(x).numpy(), want, rtol=1e-6)
    scored = sot.to_static(net.scored, min_graph_size=0)
    np.testing.assert_allclose(scored(x).numpy(), net.inner(x).numpy() * 2, rtol=1e-6)


def set_to_a_part(x):
    y = x * 1
    y[0] = x.shape[0] * 0.5
    return y


def added_in_a_loop(x):
    for _ in range(paddle.to_tensor(3)):
        x = x + x.shape[0] * 0.1
    return x


def added_on_a_side(x):
    if x.sum() > 0:
        return x + x.shape[0] / 10
    return x * (x.shape[0] * 0.3 - 1)


FLOATS = {
    "sum": lambda x: x + x.shape[0] * 0.1,
    "quotient": lambda x: x / x.shape[0] + (x.shape[0] + x.shape[1]) / 8,
    "scaled": lambda x: x * (x.shape[0] * 0.3 - 1),
    "rest": lambda x: x % (x.shape[0] * 0.3),
    "compared": lambda x: x > x.shape[0] * 0.1,
    "full": lambda x: paddle.full([2], x.shape[0] * 0.5),
    "clip": lambda x: x.clip(0.0, (x.shape[0] + 1) * 0.1),
    "masked_fill": lambda x: x.masked_fill(x > 0, x.shape[0] * 0.1),
    "item": set_to_a_part,
    "in a loop": added_in_a_loop,
    "in a branch": added_on_a_side,
}


@pytest.mark.parametrize("name", FLOATS)
def test_floats_of_open_dims(name, tmp_path):
    """The program computes them: they are others than in the call that it was traced with."""
    prefix = str(tmp_path / "floats")
    sot.save(FLOATS[name], prefix, input_spec=[InputSpec([None, 4], "float32", "x")])
    loaded = paddle.jit.load(prefix)
    for batch in (1, 2, 3, 7):
        x = paddle.rand([batch, 4]) - 0.4
        np.testing.assert_allclose(loaded(x).numpy(), FLOATS[name](x).numpy(), rtol=1e-6)
