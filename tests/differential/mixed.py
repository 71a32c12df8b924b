"""Programs of statements of all kinds, with what they are called on."""

from __future__ import annotations

import contextlib
import copy
import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
from family import Family
from generator import program
from pokes import POKES
from prelude import PRELUDE

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


def state(module: types.ModuleType) -> Any:
    """What a program may leave behind in its module; a reduced one may lack parts."""
    names = ("COUNT", "LOG", "TABLE", "KEEP", "LATE", "Box", "Small", "Vec", "memo", "WEIGHT", "NET")
    found = [getattr(module, name, None) for name in names]
    found = [vars(part).get("kind", vars(part).get("made")) if isinstance(part, type) else part for part in found]
    layers = [type(layer).__name__ for layer in getattr(module, "NET", paddle.nn.Layer()).sublayers()]
    return [*map(_defaults, found), layers, np.random.get_state()[1].sum()]


def _defaults(part: Any) -> Any:
    return part.__defaults__ if isinstance(part, types.FunctionType) else part


def settings(seed: int) -> dict[str, Any]:
    """How program number `seed` is translated."""
    if seed % 3 == 0:
        return {}
    return {"min_graph_size": 0, "capture_control_flow": seed % 7 == 1}


FAMILY = Family(PRELUDE, program, calls, arguments, state, settings)
