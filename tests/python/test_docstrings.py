"""Examples of Paddle's docstrings, one in twelve; `make docstrings` runs them all."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "differential" / "docstrings.py"


@pytest.mark.default_python
def test_examples_of_paddle_equal_plain_python():
    done = subprocess.run([sys.executable, str(SCRIPT), "--every", "12"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert int(done.stdout.split()[-4]) > 80
