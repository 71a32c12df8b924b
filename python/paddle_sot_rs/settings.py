"""Every option in one table: what it is, what it takes, its default, and its environment variable."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import Any

PREFIX = "PADDLE_SOT_"


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("0 or 1")
    return text == "1"


def _number(text: str) -> int:
    if not text.isdigit():
        raise ValueError("a number, 0 or more")
    return int(text)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError('a JSON object such as {"fuse": true}')
    return found


def _check_backend(name: str, value: Any) -> str:
    from .backends import provide

    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a name from list_backends(), got {type(value).__name__}")
    provide(value)
    return value


def _check_flag(name: str, value: Any) -> bool:
    # Comparisons of NumPy answer with a flag of its own.
    if type(value).__name__ not in ("bool", "bool_") or value not in (True, False):
        raise TypeError(f"{name}: expected True or False, got {value!r}")
    return bool(value)


def _check_number(name: str, value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{name}: expected a number of operations, 0 or more, got {value!r}")
    return value


def _check_call(name: str, value: Any) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}: expected the number of a call, 1 or more, got {value!r}")
    return value


def _check_listed(name: str, value: Any) -> Any:
    from . import _listing

    listed = value if isinstance(value, str) else tuple(value)
    _listing.split(name, listed)
    return listed


def _check_dict(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name}: expected a dict, got {type(value).__name__}")
    return value


@dataclass(frozen=True)
class Setting:
    """One option.

    Attributes:
        name: of the argument.
        takes: the values, in words.
        default: what holds where nothing is said; `None` lets the backend choose.
        doc: what it does.
        read: makes a value from the text of the environment variable; a ValueError says what it expects.
        check: answers with the value, or raises an error that names the argument.
        per_function: an argument of `to_static` and `config`; others hold for the process.
    """

    name: str
    takes: str
    default: Any
    doc: str
    read: Callable[[str], Any] = str
    check: Callable[[str, Any], Any] = lambda name, value: value
    per_function: bool = True

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()

    def from_environment(self) -> Any:
        """What the environment says, checked; `None` where it says nothing.

        Raises:
            TypeError, ValueError: it is no such value.
        """
        text = os.environ.get(self.variable)
        if text is None:
            return None
        try:
            value = self.read(text)
        except ValueError as error:
            raise ValueError(f"{self.variable}: expected {error}, got {text!r}") from None
        return self.check(self.variable, value)


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            "backend",
            "a name from `list_backends()`",
            "paddle",
            "who compiles the graphs",
            check=_check_backend,
        ),
        Setting(
            "full_graph",
            "a flag",
            False,
            "raise `GraphBreakError` instead of breaking the graph",
            _flag,
            _check_flag,
        ),
        Setting(
            "dynamic",
            "a flag",
            None,
            "let a dim or number that changed between two calls be dynamic from then on",
            _flag,
            _check_flag,
        ),
        Setting(
            "min_graph_size",
            "a number of operations",
            None,
            "fewest operations worth a program; smaller graphs run call by call",
            _number,
            _check_number,
        ),
        Setting(
            "compile_at_call",
            "a number from 1 on",
            None,
            "the call of a graph at which it becomes a program; those before run call by call",
            _number,
            _check_call,
        ),
        Setting(
            "black_list",
            "callables and names; in the environment names with commas",
            (),
            "what breaks the graph",
            _names,
            _check_listed,
        ),
        Setting(
            "capture_control_flow",
            "a flag",
            False,
            "make branches and loops on tensors part of the graph",
            _flag,
            _check_flag,
        ),
        Setting(
            "options",
            "a dict; in the environment a JSON object",
            None,
            "options of the backend",
            _json,
            _check_dict,
        ),
        Setting(
            "check",
            "a flag",
            False,
            "compare each call with plain Python, in a process of its own, and warn of the first difference",
            _flag,
            _check_flag,
        ),
        Setting(
            "stance",
            '"default", "eager" or "fail_on_recompile"',
            "default",
            "what calls of translated functions do: see `set_stance`",
            per_function=False,
        ),
        Setting(
            "logs",
            "names with commas: `graph_breaks`, `guards`, `recompiles`, `bytecode`, `ir`",
            "",
            "what is logged to stderr",
            per_function=False,
        ),
        Setting(
            "native_blas",
            "a flag",
            False,
            "let MKL use its kernels for Intel's processors: see `native_blas`",
            per_function=False,
        ),
        Setting(
            "progress",
            "a flag",
            True,
            "show a line while a translation takes longer than two seconds, where stderr is a terminal",
            _flag,
            _check_flag,
            per_function=False,
        ),
        Setting(
            "report",
            "a folder",
            None,
            "write a report of the whole run into this folder when it ends: see `record`",
            per_function=False,
        ),
    )
}
_CONFIGURABLE = [name for name, setting in SETTINGS.items() if setting.per_function]
_configured: ContextVar[Mapping[str, Any]] = ContextVar("paddle_sot_rs.config", default={})  # noqa: B039


def resolved(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a function: what is given, else what `config` says, the environment, the default.

    Args:
        given: a value for each option of functions; `None` where the caller says nothing.

    Raises:
        TypeError, ValueError: a value does not fit.
    """
    configured = _configured.get()
    found = {}
    for name in _CONFIGURABLE:
        setting, value = SETTINGS[name], given[name]
        if value is not None:
            found[name] = setting.check(name, value)
            continue
        value = configured[name] if name in configured else setting.from_environment()
        found[name] = setting.default if value is None else value
    return found


