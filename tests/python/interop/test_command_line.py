"""`python -m paddle_sot_rs COMMAND`: its arguments, and `explain`."""

import io
import re
import subprocess
import sys
import textwrap

import paddle
import paddle_sot_rs as sot
import pytest
from paddle_sot_rs._reports import terminal

pytestmark = pytest.mark.default_python
COMMANDS = ["run", "explain", "minify", "cpython", "settings", "breaks"]


def command(*arguments, **options):
    start = [sys.executable, "-W", "ignore", "-m", "paddle_sot_rs"]
    return subprocess.run([*start, *arguments], capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "usage:"),
        (["nope"], "invalid choice: 'nope'"),
        (["run"], "name the script to run"),
        (["run", "nowhere.py"], "no such script: nowhere.py"),
        (["run", "--report"], "--report: expected one argument"),
        (["explain"], "name the script to run"),
        (["minify", "--break", "PSR0101"], "name the script to run"),
        (["settings", "more"], "unrecognized arguments: more"),
    ],
)
def test_what_is_wrong(arguments, text):
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr


def test_help():
    whole = command("--help")
    assert whole.returncode == 0
    for name in COMMANDS:
        assert re.search(rf"^    {name} +[A-Z].*", whole.stdout, re.M), name
    one = command("run", "--help")
    assert one.returncode == 0 and "--native-blas" in one.stdout and "--report FOLDER" in one.stdout


def test_options_of_a_script_are_its_own(tmp_path):
    (tmp_path / "script.py").write_text("import sys\nprint(sys.argv)\n")
    for arguments in (["script.py", "--report", "x", "-m", "-h"], ["-m", "script", "--report", "x", "-m", "-h"]):
        done = command("run", *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.rstrip().endswith("'--report', 'x', '-m', '-h']")


SCRIPT = """
    import sys
    import paddle

    @paddle.jit.to_static
    def scaled(x):
        y = x * 2
        if y.sum() > 0:
            y = y - 1
        return y

    for size in (2, 2, 3):
        print(scaled(paddle.ones([size])).tolist())
    sys.exit(5)
"""


def test_explain_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = command("explain", str(script), cwd=tmp_path)
    assert done.returncode == 5, done.stderr
    assert done.stdout.startswith("[1.0, 1.0]\n[1.0, 1.0]\n[1.0, 1.0, 1.0]\n1 translated function in ")
    assert re.search(r"^scaled  script.py:5\n  3 calls, \d graphs?, \d breaks?, \d recompiles?$", done.stdout, re.M)
    assert re.search(r"^ \d\. .*script.py:8 in scaled\n    PSR0101 a graph breaks: ", done.stdout, re.M)
    assert "        if y.sum() > 0:\n           ^^^^^^^^^^^\n" in done.stdout
    assert "docs/user/breaks.md#psr0101" in done.stdout and "shape[0]: 2 -> 3" in done.stdout
    assert "\x1b" not in done.stdout


def test_explain_where_nothing_was_translated(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("print(1)\n")
    done = command("explain", str(script))
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "1")
    assert "No function was translated" in done.stdout


def test_an_exception_of_the_script_comes_first(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("1 / 0\n")
    done = command("explain", str(script))
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("columns", "colours"), [(48, True), (120, False)])
def test_colours_and_the_width_of_a_terminal(monkeypatch, columns, colours):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not colours:
        monkeypatch.setenv("NO_COLOR", "1")

    def work(x):
        if x.sum() > 0:
            x = x + 1
        return x

    out = Terminal()
    with terminal.explained(out):
        sot.to_static(work)(paddle.ones([2]))
    text = out.getvalue()
    assert ("\x1b[" in text) == colours
    lines = re.sub(r"\x1b\[\d*m", "", text).splitlines()
    assert "PSR0101" in text
    # A place is not cut: one has to be able to open it.
    assert all(len(line) <= columns for line in lines if "test_command_line.py" not in line), lines


def test_one_recording_at_a_time(tmp_path):
    with terminal.explained(io.StringIO()), pytest.raises(RuntimeError, match="an explanation is being recorded"):
        terminal.explained(io.StringIO()).__enter__()
