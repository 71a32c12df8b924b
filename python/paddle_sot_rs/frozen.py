"""Frozen functions: inference with parameters that are constants, and without guards."""

from __future__ import annotations

import copy
import inspect
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import paddle
from paddle.base import framework
from paddle.nn import Layer

from . import _core, api, jit
from ._export.search import Search
from .errors import GraphBreakError
from .specification import PLAIN, Examples, Specification

# Kinds of calls with open dims that are found by what they are exactly.
_MOST_KNOWN = 1024


def freeze(
    layer_or_fn: Any,
    warm_up: Sequence[Sequence[Any] | dict[str, Any]],
    *,
    backend: str = "onednn",
    options: dict[str, Any] | None = None,
    on_miss: Literal["translate", "error"] = "translate",
    allow_breaks: bool = False,
    check: bool = False,
) -> Frozen:
    """Makes a function for inference, whose parameters, buffers and other tensors from outside are copied.

    Args:
        layer_or_fn: a Layer in `eval()` mode, or a function. Gradients do not flow through it.
        warm_up: the kinds of calls to be ready for: of each the positional arguments, or a dict of all arguments
            by name. They are tensors, `InputSpec` (dims of None stay open), lists, tuples and dicts of them, or
            numbers, strings and None, which have to be the same in a call.
        backend: who compiles it, of `list_backends()`.
        options: of the backend.
        on_miss: what becomes of a call of another kind: it is translated, or it is a `LookupError`.
        allow_breaks: whether what is not one graph runs as `to_static` runs it, with the parameters of the moment.
        check: whether each call looks whether parameters differ from the copies, which is slow: for finding errors.

    Returns:
        What is called like the function. Changes of parameters are seen by `refresh()` only.

    Raises:
        GraphBreakError: it is not one graph; every reason is listed.
        TypeError, ValueError: an argument does not fit, or the layer trains.
        RuntimeError: a warm-up call raises.
    """
    return Frozen(layer_or_fn, warm_up, backend, options, on_miss, allow_breaks, check)


@dataclass(frozen=True)
class FrozenStats:
    """What has become of the calls so far.

    Attributes:
        kinds: kinds of calls that are ready.
        misses: calls of a kind that was not ready.
        refreshes: how often parameters were taken anew.
    """

    kinds: int
    misses: int
    refreshes: int


def _takes_names(function: Callable[..., Any]) -> bool:
    """Whether it has parameters that can be given by name only."""
    kinds = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD
    return any(parameter.kind in kinds for parameter in inspect.signature(function).parameters.values())


def _with_names_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which takes in a dict at the end what can be given by name only."""

    def call(*args: Any) -> Any:
        return function(*args[:-1], **args[-1])

    return call


def _by_position(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call by position, with a dict at the end where some parameters have no position.

    Defaults stand between those that are given.
    """
    signature = inspect.signature(function)
    given = signature.bind(*args, **kwargs).arguments
    last = max((at for at, name in enumerate(signature.parameters) if name in given), default=-1)
    found: list[Any] = []
    named: dict[str, Any] = {}
    for name, parameter in list(signature.parameters.items())[: last + 1]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            found.extend(given.get(name, ()))
        elif parameter.kind is parameter.VAR_KEYWORD:
            others = given.get(name, {})
            named.update((other, others[other]) for other in sorted(others))
        elif parameter.kind is parameter.KEYWORD_ONLY:
            named.update({name: given[name]} if name in given else {})
        else:
            found.append(given[name] if name in given else parameter.default)
    return (*found, named) if _takes_names(function) else tuple(found)


def _is_same(tensor: Any, copy: Any) -> bool:
    """Whether a tensor is what it was: to the last bit, so that what is no number equals itself."""
    if not tensor._is_initialized():
        # Nothing has been written to it, as when the copy was made.
        return True
    if tensor.shape != copy.shape or tensor.dtype != copy.dtype:
        return False
    # Not `equal_all()`: it has no kernel for halves, small whole numbers and complex numbers.
    return bool(tensor.numpy().tobytes() == copy.numpy().tobytes())


