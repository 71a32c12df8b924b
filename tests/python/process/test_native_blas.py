"""`native_blas`: MKL's kernels for this processor, chosen before its first call, never one that is lacking."""

import os
import subprocess
import sys

import paddle_sot_rs as sot
import pytest
from paddle_sot_rs import blas

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

VARIABLE = "MKL_DEBUG_CPU_TYPE"
KNOWN = blas._known_before(blas.Processor.this(), blas._library())
# What a fresh process is told on this machine.
FRESH = blas.SET if KNOWN is None else KNOWN.outcome

AMD = blas.Processor("AuthenticAMD", frozenset(("avx2", "fma", "sse4_2")))


def run(*arguments, **variables):
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, timeout=120)


def answers(code, **variables):
    done = run("-c", code, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


SETS = "import paddle, paddle_sot_rs as sot; print(sot.native_blas().outcome)"


def test_the_first_call_chooses_and_the_next_one_says_so():
    first, second = answers(SETS + "; print(sot.native_blas().outcome)")
    assert first == FRESH
    assert second == (blas.NOT_NEEDED if FRESH == blas.SET else FRESH)


@pytest.mark.skipif(FRESH != blas.SET, reason="this processor runs the right kernels")
def test_behind_a_matmul_it_is_too_late_and_nothing_is_left_behind():
    code = """
import os, paddle, paddle_sot_rs as sot
x = paddle.ones([64, 64])
x @ x
print(sot.native_blas())
print(os.environ.get("MKL_DEBUG_CPU_TYPE"))
"""
    told, left = answers(code)
    assert told == "too late: a matmul has run, and MKL keeps the kernels of its first call"
    assert left == "None"


@pytest.mark.skipif(FRESH != blas.SET, reason="this processor runs the right kernels")
def test_eager_mode_and_programs_run_the_chosen_kernels():
    code = """
import paddle, paddle_sot_rs as sot
from paddle_sot_rs import blas
from paddle_sot_rs._process import blas_probe
assert sot.native_blas().outcome == "set"
paddle.seed(0)
x = paddle.randn([64, 64])
f = sot.to_static(lambda x: x @ x, min_graph_size=0)
print(bool((f(x) == x @ x).all()), sot.stats(f).graphs)
library = blas._library()
print(blas_probe.fingerprint(blas_probe.load(str(library))) == blas._probe(library, "5"))
"""
    assert answers(code) == ["True 1", "True"]


@pytest.mark.parametrize(
    ("processor", "outcome", "reason"),
    [
        (blas.Processor("GenuineIntel", AMD.flags), blas.NOT_NEEDED, "Intel"),
        (blas.Processor("AuthenticAMD", frozenset(("avx2",))), blas.NOT_POSSIBLE, "no fma"),
        (blas.Processor("", frozenset()), blas.NOT_POSSIBLE, "no avx2 and no fma"),
    ],
)
def test_what_the_processor_says_decides(monkeypatch, processor, outcome, reason):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(blas.Processor, "this", lambda: processor)
    monkeypatch.setattr(blas.platform, "machine", lambda: "x86_64")
    found = sot.native_blas()
    assert found.outcome == outcome
    assert reason in found.reason
    assert VARIABLE not in os.environ
    assert blas.advice() is None


def test_the_users_own_choice_stays(monkeypatch):
    monkeypatch.setenv(VARIABLE, "4")
    monkeypatch.setattr(blas.Processor, "this", lambda: AMD)
    found = sot.native_blas()
    assert found.outcome == blas.NOT_NEEDED
    assert os.environ[VARIABLE] == "4"


def test_without_mkl_nothing_is_done(monkeypatch):
    monkeypatch.setattr(blas.Processor, "this", lambda: AMD)
    monkeypatch.setattr(blas, "_library", lambda: None)
    assert str(sot.native_blas()) == "not needed: this Paddle computes without MKLML"
    assert blas.advice() is None


def test_a_kernel_that_ends_the_probe_is_not_taken(monkeypatch, tmp_path):
    dies = tmp_path / "dies.py"
    dies.write_text("import os, signal\nos.environ.get('MKL_DEBUG_CPU_TYPE') and os.kill(os.getpid(), signal.SIGILL)\n")
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(blas.Processor, "this", lambda: AMD)
    monkeypatch.setattr(blas.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(blas, "_library", lambda: tmp_path)
    monkeypatch.setattr(blas.blas_probe, "__file__", str(dies))
    found = sot.native_blas()
    assert found == sot.NativeBlas(blas.NOT_POSSIBLE, "a probe of the kernels failed: it ended with -4")
    assert VARIABLE not in os.environ


def test_the_environment_asks_for_it():
    code = "import os, paddle_sot_rs; print(os.environ.get('MKL_DEBUG_CPU_TYPE'))"
    assert answers(code, PADDLE_SOT_NATIVE_BLAS="1") == ["5" if FRESH == blas.SET else "None"]
    assert answers(code, PADDLE_SOT_NATIVE_BLAS="0") == ["None"]
    wrong = run("-c", code, PADDLE_SOT_NATIVE_BLAS="yes")
    assert wrong.returncode == 1
    assert "PADDLE_SOT_NATIVE_BLAS: expected 0 or 1, got 'yes'" in wrong.stderr


def test_the_command_asks_for_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os\nprint(os.environ.get('MKL_DEBUG_CPU_TYPE'))\n")
    done = run("-m", "paddle_sot_rs", "run", "--native-blas", str(script))
    assert f"native BLAS: {FRESH}: " in done.stderr
    assert done.stdout == ("5\n" if FRESH == blas.SET else "None\n")


def test_logs_and_explanations_tell_who_runs_on_slow_kernels():
    code = """
import paddle, paddle_sot_rs as sot
print(str(sot.explain(lambda x: x + 1)(paddle.ones([2]))).count("native_blas()"))
"""
    slow = FRESH == blas.SET
    assert answers(code) == ["1" if slow else "0"]
    logged = run("-c", "import paddle_sot_rs", PADDLE_SOT_LOGS="recompiles").stderr
    assert logged.count("paddle_sot_rs.native_blas() first") == slow
