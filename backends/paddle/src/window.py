"""Static mode, on and off."""

import gc
import sys
import threading

from paddle.base import core, framework
from paddle.nn.layer import layers as layers_module
from paddle.pir import core as pir_core
from paddle_sot_rs._values import AS_EAGER, AS_STATIC, become


class _NoStruct:
    """Stands in for `name_struct`, which walks the whole program for every layer call."""

    __slots__ = ()

    def __call__(self, *args):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False


_no_struct = _NoStruct()
_missing = object()


# Paddle keeps the mode per thread, but the current program and its insertion point per process, and
# eager code moves them too (`optimizer.step` runs under `program_guard`). While a window is open
# other threads wait before they do; the lock gives up the GIL.
_turn = threading.RLock()
_switch_main_program = pir_core.switch_main_program


def _switch_in_turn(program, insertion_point=None):
    with _turn:
        return _switch_main_program(program, insertion_point)


pir_core.switch_main_program = _switch_in_turn


def _set_tracer(tracer):
    # Not by assignment: that also sets what other threads begin with, which must not be static mode.
    framework.global_var.__dict__["_dygraph_tracer_"] = tracer
    core._switch_tracer(tracer)


class Window:
    """Static mode, on and off. Nothing of the user's runs inside: no garbage is collected (it may have destructors)."""

    __slots__ = ("amp", "collects", "level", "saved")

    def __init__(self, program, startup, cast):
        _turn.acquire()
        self.collects = gc.isenabled()
        gc.disable()
        variables = framework.global_var
        self.saved = saved = [
            variables._dygraph_tracer_,
            getattr(sys, "tracebacklimit", _missing),
            None,
            None,
            None,
        ]
        saved[3] = (layers_module.name_struct, pir_core._convert_into_value, variables._in_to_static_mode_)
        # A graph is traced under auto_cast only where that casts nothing (on a CPU); programs would cast.
        self.amp = core._get_amp_attrs()
        self.level, self.amp._amp_level = self.amp._amp_level, core.AmpLevel.O0
        sys.tracebacklimit = 0
        layers_module.name_struct = _no_struct
        pir_core._convert_into_value = cast
        saved[4] = pir_core.set_static_op_arg_pre_cast_hook(cast)
        _set_tracer(None)
        become(AS_EAGER)
        saved[2] = (_switch_main_program(program), pir_core.switch_startup_program(startup))

    def close(self):
        variables = framework.global_var
        tracer, limit, programs, names, hook = self.saved
        (main, point), startup = programs
        _switch_main_program(main, point)
        pir_core.switch_startup_program(startup)
        become(AS_STATIC)
        _set_tracer(tracer)
        self.amp._amp_level = self.level
        pir_core.set_static_op_arg_pre_cast_hook(hook)
        layers_module.name_struct, pir_core._convert_into_value, variables._in_to_static_mode_ = names
        if limit is _missing:
            del sys.tracebacklimit
        else:
            sys.tracebacklimit = limit
        if self.collects:
            gc.enable()
        _turn.release()
