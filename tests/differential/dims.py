"""The calls in the examples of Paddle's docstrings, with rows whose number differs between calls or that only the graph knows.

`dims.py` makes them all, `dims.py --every 12` those of some examples, `dims.py NAME...` those whose name contains one of these.
With `--backend cinn` they go through that backend, with `--last` it is their last dim.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import faulthandler
import inspect
import io
import re
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docstrings
import numpy as np
import paddle
import paddle_sot_rs as sot

CHUNK = 40

# Numbers in a tensor: some examples take gigabytes with twenty times as many rows.
LARGEST = 20_000
SCRIPT = str(Path(__file__).resolve())

# Random numbers, memory that nothing was written to, and what is no computation.
LEFT_OUT = re.compile(
    r"rand|empty|seed|normal|dropout|bernoulli|poisson|multinomial|gumbel|exponential_|uniform|cauchy|geometric_|shuffle|sample"
    r"|numpy|item$|tolist|backward|register|to_tensor|print|save|load|retain|grad$|cuda|cpu|pin_memory|clear|state_dict|apply|__repr__"
    # With degenerate matrices the last digits decide between numbers and nan; minima of nothing are
    # memory.
    r"|cond$|amin$|amax$"
    # Kernels that write behind the end of what they are given where their arguments do not fit.
    r"|reindex|send_|segment"
    r"|add_parameter|parameters|sublayer|to_sparse|sparse|_type$|is_|minimize|step|rrelu"
)


class Call:
    """One call: what is called, and its arguments, in which tensors are places."""

    def __init__(self, name: str, target: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        self.name = name
        self.target = target
        self.turned = False
        self.tensors: list[paddle.Tensor] = []
        self.args, self.kwargs = self._places(args), self._places(kwargs)

    def _places(self, item: Any) -> Any:
        if isinstance(item, paddle.Tensor):
            for at, known in enumerate(self.tensors):
                if known is item:
                    return Place(at)
            self.tensors.append(item)
            return Place(len(self.tensors) - 1)
        if type(item) in (list, tuple):
            return type(item)([self._places(part) for part in item])
        if type(item) is dict:
            return {key: self._places(part) for key, part in item.items()}
        return item

    def key(self) -> str:
        shapes = [(str(one.dtype), list(one.shape)) for one in self.tensors]
        return f"{self.name} {shapes} {self.args} {self.kwargs}"

    def made(self) -> Callable[[Any], Any]:
        target = copy.deepcopy(self.target) if isinstance(self.target, paddle.nn.Layer) else self.target
        if not self.turned:
            return lambda given: target(*filled(self.args, given), **filled(self.kwargs, given))
        orders = [[*range(1, one.ndim), 0] if one.ndim > 1 else None for one in self.tensors]

        def call(given: Any) -> Any:
            given = [one.transpose(order) if order else one for one, order in zip(given, orders, strict=True)]
            return target(*filled(self.args, given), **filled(self.kwargs, given))

        return call

    def turn(self) -> None:
        """It is the last dim that differs."""
        self.turned = True
        with paddle.no_grad():
            turned = [
                one.transpose([one.ndim - 1, *range(one.ndim - 1)]) if one.ndim > 1 else one for one in self.tensors
            ]
        self.tensors = [copied(one) for one in turned]


class Place:
    """Where a tensor goes."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __repr__(self) -> str:
        return f"tensor {self.at}"


def filled(item: Any, tensors: Any) -> Any:
    if type(item) is Place:
        return tensors[item.at]
    if type(item) in (list, tuple):
        return type(item)([filled(part, tensors) for part in item])
    if type(item) is dict:
        return {key: filled(part, tensors) for key, part in item.items()}
    return item


