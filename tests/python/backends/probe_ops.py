"""What the table of operators (`src/ops/table`) says, tried on the Paddle that is installed.

`python probe_ops.py` (`make probe-ops`) prints one line for each row that is wrong, or that names nothing any more,
and one for each view that has no row. Arguments are guessed as in `cdbl_probe`; a call that fails says nothing.
"""

from __future__ import annotations

import faulthandler
import inspect
import itertools
import json
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import cdbl_probe
import paddle
from paddle_sot_rs import _core
from paddle_sot_rs._graph import control, followed

FUNCTIONS = (paddle, *(getattr(paddle, name) for name in ("linalg", "fft", "signal", "geometric", "incubate", "nn")))
FUNCTIONS += (
    paddle.tensor.random,
    paddle.nn.functional,
    paddle.vision.ops,
    paddle.audio.functional,
    paddle.metric,
    paddle.tensor,
)
# Successful calls that a column is tried with.
MOST = 6
# What one row may take.
SECONDS = 60
# What operations in place are tried on.
DTYPES = (paddle.float32, paddle.float64, paddle.int64, paddle.int32, paddle.bool)
# Their forms in place take numbers where the operations take tensors, too.
OF_NUMBERS = ("pow", "index_fill")
# Those that have several results only for arguments that are not guessed.
ONE_RESULT = ("meshgrid", "softmax_with_cross_entropy")
# Where nothing is a view, and calls take long.
LEFT_OUT = ("vision.ops", "text", "audio.functional")


@dataclass
class Row:
    """A row: a name, and what is said of it as text."""

    name: str
    facts: list[str]

    def has(self, *facts: str) -> bool:
        return any(fact in self.facts for fact in facts)

    def arguments(self) -> Iterator[tuple[str, int, str]]:
        """(fact, place, name) of each argument that is named."""
        for fact in self.facts:
            if found := re.match(r"(Number|Least|Named)\((\d+), \"(\w+)\"", fact):
                yield found[1], int(found[2]), found[3]


def table() -> list[Row]:
    return [Row(name, facts) for name, facts in sorted(_core.operator_facts().items())]


def functions(name: str) -> list[Callable]:
    """The functions and methods of this name, those of tensors last."""
    found = [getattr(owner, name, None) for owner in FUNCTIONS]
    found += [getattr(paddle.Tensor, name, None)]
    plain = [function for function in found if callable(function) and not inspect.isclass(function)]
    return list({id(function): function for function in plain}.values())


def is_there(row: Row) -> bool:
    """Whether anything of Paddle's has this name."""
    name = row.name
    classes = (getattr(paddle.nn, name, None), getattr(paddle, name, None))
    kernels = _kernels()
    return (
        bool(functions(name))
        or any(map(inspect.isclass, classes))
        or hasattr(paddle.Tensor, name)
        # Rows of what never fails have the names of operators without underscores.
        or hasattr(paddle.Tensor, f"__{name}__")
        or hasattr(paddle.Tensor, f"{name}_")
        or hasattr(paddle._C_ops, name)
        or {name, name.rstrip("_")} & kernels != set()
        or hasattr(followed, name)
        or hasattr(control, name)
    )


def _kernels() -> set[str]:
    return set(paddle.base.core._get_all_register_op_kernels("phi"))


class Examples:
    """Calls of functions in eager mode that succeed."""

    def __init__(self) -> None:
        self.known: dict[str, list[tuple[Callable, list[Any], dict[str, Any]]]] = {}

    def of(self, name: str) -> list[tuple[Callable, list[Any], dict[str, Any]]]:
        if name not in self.known:
            self.known[name] = list(itertools.islice(self._tried(name), MOST))
        return self.known[name]

    def _tried(self, name: str) -> Iterator[tuple[Callable, list[Any], dict[str, Any]]]:
        for function in functions(name):
            recipes = cdbl_probe.RECIPES.get(name, [])
            parameters = cdbl_probe.parameters_of(function)
            guessed = itertools.islice(cdbl_probe.argument_sets(parameters), 40)
            for args, kwargs in (*recipes, *guessed):
                try:
                    function(*map(value, args), **{key: value(item) for key, item in kwargs.items()})
                except Exception:  # noqa: BLE001, S112 - most guesses are wrong
                    continue
                yield function, args, kwargs


def value(item: Any) -> Any:
    """The real argument that a specification of `cdbl_probe` stands for; floats are no leaves and take gradients."""
    if item == "dtype":
        return "float32"
    if isinstance(item, str) and item.partition(" ")[0] in cdbl_probe.DTYPES:
        dtype, *dims = item.split()
        shape = [int(dim) for dim in dims]
        if dtype != "float32":
            return paddle.ones(shape).astype(dtype)
        leaf = paddle.rand(shape) + 0.5
        leaf.stop_gradient = False
        return leaf * 1.0
    if isinstance(item, list):
        return [value(part) for part in item]
    return item


