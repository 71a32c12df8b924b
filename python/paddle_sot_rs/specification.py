"""What the user says about arguments before a call: `InputSpec`, dynamic and static dims."""

from __future__ import annotations

import collections
import inspect
import itertools
import logging
import math
import typing
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import paddle
from paddle.static import InputSpec

from ._export.sizes import EXAMPLES, Sizes
from .dims import Dim, common

_log = logging.getLogger("paddle_sot_rs.specification")
_DYNAMIC = "__sot_dynamic_dims"
_STATIC = "__sot_static_dims"
# Items of the largest examples.
_MOST_ITEMS = 1 << 25


class DynamicDims:
    """In an annotation: these dims of a tensor argument are dynamic from the first call on.

    `def f(x: Annotated[paddle.Tensor, DynamicDims(0)]): ...`

    Args:
        dims: dims, counted from 0.
    """

    __slots__ = ("dims",)

    def __init__(self, *dims: int) -> None:
        for dim in dims:
            if not isinstance(dim, int) or dim < 0:
                raise ValueError(f"dims: expected dims counted from 0, got {dim!r}")
        self.dims = dims

    def __repr__(self) -> str:
        return f"DynamicDims({', '.join(map(str, self.dims))})"


def _marked_dims(tensor: Any, dims: Any) -> tuple[int, ...]:
    if not isinstance(tensor, paddle.Tensor):
        raise TypeError(f"tensor: expected a Tensor, got {type(tensor).__name__}")
    rank = len(tensor.shape)
    if dims is None:
        return tuple(range(rank))
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    for dim in dims:
        if not isinstance(dim, int) or isinstance(dim, bool) or not -rank <= dim < rank:
            raise ValueError(f"dims: expected dims of a tensor of rank {rank}, got {dim!r}")
    return tuple(dim % rank for dim in dims)


def mark_dynamic(tensor: Any, dims: int | list[int] | tuple[int, ...]) -> None:
    """Traces these dims of `tensor` as dynamic (-1) from the first call on, instead of after a recompile.

    Dims that are 0 or 1 stay static: they broadcast. Where a graph cannot be traced so, a warning says why
    and it is traced with the dims it has.

    Args:
        tensor: an argument, or any tensor that translated functions use.
        dims: a dim or several; negative ones count from the end.

    Raises:
        TypeError: `tensor` is not a Tensor.
        ValueError: no such dim.
    """
    found = _marked_dims(tensor, dims)
    setattr(tensor, _STATIC, tuple(dim for dim in getattr(tensor, _STATIC, ()) if dim not in found))
    setattr(tensor, _DYNAMIC, tuple(sorted({*getattr(tensor, _DYNAMIC, ()), *found})))


def mark_static(tensor: Any, dims: int | list[int] | tuple[int, ...] | None = None) -> None:
    """Keeps these dims of `tensor` (default: all) from becoming dynamic when they change between calls.

    Raises:
        TypeError: `tensor` is not a Tensor.
        ValueError: no such dim.
    """
    found = _marked_dims(tensor, dims)
    setattr(tensor, _DYNAMIC, tuple(dim for dim in getattr(tensor, _DYNAMIC, ()) if dim not in found))
    setattr(tensor, _STATIC, tuple(sorted({*getattr(tensor, _STATIC, ()), *found})))


def is_open(dim: Any) -> bool:
    """Whether a dim of an `InputSpec` is left open."""
    return dim is None or dim == -1


class Lenient(list[Any]):
    """An `input_spec` that calls may differ from: what it says of such a call is not used."""


