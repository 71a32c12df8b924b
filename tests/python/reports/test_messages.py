"""Messages point at the expression, say what changed, and have hints that fit."""

import logging
import os
import pty
import subprocess
import sys
import textwrap

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle_sot_rs import _core
from paddle_sot_rs._reports import excerpt

pytestmark = pytest.mark.default_python
X = paddle.ones([4, 3])


def value(x):
    y = x * 2
    return y + float(y.sum()) + 1


def within(x):
    return value(x) * 2


# fmt: off
def several_lines(x):
    y = x * 2
    return y + float(
        y.sum()
    )
# fmt: on


def test_carets_are_below_the_expression():
    for function, line in ((value, "return y + float(y.sum()) + 1"), (within, "return y + float(y.sum()) + 1")):
        translated = translate(function)
        translated(X)
        [reason] = sot.stats(translated).graph_breaks
        assert reason.source == (line, "           ^^^^^^^^^^^^^^")
    with pytest.raises(sot.GraphBreakError) as raised:
        sot.to_static(lambda x: print(x.tolist()), full_graph=True)(X)
    lines = str(raised.value).splitlines()
    assert lines[3].count("^") == len("x.tolist()") and lines[2][lines[3].index("^") :].startswith("x.tolist()")
    assert "^" in str(sot.explain(value)(X))


def test_an_expression_of_several_lines():
    translated = translate(several_lines)
    translated(X)
    [reason] = sot.stats(translated).graph_breaks
    assert reason.source == ("return y + float(", "           ^^^^^^")


def test_columns_are_of_characters(tmp_path):
    path = tmp_path / "some.py"
    path.write_text('    x = "äö", float(y)\n')
    line = path.read_text()
    start = len(line[: line.index("float")].encode())
    assert excerpt.of(str(path), 1, 1, start, start + 8) == ['x = "äö", float(y)', "          ^^^^^^^^"]
    assert excerpt.of(str(path), 7, 7, 0, 3) == excerpt.of("<nothing>", 1, 1, 0, 3) == []


class Thing:
    width = 3


CHANGES = [
    (lambda x: x * 2, (X,), (paddle.ones([5, 3]),), "x.shape[0]: 4 -> 5"),
    (lambda x: x * 2, (X,), (paddle.ones([4]),), "x.ndim: 2 -> 1"),
    (lambda x: x * 2, (X,), (X.astype("float64"),), "x.dtype: paddle.float32 -> paddle.float64"),
    (lambda x: x * 2, (X,), (paddle.to_tensor(X.numpy(), stop_gradient=False),), "x.stop_gradient: True -> False"),
    (lambda x, n: x * n, (X, 2), (X, 3), "n: 2 -> 3"),
    (lambda x, n: x * len(n), (X, "a"), (X, "bc"), "n: 'a' -> 'bc'"),
    (lambda x, n: x * n, (X, 2), (X, X), "type(n): int -> Tensor"),
    (lambda x, n: x * len(n), (X, [1, 2]), (X, [1, 2, 3]), "len(n): 2 -> 3"),
]


@pytest.mark.parametrize(("function", "first", "second", "change"), CHANGES, ids=[it[3] for it in CHANGES])
def test_a_recompile_says_what_changed(function, first, second, change):
    translated = translate(function)
    translated(*first)
    translated(*second)
    [recompile] = sot.stats(translated).recompiles
    assert f" in {function.__qualname__}: {change} (" in recompile


def test_each_guard_that_failed_is_named():
    translated = translate(lambda x, n: x * n, dynamic=False)
    translated(X, 2)
    translated(paddle.ones([5, 3]), 2)
    translated(paddle.ones([5, 3]), 3)
    assert "n: 2 -> 3 (n == 2); x.shape[0]: 4 -> 5 (" in sot.stats(translated).recompiles[-1]


def test_the_limit_says_what_to_do(caplog):
    caplog.set_level(logging.WARNING, "paddle_sot_rs.recompiles")
    _core.reset_log_levels()
    translated = translate(lambda x: x * 2, dynamic=False)
    for size in range(1, 36):
        translated(paddle.ones([size, 3]))
    [reason] = sot.stats(translated).fallbacks
    assert reason.id == "PSR0802" and "x.shape[0]: " in reason.message and "mark_dynamic" in reason.hint
    _core.reset_log_levels()


def counted(x, data):
    return x * len(data)


def written(x, data):
    data[0] = 1
    return x * 2


def rounds(x):
    return [float(part) for part in [x.sum(), x.mean()]]


def test_hints_fit():
    cases = [
        (counted, (X, bytearray(b"ab")), {"PSR0416": "len()"}),
        (written, (X, bytearray(b"ab")), {"PSR0417": "write it outside"}),
        (rounds, (X,), {"PSR0201": "keep the value as a tensor", "PSR0418": "move what breaks the graph behind it"}),
    ]
    for function, arguments, hints in cases:
        translated = translate(function)
        translated(*arguments)
        found = {reason.id: reason.hint for reason in sot.stats(translated).graph_breaks}
        assert found.keys() == hints.keys()
        assert all(hint in found[name] for name, hint in hints.items())


def test_seconds_of_the_phases():
    translated = translate(value)
    translated(X)
    once = sot.stats(translated).seconds
    assert once.trace > 0 and once.infer > 0 and once.backend > 0
    translated(X)
    assert sot.stats(translated).seconds == once
    sot.reset(translated)
    assert sot.stats(translated).seconds == sot.Seconds()


SLOW = """
    import time
    import paddle
    import paddle_sot_rs as sot

    def slow(graph, inputs):
        time.sleep(3.2)
        return graph

    sot.register_backend("slow", slow)
    sot.to_static(lambda x: x * 2 + 1, backend="slow", min_graph_size=0)(paddle.ones([2]))
"""


def shown(**environment):
    """What appears in a terminal while a backend takes its time."""
    mine, terminal = pty.openpty()
    folder = os.path.dirname(os.path.dirname(sot.__file__))
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SLOW)],
        stderr=terminal,
        env={**os.environ, "PYTHONPATH": folder, **environment},
    )
    os.close(terminal)
    parts = []
    while True:
        try:
            part = os.read(mine, 4096)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    os.close(mine)
    assert process.wait() == 0
    return b"".join(parts).decode()


def test_long_translations_show_progress():
    text = shown()
    assert "paddle_sot_rs compiles <string>:11 in <lambda>" in text and " operations, 3 s" in text
    assert "paddle_sot_rs has translated <string>:11 in <lambda>" in text.splitlines()[-1]
    assert "paddle_sot_rs" not in shown(PADDLE_SOT_PROGRESS="0")
