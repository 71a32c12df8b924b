"""Examples of Paddle's docstrings, some of them changed, and calls in them with dims that differ.

`make docstrings` runs them all.
"""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "differential" / "docstrings.py"
DIMS = SCRIPT.with_name("dims.py")


@pytest.mark.default_python
@pytest.mark.parametrize(("options", "least"), [(["--every=24"], 40), (["--every=46", "--mutants=1"], 20)])
def test_examples_of_paddle_equal_plain_python(options, least):
    done = subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert int(done.stdout.split()[-4]) > least


@pytest.mark.default_python
def test_calls_in_examples_with_dims_that_differ_equal_plain_python():
    done = subprocess.run([sys.executable, str(DIMS), "--every=120"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert int(done.stdout.split()[-4]) > 30