class Specification:
    """The input specification of one function. Calling it checks arguments."""

    def __init__(self, function: Callable[..., Any], input_spec: Any) -> None:
        """
        Args:
            function: whose parameters are meant; a leading `self` is not one of them, nor the `cls` of a method.
            input_spec: a list or tuple with an entry per positional parameter, in order.

        Raises:
            TypeError, ValueError: `input_spec` does not fit.
        """
        self.signature = inspect.signature(function)
        self._receives = _receives(function, self.signature)
        # The classes that it is a method of: their objects come first.
        self._classes: list[weakref.ref[type]] = []
        self._said = False
        self.open = _annotated(function)
        self.input_spec = input_spec
        if input_spec is not None and not isinstance(input_spec, list | tuple):
            raise TypeError(f"input_spec: expected a list or tuple, got {type(input_spec).__name__}")
        self.entries = self._entries(self._receives)
        # Whether each call is looked at: guards ask less of open dims.
        self.checks_sizes = _check_names([leaf for _, spec in self.entries for leaf in _leaves(spec)])

    def belongs_to(self, owner: type) -> None:
        """Called where `owner` is made with the function as a method, whatever that calls its object."""
        self._classes.append(weakref.ref(owner))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_classes": [known for ref in self._classes if (known := ref()) is not None]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _classes=list(map(weakref.ref, state["_classes"])))

    @property
    def skips_self(self) -> bool:
        """Whether its object comes in front of what the entries are for."""
        return self._receives or bool(self._classes)

    def _entries(self, receives: bool) -> list[tuple[str, Any]]:
        spec = self.input_spec or ()
        return list(zip(self._names(len(spec), receives), map(_normal, spec), strict=True))

    def _names(self, count: int, receives: bool) -> list[str]:
        names: list[str] = []
        skipped = int(receives)
        for parameter in self.signature.parameters.values():
            if len(names) == count + skipped:
                break
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                names.append(parameter.name)
            elif parameter.kind is parameter.VAR_POSITIONAL:
                names += [f"{parameter.name}[{at}]" for at in range(count + skipped - len(names))]
        names = names[skipped:]
        if len(names) < count:
            raise ValueError(f"input_spec: {count} entries, but the function takes {len(names)} positional arguments")
        return names

    def _entries_for(self, args: tuple[Any, ...]) -> list[tuple[str, Any]]:
        if not self._receives and args:
            bases = type(args[0]).__mro__
            if any(known() in bases for known in self._classes):
                return self._entries(True)
        return self.entries

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> list[tuple[Any, list[int]]]:
        """Checks the arguments of a call; the answer lists tensors with their open dims.

        Raises:
            TypeError: an argument has another structure or dtype than specified.
            ValueError: it has another rank or shape.
        """
        try:
            bound = self.signature.bind(*args, **(kwargs or {}))
        except TypeError:
            return []  # The call itself raises it.
        bound.apply_defaults()
        values: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                values |= {f"{name}[{at}]": item for at, item in enumerate(value)}
            values[name] = value
        found: list[tuple[Any, list[int]]] = []
        sizes: dict[str, tuple[int, str]] = {}
        try:
            for name, spec in self._entries_for(args):
                _check(name, spec, values.get(name), found, sizes)
        except (TypeError, ValueError) as error:
            if not isinstance(self.input_spec, Lenient):
                raise
            if not self._said:
                self._said = True
                _log.warning("%s; its input_spec is not used for such calls", error)
            found = []
        for name, dims in self.open.items():
            tensor = values.get(name)
            if isinstance(tensor, paddle.Tensor):
                found.append((tensor, [dim for dim in dims if dim < len(tensor.shape)]))
        return found

    def refuse_what_says_nothing(self) -> None:
        """Raises ValueError where values stand in the place of all tensors: they say nothing of a call."""
        if isinstance(self.input_spec, Lenient):
            return
        for name, spec in self.entries:
            _check_entry(name, spec)
        leaves = [leaf for _, spec in self.entries for leaf in _leaves(spec)]
        if any(isinstance(leaf, InputSpec) for leaf in leaves):
            return
        if any(type(leaf) in (int, float, str) for leaf in leaves):
            name, spec = self.entries[0]
            raise ValueError(
                f"input_spec: argument {name} is given as {spec!r}, and no entry describes a tensor; "
                "write paddle.static.InputSpec(shape, dtype) or an example Tensor for each tensor argument"
            )

    @property
    def says_something(self) -> bool:
        """Whether there is anything to check or to declare."""
        return bool(self.entries or self.open)


def _receives(function: Callable[..., Any], signature: inspect.Signature) -> bool:
    """Whether the first parameter is the object of a method, or its class."""
    first = next(iter(signature.parameters), None)
    if first != "cls":
        return first == "self"
    name = getattr(function, "__qualname__", "")
    inside = name.rpartition(".")[0]
    return not hasattr(function, "__self__") and bool(inside) and not inside.endswith("<locals>")


def _annotated(function: Callable[..., Any]) -> dict[str, tuple[int, ...]]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:  # Annotations are the user's: what cannot be evaluated declares nothing.
        return {}
    found = {}
    for name, hint in hints.items():
        for extra in getattr(hint, "__metadata__", ()):
            if isinstance(extra, DynamicDims):
                found[name] = extra.dims
    return found


def _normal(spec: Any) -> Any:
    if isinstance(spec, paddle.Tensor):
        return InputSpec.from_tensor(spec)
    if isinstance(spec, list | tuple):
        return _sequence(spec, [_normal(item) for item in spec])
    if isinstance(spec, dict):
        return _mapping(spec, {key: _normal(item) for key, item in spec.items()})
    return spec


def _leaves(spec: Any) -> Iterator[Any]:
    if isinstance(spec, list | tuple | dict):
        for item in spec.values() if isinstance(spec, dict) else spec:
            yield from _leaves(item)
    else:
        yield spec


