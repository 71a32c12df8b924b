"""Steps of Paddle's optimizers without what each of them prepares anew.

`Optimizer.step` makes a helper, guards of programs and lists of blocks in each call, and looks everything up by
names, parameter by parameter: three quarters of its time, where parameters are small. Once it has run, all that stays
as it is, and a step is the same kernels with the same arguments in the same order, or one kernel that does what they
do. Where anything is not as it was, the step is Paddle's own, and is counted with the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import paddle
from paddle import _C_ops
from paddle.base import core, framework
from paddle.distributed.auto_parallel import auto_dp_utils
from paddle.nn import ClipGradByGlobalNorm
from paddle.optimizer import SGD, Adam, AdamW, Momentum
from paddle.optimizer import optimizer as base
from paddle.optimizer.lr import LRScheduler
from paddle.regularizer import L1Decay, L2Decay

from .. import _core
from . import step_recipes, updates
from .updates import Parts, Updates

try:
    from paddle.distributed.auto_parallel.fully_shard_fusion import get_fsdp_context as _fsdp_context
except ImportError:  # Paddle 3.2 shards no optimizers that way.

    def _fsdp_context() -> None:
        return None


_REGULARIZERS = (type(None), L1Decay, L2Decay)


_SETTINGS = "its settings are no numbers and flags of Python's"


class OwnStepError(Exception):
    """The optimizer's own step has to run; the argument says why."""


def step_of(note: Callable[[str], None] | None, optimizer: Any) -> Callable[[Any], Any]:
    """The function of an optimizer that runs its step; `note` is told why it is Paddle's own."""
    known = _core.prepared_step(optimizer)
    if known is not None and is_alone() and (rate := rate_of(optimizer)) is not None:
        run, gradients = known
        return functools.partial(run, gradients, rate)
    made = _prepared(note, optimizer, None)
    if made is None:
        return type(optimizer).step
    rate = rate_of(optimizer)
    return functools.partial(_run, *made, rate)


def prepare(note: Callable[[str], None] | None, optimizer: Any, updated: list[Any]) -> None:
    """Prepares the step that updates these parameters, which have no gradients yet."""
    if _core.prepared_step(optimizer) is None:
        _prepared(note, optimizer, updated)


def _prepared(
    note: Callable[[str], None] | None, optimizer: Any, assumed: list[Any] | None
) -> tuple[Any, Parts] | None:
    """A kernel and what it is given, kept for the next steps; None where the step has to be Paddle's own.

    `assumed` has the parameters with gradients, where those are not there yet.
    """
    try:
        known = _KINDS.get(type(optimizer))
        if known is None:
            raise OwnStepError(f"optimizers of class {type(optimizer).__name__} are not prepared")
        tables_of, kernel = known
        parts = list(_parts(optimizer, tables_of, assumed))
        if rate_of(optimizer) is None:
            raise OwnStepError("states are made")
    except OwnStepError as error:
        if note is not None:
            note(str(error))
        return None
    every = [it for group in groups_of(optimizer) for it in parameters_of(optimizer, group)]
    updated = [parameter for _, given in parts for parameter in given.parameters]
    states = [state for _, given in parts for kind in given.states for state in kind]
    # It would keep these gradients for as long as the optimizer.
    run = functools.partial(_run_again, kernel, [(group, given._replace(gradients=[])) for group, given in parts])
    _core.prepare_step(optimizer, every, updated, states, run, step_recipes.recipes_of(optimizer, parts))
    return kernel, parts


def rate_of(optimizer: Any) -> Any:
    """The tensor of the learning rate, if it was made."""
    return optimizer._learning_rate_map.get(framework.default_main_program())


def set_rate(optimizer: Any, rate: Any) -> None:
    """The tensor of the learning rate becomes what the schedule of an optimizer says."""
    schedule = optimizer._learning_rate
    if not isinstance(schedule, float):
        value = float(schedule())
        _C_ops.full_(rate, rate.shape, value, rate.dtype, framework._current_expected_place())


def _run_again(kernel: Any, parts: Parts, gradients: list[Any], rate: Any, optimizer: Any) -> None:
    """A step that was prepared by an earlier one, with the gradients that there are now."""
    its = iter(gradients)
    given = [(group, some._replace(gradients=[*islice(its, len(some.parameters))])) for group, some in parts]
    _run(kernel, given, rate, optimizer)


