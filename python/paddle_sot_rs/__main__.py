"""`python -m paddle_sot_rs COMMAND ...`"""

from __future__ import annotations

import argparse
import os
import runpy
import sys

# What a command prints where its arguments are wrong ends with this code, as `argparse` does.
_WRONG_ARGUMENTS = 2


def _run_module_or_script(given: argparse.Namespace) -> int:
    """With this engine in the place of Paddle's."""
    from . import patch_paddle
    from ._process.script import run_script

    patch_paddle()
    sys.argv = given.module or given.script
    if given.module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        return 0
    return run_script(sys.argv[0])


def run(given: argparse.Namespace) -> int:
    """Runs a script with this engine for Paddle's `to_static`."""
    if given.native_blas:
        from . import native_blas

        print(f"native BLAS: {native_blas()}", file=sys.stderr)
    if given.report is not None:
        from ._reports.recording import record_all

        try:
            record_all(given.report)
        except (ImportError, RuntimeError) as error:
            print(f"run: {error}", file=sys.stderr)
            return _WRONG_ARGUMENTS
    return _run_module_or_script(given)


def explain(given: argparse.Namespace) -> int:
    """Runs a script as `run` does, and says what became of its functions and what to change first."""
    from ._reports.terminal import explained

    with explained(sys.stdout):
        return _run_module_or_script(given)


def minify(given: argparse.Namespace) -> int:
    """A script of few lines that shows what goes wrong in this one."""
    from ._reproduce.minify import minify_script

    try:
        found = minify_script(given.script, given.break_id)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(found, end="")
    return 0


def cpython(given: argparse.Namespace) -> int:
    """CPython's tests, all translated, against plain Python."""
    from .cpython import compare_all

    return compare_all(given.tests, given.limit, given.verbose)


def settings(_: argparse.Namespace) -> int:
    """The table of all options, as in docs/user/settings.md."""
    from .settings import table

    print(table(), end="")
    return 0


def breaks(_: argparse.Namespace) -> int:
    """The page of all reasons why graphs break, docs/user/breaks.md."""
    from .breaks import page

    print(page(), end="")
    return 0


def _parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    parser = argparse.ArgumentParser(prog="python -m paddle_sot_rs", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    parsers = {}
    for command in (run, explain, minify, cpython, settings, breaks):
        about = (command.__doc__ or "").strip()
        added = commands.add_parser(command.__name__, help=about, description=about, allow_abbrev=False)
        added.set_defaults(function=command)
        parsers[command.__name__] = added
    parsers["run"].add_argument("--native-blas", action="store_true", help="the kernels of MKL for this processor")
    parsers["run"].add_argument("--report", metavar="FOLDER", help="writes a report of the run into it")
    parsers["minify"].add_argument("--break", dest="break_id", metavar="ID", help="the reason of a break to show")
    parsers["cpython"].add_argument("--limit", type=float, default=600.0, metavar="SECONDS", help="for one file")
    parsers["cpython"].add_argument("--verbose", action="store_true", help="what tests with another verdict printed")
    parsers["cpython"].add_argument("tests", nargs="*", metavar="test_x", help="their files; without one, a selection")
    for name in ("run", "explain"):
        parsers[name].add_argument("-m", "--module", nargs=argparse.REMAINDER, help="a module, and its arguments")
    parsers["minify"].set_defaults(module=None)
    for name in ("run", "explain", "minify"):
        parsers[name].add_argument("script", nargs=argparse.REMAINDER, help="a script, and its arguments")
    return parser, parsers


def main(arguments: list[str]) -> int:
    """Runs one command; the answer is the exit code."""
    parser, parsers = _parser()
    given = parser.parse_args(arguments)
    if "script" in given and not given.module:
        if not given.script:
            parsers[given.command].error("name the script to run")
        if not os.path.exists(given.script[0]):
            parsers[given.command].error(f"no such script: {given.script[0]}")
    function = given.function
    return int(function(given))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
