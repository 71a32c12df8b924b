"""Comparing a translated function with plain Python."""

from __future__ import annotations

import contextlib
import copy
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import paddle_sot_rs as sot


def snapshot(value: Any) -> Any:
    """A comparable picture of a value: types, tensor data and metadata, object state."""
    if isinstance(value, paddle.Tensor):
        return ("tensor", value.shape, str(value.dtype), value.stop_gradient, value.numpy())
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value)
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return (type(value), [snapshot(item) for item in items])
    if isinstance(value, dict):
        return (type(value), [(snapshot(key), snapshot(item)) for key, item in value.items()])
    if isinstance(value, BaseException):
        return (type(value), str(value))
    if isinstance(value, bool | int | float | str | bytes | type(None) | type):
        return (type(value), repr(value))
    if callable(value) and hasattr(value, "__name__"):
        return ("callable", value.__name__)
    if hasattr(value, "__dict__"):
        return (type(value), [(key, snapshot(item)) for key, item in vars(value).items()])
    return (type(value),)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.shape == b.shape and np.allclose(a, b, 1e-5, 1e-6, equal_nan=True)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Result or exception, printed output, and the arguments after the call."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        paddle.seed(11)
        try:
            result: Any = ("returned", function(*args))
        except Exception as error:  # noqa: BLE001 - the comparison is about which one it is
            result = ("raised", error)
    return snapshot(result), out.getvalue(), snapshot(args)


def check(
    function: Callable[..., Any],
    *args: Any,
    graphs: int | None = None,
    breaks: int | None = None,
    fallbacks: int | None = 0,
    calls: int = 2,
    again: tuple[Any, ...] | None = None,
    **settings: Any,
) -> Any:
    """Calls `function` eager and translated on equal arguments, several times, and compares."""
    settings.setdefault("min_graph_size", 0)
    translated = sot.to_static(function, **settings)
    for inputs in [args] * calls + ([again] if again is not None else []):
        expected = outcome(function, copy.deepcopy(inputs))
        actual = outcome(translated, copy.deepcopy(inputs))
        assert same(expected, actual), f"\nexpected {expected}\nactual   {actual}"
    record = sot.stats(translated)
    if graphs is not None:
        assert record.graphs == graphs, record
    if breaks is not None:
        assert sum(it.count for it in record.graph_breaks) == breaks, record
    if fallbacks is not None:
        assert len(record.fallbacks) == fallbacks, record
    return record


DELETION = "FLAGS_eager_delete_tensor_gb"


@contextlib.contextmanager
def eager_deletion(on: bool = True) -> Any:
    """Whether executors that are made meanwhile free tensors early. Paddle's own loops are wrong where they do not."""
    before = paddle.get_flags(DELETION)[DELETION]
    paddle.set_flags({DELETION: max(before, 0.0) if on else -1.0})
    try:
        yield
    finally:
        paddle.set_flags({DELETION: before})


def logs_of_two_processes(script: Path, folder: Path) -> list[str]:
    """Runs a script in two processes on the CPU (gloo), which must succeed; what each printed."""
    launch = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node", "2", "--backend", "gloo"]
    command = [*launch, "--log_dir", str(folder), str(script)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=folder)
    logs = [log.read_text() for log in sorted(folder.glob("workerlog.*"))]
    assert result.returncode == 0, result.stderr + "\n".join(logs)
    return logs


def windows(channels: int) -> Callable[[Any], Any]:
    """A linear layer on windows of an image with the channels last, as Swin makes them."""
    paddle.seed(0)
    layer = paddle.nn.Linear(channels, 3 * channels)

    def function(x):
        rows, height, width, channels = x.shape
        x = x.reshape([rows, height // 2, 2, width // 2, 2, channels]).transpose([0, 1, 3, 2, 4, 5])
        return layer(x.reshape([-1, 4, channels]))

    return function


# Sums with more elements than the product in them.
GROWN: dict[str, Callable[[Any, Any], Any]] = {
    "in front": lambda x, w: x[:, :1] @ w + x,
    "behind": lambda x, w: x + x[:, :1] @ w,
    "multiple": lambda x, w: x[:, :1] @ w * 0.5 + x,
    "two products": lambda x, w: paddle.tanh(x[:, :1] @ w + x @ w),
    "fewer dims": lambda x, w: x[0, :1] @ w + x,
    "edges": lambda x, w: x @ w[:, :1] + (x @ w[:, 1:2]).transpose([0, 2, 1]),
    "vector": lambda x, w: x @ w[0] + x[:, :1, 0],
    "as many": lambda x, w: x + (x @ w) @ w,
}


def gradient_at(function: Callable[[Any], Any], size: tuple[int, ...]) -> Any:
    """The gradient of random numbers, the same for each call, in a function that gives one for each."""
    paddle.seed(1)
    x = paddle.randn(size)
    x.stop_gradient = False
    (function(x) * x).sum().backward()
    return x.grad.tolist()
