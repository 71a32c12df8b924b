"""What Paddle's `StaticFunction` has and this engine computes from other things."""

from __future__ import annotations

import logging
from typing import Any

from paddle.jit.dy2static.function_spec import FunctionSpec
from paddle.jit.dy2static.program_translator import CacheKey
from paddle.jit.dy2static.utils import input_specs_compatible
from paddle.nn import Layer
from paddle.utils import flatten

from ..jit import caller, concrete_program, concrete_program_and, concrete_program_of

_log = logging.getLogger("paddle_sot_rs.jit")


def function_spec(static: Any) -> FunctionSpec:
    """Paddle's description of the parameters, with the input specification that `to_static` was given."""
    return FunctionSpec(static.dygraph_function, static.specification.input_spec)


def program_cache(static: Any) -> Any:
    """Raises: there is no such cache."""
    name = static.__name__
    raise AttributeError(
        f"program_cache: paddle_sot_rs keeps the translations of {name} by their guards: use "
        f"paddle_sot_rs.stats({name}), {name}.graphs() or {name}.get_traced_count()"
    )


def class_instance(static: Any) -> Any:
    """The object of a bound method."""
    original = static.dygraph_function
    owner = getattr(original, "__self__", None)
    if owner is None and static.specification.skips_self:
        name = original.__name__
        raise AttributeError(f"class_instance: {name} is bound when it is called: use net.{name}.__self__")
    return owner


def last_call_input_spec(static: Any) -> tuple[Any, ...] | None:
    """What the positional arguments were that it was translated for last."""
    seen = static.observed
    return None if seen is None else tuple(seen[0])


def program_for(static: Any, input_spec: Any, with_hook: Any, is_prim_infer: Any) -> Any:
    """See `concrete_program_specify_input_spec`."""
    if is_prim_infer:
        raise ValueError(
            "is_prim_infer: not supported; use to_static(..., backend='cinn'), whose programs consist of primitives"
        )
    own = static.specification.input_spec
    if own is not None and input_spec is not None:
        if not input_specs_compatible(flatten(input_spec), flatten(own)):
            raise ValueError(f"input_spec: {input_spec} contradicts what to_static was given: {own}")
        _log.warning("input_spec: to_static was given one, which is used: %s", own)
    spec = own if own is not None else input_spec
    owner = getattr(static.dygraph_function, "__self__", None)
    if with_hook and isinstance(owner, Layer) and static.dygraph_function.__name__ == "forward":
        if spec is None:
            raise ValueError("input_spec: give one together with with_hook")
        return concrete_program(caller(owner), spec, static.dygraph_function)
    return concrete_program_of(static) if spec is None else concrete_program(static.dygraph_function, spec)


def program_for_key(static: Any, key: Any) -> Any:
    """See `get_concrete_program_with_cache_key`."""
    if not isinstance(key, CacheKey):
        raise TypeError(
            f"cached_key: expected a CacheKey of Paddle's, got {type(key).__name__}; "
            "with arguments or specifications use get_concrete_program(*args)"
        )
    return concrete_program_and(static, tuple(key.input_args_with_spec), dict(key.input_kwargs_with_spec))
