"""The functions users call."""

from __future__ import annotations

import copy
import functools
import inspect
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from paddle.jit.dy2static.program_translator import StaticFunction as _PaddlesStatic
from paddle.nn import Layer

from . import _core, _listing
from .settings import resolved
from .specification import Lenient, Specification

_black_list: list[Any] = []
_allowed: list[Any] = []
_disabled: list[Any] = []

_P = ParamSpec("_P")
_R = TypeVar("_R")
# What comes back as what it was: a Layer as itself, the others around a translated function.
Same = TypeVar(
    "Same",
    bound="Layer | functools.partial[Any] | staticmethod[..., Any] | classmethod[Any, ..., Any]",
)


class _Given(TypedDict, total=False):
    """The options of `to_static`, for type checkers."""

    backend: str | None
    full_graph: bool | None
    fallback: bool | None
    input_spec: Any
    dynamic: bool | None
    min_graph_size: int | None
    compile_at_call: int | None
    black_list: Iterable[Any] | None
    capture_control_flow: bool | None
    options: dict[str, Any] | None
    check: bool | None


class Decorator(Protocol):
    """`to_static` with its options, before it is given what to translate."""

    @overload
    def __call__(self, fn_or_layer: Same, /) -> Same: ...
    @overload
    def __call__(self, fn_or_layer: Callable[_P, _R], /) -> _core.StaticFunction[_P, _R]: ...


def _translatable(callable_: Any) -> bool:
    return inspect.isfunction(callable_) or inspect.ismethod(callable_)


def _options(
    *,
    backend: str,
    full_graph: bool,
    dynamic: bool | None = None,
    min_graph_size: int | None = None,
    compile_at_call: int | None = None,
    black_list: Iterable[Any] = (),
    options: dict[str, Any] | None = None,
    input_spec: Any = None,
    capture_control_flow: bool = False,
    check: bool = False,
) -> dict[str, Any]:
    black_callables, black_names = _listing.split("black_list", black_list)
    return {
        "backend": backend,
        "backend_options": dict(options or {}),
        "full_graph": full_graph,
        "dynamic": dynamic,
        "min_graph_size": min_graph_size,
        "compile_at_call": compile_at_call,
        "black_list": list(black_callables),
        "black_names": black_names,
        "specification": input_spec,
        "capture_control_flow": capture_control_flow,
        "forward_only": False,
        "assumes_branches": False,
        "check": check,
    }


def _marked(target: Callable[..., Any], settings: dict[str, Any]) -> Any:
    """The translated function: what the process has marked belongs to it, but not to its settings and copies."""
    marks = {"black_list": tuple(_black_list), "allow_list": tuple(_allowed), "disabled": tuple(_disabled)}
    return _core.StaticFunction(target, settings, marks)


def exported(target: Callable[..., Any], assumes_branches: bool) -> Any:
    """One that is translated to be exported."""
    settings = _options(backend="paddle", full_graph=True, capture_control_flow=True)
    return _marked(target, {**settings, "forward_only": True, "assumes_branches": assumes_branches})


def frozen(target: Callable[..., Any], backend: str, options: dict[str, Any] | None) -> Any:
    """One that is translated to be frozen."""
    settings = _options(backend=backend, full_graph=True, min_graph_size=0, options=options, capture_control_flow=True)
    return _marked(target, {**settings, "forward_only": True})


