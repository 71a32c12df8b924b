"""Type checkers see the signature of what `to_static` decorates."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import paddle_sot_rs
import pytest

pytestmark = pytest.mark.default_python

# A line that is wrong says in its comment which error is expected.
PROGRAM = """
from __future__ import annotations

import functools
from typing import assert_type

import paddle_sot_rs as sot


@sot.to_static
def scaled(x: float, *, times: int = 2) -> str:
    return str(x * times)


@sot.to_static(backend="eager", full_graph=True)
def shifted(x: float, by: int) -> float:
    return x + by


class Model:
    @sot.to_static
    def step(self, x: float) -> list[float]:
        return [x]

    @sot.to_static(backend="eager")
    def other(self, x: float) -> int:
        return int(x)

    @staticmethod
    @sot.to_static
    def half(x: float) -> float:
        return x / 2


@sot.jit.to_static(full_graph=True)
def of_paddle(x: float) -> float:
    return x


def plain(x: int, y: str) -> bytes:
    return y.encode() * x


assert_type(scaled(1.0, times=3), str)
assert_type(shifted(1.0, by=2), float)
assert_type(Model().step(1.0), list[float])
assert_type(Model().other(1.0), int)
assert_type(Model.half(1.0), float)
assert_type(sot.to_static(plain)(1, "a"), bytes)
assert_type(sot.to_static(functools.partial(plain, 1)), functools.partial[bytes])
assert_type(scaled.graphs()[0].ir, str)
assert_type(sot.jit.to_static(plain, None, None, "CINN")(1, "a"), bytes)
of_paddle("one")  # arg-type
scaled("one")  # arg-type
scaled(1.0, 3)  # call-arg
shifted(1.0)  # call-arg
Model().step("one")  # arg-type
Model().other()  # call-arg
Model.half("one")  # arg-type
sot.to_static(plain)("a", "b")  # arg-type
text: str = shifted(1.0, 2)  # assignment
sot.to_static(plain, backend=3)  # call-overload
sot.to_static(plain, unknown=True)  # call-overload
sot.to_static(3)  # call-overload
"""
WITH_LAYER = """
from typing import assert_type

import paddle

import paddle_sot_rs as sot


class Net(paddle.nn.Layer):
    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return x


assert_type(sot.to_static(Net()), Net)
assert_type(sot.to_static(backend="eager")(Net()), Net)
net: int = sot.to_static(Net())  # assignment
"""


def expected(program):
    return {
        (at, line.rpartition("# ")[2])
        for at, line in enumerate(program.splitlines(), 1)
        if re.search(r"  # [a-z-]+$", line)
    }


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
@pytest.mark.parametrize("program", [PROGRAM, WITH_LAYER], ids=["functions", "layers"])
def test_mypy_strict_sees_signatures(tmp_path, program):
    (tmp_path / "program.py").write_text(program)
    # Without what folders above this one may say.
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--no-error-summary"]
    options.append(f"--cache-dir={tmp_path}/cache")
    environment = {"PYTHONPATH": ":".join(sys.path)}
    where = Path(paddle_sot_rs.__file__).parents[1]
    if where.name != "site-packages":
        # It looks for installed packages itself, and refuses to be told of them.
        environment["MYPYPATH"] = str(where)
    command = [sys.executable, "-m", "mypy", *options, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    found = re.findall(r"^(.+):(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.M)
    assert done.returncode == 1, done.stdout + done.stderr
    wanted = {("program.py", *error) for error in expected(program)}
    assert {(file, int(line), kind) for file, line, kind in found} == wanted, done.stdout


@pytest.mark.skipif(importlib.util.find_spec("basedpyright") is None, reason="basedpyright is not installed")
def test_pyright_sees_signatures(tmp_path):
    """The same lines are wrong to it, whatever it calls that."""
    programs = {"functions.py": PROGRAM, "layers.py": WITH_LAYER}
    for name, program in programs.items():
        (tmp_path / name).write_text(program)
    settings = {
        "typeCheckingMode": "strict",
        "extraPaths": [str(Path(paddle_sot_rs.__file__).parents[1])],
        # Paddle itself says little of its types.
        "reportUnknownMemberType": False,
        "reportUntypedBaseClass": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, *programs]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)["generalDiagnostics"]
    found = {(Path(it["file"]).name, it["range"]["start"]["line"] + 1) for it in told if it["severity"] == "error"}
    assert found == {(name, line) for name, program in programs.items() for line, _ in expected(program)}, told
