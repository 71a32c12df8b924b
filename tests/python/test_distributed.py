"""Two processes on the CPU (gloo): a translated Layer under `DataParallel` and fleet trains as in eager mode."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "distributed.py"
LAUNCH = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node", "2", "--backend", "gloo"]


def test_two_processes_train_as_in_eager_mode(tmp_path):
    command = [*LAUNCH, "--log_dir", str(tmp_path), str(EXAMPLE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path)
    logs = [log.read_text() for log in sorted(tmp_path.glob("workerlog.*"))]
    assert result.returncode == 0, result.stderr + "\n".join(logs)
    assert len(logs) == 2
    for rank, log in enumerate(logs):
        assert log.count("equal to eager mode") == 3
        assert f"process {rank} of 2 is done" in log
