"""Runs one program in plain Python and translated, over several calls, and says where they differ."""

from __future__ import annotations

import contextlib
import copy
import linecache
import random
import re
import sys
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent / "python")]

import harness  # noqa: E402
import numpy as np  # noqa: E402
import paddle  # noqa: E402
import paddle_sot_rs as sot  # noqa: E402
from harness import GRADIENT, IDENTITY, Outcome, TooLarge, difference  # noqa: E402
from pokes import POKES  # noqa: E402
from prelude import PRELUDE  # noqa: E402

warnings.filterwarnings("ignore")


_prelude = compile(PRELUDE, "<prelude>", "exec", dont_inherit=True)


def load(source: str, file: str) -> types.ModuleType:
    """A module of its own; both sides of a comparison get one, so that their state goes separate ways."""
    module = types.ModuleType("program")
    module.__file__ = file
    # Classes look their module up by name when they are made.
    sys.modules["program"] = module
    if source.startswith(PRELUDE):
        exec(_prelude, module.__dict__)
        source = source[len(PRELUDE) :]
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
    return module


# What a list of objects may hold, from the module and (box, other, items, table, x).
THINGS: list[Callable[[dict[str, Any], tuple[Any, ...]], Any]] = [
    lambda module, given: given[0],
    lambda module, given: given[0],
    lambda module, given: given[1],
    lambda module, given: given[2],
    lambda module, given: given[3],
    lambda module, given: module["MARK"],
    lambda module, given: module["LOG"],
    lambda module, given: module["soft"],
    lambda module, given: module["Box"],
    lambda module, given: module["Vec"](given[4], 2),
    lambda module, given: None,
    lambda module, given: 1,
    lambda module, given: "ab",
    lambda module, given: module["Noted"](2),
    lambda module, given: module["Noted"](3),
    lambda module, given: module["Ticks"](3),
    lambda module, given: module["OddInt"](3),
    lambda module, given: module["OddList"]([2, 1]),
    lambda module, given: module["OddDict"](a=3),
    lambda module, given: module["OddStr"]("a"),
]


def calls(seed: int) -> list[dict[str, Any]]:
    """The plain arguments of each call: equal ones, new values, a new shape, other objects, things that changed between."""
    chance = random.Random(seed * 7919 + 1)
    first = {
        "rows": 2,
        "values": chance.randint(0, 99),
        "n": chance.randint(0, 4),
        "flag": chance.random() < 0.5,
        "items": [chance.randint(-2, 5) for _ in range(chance.randint(1, 4))],
        "table": dict.fromkeys(chance.sample("abc", chance.randint(1, 3)), 1),
        "grad": chance.random() < 0.7,
        "same": chance.random() < 0.15,
        "small": chance.random() < 0.3,
        "twin": chance.random() < 0.3,
        "things": [chance.randrange(len(THINGS)) for _ in range(chance.randint(2, 4))],
        "poke": None,
    }
    found = [first, dict(first)]
    changes = [
        {"values": first["values"] + 1},
        {"rows": 4, "values": first["values"] + 2},
        {"n": first["n"] + 1},
        {"flag": not first["flag"], "values": first["values"] + 3},
        {"items": [1, 2, 3, 4], "n": first["n"] + 2},
        {"table": {"c": 2, "a": 0}, "rows": 3},
        {"grad": not first["grad"]},
        {"same": not first["same"]},
        {"small": not first["small"]},
        {"twin": not first["twin"]},
        {"things": [chance.choice(first["things"]) for _ in first["things"]]},
        {"things": [chance.randrange(len(THINGS)) for _ in first["things"]]},
        {"poke": chance.randrange(len(POKES))},
        {"poke": chance.randrange(len(POKES))},
    ]
    found += [{**first, **change} for change in chance.sample(changes, 5)]
    found.append(dict(first))
    return found


def arguments(module: types.ModuleType, call: dict[str, Any]) -> tuple[Any, ...]:
    """Fresh real arguments for one side."""
    numbers = np.random.default_rng(call["values"])

    def tensor() -> paddle.Tensor:
        data = numbers.standard_normal((call["rows"], 3)).astype(paddle.get_default_dtype()).round(3)
        return paddle.to_tensor(data, stop_gradient=not call["grad"])

    x = tensor()
    y = x if call["same"] else tensor()
    box = (module.Small if call["small"] else module.Box)(x if call["same"] else tensor(), call["n"])
    other = box if call["twin"] else module.Box(y, call["n"])
    items, table = copy.copy(call["items"]), copy.copy(call["table"])
    if call["poke"] is not None:
        # A reduced program may lack what is to change.
        with contextlib.suppress(AttributeError, IndexError):
            POKES[call["poke"]](module, box)
    things = [THINGS[at](vars(module), (box, other, items, table, x)) for at in call["things"]]
    return x, y, call["n"], call["flag"], items, table, box, other, things


