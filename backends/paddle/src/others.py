"""Whether this process has programs that are not this package's: Paddle's own `to_static`, loaded ones, static mode."""

import functools
import gc

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