class config:
    """`with config(backend="cinn"): ...`: options of the functions that `to_static` is given in this block.

    It holds for this thread and this asynchronous task, and for functions that are translated inside; what was
    translated before keeps its options. Arguments of `to_static` come first, then the innermost block, then the
    environment. `None` is an option's default. The blocks nest.

    Args:
        given: options by name; `docs/user/settings.md` lists them.

    Raises:
        TypeError: an unknown name, or a value of the wrong type.
        ValueError: a value that does not fit.
    """

    def __init__(self, **given: Any) -> None:
        for name, value in given.items():
            if name not in _CONFIGURABLE:
                raise TypeError(f"config: unknown option {name!r}; known: {', '.join(_CONFIGURABLE)}")
            if value is not None:
                given[name] = SETTINGS[name].check(name, value)
        self._given = given
        self._entered: list[Token[Mapping[str, Any]]] = []

    def __enter__(self) -> config:
        self._entered.append(_configured.set({**_configured.get(), **self._given}))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _configured.reset(self._entered.pop())


def show_progress_by_environment() -> None:
    """Does what `PADDLE_SOT_PROGRESS` says.

    Raises:
        ImportError: it is no flag.
    """
    from ._core import show_progress

    try:
        shown = SETTINGS["progress"].from_environment()
    except ValueError as error:
        raise ImportError(str(error)) from None
    show_progress(shown is not False)


def misspelt() -> list[str]:
    """Environment variables that look like one of ours and are none: a line for each."""
    known = [setting.variable for setting in SETTINGS.values()]
    lines = []
    for variable in os.environ:
        if variable.startswith(PREFIX) and variable not in known:
            near = difflib.get_close_matches(variable, known, 1, 0.85)
            lines += [f"{variable} is no setting; did you mean {name}?" for name in near]
    return lines


def table() -> str:
    """The settings as a table of Markdown."""
    lines = ["| option | takes | default | environment | what it does |", "|---|---|---|---|---|"]
    for setting in SETTINGS.values():
        default = "the backend's" if setting.default is None else f"`{setting.default!r}`"
        if setting.default in ((), "") or setting.name in ("options", "report"):
            default = "none"
        where = "" if setting.per_function else " (the whole process)"
        row = (f"`{setting.name}`", setting.takes, default, f"`{setting.variable}`", setting.doc + where)
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"