def cast(given: Any, dtype: paddle.dtype) -> Any:
    """A float tensor in another dtype, with numbers on both sides of zero; anything else as it is."""
    if isinstance(given, paddle.Tensor) and given.dtype == paddle.float32:
        return ((given.detach() - 1.0) * 4.0).astype(dtype)
    return given


def takes(row: Row, given: list[Any], named: dict[str, Any]) -> bool:
    """Whether the row says that the form in place takes these."""
    others = [item for item in [*given[1:], *named.values()] if item is not None]
    if "out" in named or row.name in OF_NUMBERS and tensors(others):
        return False
    if row.has("InPlaceOfTensors") and any(not isinstance(item, paddle.Tensor) for item in others):
        return False
    if row.has("InPlaceOneDType") and any(tensor.dtype != given[0].dtype for tensor in tensors(others)):
        return False
    return not row.has("InPlaceBoundedByFloat") or given[0].is_floating_point() or len(given) > 2 or "max" in named


def outcome(function: Callable, *args: Any, **kwargs: Any) -> paddle.Tensor | None:
    """The tensor that a call gives; None where it gives something else, or fails."""
    try:
        result = function(*args, **kwargs)
    except Exception:  # noqa: BLE001 - what it is does not matter
        return None
    return result if isinstance(result, paddle.Tensor) else None


def gradient(function: Callable, given: list[Any], named: dict[str, Any]) -> bytes | str | None:
    """That of the first operand, which the call may change; None where the call does not make a tensor like it."""
    leaf = given[0].detach()
    leaf.stop_gradient = False
    operand = leaf * 1
    result = outcome(function, operand, *given[1:], **named)
    if result is None or (result.shape, result.dtype, result.stop_gradient) != (leaf.shape, leaf.dtype, False):
        return None
    try:
        (found,) = paddle.grad((result * result).sum(), leaf, allow_unused=True)
    except RuntimeError as error:
        return type(error).__name__
    return None if found is None else found.numpy().tobytes()


def tensors(items: Any) -> list[paddle.Tensor]:
    if isinstance(items, paddle.Tensor):
        return [items]
    parts = items.values() if isinstance(items, dict) else items if isinstance(items, (list, tuple)) else ()
    return [tensor for part in parts for tensor in tensors(part)]


def memory(tensor: paddle.Tensor) -> tuple[int, int]:
    """The first address of the storage that it may use, and the one behind."""
    first = tensor.data_ptr()
    reach = sum((dim - 1) * stride for dim, stride in zip(tensor.shape, tensor.strides)) + 1
    return first, first + reach * tensor.element_size()


def overlap(one: paddle.Tensor, other: paddle.Tensor) -> bool:
    if not one.size or not other.size or one is other:
        return False
    (a, b), (c, d) = memory(one), memory(other)
    return a < d and c < b


def reads(changed: list[paddle.Tensor], results: list[paddle.Tensor], operands: list[paddle.Tensor]) -> bool:
    """Whether a backward pass minds that these were changed in place before it."""
    with paddle.no_grad():
        for tensor in changed:
            tensor.add_(paddle.ones_like(tensor))
    try:
        paddle.grad(results, operands, [paddle.ones_like(each) for each in results], allow_unused=True)
    except RuntimeError as error:
        return "tensor_version" in str(error)
    return False


