"""Programs of a few plain operators as calls of eager mode's functions: an executor costs more than they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paddle.base import core

from paddle_sot_rs._core import operators
from paddle_sot_rs._paddle.constants import DATA
from paddle_sot_rs._paddle.kernels import mixed
from paddle_sot_rs._paddle.programs import SHARES_STORAGE
from paddle_sot_rs._paddle.views import ASSIGN

_CALLED = frozenset(f"pd_op.{name}" for name in operators("call"))
# An executor costs as much as so many calls.
_MOST = 5


class _Values:
    """The tensors of a run by number: what the program takes, then what each call makes."""

    def __init__(self, inputs: list[Any]) -> None:
        self._numbers = {value.id: at for at, value in enumerate(inputs)}
        self._next = len(inputs)

    def number(self, value: Any) -> int:
        return self._numbers[value.id]

    def add(self, value: Any) -> None:
        self._numbers[value.id] = self._next
        self._next += 1

    def rename(self, value: Any, same: Any) -> None:
        self._numbers[value.id] = self._numbers[same.id]


@dataclass(frozen=True)
class _Constant:
    """Numbers, which are made once a program is not built any more."""

    attributes: dict[str, Any]

    def tensor(self) -> Any:
        given = (self.attributes[name] for name in ("shape", "value", "dtype"))
        return core.eager.ops.full(*given, core.CPUPlace())


def _is_called(op: Any) -> bool:
    """Whether a call of eager mode's function does what it does."""
    others = op.results()[1:]
    return (
        op.name() in _CALLED
        and not mixed(op.operands_source())
        and all(value.use_empty() for value in others if value.initialized())
    )


def _is_last_copy(op: Any) -> bool:
    """Whether it copies a result, for nobody else to write into, that nobody else has."""
    value = op.operand_source(0)
    return op.name() == ASSIGN and len(value.all_used_ops()) == 1 and value.get_defining_op().name() in _FRESH


_FRESH = _CALLED - SHARES_STORAGE


@dataclass
class DirectCalls:
    """The number of inputs, the calls, and the numbers of the results.

    An argument of a call is the number of a tensor in a tuple, or what is given as it is.
    """

    inputs: int
    calls: list[tuple[Any, list[Any]]]
    results: list[int]

    def recipe(self) -> tuple[int, list[tuple[Any, list[Any]]], list[int]]:
        """What `Recipe` in `direct.rs` takes. In eager mode."""

        def made(value: Any) -> Any:
            return value.tensor() if isinstance(value, _Constant) else value

        calls = [(function, [*map(made, given)]) for function, given in self.calls]
        return self.inputs, calls, self.results


def direct_calls(block: Any, inputs: list[Any]) -> DirectCalls | None:
    """The calls that do what a program does; None where it is not a few operators that are called so."""
    values, calls, results = _Values(inputs), [], []
    constants: dict[int, _Constant] = {}
    for op in block.ops:
        name = op.name()
        if name == DATA:
            continue
        if name == "builtin.shadow_output":
            results.append(values.number(op.operand_source(0)))
        elif name == "pd_op.full":
            constants[op.result(0).id] = _Constant(op.attrs())
        elif not _is_called(op):
            return None
        elif _is_last_copy(op):
            values.rename(op.result(0), op.operand_source(0))
        else:
            given = [
                None
                if not value.initialized()
                else constants[value.id]
                if value.id in constants
                else (values.number(value),)
                for value in op.operands_source()
            ]
            attributes = op.attrs()
            function = getattr(core.eager.ops, name.removeprefix("pd_op."))
            calls.append((function, [*given, *(attributes[name] for name in op.get_attr_names())]))
            values.add(op.result(0))
    return DirectCalls(len(inputs), calls, results) if 0 < len(calls) <= _MOST else None
