"""Attributes of translated functions that are computed: they are there, or missing as attributes are."""

import inspect

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn
from paddle.static import InputSpec

COMPUTED = ("concrete_program", "main_program", "inputs", "outputs")


def test_before_the_first_call_they_are_missing():
    net = translate(nn.Linear(2, 2))
    assert [hasattr(net.forward, name) for name in COMPUTED] == [False] * 4
    assert getattr(net.forward, "concrete_program", None) is None
    with pytest.raises(ValueError, match="give to_static an input_spec"):
        net.forward.concrete_program  # noqa: B018
    assert "dygraph_function" in dict(inspect.getmembers(net.forward))


def test_behind_a_call_they_are_there():
    net = translate(nn.Linear(2, 2))
    net(paddle.ones([1, 2]))
    assert [hasattr(net.forward, name) for name in COMPUTED] == [True] * 4
    assert set(COMPUTED) <= set(dict(inspect.getmembers(net.forward)))


def test_with_a_specification_they_are_there():
    function = translate(lambda x: x * 2, input_spec=[InputSpec([None, 2])])
    assert [hasattr(function, name) for name in COMPUTED] == [True] * 4


def test_of_what_is_no_graph_they_are_missing():
    def prints(x):
        print(float(x.sum()))
        return x

    function = translate(prints, input_spec=[InputSpec([2])])
    assert not hasattr(function, "concrete_program")
    with pytest.raises(sot.GraphBreakError):
        function.concrete_program  # noqa: B018
