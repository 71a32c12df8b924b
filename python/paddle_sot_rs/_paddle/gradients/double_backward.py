"""Backward more than once, and gradients of gradients, through programs.

`run_program` frees what its first backward used, and its gradients have no gradients. Every output of a program that
trains has a hook, which autograd calls before it runs the backward of the program. While the caller retains the
graph (or asks for gradients only, which in eager mode leaves the graph as it was) the hook notes what the program
holds, and it gets it back afterwards. While the caller wants gradients of gradients the hook takes the gradient away
and lets zeros flow; what the program contributes is computed call by call, so that all of it can be differentiated.
"""

import contextlib
import sys
import threading
import types
from typing import Any

import numpy
import paddle
from paddle import _C_ops
from paddle.base import core
from paddle.base.libpaddle import eager

from paddle_sot_rs._core import paddle_backend
from paddle_sot_rs._paddle.gradients import reusable_aliases

# A program may put others in their places: `paddle.zeros_like = ...`.
_zeros_like = paddle.zeros_like
_astype, _data_ptr, _detach, _numpy = (
    getattr(paddle.Tensor, name) for name in ("astype", "data_ptr", "detach", "numpy")
)
_contiguous, _lies_contiguous = paddle.Tensor.contiguous, paddle.Tensor.is_contiguous
# The state of the generators that programs draw from.
random_state, _set_random_state = paddle.get_rng_state, paddle.set_rng_state
_abs, _allclose, _isfinite = numpy.abs, numpy.allclose, numpy.isfinite
_paddles_backward = eager.run_backward
_paddles_gradients = eager.run_partial_grad
_state = threading.local()
# Calls a C function: what it throws becomes an error. See `foreign.rs`.
caught = paddle_backend.caught
# Told how many passes are under way that hooks have to know of.
watch = paddle_backend.watch
# All runs of programs that may go backward, latest first.
runs = paddle_backend.runs
# What backward passes through programs are counted by.
now = paddle_backend.now
# Whether any program that trains has loops in it, and what stands around each of its runs: see
# `executors.rs`.
loops = False
begin_loops = paddle_backend.begin_loops
end_loops = paddle_backend.end_loops
# Puts back the flag that executors of backward passes were made under.
restore_flag = paddle_backend.restore_flag
# What stands around each pass, and what keeps other threads from running programs in it: see
# `executor_lock.rs`.
begin_pass = paddle_backend.begin_pass
end_pass = paddle_backend.end_pass
be_exclusive = paddle_backend.be_exclusive
be_shared = paddle_backend.be_shared


def _native_backward(*args):
    return _settled(_paddles_backward, args)


def _native_gradients(*args):
    return _settled(_paddles_gradients, args)


def _settled(walk, args):
    before = begin_pass()
    try:
        return _around_loops(walk, args) if loops else caught(walk, *args)
    except Exception:
        # Paddle makes an error of its own of what a hook raises.
        refused, _state.refused = getattr(_state, "refused", None), None
        if refused is not None:
            raise refused from None
        raise
    finally:
        restore_flag()
        end_pass(before)


def refuse(error):
    """A program does not go backward."""
    _state.refused = error


def _around_loops(walk, args):
    begin_loops()
    try:
        return caught(walk, *args)
    finally:
        end_loops()


class _Pass:
    """One walk of autograd over the graph."""

    __slots__ = (
        "before",
        "captured",
        "differentiates",
        "fragile",
        "held",
        "moment",
        "only",
        "outer",
        "problem",
        "taken",
    )

    def __init__(self, differentiates=False, only=False):
        self.captured = {}
        self.differentiates = differentiates
        self.fragile = []
        self.held = {}
        self.only = only
        self.problem = None
        # The gradient that each tensor of zeros took the place of, by address.
        self.taken = {}

    def __enter__(self):
        self.outer = getattr(_state, "walk", None)
        self.before = begin_pass()
        self.moment = now()
        try:
            if self.only:
                be_exclusive()
                self._hold_all()
                be_shared()
        except BaseException:
            self._release()
            raise
        _state.walk = self
        watch(1)
        return self

    def _hold_all(self):
        """Nodes are copied for this walk. A copy that does not run, because no gradient asked for is behind it, frees
        what the program holds when it dies."""
        scopes = set()
        for run in runs():
            scope = run.scope()
            if id(scope) in scopes or not run.may_be_held(self.moment):
                continue
            scopes.add(id(scope))
            try:
                self.hold(run)
            except RuntimeError as error:
                run.hold()
                self.fragile.append((run, _initialized(run), error))

    def hold(self, run):
        """Notes what the program holds."""
        if id(run) not in self.held:
            # None: the run has noted it itself.
            tensors = None if run.note_saved() else _held(run)
            run.hold()
            self.held[id(run)] = (run, tensors)

    def _release(self):
        be_exclusive()
        try:
            for run, tensors in self.held.values():
                run.release(tensors, self.moment)
            for run, before, problem in self.fragile:
                run.release(None, self.moment)
                if not run.is_elsewhere(self.moment) and _initialized(run) != before:
                    self.problem = self.problem or problem
        finally:
            end_pass(self.before)

    def __exit__(self, *error):
        watch(-1)
        _state.walk = self.outer
        self._release()
        if self.problem is not None:
            raise self.problem from None