def scaler_step_of(note: Callable[[str], None] | None, scaler: Any, optimizer: Any) -> Callable[[Any, Any], Any]:
    """The function of a scaler that is off that runs an optimizer's step."""
    step = step_of(note, optimizer)
    if step is type(optimizer).step:
        return type(scaler).step
    return lambda scaler, optimizer: step(optimizer)


def minimize_of(note: Callable[[str], None] | None, optimizer: Any, loss: Any) -> Callable[[Any, Any], Any]:
    """The function of an optimizer that does `minimize`, whose result nobody takes."""
    step = step_of(note, optimizer) if minimizes_by_step(optimizer) else type(optimizer).step
    if step is type(optimizer).step:
        return type(optimizer).minimize
    return lambda optimizer, loss: step(optimizer)


def minimizes_by_step(optimizer: Any) -> bool:
    """Whether `minimize` does what a step does: it takes the gradients of frozen parameters, too, and no groups."""
    parameters = optimizer._parameter_list
    return (
        parameters is optimizer._param_groups
        and optimizer._dtype is not None
        and not any(it.stop_gradient and it._grad_ivar() is not None for it in parameters)
    )


def noting(name: str, note: Callable[[str], None] | None) -> Callable[..., Any]:
    """One of these, which tells `note`."""
    named: dict[str, Callable[..., Any]] = {
        "step_of": step_of,
        "scaler_step_of": scaler_step_of,
        "minimize_of": minimize_of,
    }
    return functools.partial(named[name], note)


def _run(kernel: Any, parts: Parts, rate: Any, optimizer: Any) -> None:
    tracer = framework._dygraph_tracer()
    had_gradients = tracer._has_grad
    tracer._has_grad = False
    try:
        _update(kernel, parts, rate, optimizer)
    finally:
        tracer._has_grad = had_gradients


def _update(kernel: Any, parts: Parts, rate: Any, optimizer: Any) -> None:
    for group, given in parts:
        clip = updates.clip_of(optimizer, group)
        if type(clip) is ClipGradByGlobalNorm:
            given = updates.clip_by_global_norm(clip, given)
        elif clip is not None:
            given = updates.clip(clip, given)
        given = updates.regularize(optimizer, given)
        set_rate(optimizer, rate)
        if group is not None:
            optimizer._update_param_group(group)
        kernel(optimizer, given, rate)
        core._set_warmup(False)


def _parts(
    optimizer: Any, tables_of: Any, assumed: list[Any] | None
) -> Iterator[tuple[dict[str, Any] | None, Updates]]:
    """Groups and what is updated, where a step does nothing else than that."""
    _check_state(optimizer)
    groups = groups_of(optimizer)
    tables, shaped = tables_of(optimizer)
    created = optimizer._already_create_accumulator if tables else None
    for group in groups:
        if type(updates.clip_of(optimizer, group)) not in (type(None), *updates.CLIPS):
            raise OwnStepError("gradients are clipped by code of the user's")
        found = _core.optimizer_updates(parameters_of(optimizer, group), created, tables, shaped, assumed)
        if isinstance(found, str):
            raise OwnStepError(found)
        given = Updates(*found)
        if given.rates is not None and not all(type(rate) in (float, int) for rate in given.rates):
            raise OwnStepError("the learning rate of a parameter is no number")
        if given.regularizers is not None and not all(type(it) in _REGULARIZERS for it in given.regularizers):
            raise OwnStepError("a parameter has a regularizer of the user's")
        yield group, given


def parameters_of(optimizer: Any, group: dict[str, Any] | None) -> list[Any]:
    parameters: list[Any] = optimizer._param_groups if group is None else group["params"]
    return parameters


def groups_of(optimizer: Any) -> list[Any]:
    """The groups of an optimizer; one that is None where its parameters are in a plain list."""
    parameters, groups = optimizer._parameter_list, optimizer._param_groups
    if type(parameters) is not list or type(groups) is not list or not parameters or not groups:
        raise OwnStepError("it has no parameters")
    # Some classes go through the one, some through the other.
    if not isinstance(parameters[0], dict) and parameters is groups:
        return [None]
    if not isinstance(parameters[0], dict) or not _HAVE_GROUPS.get(type(optimizer), False):
        raise OwnStepError("its parameters are in groups that are not prepared")
    for group in groups:
        is_plain = type(group) is dict and type(group.get("params")) is list and "grad_clip" in group
        if not is_plain:
            raise OwnStepError("a group of parameters is not as the optimizer made it")
    return groups


