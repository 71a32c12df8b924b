"""`paddle.jit` on this engine, and its export: files that `paddle.jit.load` and `paddle.inference` read."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import paddle
from paddle.base import core, framework
from paddle.nn import Layer

from . import _core
from ._export.file_check import check_file
from ._export.search import Search
from ._export.sizes import Sizes
from ._paddle_jit.functions import (
    enable_to_static,
    ignore_module,
    not_to_static,
    set_code_level,
    set_verbosity,
    to_static,
)
from .api import decorated, exported, is_of_paddle, spec_of_paddles, static_of, undecorated
from .errors import GraphBreakError
from .specification import Examples, Specification, is_known

__all__ = [
    "TranslatedLayer",
    "concrete_program",
    "enable_to_static",
    "ignore_module",
    "load",
    "not_to_static",
    "save",
    "set_code_level",
    "set_verbosity",
    "to_static",
]
# What `save` writes is Paddle's format.
TranslatedLayer = paddle.jit.TranslatedLayer
load = paddle.jit.load
_log = logging.getLogger("paddle_sot_rs.jit")
# How Paddle writes a float that is no number.
_NAN = '"VD":"NaN"'


# What becomes of a branch on open dims.
BRANCHES = ("capture", "assume")


def concrete_program(
    function: Callable[..., Any],
    input_spec: Any,
    names_of: Callable[..., Any] | None = None,
    on_branch: str = "capture",
) -> Any:
    """Captures `function` as one program; it does not run.

    Args:
        function: a Python function.
        input_spec: a list with an `InputSpec` (or Tensor, or nested lists and dicts of them, or another value)
            per positional parameter; dims of None stay open.
        names_of: the function whose parameters name the inputs. Default: `function`.
        on_branch: see `save`.

    Returns:
        An object with `main_program`, `inputs`, `outputs`, `parameters`, `code`: the statements as text, and
        `assumptions`: what is taken for granted of open dims, as text.

    Raises:
        GraphBreakError: it is not one graph; every reason is listed.
        TypeError, ValueError: `input_spec` does not fit.
    """
    return _Capture(function, input_spec, names_of, on_branch).program


class _Capture:
    """A function as one program, and how it came to be."""

    def __init__(
        self, function: Callable[..., Any], input_spec: Any, names_of: Callable[..., Any] | None, on_branch: str
    ) -> None:
        if on_branch not in BRANCHES:
            raise ValueError(f"on_branch: expected one of {', '.join(BRANCHES)}, got {on_branch!r}")
        self._assumes = on_branch == "assume"
        self._function = undecorated(function)
        self._entries = Specification(names_of or self._function, input_spec).entries
        self.program, self._sizes = self._tried()

    def _tried(self) -> tuple[Any, Sizes]:
        """The program, traced with the first sizes that the function takes."""
        search = Search(self._entries)
        for sizes in search:
            examples = Examples(self._entries, sizes)
            try:
                return self._traced(examples.inputs, examples.args), sizes
            except GraphBreakError as error:
                search.refuse(error)
        assert search.refused is not None
        raise search.refused

    def _traced(self, inputs: list[tuple[str, Any, list[int]]], args: tuple[Any, ...]) -> Any:
        static = exported(self._function, self._assumes)
        program, code, assumptions = static.export(inputs, *args)
        program.code, program.assumptions = code, assumptions
        return program

    def assert_ranges(self) -> None:
        """The program fails for sizes that its named dims do not allow."""
        dims = Examples(self._entries, self._sizes).dims
        if any(named for _, named in dims):
            from ._export.ranges import assert_ranges

            assert_ranges(self.program, dims)

    def check(self, path: str, output_spec: Any = None) -> None:
        """Raises where the files do not compute what the function does."""

        def traced(inputs: list[tuple[str, Any, list[int]]], args: tuple[Any, ...]) -> Any:
            program = self._traced(inputs, args)
            if output_spec is not None:
                program.outputs = _picked(program.outputs, output_spec)
            return program

        def write(program: Any, beside: str) -> None:
            _write(program, program.outputs, beside)

        check_file(path, self.program, self._entries, self._sizes, traced, write)


def concrete_program_of(static: Any) -> Any:
    """`concrete_program` of a translated function, for the `input_spec` it was given.

    Raises:
        AttributeError: there is none; the same error is the ValueError, TypeError or GraphBreakError that says why.
    """
    try:
        return _concrete_program_of(static)
    except (ValueError, TypeError, GraphBreakError) as error:
        # A missing attribute is an AttributeError: `hasattr` and `getmembers` expect that.
        missing = type(type(error).__name__, (type(error), AttributeError), {"__module__": type(error).__module__})
        raise missing(*error.args) from error.__cause__


def _concrete_program_of(static: Any) -> Any:
    specification = getattr(static, "specification", None)
    if specification is not None and specification.skips_self and not hasattr(static.dygraph_function, "__self__"):
        name = static.dygraph_function.__name__
        raise ValueError(
            f"concrete_program: {name} is a method of a class, without the object that it is called on: "
            "use paddle_sot_rs.to_static(layer).forward, or "
            f"paddle_sot_rs.jit.concrete_program(layer.{name}, input_spec)"
        )
    spec = _own_spec(static)
    if spec is None:
        spec = _last_spec(static)
    if spec is None:
        raise ValueError("concrete_program: give to_static an input_spec, call it first, or use paddle_sot_rs.save")
    return concrete_program(static.dygraph_function, spec)


def concrete_program_for(static: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """The program for these arguments, specifications or examples."""
    spec = _positional(static.dygraph_function, list(args), kwargs or {})
    if spec is None:
        raise TypeError("get_concrete_program: the arguments do not fit positional parameters")
    return concrete_program(static.dygraph_function, spec)


def concrete_program_and(static: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> tuple[Any, Any]:
    """The program for these arguments, and the function itself."""
    return concrete_program_for(static, args, kwargs), static


def rollback(static: Any) -> Callable[..., Any]:
    """Undoes `to_static` of an object's method."""
    original: Callable[..., Any] = static.dygraph_function
    owner, name = getattr(original, "__self__", None), original.__name__
    if owner is not None and vars(owner).get(name) is static:
        delattr(owner, name)
        if getattr(owner, name, None) != original:
            setattr(owner, name, original)
    return original


