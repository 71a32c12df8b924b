"""Steps of Paddle's optimizers without what each of them prepares anew.

`Optimizer.step` makes a helper, guards of programs and lists of blocks in each call, and looks everything up by
names, parameter by parameter: three quarters of its time, where parameters are small. Once it has run, all that stays
as it is, and a step is the same kernels with the same arguments in the same order. Where anything is not as it was,
the step is Paddle's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import paddle
from paddle import _C_ops
from paddle.base import core, framework
from paddle.distributed.auto_parallel import auto_dp_utils
from paddle.nn import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from paddle.optimizer import SGD, Adam, AdamW, Momentum
from paddle.optimizer import optimizer as base
from paddle.optimizer.lr import LRScheduler
from paddle.regularizer import L2Decay

Updates: TypeAlias = list[tuple[Any, Any]]
States: TypeAlias = list[tuple[Any, ...]]

try:
    from paddle.distributed.auto_parallel.fully_shard_fusion import get_fsdp_context as _fsdp_context
except ImportError:  # Paddle 3.2 shards no optimizers that way.

    def _fsdp_context() -> None:
        return None


_CLIPS = (ClipGradByValue, ClipGradByNorm, ClipGradByGlobalNorm)
_DTYPES = (paddle.float32, paddle.float64)


class _NotSettledError(Exception):
    """The optimizer's own step has to run."""


def step_of(optimizer: Any) -> Callable[[Any], Any]:
    """The function of an optimizer that runs its step."""
    known = _KINDS.get(type(optimizer))
    if known is None:
        return type(optimizer).step
    states_of, kernel = known
    try:
        updates = _updates(optimizer)
        states = list(states_of(optimizer, updates))
        rate = optimizer._learning_rate_map[framework.default_main_program()]
    except (_NotSettledError, KeyError):
        return type(optimizer).step

    def step(optimizer: Any) -> None:
        tracer = framework._dygraph_tracer()
        had_gradients = tracer._has_grad
        tracer._has_grad = False
        try:
            _run(optimizer, kernel, updates, states, rate)
        finally:
            tracer._has_grad = had_gradients

    return step


def _run(optimizer: Any, kernel: Any, updates: Updates, states: States, rate: Any) -> None:
    clip = optimizer._grad_clip
    if type(clip) is ClipGradByGlobalNorm:
        updates = _clip_by_global_norm(clip, updates)
    elif clip is not None:
        updates = clip(updates)
    decay = optimizer.regularization
    if type(decay) is L2Decay:
        updates = [(parameter, _decayed(decay, parameter, gradient)) for parameter, gradient in updates]
    elif decay is not None:
        updates = optimizer.append_regularization_ops(updates, decay)
    schedule = optimizer._learning_rate
    if not isinstance(schedule, float):
        value = float(schedule())
        _C_ops.full_(rate, rate.shape, value, rate.dtype, framework._current_expected_place())
    kernel(optimizer, updates, states, rate)
    core._set_warmup(False)


def _decayed(decay: Any, parameter: Any, gradient: Any) -> Any:
    """`_create_regularization_of_grad` of a parameter without a decay of its own."""
    return _C_ops.add_n([gradient, _C_ops.scale(parameter, decay._coeff, 0.0, True)])


def _clip_by_global_norm(clip: Any, updates: Updates) -> Updates:
    """`clip(updates)` for dense gradients of one process and dtype: the same kernels in the same order."""
    clipped = [gradient for parameter, gradient in updates if getattr(parameter, "need_clip", True) is not False]
    plain = (
        clipped
        and not clip.auto_skip_clip
        and not clip.should_comm_on_shard_dim
        and all(gradient.dtype is paddle.float32 and gradient.ndim for gradient in clipped)
        and framework._dygraph_tracer()._amp_level == core.AmpLevel.O0
    )
    if not plain:
        return clip(updates)
    squares = [_C_ops.squared_l2_norm(gradient) for gradient in clipped]
    total = _C_ops.sum(_C_ops.stack(squares, 0), [], None, False)
    norm = _C_ops.sqrt(_C_ops.sum(_C_ops.stack([total], 0), [], None, False))
    most = paddle.full(shape=[1], dtype="float32", fill_value=clip.clip_norm)
    rate = _C_ops.divide(most, _C_ops.maximum(norm, most))
    for gradient in clipped:
        _C_ops.multiply_(gradient, rate)
    return updates


