"""Static mode, on and off."""

import contextlib
import functools
import gc
import os
import sys
import threading
import traceback

from paddle.base import core, framework
from paddle.base.libpaddle import pir
from paddle.jit.pir_translated_layer import PirTranslatedLayer
from paddle.nn.layer import layers as layers_module
from paddle.pir import core as pir_core

from paddle_sot_rs._paddle.value_patches import AS_EAGER, AS_STATIC, become


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


# Paddle keeps the mode per thread, but the current program and its insertion point per process, and
# eager code moves them too (`optimizer.step` runs under `program_guard`). While a window is open
# other threads wait before they do; the lock gives up the GIL.
_turn = threading.RLock()
_switch_main_program = pir_core.switch_main_program


def _switch_in_turn(program, insertion_point=None):
    with _turn:
        return _switch_main_program(program, insertion_point)


pir_core.switch_main_program = _switch_in_turn


@contextlib.contextmanager
def _long_turn():
    """A turn for more than one switch, without collections.

    A destructor that translates would wait for the thread that translates, and that one for the turn.
    """
    with _turn:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()


# `paddle.jit.load` builds programs, several switches one after the other.
_construct = PirTranslatedLayer._construct


@functools.wraps(_construct)
def _construct_in_turn(*args, **kwargs):
    with _long_turn():
        return _construct(*args, **kwargs)


PirTranslatedLayer._construct = staticmethod(_construct_in_turn)


@contextlib.contextmanager
def alone_in_static_mode():
    """Static mode of this thread without a window: for who saves, loads or runs whole programs.

    Other threads wait before they touch the current program, and those that begin meanwhile begin
    in eager mode.
    """
    with _long_turn():
        before = _set_mode(None, _mode()[1])
        try:
            yield
        finally:
            _set_mode(*before)


# A process that is forked has the state of this moment for ever, and no thread that would close the
# window.
os.register_at_fork(before=_turn.acquire, after_in_parent=_turn.release, after_in_child=_turn.release)

# The window that is open. Other threads may look.
_open = None


def _here():
    """The window that is open, if it is this thread's."""
    window = _open
    return window if window is not None and window.thread == threading.get_ident() else None


_extract_stack = traceback.extract_stack
# What stood there when the window was opened.
_replaced = _extract_stack


@functools.wraps(_extract_stack)
def _no_stack(f=None, limit=None):
    # Paddle asks for it with each operation that it makes: that takes longer than making it, and
    # nobody reads it.
    if f is None:
        if _here() is not None and framework.global_var._dygraph_tracer_ is None:
            return []
        f = sys._getframe(1)
    return _extract_stack(f, limit)


# The first and the last who hear of a collection: what runs between them may be the user's
# (destructors, other such functions) and is in eager mode.
def _before_garbage(phase, info):
    if phase == "start" and (window := _here()) is not None:
        window.static = _set_mode(*window.eager)


def _after_garbage(phase, info):
    if phase == "stop" and (window := _here()) is not None:
        _set_mode(*window.static)


def _mode():
    variables = framework.global_var
    return variables._dygraph_tracer_, variables._in_to_static_mode_


def _set_mode(tracer, in_to_static):
    """Sets the mode of this thread, and says what it was."""
    before = _mode()
    variables = framework.global_var
    variables._in_to_static_mode_ = in_to_static
    # Not by assignment: that also sets what other threads begin with, which must not be static
    # mode.
    variables.__dict__["_dygraph_tracer_"] = tracer
    core._switch_tracer(tracer)
    return before


class Window:
    """Static mode, on and off. Nothing of the user's runs in it."""

    __slots__ = ("amp", "eager", "hook", "level", "names", "outer", "programs", "static", "thread")

    def __init__(self, program, startup, cast):
        global _replaced, _open
        _turn.acquire()
        self.thread = threading.get_ident()
        self.eager = self.static = _mode()
        self.outer, _open = _open, self
        gc.callbacks.insert(0, _before_garbage)
        gc.callbacks.append(_after_garbage)
        if traceback.extract_stack is not _no_stack:
            _replaced, traceback.extract_stack = traceback.extract_stack, _no_stack
        # A graph is traced under auto_cast only where that casts nothing (on a CPU); programs would
        # cast.
        self.amp = core._get_amp_attrs()
        self.level, self.amp._amp_level = self.amp._amp_level, core.AmpLevel.O0
        self.names = layers_module.name_struct, pir_core._convert_into_value
        layers_module.name_struct = _no_struct
        pir_core._convert_into_value = cast
        self.hook = pir_core.set_static_op_arg_pre_cast_hook(cast)
        _set_mode(None, self.eager[1])
        become(AS_EAGER)
        self.programs = _switch_main_program(program), pir_core.switch_startup_program(startup)

    def close(self):
        global _open
        (main, point), startup = self.programs
        _switch_main_program(main, point)
        pir_core.switch_startup_program(startup)
        become(AS_STATIC)
        _set_mode(*self.eager)
        self.amp._amp_level = self.level
        pir_core.set_static_op_arg_pre_cast_hook(self.hook)
        layers_module.name_struct, pir_core._convert_into_value = self.names
        # The user may have set these meanwhile, in another thread.
        if self.outer is None and traceback.extract_stack is _no_stack:
            traceback.extract_stack = _replaced
        # First: a collection between the removals would only hear of its end.
        _open = self.outer
        for callback in (_before_garbage, _after_garbage):
            if callback in gc.callbacks:
                gc.callbacks.remove(callback)
        _turn.release()


class Placing:
    """Where operations are placed that are copied: that takes no static mode."""

    __slots__ = ("outer_point",)

    def __init__(self, block):
        _turn.acquire()
        self.outer_point = pir.get_current_insertion_point()
        pir.set_insertion_point_to_block_end(block)

    def close(self):
        pir.set_insertion_point(self.outer_point)
        _turn.release()
