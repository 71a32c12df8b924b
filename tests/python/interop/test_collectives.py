"""Two processes on the CPU (gloo): a collective is one break, a call with sharded tensors runs as it is."""

import subprocess
import sys
from pathlib import Path

import pytest

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

WORKER = Path(__file__).with_name("two_processes.py")
LAUNCH = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node", "2", "--backend", "gloo"]


def test_two_processes(tmp_path):
    command = [*LAUNCH, "--log_dir", str(tmp_path), str(WORKER)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path)
    logs = [log.read_text() for log in sorted(tmp_path.glob("workerlog.*"))]
    assert result.returncode == 0, result.stderr + "\n".join(logs)
    assert ["all of it holds" in log for log in logs] == [True, True]
