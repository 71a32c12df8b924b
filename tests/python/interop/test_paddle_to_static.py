"""What programs that were written for Paddle's own `to_static` ask of a function, and of `full_graph=True`."""

import gc
import io
import weakref
from contextlib import redirect_stdout

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec


def printed(function, *args):
    text = io.StringIO()
    with redirect_stdout(text):
        result = function(*args)
    return text.getvalue(), result


def test_lines_without_tensors():
    def helper(x, name):
        print("in", name, 3, 2.5, None, (1, "a"), sep="-", end=";\n")
        return x * 2

    def function(x, name):
        print("before")
        y = helper(x, name)
        print()
        return y + 1

    static = sot.to_static(function, full_graph=True)
    x = paddle.ones([2])
    for name in ("one", "two", "one"):
        (found, y), (wanted, z) = printed(static, x, name), printed(function, x, name)
        assert found == wanted
        np.testing.assert_array_equal(y.numpy(), z.numpy())
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (2, [])


def test_lines_keep_their_place_among_effects():
    class Out(io.StringIO):
        def write(self, text):
            return super().write(f"{text}{len(seen)}")

    seen = []

    def after(x):
        print("line")
        seen.append(1)
        return x + 1

    def before(x):
        seen.append(1)
        print("line")
        return x + 1

    static = sot.to_static(after, full_graph=True)
    out = Out()
    with redirect_stdout(out):
        static(paddle.ones([1]))
    assert out.getvalue() == "line0\n0"
    with pytest.raises(sot.GraphBreakError, match="print"):
        sot.to_static(before, full_graph=True)(paddle.ones([1]))
    assert len(seen) == 1


def test_a_line_before_a_printed_tensor_breaks_the_graph():
    def function(x):
        print("line")
        print(x + 1)
        return x

    with pytest.raises(sot.GraphBreakError, match="print"):
        sot.to_static(function, full_graph=True)(paddle.ones([1]))


def test_a_line_and_an_exception():
    def function(x):
        print("line")
        return [x + 1][2]

    static = sot.to_static(function, full_graph=True)
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(IndexError):
        static(paddle.ones([1]))
    assert out.getvalue() == "line\n"


@pytest.mark.parametrize(
    "kind, function",
    [
        (KeyError, lambda x: {"a": x}["b"]),
        (ZeroDivisionError, lambda x: (x + 1, 1 // 0)),
        (TypeError, lambda x: (x * 2, len(5))),
    ],
)
def test_full_graph_raises_the_exceptions_of_the_function(kind, function):
    static = sot.to_static(function, full_graph=True)
    for _ in range(2):
        with pytest.raises(kind) as found:
            static(paddle.ones([1]))
        with pytest.raises(kind) as wanted:
            function(paddle.ones([1]))
        assert str(found.value) == str(wanted.value)


def test_full_graph_lists_the_reasons_where_there_are_others():
    def function(x):
        if x.tolist()[0] > 5:
            raise KeyError("b")
        return x

    with pytest.raises(sot.GraphBreakError, match=r"tolist\(\)"):
        sot.to_static(function, full_graph=True)(paddle.ones([1]))


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(3, 2)

    def forward(self, x, scale=1.0, more=None):
        y = self.linear(x) * scale
        return y if more is None else y + more["bias"]


def test_rollback_of_a_layer():
    net = sot.to_static(Net())
    x = paddle.ones([4, 3])
    wanted = net(x)
    static = net.forward
    original = static.rollback()
    assert original == net.forward and "forward" not in vars(net)
    np.testing.assert_allclose(net(x).numpy(), wanted.numpy(), rtol=1e-6)
    assert sot.stats(static).cache_misses == 1
    sot.to_static(net)
    assert net.forward is not original


def test_rollback_of_a_function():
    def function(x):
        return x + 1

    assert sot.to_static(function).rollback() is function


def test_save_like_the_last_call(tmp_path):
    net = sot.to_static(Net())
    bias = paddle.ones([2])
    x = paddle.rand([4, 3])
    wanted = net(x, more={"bias": bias}, scale=0.5)
    sot.save(net, tmp_path / "net")
    found = paddle.jit.load(str(tmp_path / "net"))(x, bias)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5)
    assert [list(value.shape) for value in net.forward.inputs] == [[4, 3], [2]]
    assert len(net.forward.outputs) == 1 and net.forward.main_program is not None


def test_values_keep_their_program():
    def function(x):
        return x * 2 + 1

    static = sot.to_static(function, input_spec=[InputSpec([None, 3], "float32", "x")])
    inputs, (output,) = static.inputs, static.outputs
    program = weakref.ref(static.main_program)
    gc.collect()
    assert program() is None
    assert [list(value.shape) for value in inputs] == [[-1, 3]] and output.shape == [-1, 3]
    tensors, parameters = static.concrete_program.parameters
    assert (tensors, parameters) == ([], [])


def test_nothing_is_kept_of_objects():
    class Thing:
        scale = 2.0

    def function(x, thing):
        return x * thing.scale

    static = sot.to_static(function)
    static(paddle.ones([2]), Thing())
    with pytest.raises(ValueError, match="input_spec"):
        static.concrete_program  # noqa: B018


def test_concrete_program_for_arguments():
    def function(x, y, factor=2):
        return x * factor + y

    static = sot.to_static(function)
    program, other = static.get_concrete_program(InputSpec([None, 3]), paddle.ones([3]), factor=3)
    assert other is static
    assert [list(value.shape) for value in program.inputs] == [[-1, 3], [3]]
    with pytest.raises(TypeError):
        static.get_concrete_program(paddle.ones([3]), missing=1)
    static.train()
    static.eval()


def test_enable_to_static():
    def function(x):
        return x * 2

    with sot.patch_paddle():
        static = paddle.jit.to_static(function)
        paddle.jit.enable_to_static(False)
        try:
            static(paddle.ones([1]))
            assert sot.stats(static).cache_misses == 0
        finally:
            paddle.jit.enable_to_static(True)
        static(paddle.ones([1]))
        assert sot.stats(static).cache_misses == 1
        paddle.jit.enable_to_static(False)
    try:
        static(paddle.ones([1]))
        assert sot.stats(static).cache_hits == 1
    finally:
        paddle.jit.enable_to_static(True)


def test_full_graph_of_a_patched_program_captures_control_flow():
    def function(x):
        while x.sum() < 10:
            x = x * 2
        return x

    with sot.patch_paddle():
        static = paddle.jit.to_static(function, full_graph=True)
    for value in (1.0, 3.0, 20.0):
        x = paddle.full([2], value)
        np.testing.assert_array_equal(static(x).numpy(), function(x).numpy())
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])


