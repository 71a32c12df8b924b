"""Existing programs on this engine."""

import subprocess
import sys
import textwrap

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec

# The command line and Paddle's entry points are the same on each version of Python.
pytestmark = pytest.mark.default_python


def scaled(x):
    return x * 2 + 1


def test_as_a_context_manager():
    before = paddle.jit.to_static
    with sot.patch_paddle():
        static = paddle.jit.to_static(scaled)
        assert sot.stats(static).translations == 0
    assert paddle.jit.to_static is before is paddle.jit.api.to_static
    np.testing.assert_array_equal(static(paddle.ones([2])).numpy(), [3.0, 3.0])
    assert sot.stats(static).translations == 1


def test_as_a_function():
    patch = sot.patch_paddle()
    try:
        nested = sot.patch_paddle()
        nested.undo()

        @paddle.jit.to_static(full_graph=True, input_spec=[InputSpec([None, 2])], backend=None)
        def function(x):
            return x * 2

        assert isinstance(sot.stats(function), sot.Stats)
    finally:
        patch.undo()
    patch.undo()
    assert not hasattr(paddle.jit.to_static, "__wrapped__")


def test_save_of_a_translated_layer(tmp_path):
    net = paddle.nn.Linear(3, 2)
    with sot.patch_paddle():
        net = paddle.jit.to_static(net, input_spec=[InputSpec([None, 3])])
        paddle.jit.save(net, str(tmp_path / "net"))
        other = paddle.nn.Linear(3, 2)
        paddle.jit.save(other, str(tmp_path / "other"), input_spec=[InputSpec([None, 3])])
    x = paddle.rand([4, 3])
    for layer, name in ((net, "net"), (other, "other")):
        found = paddle.jit.load(str(tmp_path / name))(x)
        np.testing.assert_allclose(found.numpy(), layer(x).numpy(), rtol=1e-5)


def test_calls_that_differ_from_their_specification(caplog):
    with sot.patch_paddle():
        static = paddle.jit.to_static(scaled, input_spec=[InputSpec([None, 2], "float32", "x")])
    for size in (3, 4, 5):
        np.testing.assert_array_equal(static(paddle.ones([size, 2])).numpy(), np.full([size, 2], 3.0))
    assert sot.stats(static).translations == 1
    for _ in range(2):
        np.testing.assert_array_equal(static(paddle.ones([3])).numpy(), [3.0, 3.0, 3.0])
        np.testing.assert_array_equal(static(paddle.ones([3, 2], "int64")).numpy(), np.full([3, 2], 3))
        assert static(4) == 9
    said = [record.message for record in caplog.records if "input_spec" in record.message]
    assert said == [
        "argument x: input_spec says rank 2 ([None, 2]), got rank 1 ([3]); its input_spec is not used for such calls"
    ]


def test_both_engines_in_one_process():
    theirs = paddle.jit.to_static(scaled, full_graph=True)
    ours = sot.to_static(scaled, min_graph_size=0)

    def calls_theirs(x):
        return theirs(x) * 3

    mixed = sot.to_static(calls_theirs, min_graph_size=0)
    x = paddle.rand([4])
    x.stop_gradient = False
    for _ in range(3):
        np.testing.assert_array_equal(ours(x).numpy(), theirs(x).numpy())
        np.testing.assert_array_equal(mixed(x).numpy(), (scaled(x) * 3).numpy())
        x.clear_grad()
        mixed(x).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.full([4], 6.0, "float32"))


SCRIPT = """
import sys
import paddle
from paddle.jit import to_static

@to_static
def f(x):
    y = x * 2
    print("seen", sys.argv[1:])
    return y + 1

if __name__ == "__main__":
    print(f(paddle.ones([2])).tolist(), type(f).__module__, __file__ == sys.argv[0])
    raise SystemExit(7)
"""


def test_run_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, "-m", "paddle_sot_rs", "run", str(script), "--flag", "3"], capture_output=True, text=True
    )
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines() == ["seen ['--flag', '3']", "[3.0, 3.0] paddle_sot_rs._core True"]


LIKE_PYTHON = """
    import atexit, pickle, sys, threading

    class Kept:
        pass

    def inner(n):
        return 1 / n

    if __name__ == "__main__":
        print(sys.argv, __file__, __doc__, __package__, __spec__, type(__builtins__), type(__loader__).__name__)
        print(sys.path[0], sys.path[1] == sys.argv[1], sys.modules["__main__"].__dict__ is globals())
        print(isinstance(pickle.loads(pickle.dumps(Kept())), Kept), inner.__annotations__)
        # The module is still there when the script is over.
        atexit.register(lambda: print("at the end", isinstance(pickle.loads(pickle.dumps(Kept())), Kept)))
        threading.Timer(0.2, lambda: print(sys.modules["__main__"].Kept is Kept)).start()
        if sys.argv[2] == "raise":
            inner(0)
        if sys.argv[2] == "chain":
            try:
                inner(0)
            except ZeroDivisionError as error:
                raise SystemError("chained") from error
        if sys.argv[2] == "exit":
            sys.exit("said")
        if sys.argv[2] == "hook":
            sys.excepthook = lambda *what: print("hook", what[0].__name__, what[2].tb_lineno)
            inner(0)
"""


@pytest.mark.parametrize("what", ["end", "raise", "chain", "exit", "hook", "syntax"])
def test_a_script_runs_as_in_plain_python(tmp_path, what):
    text = textwrap.dedent(LIKE_PYTHON) if what != "syntax" else "print(1\n"
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "script.py").write_text(text)
    found = []
    for start in ([], ["-m", "paddle_sot_rs", "run"]):
        command = [sys.executable, "-W", "ignore", *start, "scripts/script.py", str(tmp_path), what]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        errors = done.stderr.splitlines()
        # Importing Paddle may warn.
        first = next((at for at, line in enumerate(errors) if line.startswith(("Traceback", "  File", "said"))), None)
        found.append((done.returncode, done.stdout, errors[first:] if first is not None else []))
    assert found[0] == found[1]
    assert found[0][0] == (0 if what == "end" else 1)
    assert bool(found[0][2]) == (what not in ("end", "hook"))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_patches_are_undone_in_any_order(order):
    before = paddle.jit.to_static, paddle.jit.save
    patches = [sot.patch_paddle(), sot.patch_paddle()]
    for at in order:
        assert paddle.jit.to_static is not before[0]
        patches[at].undo()
        patches[at].undo()
    assert (paddle.jit.to_static, paddle.jit.save) == before
