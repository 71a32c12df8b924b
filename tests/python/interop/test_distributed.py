"""Two processes on the CPU (gloo): a translated Layer under `DataParallel` and fleet trains as in eager mode."""

from pathlib import Path

from support import logs_of_two_processes

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "distributed.py"


def test_two_processes_train_as_in_eager_mode(tmp_path):
    logs = logs_of_two_processes(EXAMPLE, tmp_path)
    assert len(logs) == 2
    for rank, log in enumerate(logs):
        assert log.count("equal to eager mode") == 3
        assert f"process {rank} of 2 is done" in log