@overload
def to_static(fn_or_layer: None = None, **given: Unpack[_Given]) -> Decorator: ...
@overload
def to_static(fn_or_layer: Same, **given: Unpack[_Given]) -> Same: ...
@overload
def to_static(fn_or_layer: Callable[_P, _R], **given: Unpack[_Given]) -> _core.StaticFunction[_P, _R]: ...
def to_static(
    fn_or_layer: Any = None,
    *,
    backend: str | None = None,
    full_graph: bool | None = None,
    fallback: bool | None = None,
    input_spec: Any = None,
    dynamic: bool | None = None,
    min_graph_size: int | None = None,
    compile_at_call: int | None = None,
    black_list: Iterable[Any] | None = None,
    capture_control_flow: bool | None = None,
    options: dict[str, Any] | None = None,
    check: bool | None = None,
) -> Any:
    """Translates a function or a Layer into static graphs as it is called.

    Works as a call and as a decorator, with and without arguments, on functions, methods, bound
    methods, `functools.partial` objects and Layers. A Layer is returned itself, with its `forward`
    translated. What is not given here is what `config` says, else the environment, else the default:
    `docs/user/settings.md` has the table.

    Args:
        fn_or_layer: what to translate.
        backend: a name from `list_backends()`; default: `paddle`.
        full_graph: raise `GraphBreakError` instead of breaking the graph.
        fallback: `fallback=True` means `full_graph=False`, and the other way round.
        input_spec: a list with an entry per positional argument: an `InputSpec` (dims of None are dynamic from the
            first call on), a Tensor, nested lists and dicts of them, or any other value. Calls are checked against it.
        dynamic: let a dim, an int or a float that changed between two calls be dynamic from then on. Default: what
            the backend prefers (`cinn`: no).
        min_graph_size: fewest operations worth a program; smaller graphs run call by call.
            Default: the backend's measured break-even.
        compile_at_call: the call of a graph at which it becomes a program; those before run call by call. Default:
            what the backend prefers (`paddle`: 2, and 1 where `min_graph_size` is 0). `full_graph`, steps of optimizers
            and captured control flow do not wait. With 1, functions with three translations that differ in sizes alone
            are translated for further sizes at once, too; else for those that come again.
        black_list: what breaks the graph: callables, and names such as `"nonzero"` (a function, tensor method
            or attribute of Paddle's) or `"package.module.function"`.
        capture_control_flow: branches and loops on tensors become part of the graph, as far as they can; `full_graph`
            implies it. What such a branch or loop leaves behind are new tensors.
        options: options of the backend.
        check: compare each call with plain Python, in a process of its own, and warn of the first difference.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an unknown backend, an `input_spec` that does not fit, or arguments that contradict each other.
    """
    if fallback is not None:
        if full_graph and fallback:
            raise ValueError("fallback=True and full_graph=True contradict each other")
        full_graph = not fallback
    given = resolved(
        {
            "backend": backend,
            "full_graph": full_graph,
            "dynamic": dynamic,
            "min_graph_size": min_graph_size,
            "compile_at_call": compile_at_call,
            "black_list": black_list,
            "capture_control_flow": capture_control_flow,
            "options": options,
            "check": check,
        }
    )

    def translate(target: Any) -> Any:
        captures = given["capture_control_flow"] or given["full_graph"]
        return _translate(target, _options(**{**given, "input_spec": input_spec, "capture_control_flow": captures}))

    return translate if fn_or_layer is None else translate(fn_or_layer)


def _translate(target: Any, settings: dict[str, Any]) -> Any:
    if isinstance(target, Layer):
        settings = _with_spec_of(target.forward, settings)
        forward = undecorated(target.forward)
        is_partial = isinstance(forward, functools.partial)
        target.forward = _translate(forward, settings) if is_partial else _static(forward, settings)
        return target
    if (plain := undecorated(target)) is not target:
        return _translate(plain, _with_spec_of(target, settings))
    if isinstance(target, functools.partial):
        inner = _translate(target.func, settings)
        made = functools.partial.__new__(type(target), inner)
        # They share what may be written to.
        partial: Any = functools.partial
        partial.__setstate__(made, (inner, target.args, target.keywords, target.__dict__))
        return made
    if isinstance(target, staticmethod | classmethod):
        return type(target)(_translate(target.__func__, settings))
    if _translatable(target):
        return _static(target, settings)
    if callable(target) and inspect.ismethod(getattr(target, "__call__", None)):  # noqa: B004
        return _static(undecorated(target.__call__), settings)
    raise TypeError(
        f"fn_or_layer: expected a Python function, a method or a paddle.nn.Layer, got {type(target).__name__}"
    )


def undecorated(target: Any) -> Any:
    """The Python function or bound method behind a translated one, by this package or by Paddle's `to_static`."""
    while True:
        static = decorated(target)
        if static is None:
            return target
        wrapped = static.dygraph_function
        target = wrapped if static is target else wrapped.__get__(target.__self__)


def static_of(target: Any) -> Any:
    """What was translated, where this is it or a method that its class has translated; else None."""
    for static in (target, getattr(target, "__func__", None)):
        if isinstance(static, _core.StaticFunction):
            return static
    return None


