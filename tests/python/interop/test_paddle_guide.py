"""The kinds of code in Paddle's guide to dynamic-to-static conversion: one graph each, equal to eager, exported."""

import sys
import textwrap

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.static import InputSpec
from support import eager_deletion


def if_on_a_tensor(x):
    if x.mean() > 5.0:
        out = x - 1.0
    else:
        out = x + 1.0
    return out


def if_not_on_a_tensor(x, training=True, scale=None):
    if training and scale is None:
        out = x * 2
    else:
        out = x * 3
    return out


def while_on_a_tensor(x):
    total = paddle.zeros([], "int64")
    while total < 10:
        x = x + total.astype("float32")
        total = total + 3
    return x, total


def for_over_numbers(x):
    parts = []
    for at in range(4):
        parts.append(x * at)
    return paddle.concat(parts)


def for_over_a_tensor_range(x):
    rounds = (x.abs().max() + 2).astype("int64")
    total = paddle.zeros_like(x)
    for at in range(rounds):
        total = total + x * at
    return total


def for_over_rows(x):
    total = paddle.zeros([3])
    for at, row in enumerate(x):
        total = total + row * at
    return total


def logical_operators(x):
    if x.sum() > 0 and x.max() < 100 or not (x.min() > -100):
        x = x * 2
    return x


def conditional_expression(x):
    return x + 1 if x.sum() > 0 else x - 1


def break_and_continue(x):
    for at in range(5):
        if x.sum() > 40:
            break
        if at == 2:
            continue
        x = x * 2 + at
    return x


def early_return(x):
    if x.sum() > 0:
        return x * 2
    x = x - 3
    return x.abs()


# Not by a statement of this file: pytest rewrites those.
space = {}
exec('def asserts(x):\n    assert x.sum() < 1000, "too large"\n    return x + 1', space)
asserts = space["asserts"]


def shape_of_a_tensor(x):
    return paddle.reshape(x, [x.shape[1], x.shape[0]])


def lists_in_control_flow(x):
    values = [x]
    if x.sum() > 0:
        values = [x, x * 2]
    else:
        values = [x, x * 3]
    return values[0] + values[1]


FUNCTIONS = [
    *(if_on_a_tensor, if_not_on_a_tensor, while_on_a_tensor, for_over_numbers, for_over_a_tensor_range, for_over_rows),
    *(logical_operators, conditional_expression, break_and_continue, early_return, asserts, shape_of_a_tensor),
    lists_in_control_flow,
]
DATA = [np.full([2, 3], value, "float32") for value in (1.0, -2.0, 8.0)]


def arrays(result):
    return [value.numpy() for value in paddle.utils.flatten(result)]


def same(want, got):
    for a, b in zip(arrays(want), arrays(got), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions(function, tmp_path):
    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    for numbers in DATA:
        same(function(paddle.to_tensor(numbers)), static(paddle.to_tensor(numbers)))
    assert sot.stats(static).graphs == 1
    path = str(tmp_path / "saved")
    sot.save(static, path, input_spec=[InputSpec([2, 3], "float32", "x")])
    loaded = paddle.jit.load(path)
    with eager_deletion():
        for numbers in DATA:
            same(function(paddle.to_tensor(numbers)), loaded(paddle.to_tensor(numbers)))


def test_functions_of_other_files(tmp_path, monkeypatch):
    (tmp_path / "guide_helpers.py").write_text(
        textwrap.dedent("""
            import paddle

            def choose(x):
                if paddle.mean(x) > 0:
                    return halve(x)
                return x - 1

            def halve(x):
                while x.sum() > 3:
                    x = x / 2
                return x
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    import guide_helpers

    def function(x):
        return guide_helpers.choose(x) + 1

    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    for numbers in DATA:
        same(function(paddle.to_tensor(numbers)), static(paddle.to_tensor(numbers)))
    sys.modules.pop("guide_helpers")


class WithBuffers(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("mean", paddle.to_tensor([1.0, 2.0, 3.0]))
        self.offset = paddle.to_tensor([[0.5], [1.5]])

    def forward(self, x):
        made_here = paddle.to_tensor([3.0, 2.0, 1.0])
        if x.sum() > 0:
            x = x - self.mean
        return self.linear(x) * made_here + self.offset

    @sot.to_static(full_graph=True, input_spec=[InputSpec([None, 3], "float32", "x")])
    def shifted(self, x):
        return x + self.mean


def test_buffers_and_constants(tmp_path):
    net = WithBuffers()
    net.eval()
    static = sot.to_static(net, full_graph=True, input_spec=[InputSpec([2, 3], "float32", "x")])
    for numbers in DATA:
        same(WithBuffers.forward(net, paddle.to_tensor(numbers)), static(paddle.to_tensor(numbers)))
    code = static.forward.code
    assert "cond" in code
    program = static.forward.concrete_program
    assert len(program.parameters) >= 2
    path = str(tmp_path / "net")
    sot.save(static, path)
    loaded = paddle.jit.load(path)
    for numbers in DATA:
        same(static(paddle.to_tensor(numbers)), loaded(paddle.to_tensor(numbers)))
        same(net.shifted(paddle.to_tensor(numbers)), loaded.shifted(paddle.to_tensor(numbers)))