def _check_names(leaves: list[Any]) -> bool:
    """Whether there are dims with names. Raises ValueError where dims of one name allow other sizes."""
    known: dict[str, Dim] = {}
    for leaf in leaves:
        for dim in leaf.shape if isinstance(leaf, InputSpec) else ():
            if isinstance(dim, Dim):
                known[dim.name] = common(dim, known.get(dim.name, dim))
    return bool(known)


def _check_entry(path: str, spec: Any) -> None:
    """Raises ValueError or TypeError where the description of a tensor is none: `InputSpec` itself looks at less."""
    if isinstance(spec, list | tuple):
        for at, item in enumerate(spec):
            _check_entry(f"{path}[{at}]", item)
    elif isinstance(spec, dict):
        for key, item in spec.items():
            _check_entry(f"{path}[{key!r}]", item)
    elif isinstance(spec, InputSpec):
        for at, dim in enumerate(spec.shape):
            if not is_open(dim) and not (hasattr(dim, "__index__") and type(dim) is not bool and dim >= 0):
                raise ValueError(
                    f"input_spec: argument {path} has {dim!r} in the place of dim {at}; write its size, "
                    "or None for an open one"
                )
        if not isinstance(spec.dtype, paddle.dtype):
            raise TypeError(
                f"input_spec: argument {path} has the dtype {spec.dtype!r}; write one of Paddle's, such as 'float32'"
            )


def _sequence(like: Any, items: list[Any]) -> Any:
    """The items in a list, a tuple or a named tuple: the function may ask which of them it is."""
    if isinstance(like, tuple):
        return type(like)(*items) if hasattr(like, "_fields") else tuple(items)
    return items


def _mapping(like: Any, items: dict[Any, Any]) -> Any:
    return collections.OrderedDict(items) if isinstance(like, collections.OrderedDict) else items


def _check(
    path: str, spec: Any, value: Any, found: list[tuple[Any, list[int]]], sizes: dict[str, tuple[int, str]]
) -> None:
    """`sizes`: of dims with names, and the first argument that has them."""
    if isinstance(spec, InputSpec):
        _check_tensor(path, spec, value)
        _check_dims(path, spec, value, sizes)
        found.append((value, [at for at, dim in enumerate(spec.shape) if is_open(dim)]))
    elif isinstance(spec, list | tuple):
        if not isinstance(value, list | tuple) or len(value) != len(spec):
            raise TypeError(f"argument {path}: input_spec says a list or tuple of {len(spec)}, got {_shown(value)}")
        for at, (inner, item) in enumerate(zip(spec, value, strict=True)):
            _check(f"{path}[{at}]", inner, item, found, sizes)
    elif isinstance(spec, dict):
        if not isinstance(value, dict) or set(value) != set(spec):
            raise TypeError(f"argument {path}: input_spec says a dict with the keys {list(spec)}, got {_shown(value)}")
        for key, inner in spec.items():
            _check(f"{path}[{key!r}]", inner, value[key], found, sizes)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"a dict with the keys {list(value)}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def _check_tensor(path: str, spec: InputSpec, value: Any) -> None:
    shape = [None if is_open(dim) else dim for dim in spec.shape]
    if not isinstance(value, paddle.Tensor):
        raise TypeError(f"argument {path}: input_spec says a Tensor of shape {shape}, got {_shown(value)}")
    if value.dtype != spec.dtype:
        raise TypeError(f"argument {path}: input_spec says dtype {_name(spec.dtype)}, got {_name(value.dtype)}")
    given = list(value.shape)
    if len(given) != len(shape):
        raise ValueError(
            f"argument {path}: input_spec says rank {len(shape)} ({shape}), got rank {len(given)} ({given})"
        )
    if any(want is not None and want != size for want, size in zip(shape, given, strict=True)):
        raise ValueError(f"argument {path}: input_spec says shape {shape}, got {given}")


def _check_dims(path: str, spec: InputSpec, value: Any, sizes: dict[str, tuple[int, str]]) -> None:
    for at, (dim, size) in enumerate(zip(spec.shape, value.shape, strict=True)):
        if not isinstance(dim, Dim):
            continue
        if not dim.allows(size):
            raise ValueError(f"argument {path}: dim {at} is {dim}, got {size}")
        known, where = sizes.setdefault(dim.name, (size, path))
        if known != size:
            raise ValueError(f"argument {path}: dim {at} is {dim}, got {size}, but {where} has {known} there")


def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def example_shapes(entries: list[tuple[str, Any]], size: Sizes) -> list[tuple[int, ...]]:
    """The shapes of the tensors that `Examples` makes."""
    counted, named = itertools.count(), dict[str, int]()

    def shapes(spec: Any) -> Iterator[tuple[int, ...]]:
        if isinstance(spec, InputSpec):
            yield example_shape(spec, size, counted, named)
        elif isinstance(spec, list | tuple | dict):
            for item in map(spec.get, in_order(spec)) if isinstance(spec, dict) else spec:
                yield from shapes(item)

    return [shape for _, spec in entries for shape in shapes(spec)]


