"""What the engine imports it does not import through the frame that calls it: its builtins are the user's."""

import ast
import asyncio
import builtins
import types

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle_sot_rs.debug import force_translation

BACKENDS = ["paddle", "cinn", "pylayer", "eager"]


def _call(source, space, **flags):
    """Runs it in globals that get no `__builtins__`."""
    types.FunctionType(compile(source, "made", "exec", **flags), space)()
    assert "__builtins__" not in space


def _step(x, layer, n):
    y = layer(x) * n + x.shape[0]
    text = f"{n:.2f}"
    for i in range(2):
        y = y + i
    if y.sum() > 1e6:  # DDCF
        y = y * 2
    return (y * 2).sum(), text


@pytest.mark.parametrize("backend", BACKENDS)
def test_globals_without_builtins(backend):
    paddle.seed(3)
    layer = paddle.nn.Linear(3, 2)
    function = sot.to_static(_step, backend=backend)
    calls = [(2, 1.5), (2, 1.5), (3, 2.5), (4, 3.5)]
    for rows, n in calls:
        x = paddle.arange(3.0 * rows).reshape([rows, 3])
        expected, text = _step(x, layer, n)
        expected.backward()
        gradient = layer.weight.grad.numpy()
        layer.clear_gradients()
        space = {"function": function, "x": x, "layer": layer, "n": n}
        _call("loss, text = function(x, layer, n)\nloss.backward()", space)
        assert np.array_equal(space["loss"].numpy(), expected.numpy())
        assert np.array_equal(layer.weight.grad.numpy(), gradient)
        assert space["text"] == text
        layer.clear_gradients()
    stats = sot.stats(function)
    assert stats.graph_breaks and not stats.fallbacks, stats


def test_forced_frames_without_builtins():
    async def numbers():
        yield 1

    code = "async for i in numbers():\n    a = i"
    code = compile(code, "made", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    space = {"numbers": numbers}
    with force_translation():
        asyncio.run(types.FunctionType(code, space)())
    assert space["a"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_import_functions_of_the_user(backend, monkeypatch):
    """`builtins.__import__` may be replaced by a function that counts, waits or refuses."""
    own = builtins.__import__
    asked = []

    def note(name, globals=None, *args, **kwargs):
        if globals is None or globals["__name__"] == __name__:
            asked.append(name)
        return own(name, globals, *args, **kwargs)

    paddle.seed(3)
    layer = paddle.nn.Linear(3, 2)
    function = sot.to_static(_step, backend=backend)
    monkeypatch.setattr(builtins, "__import__", note)
    for n in (1.5, 2.5):
        loss, _ = function(paddle.ones([2, 3]), layer, n)
        loss.backward()
    monkeypatch.undo()
    assert asked == []