def asks_only():
    """Whether the nodes that run now are copies: gradients are asked for, nothing is accumulated."""
    walk = getattr(_state, "walk", None)
    return walk is not None and walk.only


def gets_zeros():
    """Whether programs get zeros in this walk: what they contribute is computed call by call."""
    walk = getattr(_state, "walk", None)
    return walk is not None and walk.differentiates


def _variables(run):
    """Name and tensor of the variables that hold one; None in its place for the other kinds."""
    for name in run.names():
        variable = run.scope().find_var(name)
        if variable is None:
            continue
        try:
            tensor = variable.get_tensor()
        except ValueError:
            yield name, None
            continue
        if tensor._is_initialized():
            yield name, tensor


def _initialized(run):
    return [name for name, tensor in _variables(run) if tensor is not None]


def _held(run):
    found = {}
    for name, tensor in _variables(run):
        if tensor is None:
            raise RuntimeError(
                "translated code with captured control flow can go backward once: use backend='eager' for it"
            )
        held = found[name] = core.DenseTensor()
        held._share_data_with(tensor)
    return found


def put_back(scope, tensors):
    for name, tensor in tensors.items():
        scope.var(name).get_tensor()._share_data_with(tensor)


def clear(scope, names):
    for name in names:
        variable = scope.find_var(name)
        if variable is not None:
            variable.get_tensor()._clear()


def arrived(run, at, gradient):
    """A gradient (or None) arrived at output `at` of a program; the answer takes its place."""
    walk = getattr(_state, "walk", None)
    if walk is None:
        return None
    try:
        walk.hold(run)
        if walk.differentiates and gradient is not None:
            walk.captured.setdefault(id(run), {})[at] = _apart(gradient)
            with paddle.no_grad():
                zeros = _zeros_like(gradient)
            walk.taken[_data_ptr(zeros)] = (zeros, gradient)
            return zeros
    except Exception as error:
        walk.problem = walk.problem or error
        raise
    return None


def note_reusable(alias, tensor, view):
    """`alias` has a node that goes backward any number of times; `view` makes one of `tensor` with gradients."""
    run = reusable_aliases.Reusable(tensor, view)
    alias._register_grad_hook(lambda gradient: _arrived_again(run, gradient))


def _arrived_again(run, gradient):
    if gradient is None:
        # Its node cannot do without.
        return _zeros_like(run.tensor)
    if gets_zeros():
        return arrived(run, 0, gradient)
    # Its node takes numbers in the order in which they lie.
    return None if _lies_contiguous(gradient) else _contiguous(gradient)


def _apart(gradient):
    """A gradient with a node of autograd of its own.

    Gradients that one operation makes share theirs. Where several of them begin a walk, Paddle mixes up what comes
    back to each.
    """
    if not gradient.is_dense():
        return gradient
    return _C_ops.transpose(gradient, list(range(gradient.ndim)))


def _made(answer, given):
    """A result that walks can begin at: what a piece hands on is what it takes."""
    if not any(answer is tensor for tensor in given):
        return answer
    with paddle.enable_grad():
        return _apart(answer)


def run_backward(tensors, gradients=(), retain_graph=False, *rest):
    if not retain_graph and getattr(_state, "walk", None) is None:
        return _native_backward(tensors, gradients, retain_graph, *rest)
    if retain_graph:
        with _Pass():
            return _native_backward(tensors, gradients, retain_graph, *rest)
    # Inside of another walk, whose business this one is not.
    outer, _state.walk = _state.walk, None
    try:
        return _native_backward(tensors, gradients, retain_graph, *rest)
    finally:
        _state.walk = outer


def run_partial_grad(outputs, inputs, gradients, retain_graph, create_graph, only_inputs, allow_unused, *rest):
    if not create_graph:
        with _Pass(only=True):
            return _native_gradients(
                outputs, inputs, gradients, retain_graph, create_graph, only_inputs, allow_unused, *rest
            )
    alive = reusable_aliases.among(runs())
    found, pending = _walk(alive, outputs, inputs, gradients, retain_graph, only_inputs, allow_unused, *rest)
    # A program only depends on earlier ones.
    for run in alive:
        captured = pending.get(id(run))
        if captured is None:
            continue
        given = run.inputs()
        with _unmoved(given), _drawing_from(run.random_state()):
            answers = run.replay()
        _compare(run, answers)
        reached = [
            (_made(answers[at], given), gradient) for at, gradient in captured.items() if not answers[at].stop_gradient
        ]
        if not reached:
            continue
        ends, seeds = map(list, zip(*reached, strict=True))
        parts, earlier = _walk(alive, ends, inputs, seeds, True, only_inputs, True, *rest)
        found = [_sum(one, other) for one, other in zip(found, parts, strict=True)]
        for key, more in earlier.items():
            known = pending.setdefault(key, {})
            for at, gradient in more.items():
                known[at] = _sum(known.get(at), gradient)
    return found


