"""Runs a script as `python script.py` does."""

from __future__ import annotations

import builtins
import importlib.machinery
import io
import os
import runpy
import sys
import types
import zipfile


def _is_source(path: str) -> bool:
    return os.path.isfile(path) and not path.endswith(".pyc") and not zipfile.is_zipfile(path)


def run_script(path: str) -> int:
    """Runs what is at this path as `__main__`, and leaves it there; the answer is the exit code."""
    place = os.path.abspath(path)
    if not _is_source(path):
        sys.path.insert(0, os.path.dirname(place))
        runpy.run_path(path, run_name="__main__")
        return 0
    # `python -m` has put the working directory there.
    if sys.path[:1] == [os.getcwd()] and not sys.flags.safe_path:
        del sys.path[0]
    sys.path.insert(0, os.path.dirname(os.path.realpath(place)))
    main = types.ModuleType("__main__")
    main.__dict__.update(
        __builtins__=builtins,
        __cached__=None,
        __file__=place,
        __loader__=importlib.machinery.SourceFileLoader("__main__", place),
        __package__=None,
    )
    sys.modules["__main__"] = main
    try:
        with io.open_code(place) as file:
            source = file.read()
        exec(compile(source, place, "exec", dont_inherit=True), main.__dict__)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - the interpreter shows any
        # Frames of this file are not the script's.
        traceback = error.__traceback__.tb_next if error.__traceback__ else None
        sys.excepthook(type(error), error.with_traceback(traceback), traceback)
        return 1
    return 0
