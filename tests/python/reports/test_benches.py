"""What `make bench` measures can be made, and is what its file says."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.default_python

BENCHES = Path(__file__).resolve().parents[3] / "benches"

MADE = """
import sys
sys.path.insert(0, sys.argv[1])
import run
import paddle
for name in run.whole_steps.STEPS:
    step, given = run.whole_steps.step_of(name)
    assert step(*given).shape == []
for make in run.whole_steps.LOSSES.values():
    loss_of, given = make()
    run._go_backward(loss_of, given)
for make, shape, _ in run.growth.ROWS.values():
    assert make(2)(paddle.randn(shape)).shape[0] == shape[0]
print("made")
"""


def test_rows_can_be_made():
    command = [sys.executable, "-c", MADE, str(BENCHES)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.stdout.splitlines()[-1:] == ["made"], answer.stderr


def test_a_program_that_grows():
    command = [sys.executable, str(BENCHES / "growth.py"), "--measure", "small operators", "40", "training"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    times = [float(time) for time in answer.stdout.split()[-4:]]
    assert len(times) == 4, answer.stderr
    assert all(time > 0 for time in times)