def _check_state(optimizer: Any) -> None:
    """Raises where a step does more than to update parameters by gradients."""
    schedule = optimizer._learning_rate
    if type(schedule) is not float and not isinstance(schedule, LRScheduler):
        raise OwnStepError("its learning rate is no number")
    if optimizer._use_multi_tensor or optimizer._need_refuse or optimizer.fusion_storage is not None:
        raise OwnStepError("its states are fused")
    if optimizer._auxiliary_vars.get("found_inf") is not None:
        raise OwnStepError("a scaler looks for gradients that are not finite")
    if not is_alone():
        raise OwnStepError("it is sharded, or steps inside of a program")


def is_alone() -> bool:
    """Whether nothing but the optimizer says what a step does."""
    return (
        not base.g_shard_bypass_dygraph_optimizer
        and _fsdp_context() is None
        # Off it is cheap to see; where it is on, the answer takes the number of processes.
        and not (getattr(auto_dp_utils, "_enable_auto_dp_mode", True) and auto_dp_utils.in_auto_dp_mode())
        and not paddle.base.dygraph.base.in_to_static_mode()
    )


def _tables(optimizer: Any, *kinds: str) -> tuple[dict[str, Any], ...]:
    prefix = "" if optimizer._name is None else f"{optimizer._name}_"
    tables = optimizer._accumulators
    names = [prefix + kind for kind in kinds]
    if not all(name in tables for name in names):
        raise OwnStepError("states are made")
    return tuple(tables[name] for name in names)


def _no_states(optimizer: Any) -> tuple[tuple[dict[str, Any], ...], int]:
    return (), 0


def _velocities(optimizer: Any) -> tuple[tuple[dict[str, Any], ...], int]:
    return _tables(optimizer, optimizer._velocity_acc_str), 1


def _moments(optimizer: Any) -> tuple[tuple[dict[str, Any], ...], int]:
    """Both moments, the greatest second one if that is asked for, and powers of both betas."""
    if getattr(optimizer, "_lr_ratio", None) is not None:
        raise OwnStepError("it asks for a rate of each layer")
    plain = (
        type(optimizer._beta1) is type(optimizer._beta2) is type(optimizer._epsilon) is float
        and type(optimizer._amsgrad) is type(optimizer._lazy_mode) is bool
        and (optimizer._param_groups is optimizer._parameter_list or _have_plain_betas(optimizer._param_groups))
    )
    if not plain:
        raise OwnStepError(_SETTINGS)
    moments = [optimizer._moment1_acc_str, optimizer._moment2_acc_str]
    if optimizer._amsgrad:
        moments.append(optimizer._moment2_acc_max_str)
    powers = optimizer._beta1_pow_acc_str, optimizer._beta2_pow_acc_str
    return _tables(optimizer, *moments, *powers), len(moments)


def _moments_and_decays(optimizer: Any) -> tuple[tuple[dict[str, Any], ...], int]:
    decays = [optimizer._weight_decay]
    if optimizer._param_groups is not optimizer._parameter_list:
        decays += [group.get("weight_decay", 0.0) for group in optimizer._param_groups]
    if not all(type(decay) is float or type(decay) is int for decay in decays):
        raise OwnStepError(_SETTINGS)
    return _moments(optimizer)


def _have_plain_betas(groups: list[dict[str, Any]]) -> bool:
    names = "beta1", "beta2", "epsilon"
    return all(type(group.get(name, 0.0)) is float for group in groups for name in names)


def _adam(optimizer: Any, given: Updates, rate: Any) -> None:
    if not updates.can_fuse():
        step_recipes.run(optimizer, given, rate)
        return
    for (factor, _), some in given.parts(False):
        updates.fused(optimizer, some, updates.scaled(rate, factor), 0.0, decays=False)


def _adamw(optimizer: Any, given: Updates, rate: Any) -> None:
    if not updates.can_fuse():
        step_recipes.run(optimizer, given, rate)
        return
    decays = optimizer._apply_decay_param_fun
    which: Any = True if decays is None else updates.decaying(optimizer, given)
    for (factor, decaying), some in given.parts(which):
        updates.fused(optimizer, some, updates.scaled(rate, factor), optimizer._weight_decay, decays=decaying)


# States of parameters, and the kernel that takes them.
_KINDS: dict[type, tuple[Any, Any]] = {
    SGD: (_no_states, step_recipes.run),
    Momentum: (_velocities, step_recipes.run),
    Adam: (_moments, _adam),
    AdamW: (_moments_and_decays, _adamw),
}

# Classes whose groups are prepared.
_HAVE_GROUPS: dict[type, bool] = {Adam: True, AdamW: True, Momentum: True, SGD: True}