class _Kept:
    """Copies of tensors, which all kinds of calls share."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[Any, Any]] = {}
        self._layers: dict[int, tuple[Any, Any]] = {}

    def keep(self, tensor: Any) -> Any:
        known = self._by_id.get(id(tensor))
        if known is None and not tensor._is_initialized():
            # There is nothing to copy: state of kernels that do not run in inference.
            return tensor
        if known is None:
            with paddle.no_grad():
                kept = paddle.assign(tensor)
            kept.stop_gradient = kept.persistable = True
            known = self._by_id[id(tensor)] = tensor, kept
        return known[1]

    def keep_layer(self, layer: Any) -> Any:
        """The same layer with the copies."""
        known = self._layers.get(id(layer))
        if known is None:
            tensors = (*layer.parameters(), *layer.buffers())
            known = self._layers[id(layer)] = layer, copy.deepcopy(layer, {id(it): self.keep(it) for it in tensors})
        return known[1]

    def changed(self) -> list[str]:
        """Names of tensors that differ from their copies."""
        pairs = self._by_id.values()
        return [of.name for of, kept in pairs if not _is_same(of, kept)]


@dataclass(frozen=True)
class _Slot:
    """The place of a tensor in a result."""

    at: int


def _template(value: Any, tensors: list[Any]) -> Any:
    """A result with slots in the place of its tensors."""
    if isinstance(value, paddle.Tensor):
        tensors.append(value)
        return _Slot(len(tensors) - 1)
    if type(value) in PLAIN:
        return value
    if type(value) is dict:
        made = {key: _template(value[key], tensors) for key in sorted(value)}
        return {key: made[key] for key in value}
    if type(value) in (list, tuple):
        return type(value)(_template(item, tensors) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_template(item, tensors) for item in value))
    raise TypeError(f"freeze: a result holds a {type(value).__name__}: only lists, tuples and dicts can be given back")


def _filled(template: Any, tensors: list[Any]) -> Any:
    if type(template) is _Slot:
        return tensors[template.at]
    if type(template) is dict:
        return {key: _filled(item, tensors) for key, item in template.items()}
    if type(template) in (list, tuple):
        return type(template)(_filled(item, tensors) for item in template)
    if isinstance(template, tuple):
        return type(template)(*(_filled(item, tensors) for item in template))
    return template


def _key(value: Any, tensors: list[Any], open_dims: dict[int, list[int]]) -> Any:
    """What tells kinds of calls apart; `tensors` gets those of the call, in order."""
    if isinstance(value, paddle.Tensor):
        tensors.append(value)
        shape = tuple(value.shape)
        if dims := open_dims.get(id(value)):
            shape = tuple(None if at in dims else dim for at, dim in enumerate(shape))
        # Enumerations of Paddle take longer to hash than all the rest.
        return value.dtype.value, shape
    if type(value) in PLAIN:
        # 1, 1.0 and True are equal, and so are 0.0 and -0.0.
        return type(value), repr(value)
    if type(value) is dict:
        return dict, tuple((key, _key(item, tensors, open_dims)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return type(value), tuple(_key(item, tensors, open_dims) for item in value)
    raise TypeError(
        f"freeze: an argument is a {type(value).__name__}: expected tensors, constants, or containers of them"
    )


def _has_open_dims(key: Any) -> bool:
    return isinstance(key, tuple) and any(item is None or _has_open_dims(item) for item in key)


def _fits(key: Any, pattern: Any) -> bool:
    """Whether a call is of a kind whose open dims are None: those of tensors with items."""
    if pattern is None:
        return (type(key) is int and key > 0) or key is None
    if isinstance(pattern, tuple) and isinstance(key, tuple):
        return len(key) == len(pattern) and all(map(_fits, key, pattern))
    return bool(key == pattern)


@dataclass(frozen=True)
class _Kind:
    """One kind of calls."""

    graph: Any
    template: Any

    def run(self, args: tuple[Any, ...], tensors: list[Any]) -> Any:
        # As `paddle.no_grad`, which costs as much as a small graph.
        tracer = framework._dygraph_tracer()
        if tracer is None:
            raise RuntimeError("frozen: called in static mode; leave it by paddle.disable_static()")
        before, tracer._has_grad = tracer._has_grad, False
        try:
            made = self.graph(*tensors)
        finally:
            tracer._has_grad = before
        return made[0] if type(self.template) is _Slot else _filled(self.template, made)


@dataclass(frozen=True)
class _Broken:
    """A kind of calls that is not one graph."""

    function: Any

    def run(self, args: tuple[Any, ...], tensors: list[Any]) -> Any:
        with paddle.no_grad():
            return self.function(*args)


class _FailsAtSizesError(Exception):
    """A call that raises, which others may not do."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class _State:
    """What belongs to one set of parameters."""

    def __init__(self) -> None:
        self.kept = _Kept()
        self.kinds: dict[Any, Any] = {}
        self.patterns: list[tuple[Any, Any]] = []
        # Kinds of calls that patterns were found for.
        self.known: dict[Any, Any] = {}
        # Kinds of calls that have been made with tensors alone.
        self.of_tensors = _core.TensorKinds()

    def find(self, key: Any) -> Any:
        kind = self.kinds.get(key) or self.known.get(key)
        if kind is None and self.patterns:
            kind = next((kind for pattern, kind in self.patterns if _fits(key, pattern)), None)
            if kind is not None and len(self.known) < _MOST_KNOWN:
                self.known[key] = kind
        return kind

    def add(self, key: Any, kind: Any) -> None:
        if _has_open_dims(key):
            self.patterns.append((key, kind))
        else:
            self.kinds[key] = kind