def outcome(
    function: Any, module: types.ModuleType, file: str, call: dict[str, Any], captures: bool
) -> tuple[Outcome, str | None]:
    """What the call did, and the kind of error of the backward after it.

    Where eager mode's own backward fails, what it did to gradients until then is not compared.
    """
    args, failed = arguments(module, call), None
    original = paddle.Tensor.backward

    def backward(*args: Any, **kwargs: Any) -> None:
        nonlocal failed
        try:
            original(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - compared
            failed = type(error).__name__

    paddle.Tensor.backward = backward
    try:
        return harness.outcome(function, file, args, {}, lambda: state(module), True, captures), failed
    finally:
        paddle.Tensor.backward = original


def state(module: types.ModuleType) -> Any:
    """What a program may leave behind in its module; a reduced one may lack parts."""
    names = ("COUNT", "LOG", "TABLE", "KEEP", "LATE", "Box", "Small", "Vec", "memo", "WEIGHT", "NET")
    found = [getattr(module, name, None) for name in names]
    found = [vars(part).get("kind", vars(part).get("made")) if isinstance(part, type) else part for part in found]
    layers = [type(layer).__name__ for layer in getattr(module, "NET", paddle.nn.Layer()).sublayers()]
    return [*map(_defaults, found), layers, np.random.get_state()[1].sum()]


def _defaults(part: Any) -> Any:
    return part.__defaults__ if isinstance(part, types.FunctionType) else part


# A tensor that nobody has asked for its name has none: Paddle's messages show nothing then. Sets of objects that hash by
# their address have no order: what is compared first, when one is sorted, differs.
_NAMES = re.compile(
    r"(eager_tmp|eager_in_tmp|generated_tensor|output)_\d+(_deepcopy_\d+)*|0x[0-9a-f]{6,}|(?<=Leaf Var \()(?=\))"
    r"|(?<='<' not supported between instances of )'\w+' and '\w+'"
)


def settled(picture: Any) -> Any:
    """A picture without what may differ: names of tensors, modules of classes, the order of sets."""
    if isinstance(picture, list | tuple):
        return type(picture)(map(settled, picture))
    if isinstance(picture, str):
        return _NAMES.sub("...", picture)
    return picture.__qualname__ if isinstance(picture, type) else picture


# Seconds that plain Python may take for a call: numbers and lists of some programs grow without end, and the memory
# with them, a hundred times from one call to the next.
PATIENCE = 2


class TooLong(BaseException):
    """Ends a program from outside; programs catch other exceptions."""

    in_plain_python = True


def settings(seed: int) -> dict[str, Any]:
    """How program number `seed` is translated."""
    if seed % 3 == 0:
        return {}
    return {"min_graph_size": 0, "capture_control_flow": seed % 7 == 1}


# 3.11 runs `STORE_FAST` and `LOAD_FAST` in one once the code is warm, and then reports the line of the former.
_LINE_VARIES = sys.version_info < (3, 12)


def compare(source: str, seed: int, file: str | None = None) -> str | None:
    """The first difference, or None."""
    return _compare(source, seed, file)[0]


def only_digits(source: str, seed: int, found: str) -> bool:
    """Whether `found` is a sum of gradients that cancels in single precision.

    Sums of gradients have no fixed order, so what is left where large parts cancel is of no meaning: a gradient that
    is wrong is so in double precision too.
    """
    if f": {GRADIENT}" not in found:
        return False
    default = paddle.get_default_dtype()
    paddle.set_default_dtype("float64")
    try:
        return _compare(source.replace("float32", "float64"), seed, None) == (None, True)
    finally:
        paddle.set_default_dtype(default)


def _compare(source: str, seed: int, file: str | None) -> tuple[str | None, bool]:
    """The first difference, and whether all calls could be compared."""
    file = file or f"<program {seed}>"
    plain, other = load(source, file), load(source, file)
    translated = other.main if IDENTITY else sot.to_static(other.main, **settings(seed))
    captures = settings(seed).get("capture_control_flow", False)
    try:
        for number, call in enumerate(calls(seed)):
            TooLong.in_plain_python, began = True, time.monotonic()
            try:
                expected, failed = outcome(plain.main, plain, file, call, captures)
            except TooLarge:
                return None, False
            if time.monotonic() - began > PATIENCE:
                return None, False
            TooLong.in_plain_python = False
            actual, _ = outcome(translated, other, file, call, captures)
            # A picture of a million numbers takes its time, too.
            TooLong.in_plain_python = True
            if failed:
                return None, False
            for name in ("kind", "printed", "lines", "world", "random", "value"):
                pictures = getattr(expected, name), getattr(actual, name)
                if name == "lines" and _LINE_VARIES and "UnboundLocalError" in str(expected.value):
                    continue
                if difference(*pictures, False):
                    found = difference(*map(settled, pictures), False)
                else:
                    found = None
                # Where recursion meets its limit depends on what stands below it.
                if found and "RecursionError" in repr((expected.value, expected.world)):
                    return None, False
                if found:
                    extra = ""
                    if name == "kind":
                        raised = [one.value for one in (expected, actual) if one.kind == "raised"]
                        extra = f" | {[value[1] if captures else value[1][2] for value in raised]}"
                    return f"call {number}: {name}{found}{extra}"[:1500], False
            for module in (plain, other):
                for part in (getattr(module, "WEIGHT", None), *getattr(module, "NET", paddle.nn.Layer()).parameters()):
                    if part is not None:
                        part.clear_grad()
        # The answers are right then: the function runs as it is.
        fallbacks = [] if IDENTITY else sot.stats(translated).fallbacks
        panicked = next((it.message for it in fallbacks if "panicked" in it.message), None)
        return panicked, panicked is None
    finally:
        if not IDENTITY:
            sot.reset(translated)
        linecache.cache.pop(file, None)
