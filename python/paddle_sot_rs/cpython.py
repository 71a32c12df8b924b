"""Runs files of CPython's own test-suite with and without the engine, and compares the verdict of every test."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from typing import Any

FILES = (
    "test_generators test_with test_exceptions test_dict test_list test_set test_tuple test_unpack test_scope "
    "test_named_expressions test_listcomps test_class test_super test_descr test_dataclasses test_enum test_functools "
    "test_itertools test_contextlib test_patma test_extcall test_call test_keywordonlyarg test_positional_only_arg "
    "test_augassign test_slice test_fstring test_string test_bool test_int test_float test_except_star "
    "test_exception_group test_yield_from test_typing"
).split()

# They compare times of a few milliseconds: they run once before, so that no translation falls into
# what they measure.
TIMED = ("test_denial_of_service_prevented_int_to_str", "test_denial_of_service_prevented_str_to_int")

# Crashes and time-outs of one file before the rest of it counts as not run.
MAX_RESTARTS = 12


def _child(name: str, mode: str, path: str, skip: set[str]) -> None:
    """Runs one file and appends a line per test, as it goes: a crash loses nothing."""
    import faulthandler
    import logging
    import unittest

    import paddle_sot_rs
    from paddle_sot_rs.debug import force_translation

    faulthandler.enable()
    logger = logging.getLogger(paddle_sot_rs.__name__)
    logger.addHandler(logging.NullHandler())
    logger.setLevel(logging.CRITICAL)
    logger.propagate = False

    with open(path, "a") as out:

        def write(kind: str, test: object, detail: str = "") -> None:
            name = test.id() if isinstance(test, unittest.TestCase) else str(test)
            out.write(json.dumps([kind, name, detail]) + "\n")
            out.flush()

        class Result(unittest.TestResult):
            def startTest(self, test):
                super().startTest(test)
                write("start", test)

            def addSuccess(self, test):
                super().addSuccess(test)
                write("ok", test)

            def addError(self, test, err):
                super().addError(test, err)
                write("error", test, self._exc_info_to_string(err, test))

            def addFailure(self, test, err):
                super().addFailure(test, err)
                write("fail", test, self._exc_info_to_string(err, test))

            def addSkip(self, test, reason):
                super().addSkip(test, reason)
                write("skip", test, reason)

            def addExpectedFailure(self, test, err):
                super().addExpectedFailure(test, err)
                write("expected failure", test)

            def addUnexpectedSuccess(self, test):
                super().addUnexpectedSuccess(test)
                write("unexpected success", test)

            def addSubTest(self, test, subtest, err):
                super().addSubTest(test, subtest, err)
                if err is not None:
                    write("fail", test, self._exc_info_to_string(err, test))

        def load_and_run(first: tuple[str, ...] = ()) -> None:
            suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{name}")
            if first:
                _chosen(suite, lambda test: test.id().endswith(first)).run(unittest.TestResult())
            _chosen(suite, lambda test: test.id() not in skip).run(Result())

        if mode == "forced":
            with force_translation() as forced:
                load_and_run(TIMED)
                write("frames", name, json.dumps(forced.frames()))
        else:
            load_and_run()
        write("end", name)


def _chosen(suite, is_wanted: Callable[[Any], bool]):
    import unittest

    kept = unittest.TestSuite()
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            kept.addTest(_chosen(test, is_wanted))
        elif is_wanted(test):
            kept.addTest(test)
    return kept


def verdicts(name: str, mode: str, limit: float, frames: Counter[str] | None = None) -> dict[str, tuple[str, str]]:
    """The verdict of every test of one file, and what it printed when it failed. Adds to `frames`."""
    found: dict[str, tuple[str, str]] = {}
    for _ in range(MAX_RESTARTS):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "verdicts")
            skip = os.path.join(folder, "skip")
            with open(skip, "w") as file:
                json.dump(sorted(found), file)
            command = [sys.executable, "-m", "paddle_sot_rs.cpython", "--child", name, mode, path, skip]
            why = "crash"
            try:
                ran = subprocess.run(
                    command, cwd=folder, timeout=limit, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
                )
                detail = ran.stderr[-6000:].decode(errors="replace")
            except subprocess.TimeoutExpired as late:
                why, detail = "time-out", (late.stderr or b"")[-6000:].decode(errors="replace")
            lines = []
            if os.path.exists(path):
                with open(path) as file:
                    lines = [json.loads(line) for line in file if line.endswith("\n")]
        running = None
        for kind, test, text in lines:
            if kind == "start":
                running = test
                continue
            if kind == "end":
                return found
            if kind == "frames":
                if frames is not None:
                    frames.update(json.loads(text))
                continue
            known = found.get(test, ("ok", ""))[0]
            # A test with several sub-tests has the verdict of its worst.
            if test not in found or known == "ok":
                found[test] = (kind, text)
            if test == running and kind in ("ok", "skip", "error", "fail"):
                running = test
        done = running is None or (running in found and why == "crash" and not detail)
        if running is None:
            found[f"{name} as a whole"] = (why, detail)
            return found
        if not done:
            last = [test for kind, test, _ in lines if kind == "start"][-1]
            found[last] = (why, detail)
    found[f"{name} as a whole"] = ("too many crashes", "")
    return found


def compare_all(files: list[str], limit: float, verbose: bool) -> int:
    """Runs these files both ways and prints what differs: 1 where something does.

    Args:
        files: names such as `test_dict`; without one, `FILES`.
        limit: seconds for one file.
        verbose: prints what tests with another verdict printed.
    """
    if importlib.util.find_spec("test") is None or importlib.util.find_spec("test.support") is None:
        print("cpython: this Python was installed without Lib/test: nothing was run")
        return 0
    print(_row("file", COLUMNS), flush=True)
    total: Counter[str] = Counter()
    frames: Counter[str] = Counter()
    for name in files or FILES:
        if importlib.util.find_spec(f"test.{name}") is None:
            print(f"{name:28}  absent from Lib/test of this Python")
            continue
        count, lines, seen = _compare(name, limit, verbose)
        total.update(count)
        frames.update(seen)
        print(_row(name, [str(count[key]) for key in COUNTS] + _shares(seen)), *lines, sep="\n", flush=True)
    print(_row("all", [str(total[key]) for key in COUNTS] + _shares(frames)))
    print("\nframes that ran as they are, and parts of frames after a break (the most frequent):")
    for what, number in frames.most_common(REASONS):
        if what != "translated":
            print(f"{number:9}  {what}")
    return int(total["other"] + total["crash"] > 0)


COUNTS = ["tests", "same", "other", "crash"]
COLUMNS = [*COUNTS, "frames", "translated", "share"]
# Reasons in the list below the table.
REASONS = 25


def _row(name: str, columns: list[str]) -> str:
    return f"{name:28}" + "".join(
        f"{column:>{max(7, len(title) + 2)}}" for column, title in zip(columns, COLUMNS, strict=False)
    )


def _shares(frames: Counter[str]) -> list[str]:
    whole = {what: number for what, number in frames.items() if not what.startswith("after a break: ")}
    count, translated = sum(whole.values()), whole.get("translated", 0)
    return [str(count), str(translated), f"{translated / max(count, 1):.0%}"]


def _compare(name: str, limit: float, verbose: bool) -> tuple[Counter[str], list[str], Counter[str]]:
    """Counts of tests, lines about those with another verdict, and counts of frames."""
    frames: Counter[str] = Counter()
    plain = verdicts(name, "plain", limit)
    forced = verdicts(name, "forced", limit, frames)
    count: Counter[str] = Counter()
    lines = []
    for test in {**plain, **forced}:
        before, after = plain.get(test, ("not run", "")), forced.get(test, ("not run", ""))
        count["tests"] += 1
        # Tests of speed skip themselves where what they measure took no time, some on one run and
        # not on the next.
        by_the_clock = any(kind == "skip" and test.endswith(TIMED) for kind, _ in (before, after))
        if before[0] == after[0] or (by_the_clock and "ok" in (before[0], after[0])):
            count["same"] += 1
            continue
        count["crash" if after[0] in ("crash", "time-out", "too many crashes") else "other"] += 1
        lines.append(f"    {test}: {before[0]} -> {after[0]}")
        if verbose:
            lines.extend(f"      | {line}" for line in after[1].splitlines()[-30:])
    return count, lines, frames


if __name__ == "__main__":
    # Of a child: one file, one way, without the tests of a list.
    _, _, _name, _mode, _path, _skip = sys.argv
    with open(_skip) as _listed:
        _child(_name, _mode, _path, set(json.load(_listed)))
