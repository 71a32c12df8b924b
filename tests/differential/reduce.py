"""Makes a program smaller as long as it differs in the same way."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from family import family
from paddle_sot_rs._reproduce.reducing import expressions, statements, straightened
from paddle_sot_rs._reproduce.reducing import reduce as shrunk

HERE = Path(__file__).resolve().parent


OUTSIDE = """
import sys
from compare import compare
from family import family
print('FOUND', compare(sys.stdin.read(), int(sys.argv[2]), family(sys.argv[1])))
"""


def differs_outside(kind: str, source: str, seed: int) -> str | None:
    """Compares in a process of its own."""
    command = [sys.executable, "-c", OUTSIDE, kind, str(seed)]
    try:
        done = subprocess.run(command, input=source, capture_output=True, text=True, cwd=HERE, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return "timeout"
    if done.returncode < 0:
        return f"ended with {done.returncode}"
    found = done.stdout.rpartition("FOUND ")[2].strip()
    return None if found in ("None", "") else found


def _sort(found: str | None) -> str:
    """What must stay the same: the place of the difference roughly, and whether something is missing on one side."""
    if not found or not found.startswith("call"):
        return (found or "")[:20]
    place = found.split(": ")[1].split("[")[0]
    shape = re.sub(r"\[[^a-zA-Z']*\]", "A", found.split(": ", 2)[-1])
    return place + re.sub(r"[\d.e+-]+", "0", shape)[:60]


def reduce(kind: str, seed: int, outside: bool) -> str:
    from compare import compare

    programs = family(kind)

    def check(text: str) -> str | None:
        if outside:
            return differs_outside(kind, programs.prelude + text, seed)
        try:
            return compare(programs.prelude + text, seed, programs)
        except Exception as error:  # noqa: BLE001 - what escapes is a finding too
            return f"escaped {type(error).__name__} {error}"

    text = straightened(programs.program(seed).removeprefix(programs.prelude))
    wanted = _sort(check(text))
    if wanted:
        text = shrunk(text, lambda other: _sort(check(other)) == wanted, (statements, expressions))
    return text + "# " + str(check(text))