class Probe:
    """One method a column: what is wrong about a row, in words."""

    def __init__(self) -> None:
        self.examples = Examples()

    def problems(self, row: Row) -> Iterator[str]:
        if not is_there(row):
            yield "stale: nothing of Paddle's has this name"
            return
        yield from self.views(row)
        yield from self.saved(row)
        yield from self.named(row)
        yield from self.in_place(row)
        yield from self.gradients_in_place(row)
        yield from self.several(row)

    def calls(self, row: Row) -> Iterator[tuple[Callable, list[Any], dict[str, Any], Any]]:
        for function, args, kwargs in self.examples.of(row.name):
            given = [value(item) for item in args]
            named = {key: value(item) for key, item in kwargs.items()}
            yield function, given, named, function(*given, **named)

    def views(self, row: Row) -> Iterator[str]:
        if row.has("CheapView"):
            made = [(tensors([a, k]), tensors(r)) for _, a, k, r in self.calls(row)]
            if made and not any(overlap(x, y) for given, results in made for x in given for y in results):
                yield "CheapView: no result shares storage with an argument"
        if row.has("KeepsOrder"):
            for _, given, _, result in self.calls(row):
                if given[0].is_contiguous() and not all(each.is_contiguous() for each in tensors(result)):
                    yield "KeepsOrder: the result has gaps where the argument has none"

    def saved(self, row: Row) -> Iterator[str]:
        for _, given, named, result in self.calls(row) if row.has("ForgetsResult", "ForgetsArguments") else ():
            results = [each for each in tensors(result) if not each.stop_gradient and each.is_floating_point()]
            operands = [each for each in tensors([given, named]) if not each.stop_gradient]
            if not results or not operands or any(overlap(x, y) for x in operands for y in results):
                continue
            if row.has("ForgetsArguments") and reads(operands, results, operands):
                yield f"ForgetsArguments: its gradient reads them: {[each.shape for each in operands]}"
            elif row.has("ForgetsResult") and reads(results, results, operands):
                yield "ForgetsResult: its gradient reads the result"

    def named(self, row: Row) -> Iterator[str]:
        for fact, at, name in row.arguments():
            signatures = []
            for function in functions(row.name):
                try:
                    signatures.append(list(inspect.signature(function).parameters))
                except (TypeError, ValueError):
                    continue
            if signatures and not any(names[at : at + 1] == [name] for names in signatures):
                yield f"{fact}: no parameter {name!r} in place {at}: {signatures[0]}"

    def in_place(self, row: Row) -> Iterator[str]:
        said = [fact for fact in row.facts if fact.startswith("InPlace")]
        method = getattr(paddle.Tensor, f"{row.name}_", None) if said else None
        if said and method is None and not functions(f"{row.name}_"):
            yield f"{said[0]}: there is no {row.name}_"
        if not said or method is None or row.has("InPlaceDraws", "InPlaceFollowed"):
            return
        for function, args, kwargs in self.examples.of(row.name):
            for dtype in DTYPES:
                given, named = [cast(value(item), dtype) for item in args], {k: value(v) for k, v in kwargs.items()}
                if not isinstance(given[0], paddle.Tensor) or given[0].dtype != dtype or not takes(row, given, named):
                    continue
                target = given[0].detach().clone()
                wanted = outcome(function, *given, **named)
                result = outcome(method, target, *given[1:], **named)
                if wanted is None or wanted.shape != given[0].shape:
                    continue
                if row.has("InPlaceCompares") and result is not None and target.dtype != paddle.bool:
                    yield f"InPlaceCompares: {row.name}_ gives {target.dtype}"
                elif wanted.dtype != dtype:
                    continue
                elif result is None:
                    yield f"{said[0]}: {row.name}_ of {dtype} fails with {args[1:]} {kwargs}"
                elif not bool(((target == wanted) | (target != target)).all()):
                    yield f"{said[0]}: {row.name}_ of {dtype} gives other numbers with {args[1:]} {kwargs}"

    def gradients_in_place(self, row: Row) -> Iterator[str]:
        method = getattr(paddle.Tensor, f"{row.name}_", None)
        if method is None or not row.has("InPlaceForgets", "InPlaceCopies"):
            return
        for function, given, named, _ in self.calls(row):
            if not isinstance(given[0], paddle.Tensor) or not takes(row, given, named):
                continue
            wanted = gradient(function, given, named)
            if wanted is not None and gradient(method, given, named) != wanted:
                yield f"InPlaceForgets or InPlaceCopies: {row.name}_ has another gradient with {given[1:]} {named}"

    def several(self, row: Row) -> Iterator[str]:
        if not row.has("OneKernel", "AllOrNothing"):
            return
        counts = [len(tensors(result)) for *_, result in self.calls(row)]
        if counts and max(counts) < 2 and row.name not in ONE_RESULT:
            yield "OneKernel or AllOrNothing: no call has several results"


def views_without_row(name: str) -> Iterator[str]:
    """Whether its result shares storage with an argument."""
    for function, args, kwargs in Examples().of(name):
        given = [value(item) for item in args]
        named = {key: value(item) for key, item in kwargs.items() if key != "out"}
        results = tensors(function(*given, **named))
        if any(overlap(x, y) for x in tensors([given, named]) for y in results):
            yield "no row: a result shares storage with an argument"
            return


def in_fork(work: Callable[[], Iterator[str]]) -> list[str]:
    """What it yields; a guessed call may end the process that makes it, and what came before counts."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        faulthandler.disable()
        try:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
            for stream in (1, 2):
                os.dup2(sys.stderr.fileno(), stream)
            signal.alarm(SECONDS)
            for text in work():
                os.write(writer, json.dumps(text).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as lines:
        texts = [json.loads(line) for line in lines]
    os.waitpid(child, 0)
    return list(dict.fromkeys(texts))


def probe() -> dict[str, list[str]]:
    """What is wrong, by the name of the row."""
    warnings.simplefilter("ignore")
    rows = table()
    found = {row.name: in_fork(lambda row=row: Probe().problems(row)) for row in rows}
    known = {row.name for row in rows if row.has("View", "CheapView")}
    for name, place in cdbl_probe.targets():
        if name not in known and place not in LEFT_OUT and name != "broadcast_shapes":
            missing = in_fork(lambda name=name: views_without_row(name))
            found.setdefault(name, []).extend(missing)
    return {name: problems for name, problems in found.items() if problems}


if __name__ == "__main__":
    wrong = probe()
    for name, problems in wrong.items():
        for problem in problems:
            print(f"{name}: {problem}")
    print(f"{len(table())} rows, {len(wrong)} wrong")
    sys.exit(bool(wrong))