class _Recording(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.Call:  # noqa: N802 - the name that `ast` looks for
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("super", "locals", "print"):
            return node
        return ast.Call(ast.Name("recorded_call", ast.Load()), [node.func, *node.args], node.keywords)


def calls_of(source: str) -> list[Call]:
    """The calls of Paddle's functions, methods of tensors and Layers with tensors that an example makes."""
    found: dict[str, Call] = {}

    def recorded_call(target: Any, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            if (call := described(target, list(args), kwargs)) is not None:
                found.setdefault(call.key(), call)
        return target(*args, **kwargs)

    tree = ast.fix_missing_locations(_Recording().visit(ast.parse(source)))
    paddle.seed(42)
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
        exec(compile(tree, "<example>", "exec"), {"paddle": paddle, "np": np, "recorded_call": recorded_call})
    return list(found.values())


def described(target: Any, args: list[Any], kwargs: dict[str, Any]) -> Call | None:
    if isinstance(target, types.MethodType) and isinstance(target.__self__, paddle.Tensor):
        target, args = getattr(paddle.Tensor, target.__name__), [target.__self__, *args]
    home = str(getattr(type(target) if isinstance(target, paddle.nn.Layer) else target, "__module__", ""))
    name = getattr(target, "__name__", type(target).__name__)
    if not home.startswith("paddle") or inspect.isclass(target) or LEFT_OUT.search(name) or name.endswith("_"):
        return None
    call = Call(name, target, args, kwargs)
    usable = all(one.is_dense() and one._is_initialized() and one.size <= LARGEST for one in call.tensors)
    if not usable or not any(one.ndim and one.shape[0] for one in call.tensors):
        return None
    call.tensors = [copied(one) for one in call.tensors]
    return call


def copied(tensor: paddle.Tensor) -> paddle.Tensor:
    made = tensor.detach().clone()
    made.stop_gradient = not (made.is_floating_point() or made.is_complex())
    return made


def flat(value: Any) -> Iterator[paddle.Tensor]:
    if isinstance(value, paddle.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from flat(item)
    elif isinstance(value, dict):
        yield from flat(list(value.values()))


def total_of(value: Any) -> paddle.Tensor:
    total = paddle.zeros([], "float32")
    for one in flat(value):
        if one.is_floating_point():
            total = total + one.astype("float32").sum()
    return total


class Shaped(tuple):
    """A result, and the shapes that the function saw."""


def with_shapes(value: Any) -> Any:
    return Shaped((value, [list(one.shape) for one in flat(value)]))


def kept(tensors: Any, masks: Any, rows: list[bool]) -> list[Any]:
    return [one[masks[at]] if rows[at] else one for at, one in enumerate(tensors)]


def by_masks(call: Callable[[Any], Any], rows: list[bool]) -> Callable[..., Any]:
    def function(tensors, masks, n):
        return with_shapes(call(kept(tensors, masks, rows)))

    return function


def as_they_are(call: Callable[[Any], Any], rows: list[bool]) -> Callable[..., Any]:
    def function(tensors, masks, n):
        return with_shapes(call(tensors))

    return function


def in_a_branch(call: Callable[[Any], Any], rows: list[bool]) -> Callable[..., Any]:
    def function(tensors, masks, n):
        if n.sum() > 0:
            result = call(tensors)
        else:
            result = call(tensors)
        return result

    return function


def in_a_branch_by_masks(call: Callable[[Any], Any], rows: list[bool]) -> Callable[..., Any]:
    branch = in_a_branch(call, rows)

    def function(tensors, masks, n):
        return branch(kept(tensors, masks, rows), masks, n)

    return function


def in_a_loop(call: Callable[[Any], Any], rows: list[bool]) -> Callable[..., Any]:
    def function(tensors, masks, n):
        total = n.sum()
        for at in range(n.shape[0]):
            total = total + total_of(call(tensors)) * (at + 1)
        return total

    return function


def of_slices(call: Callable[[Any], Any], rows: list[bool]) -> Callable[..., Any]:
    def function(tensors, masks, n):
        return with_shapes(call([one[2:] if rows[at] else one for at, one in enumerate(tensors)]))

    return function


KINDS = {one.__name__: one for one in (by_masks, as_they_are, in_a_branch, in_a_branch_by_masks, in_a_loop, of_slices)}


def inputs(call: Call) -> tuple[list[bool], list[list[int]]]:
    """Which tensors have rows that differ, and the rows of each for some calls."""
    common = Counter(one.shape[0] for one in call.tensors if one.ndim).most_common(1)[0][0]
    rows = [bool(one.ndim) and one.shape[0] == common for one in call.tensors]
    every, twice = list(range(common)), [*range(common), *range(common)]
    return rows, [twice, every, [*twice, *every], every[:-1], twice[:-1], [*twice, *twice], [0], []]


def given(call: Call, rows: list[bool], chosen: list[int], kind: str, rounds: int) -> tuple[list[Any], list[Any], Any]:
    """The arguments: rows `chosen` of the tensors; with masks, those are what a mask keeps of twice as many."""
    index = paddle.to_tensor(np.asarray(chosen, "int64"))
    tensors, masks = [], []
    for one, has in zip(call.tensors, rows, strict=True):
        made = paddle.index_select(one.detach(), index) if has else one.detach().clone()
        mask = np.ones([len(chosen)], "bool")
        if has and "slices" in kind:
            made = paddle.concat([one.detach()[:1], one.detach()[:1], made])
        if has and "mask" in kind:
            made = paddle.concat([made, made]) if chosen else one.detach().clone()
            mask = np.zeros(made.shape[:1], "bool")
            mask[: len(chosen)] = True
        made.stop_gradient = one.stop_gradient
        tensors.append(made)
        masks.append(paddle.to_tensor(mask))
    return tensors, masks, paddle.ones([rounds])


def outcome(run: Callable[..., Any], given: tuple[list[Any], list[Any], Any]) -> Any:
    docstrings.seed()
    tensors, masks, n = given
    try:
        result = run(tensors, masks, n)
        found = [(str(one.dtype), list(one.shape), one.numpy()) for one in flat(result)]
        if type(result) is Shaped:
            found.append(result[1])
        total = total_of(result)
    except Exception as error:
        return type(error).__name__
    if not total.stop_gradient:
        try:
            total.backward()
        except Exception as error:
            return found, type(error).__name__
    return found, [None if one.grad is None else (list(one.grad.shape), one.grad.numpy()) for one in tensors]


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if one.dtype.kind not in "fc":
            return bool((one == other).all())
        return np.allclose(one, other, rtol=2e-3, atol=2e-4, equal_nan=True)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(alike, one, other))
    return type(one) is type(other) and one == other


def compare(call: Call, kind: str, backend: str) -> str | None:
    """How the translated call differs from plain Python, or None."""
    rows, choices = inputs(call)
    settings = {"dynamic": True} if backend == "cinn" else {}
    plain = KINDS[kind](call.made(), rows)
    arguments = [(call, rows, chosen, kind, at + 2) for at, chosen in enumerate(choices)]
    expected = [outcome(plain, given(*one)) for one in arguments]
    print(docstrings.TRANSLATES, flush=True)
    translated = sot.to_static(
        KINDS[kind](call.made(), rows), backend=backend, min_graph_size=0, capture_control_flow=True, **settings
    )
    for one, want in zip(arguments, expected, strict=True):
        got = outcome(translated, given(*one))
        # Eager mode raises `SystemError` for sizes that are tensors with NumPy 2.5.
        if isinstance(want, str) and (isinstance(got, str) or want == "SystemError"):
            continue
        if not alike(want, got):
            if not alike(want, outcome(plain, given(*one))):
                return None
            return f"{call.key()} {kind}, {len(one[2])} rows\n--- plain\n{want}\n--- translated\n{got}\n"[:3000]
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--backend", default="paddle")
    parser.add_argument("--last", action="store_true")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--chunk", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = docstrings.choose(options.names, options.every)
    if options.chunk:
        first, end, skipped = options.chunk
        done = 0
        for name, source in chosen[first:end]:
            for call in calls_of(source):
                if options.last:
                    call.turn()
                for kind in options.kinds:
                    done += 1
                    if done <= skipped:
                        continue
                    print("begins", done, name, call.name, kind, flush=True)
                    faulthandler.dump_traceback_later(docstrings.PATIENCE, exit=True)
                    if found := compare(call, kind, options.backend):
                        print(f"differs {found}", flush=True)
                    faulthandler.cancel_dump_traceback_later()
        return 0
    made, wrong = 0, 0
    for first in range(0, len(chosen), CHUNK):
        skipped = 0
        while True:
            arguments = [SCRIPT, *options.names, f"--every={options.every}", f"--backend={options.backend}"]
            arguments += ["--last"] if options.last else []
            arguments += ["--chunk", str(first), str(first + CHUNK), str(skipped), "--kinds", *options.kinds]
            done, begun, differences = docstrings.in_process(arguments)
            made += len(begun)
            wrong += differences
            if done.returncode == 0 or not begun:
                break
            # Paddle's own kernels may end it, too.
            skipped = int(begun[-1][0])
            if done.stdout.rstrip().endswith(docstrings.TRANSLATES):
                print(f"{begun[-1][1]} ends the process ({done.returncode})\n{done.stderr[-1500:]}", flush=True)
                wrong += 1
    print(f"{made} calls, {wrong} differences")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