def _positional(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> list[Any] | None:
    """The arguments as a list by position; `None` where that cannot say it."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return None
    given = dict(bound.arguments)
    values: list[Any] = []
    for parameter in bound.signature.parameters.values():
        if parameter.name not in given:
            # What comes behind a default that was not given has to be one too.
            break
        value = given.pop(parameter.name)
        if parameter.kind is parameter.VAR_POSITIONAL:
            values += value
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            values.append(value)
        else:
            return None
    return None if given else values


def _last_spec(static: Any) -> list[Any] | None:
    """A specification like the arguments it was translated for last; `None` where they are not known."""
    static = static_of(static)
    seen = None if static is None else static.observed
    if seen is None:
        return None
    args, kwargs = seen
    spec = _positional(static.dygraph_function, args, kwargs)
    if spec is not None and static.specification.skips_self:
        spec = spec[1:]
    return spec if spec is not None and is_known(spec) else None


def code_of(static: Any) -> str:
    """The captured statements of a translated function."""
    graphs = [graph.ir for graph in static.graphs()]
    if not graphs and _own_spec(static) is not None:
        return concrete_program_of(static).code
    return "\n".join(graphs)


def caller(layer: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls a layer: its hooks are part of what is captured."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return layer(*args, **kwargs)

    return call


def _own_spec(target: Any) -> Any:
    if is_of_paddle(target):
        return spec_of_paddles(target)
    specification = getattr(target, "specification", None)
    return None if specification is None else specification.input_spec


def _is_translated(value: Any) -> bool:
    return isinstance(value, _core.StaticFunction) or (is_of_paddle(value) and not value.is_property)


def _targets(layer_or_fn: Any, input_spec: Any) -> list[tuple[str, Callable[..., Any], Any, Any]]:
    """(suffix of the file, what to capture, whose parameters are meant, input_spec) of each program."""
    if not isinstance(layer_or_fn, Layer):
        function = undecorated(layer_or_fn)
        if not callable(function):
            raise TypeError(f"layer_or_fn: expected a Layer or a function, got {type(layer_or_fn).__name__}")
        if not (inspect.isfunction(function) or inspect.ismethod(function)):
            # A `functools.partial`, an object with `__call__`.
            function = caller(function)
            functools.update_wrapper(function, layer_or_fn, assigned=(), updated=())
        spec = input_spec if input_spec is not None else _own_spec(layer_or_fn)
        spec = spec if spec is not None else _last_spec(layer_or_fn)
        return [("", function, function, spec)]
    layer = layer_or_fn._layers if isinstance(layer_or_fn, paddle.DataParallel) else layer_or_fn
    by_method = input_spec if isinstance(input_spec, dict) else {"forward": input_spec}
    unknown = [name for name in by_method if not callable(getattr(layer, name, None))]
    if unknown:
        raise ValueError(f"input_spec: {type(layer).__name__} has no method {unknown[0]!r}")
    found = []
    names = {name for kind in type(layer).__mro__ for name in vars(kind)}
    others = {name for name in names if _is_translated(inspect.getattr_static(layer, name))}
    for name in ["forward", *sorted((others | set(by_method)) - {"forward"})]:
        method = getattr(layer, name)
        spec = by_method.get(name)
        spec = spec if spec is not None else _own_spec(decorated(method))
        spec = spec if spec is not None else _last_spec(method)
        captured = caller(layer) if name == "forward" else undecorated(method)
        found.append(("" if name == "forward" else f".{name}", captured, undecorated(method), spec))
    return found


# What else `paddle.jit.save` takes: what holds here always, and what to do instead of the rest.
_HOLD = ("with_hook", "clip_extra", "skip_prune_program")
_REFUSED = {
    "combine_params": "each method has a file of parameters of its own, which paddle.jit.load finds",
    "separate_parameters": "split the file of parameters after it was saved",
    "input_names_after_prune": "save a function that takes these inputs only",
}


def _check_configs(configs: dict[str, Any]) -> None:
    for name, value in configs.items():
        if name in _REFUSED and value:
            raise ValueError(f"{name}: not supported by paddle_sot_rs: {_REFUSED[name]}")
        if name not in (*_HOLD, *_REFUSED):
            known = ", ".join(("output_spec", "skip_forward", *_HOLD))
            raise TypeError(f"save: unknown argument {name!r}; known: {known}")


def _picked(outputs: list[Any], output_spec: Any) -> list[Any]:
    """The results that `output_spec` names."""
    if not isinstance(output_spec, list | tuple):
        raise TypeError(f"output_spec: expected a list of positions, got {type(output_spec).__name__}")
    for at in output_spec:
        if type(at) is not int:
            raise TypeError(f"output_spec: expected positions of results, counted from 0, got a {type(at).__name__}")
        if not 0 <= at < len(outputs):
            raise ValueError(f"output_spec: position {at}, but there are {len(outputs)} results")
    if not output_spec:
        raise ValueError("output_spec: expected at least one position")
    return [outputs[at] for at in output_spec]


def save(
    layer_or_fn: Any,
    path: str | os.PathLike[str],
    input_spec: Any = None,
    *,
    output_spec: list[int] | None = None,
    skip_forward: bool = False,
    on_branch: str = "capture",
    **configs: Any,
) -> list[str]:
    """Saves a Layer or a function as files that `paddle.jit.load` and `paddle.inference` read.

    Writes `path.json` (the program), `path.pdiparams` (parameters, buffers and other tensors from outside of the
    function) and `path.pdiparams.info`. Further methods of a Layer that `to_static` decorates, in its class or on the
    Layer itself, are saved as `path.method.json`. A Layer is saved in the mode it is in: call `eval()` first for
    inference.

    Args:
        layer_or_fn: what to save; translated or not.
        path: directory and prefix of the files.
        input_spec: a list with an entry per positional argument: an `InputSpec`, an example Tensor, nested lists,
            tuples and dicts of them, or any other value, which becomes part of the program. Dims of None stay open:
            sizes that the function takes are found by trying. The program takes the tensors of a dict in the order of
            their keys.
            For several methods of a Layer: a dict from the method's name to such a list. Default: what
            `to_static` was given, else what the last arguments were that it was translated for.
        on_branch: what becomes of an `if` on open dims. With "capture" both sides are part of the program, and where
            they cannot be, nothing is saved. With "assume" the program has the side that the sizes lead to which it is
            traced with, and fails in calls that lead to the other one.
        output_spec: positions of the results to save, in the order in which they are to be loaded; containers count
            as the tensors in them. What only other results need is left out, where these still need all inputs.
        skip_forward: of a Layer, save the other methods only.
        configs: what else `paddle.jit.save` takes. `with_hook`, `clip_extra` and `skip_prune_program` change nothing:
            hooks are always part of the program. The others are refused.

    Returns:
        What the programs take for granted of open dims, as texts such as `x.shape[2] <= 10` with the place in the
        source; empty unless `on_branch` is "assume".

    Raises:
        GraphBreakError: a program would need more than one graph; every reason is listed. Nothing is written.
        RuntimeError: a program does not compute what the function does at two further sizes of its open dims.
        TypeError, ValueError: an argument does not fit.
    """
    _check_configs(configs)
    return save_files(layer_or_fn, path, input_spec, output_spec, skip_forward, on_branch)


def save_files(
    layer_or_fn: Any,
    path: str | os.PathLike[str],
    input_spec: Any,
    output_spec: list[int] | None = None,
    skip_forward: bool = False,
    on_branch: str = "capture",
    ranges: bool = True,
) -> list[str]:
    """See `save`. `ranges`: whether the programs check the sizes of dims that have names."""
    directory, prefix = os.path.split(os.fspath(path))
    if not prefix:
        raise ValueError(f"path: expected a directory and a prefix of file names, got {os.fspath(path)!r}")
    programs = []
    for suffix, captured, named, spec in _targets(layer_or_fn, input_spec):
        if skip_forward and suffix == "" and isinstance(layer_or_fn, Layer):
            continue
        if spec is None:
            where = suffix[1:] or "forward"
            raise ValueError(f"input_spec: missing for {where}; give a list of paddle.static.InputSpec or Tensors")
        capture = _Capture(captured, spec, named, on_branch)
        if ranges:
            capture.assert_ranges()
        outputs = capture.program.outputs
        programs.append((suffix, capture, outputs if output_spec is None else _picked(outputs, output_spec)))
    directory = directory or "."
    os.makedirs(directory, exist_ok=True)
    temporary = tempfile.mkdtemp(prefix=f".{prefix}.", dir=directory)
    try:
        for suffix, capture, outputs in programs:
            _write(capture.program, outputs, os.path.join(temporary, prefix + suffix))
            capture.check(os.path.join(temporary, prefix + suffix), output_spec)
        _write_info(layer_or_fn, [capture.program for _, capture, _ in programs], os.path.join(temporary, prefix))
        written = sorted(os.listdir(temporary))
        for name in written:
            os.replace(os.path.join(temporary, name), os.path.join(directory, name))
        _clear_older(directory, prefix, written)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return [text for _, capture, _ in programs for text in capture.program.assumptions]


def _clear_older(directory: str, prefix: str, written: list[str]) -> None:
    """Removes what an older program of these names had and this one has not: it would be loaded with it."""
    for name in written:
        for suffix in (".pdiparams", ".pdiparams.info"):
            older = name.removesuffix(".json") + suffix
            if name.endswith(".json") and older not in written:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(os.path.join(directory, older))
    others = [name for name in os.listdir(directory) if name.startswith(f"{prefix}.") and name.endswith(".json")]
    if left := sorted(set(others) - set(written)):
        _log.warning(
            "%s: paddle.jit.load(%r) reads %s as further methods; remove them if they are of an older save",
            directory,
            prefix,
            ", ".join(left),
        )


def _needs_all(inputs: list[Any], outputs: list[Any]) -> bool:
    """Whether these outputs need all inputs: Paddle leaves nothing out of a program that has others."""
    needed, left = set(), list(outputs)
    while left:
        operation = left.pop().get_defining_op()
        if operation.id() not in needed:
            needed.add(operation.id())
            left += operation.operands_source()
            left += [value for block in operation.blocks() for inner in block.ops for value in inner.operands_source()]
    return all(value.get_defining_op().id() in needed for value in inputs)


def _write(program: Any, outputs: list[Any], path: str) -> None:
    from ._paddle.static_mode import alone_in_static_mode

    scope = core.Scope()
    for tensor, value in zip(*program.parameters, strict=True):
        target, source = scope.var(value.name).get_tensor(), tensor.value().get_tensor()
        if tensor._is_initialized():
            target._share_data_with(source)
        elif isinstance(tensor, framework.EagerParamBase):
            raise ValueError(f"layer_or_fn: parameter {tensor.name} has no numbers yet; call its initialize() first")
        else:
            # State that nothing has written yet: recurrent layers have one for their dropout.
            target.set(paddle.zeros(tensor.shape, tensor.dtype).numpy(), framework._current_expected_place())
    with alone_in_static_mode(), paddle.static.scope_guard(scope):
        prunes = outputs is not program.outputs and _needs_all(program.inputs, outputs)
        paddle.static.save_inference_model(
            path,
            program.inputs,
            outputs,
            paddle.static.Executor(framework._current_expected_place()),
            program=program.main_program,
            skip_prune_program=not prunes,
        )
    with open(path + ".json", encoding="utf-8") as file:
        if _NAN in file.read():
            raise ValueError(
                "layer_or_fn: a constant that is no number (nan): Paddle writes it so that nothing can read the file; "
                "compute it in the function, such as (x - x) / (x - x)"
            )


def _write_info(layer: Any, programs: list[Any], path: str) -> None:
    states = layer.state_dict() if isinstance(layer, Layer) else {}
    structured = {id(tensor): name for name, tensor in states.items()}
    info = {}
    for program in programs:
        for tensor, value in zip(*program.parameters, strict=True):
            entry: dict[str, Any] = {"stop_gradient": tensor.stop_gradient}
            if id(tensor) in structured:
                entry["structured_name"] = structured[id(tensor)]
            if hasattr(tensor, "trainable"):
                entry["trainable"] = tensor.trainable
            info[value.name] = entry
    if info:
        with open(path + ".pdiparams.info", "wb") as file:
            pickle.dump(info, file, protocol=2)
