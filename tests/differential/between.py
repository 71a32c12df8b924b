"""Programs without control flow on tensors whose callers change something between forward and backward."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import changes
import nests
from nests import Nests

# What makes control flow of the graph: its gradients compute it again.
FLOW = ("$C", "$T0:", "range(", "while ", "assert ", "chosen", "repeated")


def _without_flow(rows: tuple[list[str], list[int]]) -> tuple[list[str], list[int]]:
    kept = [(row, weight) for row, weight in zip(*rows, strict=True) if not any(it in row for it in FLOW)]
    return [row for row, _ in kept], [weight for _, weight in kept]


# What a result may be of a matrix.
VIEWS = [
    "[0]",
    "[1:]",
    "[:, 1]",
    "[:, :2]",
    ".T",
    ".T[1:]",
    ".reshape([-1])",
    ".flatten()[2:]",
    ".unbind(0)[1]",
    ".unsqueeze(0)",
]


class Flat(Nests):
    """Writes one of them; a third of the matrices that are returned are views of what it computes."""

    rows = {kind: _without_flow((rows, [1] * len(rows)))[0] for kind, rows in Nests.rows.items()}
    simple, compound = _without_flow(Nests.simple), _without_flow(Nests.compound)
    plain = 0.8

    def leave(self) -> None:
        """Everything runs to its end."""

    def returned(self, kind: str) -> str:
        view = self.pick(VIEWS) if kind == "T" and self.random.random() < 0.35 else ""
        return f"({super().returned(kind)}){view}" if view else super().returned(kind)


def program(seed: int) -> str:
    """The source text of program number `seed`."""
    return Flat(seed).program()


def calls(seed: int) -> list[dict[str, Any]]:
    """Those of `nests`, with changes behind half of them."""
    chance = random.Random(seed * 31 + 7)
    found = nests.calls(seed)
    return [
        {**call, "between": changes.pick(chance) if at and chance.random() < 0.5 else None}
        for at, call in enumerate(found)
    ]


def may_refuse(seed: int, call: dict[str, Any], error: str) -> bool:
    """As eager mode, but for what is not of tensors."""
    return nests.is_of_python(call, error)


FAMILY = replace(nests.FAMILY, program=program, calls=calls, may_refuse=may_refuse)
