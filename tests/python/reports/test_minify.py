"""`minify`: scripts of few lines for a difference, a crash and a break; `is_compiling()` stands for a fault."""

import ast
import os
import signal
import subprocess
import sys
import textwrap

import paddle
import paddle_sot_rs as sot
import pytest

pytestmark = pytest.mark.default_python
X = paddle.linspace(1, 2, 6).reshape([2, 3])


NET = paddle.nn.Linear(3, 4)


def differs(x, scale):
    unused = NET(x)
    y = x * scale
    if sot.is_compiling():
        y = y * y
    return {"y": y, "unused": unused}


def dies(x):
    y = NET(x)
    if sot.is_compiling():
        os.kill(os.getpid(), signal.SIGSEGV)
    return y + 1


def breaks(x):
    y = NET(x) * 3
    print(y.shape)
    if y.mean() > 0:
        y = y - 1
    return y


def is_right(x):
    return NET(x).sum()


def lines(script):
    return [line for line in script.splitlines() if line.strip() and not line.startswith(("import", "#"))]


def python(*arguments):
    folder = os.path.dirname(os.path.dirname(sot.__file__))
    environment = {**os.environ, "PYTHONPATH": folder}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False)


def run(script):
    """Its exit code, and what it prints to stderr."""
    done = python(script)
    return done.returncode, done.stderr


def test_a_difference(tmp_path):
    found = sot.minify(differs, (X, 2.0))
    assert found.found.startswith("result") and "is_compiling" in found.script and found.runs > 10
    assert "Linear" not in found.script and "unused" not in found.script and len(lines(found.script)) <= 8, found
    script = tmp_path / "small.py"
    script.write_text(str(found))
    code, printed = run(str(script))
    assert code == 0 and "differs from plain Python" in printed


def test_a_crash(tmp_path):
    found = sot.minify(dies, (X,))
    assert found.found == "died: SIGSEGV" and len(lines(found.script)) <= 8, found
    script = tmp_path / "small.py"
    script.write_text(str(found))
    assert run(str(script))[0] == -signal.SIGSEGV


def test_a_break():
    found = sot.minify(breaks, (X,), break_id="PSR0101")
    assert found.found.startswith("PSR0101: ") and len(lines(found.script)) <= 7, found
    assert "Linear" not in found.script and "print" not in found.script
    ast.parse(found.script)


def test_nothing_to_reduce():
    with pytest.raises(ValueError, match="nothing goes wrong"):
        sot.minify(is_right, (X,))
    with pytest.raises(ValueError, match="does not break so"):
        sot.minify(is_right, (X,), break_id="PSR0101")
    with pytest.raises(ValueError, match="expected an id such as 'PSR0101', got 'PSR9999'"):
        sot.minify(is_right, (X,), break_id="PSR9999")


SCRIPT = """
    import sys
    import paddle
    from paddle.jit import to_static

    class Net(paddle.nn.Layer):
        def __init__(self, width):
            super().__init__()
            self.lines = paddle.nn.Sequential(paddle.nn.Linear(width, 1), paddle.nn.ReLU())

        def forward(self, x):
            y = self.lines(x)
            if y.mean() > 0:
                y = y - 1
            return y

    net = to_static(Net(int(sys.argv[1])))
    for size in range(2, 5):
        print(net(paddle.ones([size, int(sys.argv[1])])).shape)
"""


def command(tmp_path, *arguments):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return python("-m", "paddle_sot_rs", "minify", *arguments, str(script), "5")


def test_a_script(tmp_path):
    done = command(tmp_path, "--break", "PSR0101")
    assert done.returncode == 0, done.stderr
    assert "# PSR0101: " in done.stdout and len(lines(done.stdout)) <= 12, done.stdout
    assert "Linear" not in done.stdout and "sys" not in done.stdout


def test_a_script_that_is_right(tmp_path):
    done = command(tmp_path)
    assert done.returncode == 1 and "nothing goes wrong" in done.stderr and done.stdout == ""
