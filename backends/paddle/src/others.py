"""Programs that are not this package's: Paddle's own `to_static`, loaded ones, static mode."""

import functools
import gc

from paddle import _C_ops, _legacy_C_ops
from paddle.base import executor
from paddle.jit.dy2static import partial_program, pir_partial_program

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
# What stands around each run: see `turns.rs`.
begin_other = None
end_pass = None


def are_there():
    global _found
    if _found is None:
        _found = any(issubclass(kind, _RUNNERS) for kind in set(map(type, gc.get_objects())))
        if not _found:
            for runner in _RUNNERS:
                _tell_of_the_first(runner)
    return _found


def _tell_of_the_first(runner):
    make = runner.__init__

    @functools.wraps(make)
    def first(self, *args, **kwargs):
        global _found
        _found = True
        runner.__init__ = make
        make(self, *args, **kwargs)

    runner.__init__ = first


def _in_turn(run):
    """Executors are dropped while nobody runs one."""

    def run_program(*args):
        before = begin_other()
        try:
            return run(*args)
        finally:
            end_pass(before)

    run_program.__doc__ = run.__doc__
    return run_program


for _module in (_C_ops, _legacy_C_ops):
    _module.run_program = _in_turn(_module.run_program)
