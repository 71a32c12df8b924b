"""The functions of `paddle.jit` on this engine, with the signatures that they have there."""

from __future__ import annotations

import difflib
import logging
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TextIO, TypeVar, overload

import paddle
from paddle.jit.dy2static.program_translator import ProgramTranslator
from paddle.jit.dy2static.utils import Backend, infer_use_cinn_backend
from paddle.static import BuildStrategy

from .. import _core, api
from ..api import Decorator, Same
from ..backends import list_backends
from ..settings import SETTINGS
from ..specification import Lenient

_P = ParamSpec("_P")
_R = TypeVar("_R")
_log = logging.getLogger("paddle_sot_rs.jit")
# The originals: `patch_paddle` replaces some of them.
paddles_to_static = paddle.jit.to_static
_enable = ProgramTranslator.enable
ignore_module = paddle.jit.ignore_module
not_to_static = paddle.jit.not_to_static

_PADDLES = ("property", "full_graph")
_OURS = tuple(name for name, setting in SETTINGS.items() if setting.per_function and name != "full_graph")


@overload
def to_static(
    function: None = None, input_spec: Any = ..., build_strategy: Any = ..., backend: str | None = ..., **kwargs: Any
) -> Decorator: ...
@overload
def to_static(
    function: Same, input_spec: Any = ..., build_strategy: Any = ..., backend: str | None = ..., **kwargs: Any
) -> Same: ...
@overload
def to_static(
    function: Callable[_P, _R],
    input_spec: Any = ...,
    build_strategy: Any = ...,
    backend: str | None = ...,
    **kwargs: Any,
) -> _core.StaticFunction[_P, _R]: ...
def to_static(
    function: Any = None,
    input_spec: Any = None,
    build_strategy: Any = None,
    backend: Any = "CINN",
    **kwargs: Any,
) -> Any:
    """`paddle.jit.to_static` on this engine: Paddle's signature, and the options of `paddle_sot_rs.to_static` by name.

    Calls may differ from their `input_spec`, as Paddle lets them; a warning names the first one that does.

    Args:
        function: a function, method or Layer; without it, a decorator comes back.
        input_spec: a list with an entry per positional argument.
        build_strategy: a `BuildStrategy`. A warning names what it asks for: this engine does not use it.
        backend: `"CINN"` (where Paddle has it, else its executor), `None` for Paddle's executor, or a name
            from `list_backends()`.
        kwargs: `full_graph=True` also makes branches and loops on tensors part of the graph; with `property=True`
            the answer is Paddle's own, a value that is saved with its Layer.

    Raises:
        GraphBreakError: at a call, under `full_graph=True`, where the function is not one graph.
        TypeError: an unknown name, or a value of the wrong type.
        ValueError: a value that does not fit.
    """
    known = (*_PADDLES, *_OURS)
    for name in kwargs:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"to_static: unknown argument {name!r}; known: {', '.join(known)}{hint}")
    if build_strategy is not None and not isinstance(build_strategy, BuildStrategy):
        raise TypeError(f"build_strategy: expected a paddle.static.BuildStrategy, got {type(build_strategy).__name__}")
    chosen = _backend(backend, build_strategy or BuildStrategy())
    if kwargs.pop("property", False):
        return paddles_to_static(function, input_spec, build_strategy, property=True)
    if ignored := _changed(build_strategy):
        _log.warning("to_static: build_strategy is not used by paddle_sot_rs: %s", ", ".join(ignored))
    full_graph = kwargs.pop("full_graph", None)
    if full_graph is True:
        kwargs.setdefault("capture_control_flow", True)
    # Paddle's lets calls differ.
    if isinstance(input_spec, list | tuple):
        input_spec = Lenient(input_spec)
    return api.to_static(function, input_spec=input_spec, backend=chosen, full_graph=full_graph, **kwargs)


def _backend(name: Any, strategy: Any) -> str | None:
    """The name of our backend; `None` where Paddle's name says nothing about it."""
    if isinstance(name, str) and name.upper() not in ("CINN", "PCC"):
        if name not in list_backends():
            known = ", ".join(map(repr, list_backends()))
            raise ValueError(f'backend: unknown backend {name!r}; known: "CINN", None, {known}')
        return name
    if not (name is None or isinstance(name, str | Backend)):
        raise TypeError(f'backend: expected "CINN", None or a name from list_backends(), got {type(name).__name__}')
    return "cinn" if infer_use_cinn_backend(Backend.from_arg(name), strategy) else None


def _changed(strategy: Any) -> list[str]:
    """What a strategy asks for."""
    if strategy is None:
        return []
    plain, found = BuildStrategy(), []
    for name in dir(plain):
        if name.startswith("_") or name[0].isupper():
            continue
        value, default = getattr(strategy, name), getattr(plain, name)
        if value != default:
            found.append(f"{name}={value}")
    return found


def enable_to_static(enable_to_static_bool: bool) -> None:
    """Lets translated functions of the process run as they are (False), or translated (True): Paddle's and ours.

    Raises:
        TypeError: it is no flag.
    """
    if not isinstance(enable_to_static_bool, bool):
        raise TypeError(f"enable_to_static: expected True or False, got {enable_to_static_bool!r}")
    _enable(ProgramTranslator(), enable_to_static_bool)
    _core.switch_off(not enable_to_static_bool)


_handlers: dict[str, logging.Handler] = {}


def _show(categories: tuple[str, ...], level: Any, wanted: tuple[str, ...], also_to_stdout: bool) -> None:
    """Logs of `wanted` among these categories go to stderr, or to stdout; those of the others do not."""
    if not isinstance(level, int):
        raise TypeError(f"level: expected a number, got {level!r}")
    for name in categories:
        logger = logging.getLogger(f"paddle_sot_rs.{name}")
        if (before := _handlers.pop(name, None)) is not None:
            logger.removeHandler(before)
            logger.setLevel(logging.NOTSET)
        if name in wanted:
            stream: TextIO = sys.stdout if also_to_stdout else sys.stderr
            handler = _handlers[name] = logging.StreamHandler(stream)
            handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
            logger.addHandler(handler)
            logger.setLevel(logging.DEBUG)
    _core.reset_log_levels()


def set_verbosity(level: int = 0, also_to_stdout: bool = False) -> None:
    """Logs why things happen: 0 nothing, 1 graph breaks and recompiles, 2 guards as well, 3 statements as well.

    Args:
        level: the number.
        also_to_stdout: to stdout, instead of stderr.
    """
    categories = ("graph_breaks", "recompiles", "guards", "ir")
    wanted = categories[: (0, 2, 3, 4)[max(0, min(level, 3))]] if isinstance(level, int) else ()
    _show(categories, level, wanted, also_to_stdout)


def set_code_level(level: int = 100, also_to_stdout: bool = False) -> None:
    """Logs the code that is made: 0 nothing, any other number the byte code behind each graph.

    Args:
        level: the number. Paddle's count its transformations of source code: there is one step here.
        also_to_stdout: to stdout, instead of stderr.
    """
    _show(("bytecode",), level, ("bytecode",) if level else (), also_to_stdout)