def is_small(shapes: list[tuple[int, ...]]) -> bool:
    """Whether tensors of these shapes are no burden."""
    return sum(map(math.prod, shapes)) <= _MOST_ITEMS


def example_shape(spec: InputSpec, size: Sizes, counted: Iterator[int], named: dict[str, int]) -> tuple[int, ...]:
    """A shape with sizes in the place of open dims; `counted` counts those, `named` has those that have names."""
    return tuple(_example_dim(dim, place, size, counted, named) for place, dim in enumerate(spec.shape))


def _example_dim(dim: Any, place: int, size: Sizes, counted: Iterator[int], named: dict[str, int]) -> Any:
    if not is_open(dim):
        return dim
    if not isinstance(dim, Dim):
        return size(next(counted), place)
    if dim.name not in named:
        numbers = size.number if dim.multiple_of > 1 else size
        named[dim.name] = dim.example(numbers(next(counted), place))
    return named[dim.name]


def in_order(spec: dict[Any, Any]) -> list[Any]:
    """The keys in the order of `paddle.utils.flatten`: a program takes their tensors so."""
    try:
        return sorted(spec)
    except TypeError:
        return list(spec)


class Examples:
    """Arguments made from a specification: what a function is traced with when it is exported."""

    def __init__(self, entries: list[tuple[str, Any]], size: Sizes = EXAMPLES[0]) -> None:
        """
        Args:
            entries: (parameter, spec) pairs.
            size: the size of an open dim, from how many there were before and its place in its tensor.
        """
        self.inputs: list[tuple[str, Any, list[int]]] = []
        # Of each input, its name and its dims that have names.
        self.dims: list[tuple[str, list[tuple[int, Dim]]]] = []
        self._size = size
        self._open, self._named = itertools.count(), dict[str, int]()
        self._names: set[str] = set()
        self.args = tuple(self._value(name, spec) for name, spec in entries)

    def _value(self, path: str, spec: Any) -> Any:
        if isinstance(spec, InputSpec):
            tensor = paddle.zeros(example_shape(spec, self._size, self._open, self._named), spec.dtype)
            # What an `InputSpec` says unless told otherwise; other dtypes have no gradient.
            tensor.stop_gradient = spec.stop_gradient or not (tensor.is_floating_point() or tensor.is_complex())
            name = base = spec.name or path.replace("[", "_").replace("]", "").replace("'", "")
            while name in self._names:
                name = f"{base}_{len(self._names)}"
            self._names.add(name)
            self.inputs.append((name, tensor, [at for at, dim in enumerate(spec.shape) if is_open(dim)]))
            self.dims.append((name, [(at, dim) for at, dim in enumerate(spec.shape) if isinstance(dim, Dim)]))
            return tensor
        if isinstance(spec, list | tuple):
            return _sequence(spec, [self._value(f"{path}[{at}]", item) for at, item in enumerate(spec)])
        if isinstance(spec, dict):
            made = {key: self._value(f"{path}[{key!r}]", spec[key]) for key in in_order(spec)}
            return _mapping(spec, {key: made[key] for key in spec})
        return spec


class Unknown:
    """In the place of an argument that nothing is kept of."""

    def __repr__(self) -> str:
        return "<unknown>"


_UNKNOWN = Unknown()
PLAIN = (type(None), bool, int, float, complex, str, bytes)


# Lists may hold the same lists many times, or themselves.
_MOST_OBSERVED = 1024


def _observed(value: Any, depth: int, left: Iterator[int]) -> Any:
    # Not isinstance(): that asks objects of other classes for their `__class__`.
    if issubclass(type(value), paddle.Tensor):
        return InputSpec(list(value.shape), value.dtype)
    if type(value) in PLAIN:
        return value
    if next(left, None) is None or depth >= 8:
        return _UNKNOWN
    if type(value) in (list, tuple) and len(value) <= 256:
        return type(value)([_observed(item, depth + 1, left) for item in value])
    if type(value) is dict and len(value) <= 256 and all(type(key) is str for key in value):
        return {key: _observed(item, depth + 1, left) for key, item in value.items()}
    return _UNKNOWN


def observed(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> tuple[list[Any], dict[str, Any]]:
    """What is remembered of the arguments of a call: specifications of its tensors, and no tensor."""
    left = iter(range(_MOST_OBSERVED))
    named = {name: _observed(value, 0, left) for name, value in (kwargs or {}).items()}
    return [_observed(value, 0, left) for value in args], named


def is_known(value: Any) -> bool:
    """Whether everything is there that was observed."""
    if isinstance(value, list | tuple):
        return all(map(is_known, value))
    if isinstance(value, dict):
        return all(map(is_known, value.values()))
    return value is not _UNKNOWN
