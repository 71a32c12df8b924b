"""The public functions: forms of use, and errors that name the argument."""

import copy
import functools
import pickle

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn

X = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3))


def double(x):
    return x * 2


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x)

    @sot.to_static
    def other(self, x):
        return self.linear(x) + 1


def test_forms():
    expected = double(X).numpy()

    @sot.to_static
    def plain(x):
        return x * 2

    @sot.to_static(backend="eager", full_graph=True)
    def with_arguments(x):
        return x * 2

    partial = sot.to_static(functools.partial(lambda x, by: x * by, by=2))
    for function in (plain, with_arguments, sot.to_static(double), sot.to_static()(double), partial):
        assert np.array_equal(function(X).numpy(), expected)
    assert plain.__name__ == "plain"


def test_a_layer_is_returned_itself_and_can_be_copied():
    net = Net()
    assert sot.to_static(net) is net
    expected = net.linear(X).numpy()
    assert np.array_equal(net(X).numpy(), expected)
    assert np.array_equal(net.other(X).numpy(), expected + 1)
    assert np.array_equal(copy.deepcopy(net)(X).numpy(), expected)
    assert list(net.state_dict()) == ["linear.weight", "linear.bias"]


def test_a_translated_function_can_be_pickled():
    assert np.array_equal(pickle.loads(pickle.dumps(sot.to_static(double).__wrapped__))(X).numpy(), (X * 2).numpy())


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"backend": "nope"}, ValueError, "unknown backend 'nope'; known: eager, paddle"),
        ({"backend": 3}, TypeError, "backend"),
        ({"input_spec": []}, NotImplementedError, "input_spec"),
        ({"capture_control_flow": True}, NotImplementedError, "capture_control_flow"),
        ({"options": {"x": 1}}, ValueError, "options"),
        ({"options": 3}, TypeError, "options"),
        ({"min_graph_size": -1}, ValueError, "min_graph_size"),
        ({"black_list": (3,)}, TypeError, "black_list"),
        ({"full_graph": True, "fallback": True}, ValueError, "fallback"),
    ],
)
def test_bad_arguments(settings, error, text):
    with pytest.raises(error, match=text):
        sot.to_static(double, **settings)


def test_what_is_not_callable_is_refused():
    with pytest.raises(TypeError, match="fn_or_layer"):
        sot.to_static(3)


def test_full_graph_lists_the_reason():
    @sot.to_static(full_graph=True)
    def f(x):
        return x * float(x.sum())

    with pytest.raises(sot.GraphBreakError, match=r"UNSPS.*float\(\) of a tensor"):
        f(X)


def test_explain_reports_graphs_guards_and_breaks():
    def f(x):
        y = x + 1
        print(float(y.sum()))
        return y * 2

    report = sot.explain(f, min_graph_size=0)(X)
    text = str(report)
    assert len(report.graphs) == 2 and len(report.graph_breaks) == 2
    assert "var_1 = __add__ ((var_0, 1), {})" in text
    assert "x.shape == [2, 3] and x.dtype == paddle.float32" in text
    assert "UNSPS" in text and "hint:" in text and report.code


def test_user_breaks_black_lists_and_disable():
    def f(x):
        y = x + 1
        sot.graph_break("here")
        return paddle.nn.functional.relu(y)

    broken = sot.to_static(f)
    assert np.array_equal(broken(X).numpy(), f(X).numpy())
    assert [b.message for b in sot.stats(broken).graph_breaks] == ["here"]
    listed = sot.to_static(f, black_list=(paddle.nn.functional.relu,))
    assert np.array_equal(listed(X).numpy(), f(X).numpy())
    assert [b.code for b in sot.stats(listed).graph_breaks] == ["UNSPS", "CDBL"]


def test_backends_can_be_registered_swapped_and_removed():
    seen = []

    def compiler(ir, metas):
        seen.append((str(ir), metas))
        return ir

    sot.register_backend("mine", compiler)
    try:
        with pytest.raises(ValueError, match="already registered"):
            sot.register_backend("mine", compiler)
        f = sot.to_static(double, backend="mine", min_graph_size=0)
        assert np.array_equal(f(X).numpy(), (X * 2).numpy())
        assert len(seen) == 1 and "__mul__" in seen[0][0]
        sot.swap_backend("mine", compiler)
        assert np.array_equal(f(X).numpy(), (X * 2).numpy())
        assert sot.stats(f).translations == 2
    finally:
        sot.unregister_backend("mine")
    assert sot.list_backends() == ["eager", "paddle"]
    with pytest.raises(KeyError, match="mine"):
        sot.unregister_backend("mine")