def _with_spec_of(method: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """A method that its class decorates keeps its input specification, where no other one is given."""
    if settings["specification"] is None:
        static = static_of(method)
        if static is not None and static is not method:
            return {**settings, "specification": static.specification.input_spec}
        if is_of_paddle(method):
            return {**settings, "specification": spec_of_paddles(method)}
    return settings


def decorated(target: Any) -> Any:
    """What this package's `to_static`, or Paddle's, answered with, where this is it or a method of it; else None."""
    return target if is_of_paddle(target) else static_of(target)


def is_of_paddle(target: Any) -> bool:
    """Whether this is what Paddle's own `to_static` answers with."""
    return isinstance(target, _PaddlesStatic)


def spec_of_paddles(static: Any) -> Any:
    """The input specification that Paddle's `to_static` was given; calls may differ from it."""
    spec = static._input_spec
    return Lenient(spec) if isinstance(spec, list | tuple) else None


# What was translated and is alive, by function, owner and settings: translated again, it is this
# one.
_alive: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
_parts: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _static(target: Callable[..., Any], settings: dict[str, Any]) -> Any:
    if settings["specification"] is not None:
        return _made(target, settings)
    hashable = {
        **settings,
        "backend_options": tuple(settings["backend_options"].items()),
        "black_list": tuple(map(id, settings["black_list"])),
        "black_names": frozenset(settings["black_names"]),
    }
    marks = tuple(tuple(map(id, listed)) for listed in (_black_list, _allowed, _disabled))
    function = getattr(target, "__func__", target)
    parts = tuple(getattr(function, name, None) for name in ("__code__", "__defaults__", "__kwdefaults__"))
    of = (id(function), id(getattr(target, "__self__", None)), *map(id, parts))
    key = (*of, *hashable.values(), marks)
    try:
        static = _alive.get(key)
    except TypeError:
        # An option that cannot be a key.
        return _made(target, settings)
    if static is None or static.dygraph_function != target or _has_changed(static):
        static = _alive[key] = _made(target, settings)
        # What the key says is the identity of lives as long.
        _parts[static] = parts
    return static


def _has_changed(static: Any) -> bool:
    """Whether something was set on it, or on its function, since it was made."""
    made = vars(_named(types.SimpleNamespace(), static.dygraph_function, static.specification))
    own = vars(static)
    return own.keys() != made.keys() or any(own[name] is not made[name] for name in own)


def _made(target: Callable[..., Any], settings: dict[str, Any]) -> Any:
    specification = Specification(target, settings["specification"])
    specification.refuse_what_says_nothing()
    given = {**settings, "specification": specification if specification.says_something else None}
    return _named(_marked(target, given), target, specification)


def _named(static: Any, original: Callable[..., Any], specification: Specification) -> Any:
    for name in ("__name__", "__qualname__", "__module__"):
        if (value := getattr(original, name, None)) is not None:
            setattr(static, name, value)
    static.__doc__ = original.__doc__
    # What other decorators have said of the function, as `functools.wraps` does.
    static.__dict__.update(_attributes_of(original))
    static.specification = specification
    return static


def _attributes_of(original: Callable[..., Any]) -> dict[str, Any]:
    attributes = getattr(original, "__dict__", {})
    return {name: value for name, value in attributes.items() if not hasattr(_core.StaticFunction, name)}


def attributes_of(static: Any) -> dict[str, Any]:
    """What was set on a translated function since it was made."""
    original = static.dygraph_function
    made = vars(_named(types.SimpleNamespace(), original, static.specification))
    return {name: value for name, value in vars(static).items() if name not in made or made[name] is not value}


def copied(target: Callable[..., Any], settings: dict[str, Any], attributes: dict[str, Any]) -> Any:
    """A copy of a translated function, with the settings that it was made with."""
    specification = settings["specification"] or Specification(target, None)
    static = _named(_marked(target, settings), target, specification)
    static.__dict__.update(attributes)
    return static


def deep_copied(static: Any, memo: dict[int, Any], settings: dict[str, Any]) -> Any:
    """A copy of a translated bound method, with a copy of its object."""
    of: Any = copy.deepcopy(static.dygraph_function, memo)
    return copied(of, settings, copy.deepcopy(attributes_of(static), memo))


def disable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function: functions translated from now on call it in the interpreter. Returns it."""
    if not callable(fn):
        raise TypeError(f"disable: expected a callable, got {type(fn).__name__}")
    _disabled.append(fn)
    return fn


def allow_in_graph(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a pure function of tensors: it becomes one statement instead of being followed. Returns it."""
    if not callable(fn):
        raise TypeError(f"allow_in_graph: expected a callable, got {type(fn).__name__}")
    _allowed.append(fn)
    return fn


def black_list(*apis: Callable[..., Any]) -> None:
    """Functions translated from now on break the graph at calls of these."""
    for api in apis:
        if not callable(api):
            raise TypeError(f"black_list: expected callables, got {api!r}")
    _black_list.extend(apis)


def graph_break(msg: str = "") -> None:
    """Breaks the graph here; does nothing in the interpreter."""


def is_compiling() -> bool:
    """True while a translated function is simulated, False in the interpreter."""
    return False
