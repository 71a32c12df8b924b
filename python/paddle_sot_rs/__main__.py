"""`python -m paddle_sot_rs COMMAND ...`"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable

USAGE = "usage: python -m paddle_sot_rs COMMAND ...\n\ncommands:\n"


def run(arguments: list[str]) -> int:
    """run [--native-blas] [--report FOLDER] SCRIPT|-m MODULE [ARGS]: runs it with this engine for Paddle's to_static"""
    while arguments[:1] in (["--native-blas"], ["--report"]):
        option, arguments = arguments[0], arguments[1:]
        if option == "--native-blas":
            from . import native_blas

            print(f"native BLAS: {native_blas()}", file=sys.stderr)
        elif not arguments:
            print("run: name the folder of the report", file=sys.stderr)
            return 2
        else:
            from ._reports.recording import record_all

            try:
                record_all(arguments[0])
            except (ImportError, RuntimeError) as error:
                print(f"run: {error}", file=sys.stderr)
                return 2
            arguments = arguments[1:]
    as_module = arguments[:1] == ["-m"]
    arguments = arguments[as_module:]
    if not arguments:
        print("run: name the script to run", file=sys.stderr)
        return 2
    from . import patch_paddle
    from ._process.script import run_script

    patch_paddle()
    sys.argv = arguments
    if as_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return 0
    if not os.path.exists(arguments[0]):
        print(f"run: no such script: {arguments[0]}", file=sys.stderr)
        return 2
    return run_script(arguments[0])


def minify(arguments: list[str]) -> int:
    """minify [--break ID] SCRIPT [ARGS]: a script of few lines that shows what goes wrong in this one"""
    reason = None
    if arguments[:1] == ["--break"]:
        reason, arguments = arguments[1] if arguments[1:] else "", arguments[2:]
    if not arguments or not os.path.exists(arguments[0]):
        print(f"minify: no such script: {arguments[0]}" if arguments else "minify: name the script", file=sys.stderr)
        return 2
    from ._reproduce.minify import minify_script

    try:
        found = minify_script(arguments, reason)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(found, end="")
    return 0


def cpython(arguments: list[str]) -> int:
    """cpython [--limit SECONDS] [--verbose] [test_x ...]: CPython's tests, all translated, against plain Python"""
    from .cpython import run as compare

    return compare(arguments)


def settings(_: list[str]) -> int:
    """settings: the table of all options, as in docs/user/settings.md"""
    from .settings import table

    print(table(), end="")
    return 0


def breaks(_: list[str]) -> int:
    """breaks: the page of all reasons why graphs break, docs/user/breaks.md"""
    from .breaks import page

    print(page(), end="")
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    command.__name__: command for command in (run, minify, cpython, settings, breaks)
}


def main(arguments: list[str]) -> int:
    """Runs one command; the answer is the exit code."""
    if not arguments or arguments[0] not in COMMANDS:
        lines = "".join(f"  {command.__doc__}\n" for command in COMMANDS.values())
        if arguments and arguments[0] not in ("-h", "--help"):
            print(f"no such command: {arguments[0]}", file=sys.stderr)
        print(USAGE + lines, end="", file=sys.stderr)
        return 0 if arguments and arguments[0] in ("-h", "--help") else 2
    return COMMANDS[arguments[0]](arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