class Frozen:
    """What `freeze` makes. Any number of threads may call it."""

    def __init__(
        self,
        layer_or_fn: Any,
        warm_up: Sequence[Sequence[Any] | dict[str, Any]],
        backend: str,
        options: dict[str, Any] | None,
        on_miss: str,
        allow_breaks: bool,
        check: bool,
    ) -> None:
        if on_miss not in ("translate", "error"):
            raise ValueError(f'on_miss: expected "translate" or "error", got {on_miss!r}')
        if not isinstance(warm_up, list | tuple) or not warm_up:
            raise ValueError("warm_up: expected a list with a tuple of arguments for each kind of calls")
        for number, given in enumerate(warm_up):
            if not isinstance(given, list | tuple | dict):
                raise TypeError(
                    f"warm_up[{number}]: expected a tuple of arguments, or a dict of them by name, "
                    f"got {type(given).__name__}"
                )
        self._of = layer_or_fn
        if isinstance(layer_or_fn, Layer):
            self._function, self._named = jit.caller(layer_or_fn), api.undecorated(layer_or_fn.forward)
        elif callable(layer_or_fn):
            self._function = self._named = api.undecorated(layer_or_fn)
        else:
            raise TypeError(f"layer_or_fn: expected a Layer or a function, got {type(layer_or_fn).__name__}")
        self._takes_names = _takes_names(self._named)
        if self._takes_names:
            self._function = _with_names_last(self._function)
        self._specified = self._function if self._takes_names else self._named
        self._warm_up = [list(self._by_position(given)) for given in warm_up]
        self._backend = backend
        self._options = options
        self._on_miss, self._allow_breaks, self._check = on_miss, allow_breaks, check
        self._misses = self._refreshes = 0
        self._lock = threading.RLock()
        self._state = self._made()

    def _by_position(self, given: Sequence[Any] | dict[str, Any]) -> Sequence[Any]:
        """The arguments of a call to be ready for."""
        if isinstance(given, dict):
            return _by_position(self._named, (), given)
        return _by_position(self._named, given, {}) if self._takes_names else given

    def _made(self) -> _State:
        if isinstance(self._of, Layer) and any(layer.training for layer in self._of.sublayers(include_self=True)):
            raise ValueError(f"layer_or_fn: {type(self._of).__name__} is in training mode; call eval() first")
        state = _State()
        for number, given in enumerate(self._warm_up):
            self._add(state, given, f"warm_up[{number}]")
        return state

    def _add(self, state: _State, spec: list[Any], what: str) -> Any:
        """Makes a kind of calls ready."""
        entries = Specification(self._specified, spec).entries
        search = Search(entries)
        for sizes in search:
            examples = Examples(entries, sizes)
            for _, tensor, _ in examples.inputs:
                # An `InputSpec` says otherwise, and a branch on dims could give it, or a tensor
                # without a gradient.
                tensor.stop_gradient = True
            try:
                key, kind = self._kind(state, examples, what)
            except GraphBreakError as error:
                error.add_note(f"freeze: of {what}")
                search.refuse(error)
            except _FailsAtSizesError as failed:
                search.refuse(failed.error)
            else:
                state.add(key, kind)
                return kind
        assert search.refused is not None
        if not self._allow_breaks or not isinstance(search.refused, GraphBreakError):
            raise search.refused
        broken = _Broken(api.to_static(self._function, backend=self._backend, options=self._options))
        state.add(_key(examples.args, [], {id(tensor): dims for _, tensor, dims in examples.inputs}), broken)
        return broken

    def _kind(self, state: _State, examples: Examples, what: str) -> tuple[Any, _Kind]:
        tensors: list[Any] = []
        dims = {id(tensor): dims for _, tensor, dims in examples.inputs}
        key = _key(examples.args, tensors, dims)
        # Only what is given copies may take its weights once.
        options = {**(self._options or {}), "frozen": True} if self._backend == "onednn" else self._options
        static = api.frozen(self._function, self._backend, options)
        random = paddle.get_rng_state()
        try:
            with paddle.no_grad():
                inputs = [(tensor, dims.get(id(tensor), [])) for tensor in tensors]
                graph = static.freeze(inputs, state.kept, *examples.args)
                # Parameters may have changed since their copies were made.
                before = state.kept.changed()
                # The first run makes what others keep. A graph writes running statistics itself.
                try:
                    made = graph(*tensors)
                except Exception as error:
                    raise _FailsAtSizesError(error) from error
                if changed := [name for name in state.kept.changed() if name not in before]:
                    raise ValueError(f"freeze: {what} changes {', '.join(changed)}: it trains; call eval() first")
                try:
                    result = self._function(*examples.args)
                except Exception as error:
                    raised = RuntimeError(f"freeze: {what} raises {type(error).__name__}: {error}")
                    raised.__cause__ = error
                    raise _FailsAtSizesError(raised) from error
                shown: list[Any] = []
                template = _template(result, shown)
                if len(made) != len(shown):
                    raise TypeError("freeze: a result holds numbers that depend on open dims; return them as tensors")
        finally:
            paddle.set_rng_state(random)
        return key, _Kind(graph, template)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """
        Raises:
            LookupError: the call is of no kind that is ready, and `on_miss` is "error".
        """
        state = self._state
        if not kwargs and (made := state.of_tensors.call(args)) is not None:
            return made
        if kwargs or self._takes_names:
            args = _by_position(self._named, args, kwargs)
        tensors: list[Any] = []
        key = _key(args, tensors, {})
        kind = state.find(key)
        if kind is None:
            kind = self._miss(state, args, key)
        if self._check and (changed := state.kept.changed()):
            raise RuntimeError(f"frozen: {', '.join(changed)} changed since; call refresh()")
        if not self._check and isinstance(kind, _Kind) and type(kind.template) is _Slot:
            state.of_tensors.add(args, kind.graph)
        return kind.run(args, tensors)

    def _miss(self, state: _State, args: tuple[Any, ...], key: Any) -> Any:
        with self._lock:
            self._misses += 1
            kind = state.find(key)
            if kind is not None:
                return kind
            if self._on_miss == "error":
                ready = "\n".join(f"    {given}" for given in map(_shown, self._warm_up))
                raise LookupError(f"frozen: no kind of calls is ready for\n    {_shown(args)}\nready are\n{ready}")
            return self._add(state, list(args), "the call")

    def refresh(self) -> None:
        """Takes parameters, buffers and other tensors as they are now. Calls under way end with those of before."""
        with self._lock:
            self._state = self._made()
            self._refreshes += 1

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves what `paddle.jit.load` and `paddle.inference` run, for the first kind of calls: see `save`.

        Raises:
            RuntimeError: parameters have changed since.
            TypeError: an argument can be given by name only.
        """
        spec = self._warm_up[0]
        if self._takes_names:
            *spec, named = spec
            if named:
                raise TypeError(
                    f"save(): {', '.join(named)} cannot be given by position: make a function that takes it so"
                )
        if changed := self._state.kept.changed():
            raise RuntimeError(f"frozen: {', '.join(changed)} changed since; call refresh() before save()")
        jit.save(self._of, path, spec)

    @property
    def stats(self) -> FrozenStats:
        state = self._state
        return FrozenStats(len(state.kinds) + len(state.patterns), self._misses, self._refreshes)

    @property
    def report(self) -> list[list[str]]:
        """What the backend says of each graph, line by line."""
        kinds = [*self._state.kinds.values(), *(kind for _, kind in self._state.patterns)]
        return [kind.graph.report if isinstance(kind, _Kind) else [] for kind in kinds]


def _shown(args: Any) -> str:
    def one(value: Any) -> str:
        if isinstance(value, paddle.Tensor):
            return f"{value.dtype} {list(value.shape)}".replace("paddle.", "")
        return repr(value)

    return ", ".join(one(value) for value in args)
