"""Programs that are not this package's: Paddle's own `to_static`, loaded ones, static mode."""

import functools
import gc
from typing import Any

from paddle import _C_ops, _legacy_C_ops
from paddle.base import core, executor, libpaddle
from paddle.jit.dy2static import partial_program, pir_partial_program

from paddle_sot_rs._core import paddle_backend

# Whoever runs a program has made one of these.
_RUNNERS = (
    pir_partial_program.PartialProgramLayer,
    partial_program.PartialProgramLayer,
    executor._StandaloneExecutor,
)
# None: nobody has asked.
_found = None
# Paddle's own, for ours: they take their turns themselves.
run_program = _C_ops.run_program
# What stands around each run, and what drops all executors: see `executor_lock.rs` and
# `executors.rs`.
begin_other = paddle_backend.begin_other
end_pass = paddle_backend.end_pass
drop_executors = paddle_backend.drop_executors
# Paddle's own, for ours.
clear_executor_cache = core.clear_executor_cache
# Scopes whose backward has not run, and those of them whose executors were dropped, by their ids.
_waiting: dict[int, Any] = {}
_spoiled: dict[int, Any] = {}


def are_there():
    global _found
    if _found is None:
        # What is made of a class in Python refers to it.
        _found = any(issubclass(type(it), _RUNNERS) for it in gc.get_referrers(*_with_subclasses(_RUNNERS)))
        if not _found:
            for runner in _RUNNERS:
                _tell_of_the_first(runner)
    return _found


def _with_subclasses(classes):
    for kind in classes:
        yield kind
        yield from _with_subclasses(kind.__subclasses__())


def _tell_of_the_first(runner):
    make = runner.__init__

    @functools.wraps(make)
    def first(self, *args, **kwargs):
        global _found
        _found = True
        runner.__init__ = make
        make(self, *args, **kwargs)

    runner.__init__ = first


def do_wait():
    """Whether one of them may still go backward."""
    for key, scope in list(_waiting.items()):
        if scope._can_reused:
            _waiting.pop(key, None)
    return bool(_waiting)


def invalidate():
    """All executors were dropped. A backward executor that is made while that of its run is gone does not know what to
    keep: after that backward they have to go once more, before the next run."""
    do_wait()
    _spoiled.clear()
    _spoiled.update(_waiting)


def _in_turn(run, at):
    """`run`, which takes its scopes at position `at`."""

    def run_program(*args):
        scopes = args[at]
        if _spoiled and any(id(scope) in _spoiled for scope in scopes):
            drop_executors()
        before = begin_other()
        try:
            return run(*args)
        finally:
            for scope in scopes:
                if not scope._can_reused:
                    _waiting[id(scope)] = scope
            if len(_waiting) > _MANY:
                do_wait()
            end_pass(before)

    run_program.__doc__ = run.__doc__
    return run_program


@functools.wraps(clear_executor_cache)
def _clear_executor_cache():
    # Paddle's own tells nobody, and a backward of what has run in them ends the process.
    drop_executors()


_MANY = 64
core.clear_executor_cache = libpaddle.clear_executor_cache = _clear_executor_cache
_C_ops.run_program = _in_turn(_C_ops.run_program, 2)
_legacy_C_ops.run_program = _in_turn(_legacy_C_ops.run_program, 3)
