"""Programs of the generator in `tests/differential`, compared with plain Python; `make differential` runs many."""

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[2] / "differential" / "run.py"
COUNTS = {"mixed": 100, "nests": 30, "between": 100, "containers": 100}


@pytest.mark.default_python
@pytest.mark.parametrize("family", COUNTS)
def test_generated_programs_equal_plain_python(family):
    seed = int(os.environ.get("SOT_SEED", 2026))
    print(f"seed {seed}: SOT_SEED={seed} pytest tests/python/interop/test_generated_programs.py runs the same programs")
    command = [sys.executable, str(RUN), "--family", family, "--seed", str(seed), "--count", str(COUNTS[family])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@pytest.mark.default_python
@pytest.mark.parametrize("family", COUNTS)
def test_a_seed_is_one_program(family):
    command = [sys.executable, str(RUN), "--family", family, "--show", "42"]
    show = [subprocess.check_output(command) for _ in range(2)]
    assert show[0] == show[1] and b"def main(" in show[0]


SUMS = """
SIDE = 0

def main(x, *others):
    x = (x * 0 + 1).detach()
    x.stop_gradient = False
    {}.sum().backward()
    return x
"""
CANCELS = "(x * 1e8 + x * 0.1 - x * 1e8 if SIDE else x * 1e8 - x * 1e8 + x * 0.1)"


@pytest.mark.parametrize(
    ("sums", "digits"), [(CANCELS, True), ("(x * (1 + SIDE / 1000))", False)], ids=["order", "wrong"]
)
def test_only_gradients_that_are_right_in_double_precision_are_no_findings(monkeypatch, sums, digits):
    monkeypatch.syspath_prepend(RUN.parent)
    import compare
    from family import family

    def other_side(function, **settings):
        function.__globals__["SIDE"] = 1
        return function

    stats = types.SimpleNamespace(fallbacks=[])
    engine = types.SimpleNamespace(to_static=other_side, reset=lambda function: None, stats=lambda function: stats)
    monkeypatch.setattr(compare, "sot", engine)
    mixed = family("mixed")
    source = mixed.prelude + SUMS.format(sums)
    found = compare.compare(source, 0, mixed)
    assert found and compare.only_digits(source, 0, mixed, found) is digits
