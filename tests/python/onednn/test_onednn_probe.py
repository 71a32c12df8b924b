"""Backend `onednn`: no operator ends the process, inside of captured control flow or in bfloat16."""

import subprocess
import sys
from pathlib import Path

import paddle_sot_rs as sot
import pytest
from paddle.base import core

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

PROBE = Path(__file__).with_name("onednn_probe.py")
ROWS_PROBE = Path(__file__).with_name("onednn_rows_probe.py")
PARTS = 4


@pytest.mark.skipif("onednn" not in sot.list_backends(), reason="no such backend")
@pytest.mark.parametrize("asked", [["branch"], ["loop"], ["branch", "halves"]])
def test_every_call_ends_as_in_eager_mode(asked):
    if "halves" in asked and not core.supports_bfloat16():
        pytest.skip("the processor does not even emulate it")
    run = subprocess.run([sys.executable, str(PROBE), *asked, "few"], capture_output=True, text=True)
    lines = run.stdout.splitlines()
    assert run.returncode == 0 and lines[-1] == "done", (lines[-1:], run.stderr[-1000:])
    assert [line for line in lines if line.startswith("differs")] == []


@pytest.mark.skipif("onednn" not in sot.list_backends(), reason="no such backend")
@pytest.mark.parametrize("part", range(PARTS))
def test_each_operator_is_that_of_eager_mode(part):
    run = subprocess.run([sys.executable, str(ROWS_PROBE), str(part), str(PARTS)], capture_output=True, text=True)
    lines = run.stdout.splitlines()
    assert run.returncode == 0 and lines[-1] == "done", (lines[-1:], run.stderr[-1000:])
    assert [line for line in lines if line.startswith("differs")] == []
    assert "raises an exception dnnl::error" not in run.stderr
    # Each name is one that the programs of this part have.
    assert {line for line in lines if line.startswith("misses")} == set()


@pytest.mark.skipif("onednn" not in sot.list_backends(), reason="no such backend")
def test_each_operator_has_a_row():
    from paddle_sot_rs._onednn.operators import KNOWN

    sys.path.insert(0, str(ROWS_PROBE.parent))
    try:
        from onednn_rows_probe import MADE_OTHERWISE, ROWS
    finally:
        sys.path.pop(0)
    assert not MADE_OTHERWISE & set(ROWS) and MADE_OTHERWISE | set(ROWS) == KNOWN