# How far the results of a program and of the same operations call by call are from one another, to
# the largest of them.
_ROUNDING = {paddle.float64: 1e-10, paddle.float32: 1e-5, paddle.float16: 1e-2, paddle.bfloat16: 1e-1}


def _compare(run, answers):
    """Raises where what was computed again is not what the program has computed."""
    for at, result in run.results():
        rounding = _ROUNDING.get(result.dtype)
        if rounding is None:
            continue
        one, other = (_numpy(_astype(_detach(tensor), "float64")) for tensor in (answers[at], result))
        largest = _abs(other).max(initial=0.0, where=_isfinite(other))
        if one.size == other.size and _allclose(
            one.reshape(-1), other.reshape(-1), rtol=0.0, atol=rounding * largest, equal_nan=True
        ):
            continue
        raise RuntimeError(
            f"a result of a translated function ({result.name}), or something that it was computed from, has other "
            "numbers than when the function ran (an optimizer's step?): gradients of gradients compute it again. Ask "
            "for them before that changes, or use backend='eager'"
        )


def _walk(alive, outputs, inputs, gradients, retain_graph, *rest):
    """Gradients on ways around programs, zeros on the others, and what arrived at programs."""
    with _differentiable(alive), _Pass(True, True) as walk, _taken(walk, inputs) as taken:
        found = _native_gradients(outputs, inputs, gradients, retain_graph, True, *rest)
    return [taken.get(at, gradient) for at, gradient in enumerate(found)], walk.captured


@contextlib.contextmanager
def _taken(walk, inputs):
    """What arrived at inputs that are outputs of programs, where zeros are found: by position."""
    taken = {}

    def note(at):
        def look(gradient):
            if gradient is not None and (known := walk.taken.get(_data_ptr(gradient))) is not None:
                taken[at] = known[1]

        return look

    with _hooked((tensor, note(at)) for at, tensor in enumerate(inputs)):
        yield taken


@contextlib.contextmanager
def _hooked(pairs):
    """Hooks on tensors that were computed, for as long as this lasts."""
    hooks = []
    for tensor, hook in pairs:
        if not tensor.stop_gradient and not tensor.is_leaf:
            hooks.append((tensor, tensor._register_grad_hook(hook)))
    try:
        yield
    finally:
        for tensor, number in hooks:
            tensor._remove_grad_hook(number)


def _sum(one, other):
    if one is None or other is None:
        return one if other is None else other
    return one + other


def _differentiable(alive):
    # The zeros behind a program depend on nothing: Paddle's `add_double_grad` fails on that.
    return _hooked((tensor, _as_leaf) for run in alive for tensor in run.inputs())


def _as_leaf(gradient):
    if gradient is None or not gradient.is_leaf:
        return None
    leaf = _detach(gradient)
    leaf.stop_gradient = False
    return leaf


@contextlib.contextmanager
def _unmoved(tensors):
    """Running statistics have moved already: what is written goes to copies."""
    moved = []
    with paddle.no_grad():
        for tensor in tensors:
            if tensor.stop_gradient and tensor.is_dense():
                storage, original = tensor.get_tensor(), core.DenseTensor()
                if storage._is_initialized():
                    original._share_data_with(storage)
                    # Alive while its description is used.
                    copy = _C_ops.assign(tensor)
                    storage._share_data_with(copy.get_tensor())
                    moved.append((storage, original))
    try:
        yield
    finally:
        for storage, original in moved:
            storage._share_data_with(original)


@contextlib.contextmanager
def _drawing_from(state):
    """Draws meanwhile what a run drew whose generators were in this state; they do not move. None: nothing is drawn."""
    if state is None:
        yield
        return
    now = random_state()
    _set_random_state(state)
    try:
        yield
    finally:
        _set_random_state(now)


_scanned: dict[Any, Any] = {}


def is_expected():
    """Whether the code that called, or its module, retains graphs.

    The gates of a program go backward once. What retains graphs does so right after the call, most of the time by
    name; where that is not seen, the second backward raises.
    """
    frame = sys._getframe(1)
    while frame is not None:
        names = frame.f_globals
        if _retains(frame.f_code) or (_is_of_user(names) and _module_retains(names)):
            return True
        frame = frame.f_back
    return False


def _is_of_user(names):
    return not str(names.get("__name__", "")).startswith(("paddle.", "paddle_sot_rs"))


def _module_retains(names):
    # The number of names: a notebook goes on defining functions.
    known = _scanned.get(id(names))
    if known is None or known[0] != len(names):
        functions = []
        for value in list(names.values()):
            members = list(vars(value).values()) if isinstance(value, type) else [value]
            functions += [member for member in members if isinstance(member, types.FunctionType)]
        found = any(_retains(function.__code__) for function in functions)
        known = _scanned[id(names)] = (len(names), found)
    return known[1]


def _retains(code):
    return any(
        "retain_graph" in constant if type(constant) is tuple else _retains(constant)
        for constant in code.co_consts
        if type(constant) in (tuple, types.CodeType)
    )


eager.run_backward = run_backward
eager.run_partial_grad = run_partial_grad