def test_save_of_a_recurrent_layer_with_directions(tmp_path):
    net = paddle.nn.LSTM(3, 2, num_layers=2, direction="bidirectional")
    net.eval()
    sot.save(net, tmp_path / "net", [InputSpec([None, 5, 3])])
    x = paddle.rand([4, 5, 3])
    found = paddle.jit.load(str(tmp_path / "net"))(x)
    np.testing.assert_allclose(found[0].numpy(), net(x)[0].numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("inside", [False, True])
def test_gradients_of_tensors_in_between(inside):
    got = []

    def listen(y):
        y.register_hook(lambda g: got.append(g.numpy().tolist()) or g * 2)
        y.retain_grads()

    def function(x):
        y = x * 2
        z = (y * y).sum()
        if inside:
            listen(y)
        else:
            y.register_hook(lambda g: got.append(g.numpy().tolist()) or g * 2)
            y.retain_grads()
        return y, z * 3

    found = []
    for run in (function, sot.to_static(function, min_graph_size=0)):
        for _ in range(2):
            x = paddle.to_tensor([2.0, 3.0], stop_gradient=False)
            y, z = run(x)
            z.backward()
            found.append((y.grad.numpy().tolist(), x.grad.numpy().tolist(), got[-1]))
    assert len(got) == 4 and found == [found[0]] * 4


def first(x):
    return paddle.grad((x * x).sum(), [x])[0] + 1


def second(x):
    slope = paddle.grad((x * x * x).sum(), [x], create_graph=True)[0]
    return paddle.grad(slope.sum(), [x])[0] + 1


def accumulated(x):
    y = x * 2
    paddle.autograd.backward([(y * y).sum()])
    return y + x.grad


def run(static):
    x = paddle.to_tensor([2.0, 3.0], stop_gradient=False)
    return [(static(x).numpy().tolist(), None if x.grad is None else x.grad.numpy().tolist()) for _ in range(3)]


@pytest.mark.parametrize("function", [first, second])
def test_gradients_inside_of_a_function(function):
    static = sot.to_static(function, min_graph_size=0)
    assert run(static) == run(function)
    assert not sot.stats(static).graph_breaks


def test_a_walk_of_autograd_inside_of_a_function():
    function = accumulated
    static = sot.to_static(function, min_graph_size=0)
    assert run(static) == run(function)
    # The engine has its own functions in the place of Paddle's, which are not followed.
    reasons = [(it.message, it.file) for it in sot.stats(static).graph_breaks]
    assert any(message.endswith("walks the autograd graph") for message, _ in reasons)
    assert not any("paddle_sot_rs" in file for _, file in reasons)
    with pytest.raises(sot.GraphBreakError, match="walks the autograd graph"):
        sot.to_static(function, full_graph=True)(paddle.ones([2]))