def _updates(optimizer: Any) -> Updates:
    """Parameters and gradients, where a step does nothing else than to update those by these."""
    schedule = optimizer._learning_rate
    parameters = optimizer._param_groups
    settled = (
        not (parameters and isinstance(parameters[0], dict))
        # Some classes go through the one, some through the other.
        and optimizer._parameter_list is parameters
        and not optimizer._use_multi_tensor
        and optimizer._auxiliary_vars.get("found_inf") is None
        and not optimizer._need_refuse
        and optimizer.fusion_storage is None
        and (optimizer._grad_clip is None or type(optimizer._grad_clip) in _CLIPS)
        and (type(schedule) is float or isinstance(schedule, LRScheduler))
        and not base.g_shard_bypass_dygraph_optimizer
        and _fsdp_context() is None
        and not auto_dp_utils.in_auto_dp_mode()
        and not paddle.base.dygraph.base.in_to_static_mode()
    )
    if not settled:
        raise _NotSettledError
    updates = []
    created = optimizer._already_create_accumulator
    for parameter in parameters:
        if parameter.stop_gradient:
            continue
        gradient = parameter._grad_ivar()
        if gradient is None:
            continue
        own, dtype = parameter.__dict__, parameter.dtype
        usual = (
            "main_grad" not in own
            and "_need_shard_auto" not in own
            and own["regularizer"] is None
            and own["optimize_attr"]["learning_rate"] == 1.0
            # Their identity is enough, and comparing them is slow.
            and dtype in _DTYPES
            and gradient.dtype is dtype
            and not gradient.is_selected_rows()
        )
        if not usual or (type(optimizer) is not SGD and parameter.name not in created):
            raise _NotSettledError
        updates.append((parameter, gradient))
    return updates


def _accumulators(optimizer: Any, updates: Updates, *kinds: str) -> Iterator[tuple[Any, ...]]:
    prefix = "" if optimizer._name is None else f"{optimizer._name}_"
    tables = [optimizer._accumulators[prefix + kind] for kind in kinds]
    for parameter, _ in updates:
        name = parameter.name
        yield tuple(table[name] for table in tables)


def _no_states(optimizer: Any, updates: Updates) -> Iterator[tuple[Any, ...]]:
    return iter([()] * len(updates))


def _velocities(optimizer: Any, updates: Updates) -> Iterator[tuple[Any, ...]]:
    return _accumulators(optimizer, updates, optimizer._velocity_acc_str)


def _moments(optimizer: Any, updates: Updates) -> Iterator[tuple[Any, ...]]:
    plain = (
        type(optimizer._beta1) is float
        and type(optimizer._beta2) is float
        and not optimizer._amsgrad
        and getattr(optimizer, "_lr_ratio", None) is None
    )
    if not plain:
        raise _NotSettledError
    kinds = ("_moment1_acc_str", "_moment2_acc_str", "_beta1_pow_acc_str", "_beta2_pow_acc_str")
    return _accumulators(optimizer, updates, *(getattr(optimizer, kind) for kind in kinds))


def _sgd(optimizer: Any, updates: Updates, states: States, rate: Any) -> None:
    kernel = _C_ops.sgd_
    for parameter, gradient in updates:
        kernel(parameter, rate, gradient, None, False)


def _momentum(optimizer: Any, updates: Updates, states: States, rate: Any) -> None:
    kernel, momentum, nesterov = _C_ops.momentum_, optimizer._momentum, optimizer._use_nesterov
    method, coefficient = optimizer._regularization_method, optimizer._regularization_coeff
    scale = optimizer._rescale_grad
    for (parameter, gradient), (velocity,) in zip(updates, states, strict=True):
        kernel(parameter, gradient, velocity, rate, None, momentum, nesterov, method, coefficient, False, scale)


def _adam(optimizer: Any, updates: Updates, states: States, rate: Any) -> None:
    _by_moments(_C_ops.adam_, lambda parameter: (), optimizer, updates, states, rate)


def _adamw(optimizer: Any, updates: Updates, states: States, rate: Any) -> None:
    decay, decays = optimizer._weight_decay, optimizer._apply_decay_param_fun

    def decaying(parameter: Any) -> tuple[Any, ...]:
        return 1.0, decay, decays is None or bool(decays(parameter.name))

    _by_moments(_C_ops.adamw_, decaying, optimizer, updates, states, rate)


def _by_moments(kernel: Any, own: Any, optimizer: Any, updates: Updates, states: States, rate: Any) -> None:
    """`own` makes what a kernel takes between the settings that both have."""
    betas = optimizer._beta1, optimizer._beta2, optimizer._epsilon
    end = optimizer._lazy_mode, 1000, False, False, False
    for (parameter, gradient), (first, second, power1, power2) in zip(updates, states, strict=True):
        tensors = parameter, gradient, rate, first, second, None, power1, power2, None, None
        kernel(*tensors, *betas, *own(parameter), *end)


# States of parameters, and the kernel that takes them.
_KINDS: dict[type, tuple[Any, Any]] = {
    SGD: (_no_states, _sgd),
    Momentum: (_velocities, _momentum),
    Adam: (_moments, _adam),
    AdamW: (_moments, _adamw),
}
