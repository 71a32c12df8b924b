"""Two processes on the CPU (gloo): a collective is one break, a call with sharded tensors runs as it is."""

from pathlib import Path

import pytest
from support import logs_of_two_processes

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

WORKER = Path(__file__).with_name("two_processes.py")


def test_two_processes(tmp_path):
    logs = logs_of_two_processes(WORKER, tmp_path)
    assert ["all of it holds" in log for log in logs] == [True, True]
