"""Runs generated programs: `run.py --count N --seed S`; `--show SEED` prints one, `--reduce SEED` makes it small.

`--family nests` takes those of branches and loops on tensors, `between` those whose callers change tensors,
`containers` those on subclasses of `dict` and `list`.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

TIMEOUT = 60


def worker(kind: str, seed: int, count: int) -> None:
    """Announces each program before it runs, so that the parent knows which one ended the process."""
    from compare import TooLong, compare, only_digits
    from family import family

    programs = family(kind)

    def end(*_: object) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, end)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for current in range(seed, seed + count):
        print(json.dumps({"seed": current}), file=answers)
        digits = False
        # Again and again: where recursion is at its limit, the handler meets it too, and programs
        # catch that.
        signal.setitimer(signal.ITIMER_REAL, TIMEOUT, 5)
        # Where no byte code runs, no handler of a signal does.
        faulthandler.dump_traceback_later(3 * TIMEOUT, exit=True)
        try:
            source = programs.program(current)
            found = compare(source, current, programs)
            digits = bool(found) and only_digits(source, current, programs, found)
        except TooLong:
            found = None if TooLong.in_plain_python else "does not end in time"
        except BaseException as error:  # noqa: BLE001 - what escapes is a finding too
            found = f"escaped: {type(error).__name__}: {error}"[:1500]
        signal.setitimer(signal.ITIMER_REAL, 0)
        if found:
            print(json.dumps({"seed": current, "digits" if digits else "found": found}), file=answers)


def _command(what: str, kind: str, seed: int, count: int) -> list[str]:
    return [sys.executable, __file__, what, "--family", kind, "--seed", str(seed), "--count", str(count)]


def _dies_in_plain_python(kind: str, first: int, seed: int) -> bool:
    """Paddle follows the operations of a gradient with its C stack, when they go too, which may be in a later program."""
    start = max(first, seed - 2)
    return _in_plain_python(kind, start, seed + 1 - start).returncode != 0


def _differs_in_plain_python(kind: str, seed: int) -> bool:
    """Whether it is not the same twice without the engine: on a CPU, Paddle reads beyond a tensor for indices out of range."""
    return any('"found"' in _in_plain_python(kind, seed, 1).stdout for _ in range(3))


def _in_plain_python(kind: str, seed: int, count: int) -> subprocess.CompletedProcess[str]:
    alone = {**os.environ, "SOT_TEST_WRAP": "identity"}
    return subprocess.run(
        _command("--worker", kind, seed, count), capture_output=True, text=True, check=False, env=alone
    )


def chunk(kind: str, seed: int, count: int) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The findings of one process and, where it died, of its successors; and differences that are not the engine's."""
    findings: list[tuple[int, str]] = []
    excused: list[tuple[int, str]] = []
    end = seed + count
    while seed < end:
        command = _command("--worker", kind, seed, end - seed)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        current = None
        for text in done.stdout.splitlines():
            try:
                row = json.loads(text)
            except ValueError:
                continue
            current = row["seed"]
            if "digits" in row:
                excused.append(
                    (current, f"a sum of gradients that cancels, equal in double precision: {row['digits']}")
                )
            elif "found" in row and _differs_in_plain_python(kind, current):
                excused.append((current, f"not the same twice in plain Python: {row['found']}"))
            elif "found" in row:
                findings.append((current, row["found"]))
        if done.returncode == 0:
            break
        if current is None:
            raise RuntimeError(f"no program has run, the worker ended with {done.returncode}: {done.stderr[-1000:]}")
        if not _dies_in_plain_python(kind, seed, current):
            findings.append((current, f"the process ended with {done.returncode}: {done.stderr[-400:]}"))
        seed = current + 1
    return findings, excused


def run(kind: str, seed: int, count: int, jobs: int, size: int = 200) -> list[tuple[int, str]]:
    """All findings, printed as they come."""
    starts = list(range(seed, seed + count, size))
    running: list[subprocess.Popen[str]] = []
    findings: list[tuple[int, str]] = []
    finished, began = 0, time.time()
    while starts or running:
        while starts and len(running) < jobs:
            first = starts.pop(0)
            command = _command("--chunk", kind, first, min(size, seed + count - first))
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        select.select([process.stdout for process in running], [], [], 5)
        for process in [process for process in running if process.poll() is not None or _ready(process)]:
            out, _ = process.communicate()
            running.remove(process)
            if process.returncode:
                raise SystemExit("a chunk of programs did not run, see above")
            new, excused = json.loads(out)
            for at, found in new:
                findings.append((at, found))
                print(f"seed {at}: {found}", flush=True)
            for at, found in excused:
                print(f"seed {at}, {found}", flush=True)
            finished += 1
            print(
                f"# {min(finished * size, count)} programs, {len(findings)} findings, {time.time() - began:.0f} s",
                flush=True,
            )
    return findings


def _ready(process: subprocess.Popen[str]) -> bool:
    return bool(select.select([process.stdout], [], [], 0)[0])


def main() -> int:
    parser = argparse.ArgumentParser()
    from family import NAMES, family

    parser.add_argument("--family", choices=NAMES, default=NAMES[0])
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--chunk", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--show", type=int)
    parser.add_argument("--reduce", type=int)
    parser.add_argument("--crash", action="store_true", help="reduce in processes of their own")
    options = parser.parse_args()
    if options.worker:
        worker(options.family, options.seed, options.count)
        return 0
    if options.chunk:
        print(json.dumps(chunk(options.family, options.seed, options.count)))
        return 0
    if options.show is not None:
        print(family(options.family).program(options.show))
        return 0
    if options.reduce is not None:
        from reduce import reduce

        print(reduce(options.family, options.reduce, options.crash))
        return 0
    findings = run(options.family, options.seed, options.count, options.jobs)
    print(f"{options.count} programs from seed {options.seed} on {sys.version.split()[0]}: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
