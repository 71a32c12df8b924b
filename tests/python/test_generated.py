"""Programs of the generator in `tests/differential`, compared with plain Python; `make differential` runs many."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parent.parent / "differential" / "run.py"
COUNT = 200


@pytest.mark.default_python
def test_generated_programs_equal_plain_python():
    seed = int(os.environ.get("SOT_SEED", 2026))
    print(f"seed {seed}: SOT_SEED={seed} pytest tests/python/test_generated.py runs the same programs")
    command = [sys.executable, str(RUN), "--seed", str(seed), "--count", str(COUNT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@pytest.mark.default_python
def test_a_seed_is_one_program():
    show = [subprocess.check_output([sys.executable, str(RUN), "--show", "42"]) for _ in range(2)]
    assert show[0] == show[1] and b"def main(" in show[0]
