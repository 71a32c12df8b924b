"""Reasons have ids that stay, a page that is made from their table, and examples that break so."""

import logging
from pathlib import Path

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle_sot_rs import _core
from paddle_sot_rs.breaks import page

pytestmark = pytest.mark.default_python
PAGE = Path(__file__).resolve().parents[3] / "docs" / "user" / "breaks.md"
ROWS = {row[0]: row for row in _core.break_table()}
X = paddle.ones([2])


@pytest.fixture
def logged(caplog):
    for name in ("graph_breaks", "recompiles"):
        caplog.set_level(logging.DEBUG, f"paddle_sot_rs.{name}")
    _core.reset_log_levels()
    yield caplog
    caplog.clear()
    _core.reset_log_levels()


def test_the_page_is_made_from_the_table():
    assert PAGE.read_text() == page(), "python -m paddle_sot_rs breaks > docs/user/breaks.md"


def test_each_row_is_for_a_reader():
    titles = [row[2] for row in ROWS.values()]
    assert len(set(titles)) == len(titles)
    for name, code, title, explanation, advice, _ in ROWS.values():
        assert code in ("DDCF", "UNSPS", "CDBL", "UNIMP", "recompile")
        assert name.startswith("PSR") and len(name) == 7
        assert explanation.endswith(".") and not advice.endswith(".") and title[-1] != "."
        assert all(len(sentence.split()) <= 35 for sentence in explanation.split(". "))


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row[5]])
def test_the_example_breaks_so(name, logged):
    sot.reset()
    with sot.config(min_graph_size=0):
        exec(compile(ROWS[name][5], f"<{name}>", "exec"), {"__name__": name})
    record = sot.stats()
    found = [reason for reason in record.graph_breaks + record.fallbacks if reason.id == name]
    # Recompiles are in the log.
    assert found or any(text.startswith(f"{name} ") for text in logged.messages), record
    for reason in found:
        assert reason.code == ROWS[name][1]
        assert (reason.title, reason.hint) == (ROWS[name][2], ROWS[name][4])
        assert reason.link == f"docs/user/breaks.md#{name.lower()}"


def test_a_break_that_is_met_again_is_counted(logged):
    def breaks(x, n):
        y = x * n
        sot.graph_break()
        return y + 1

    static = translate(breaks, dynamic=False)
    for n in range(2, 14):
        assert static(X, n).tolist() == [n + 1.0] * 2
    (reason,) = sot.stats(static).graph_breaks
    assert (reason.id, reason.count, reason.line) == ("PSR0306", 12, breaks.__code__.co_firstlineno + 2)
    assert "(12 times)" in str(sot.Explanation(None, [], [reason], [], ""))
    shown = [text for text in logged.messages if "graph_break()" in text]
    # The first one, and the tenth.
    assert len(shown) == 2 and shown[1].startswith("(10 times) PSR0306 UNSPS: graph_break()")
    assert shown[0].endswith("see docs/user/breaks.md#psr0306")


def test_reasons_come_in_the_order_of_the_source_each_once():
    def inner(x):
        sot.graph_break()

    def breaks(x):
        (x * 2).tolist()
        inner(x)
        inner(x)
        len([f"{x}"])

    with pytest.raises(sot.GraphBreakError) as raised:
        sot.to_static(breaks, full_graph=True)(X)
    lines = [line.strip() for line in str(raised.value).splitlines()[1:]]
    reasons = [line for line in lines if line.startswith("PSR")]
    assert len(set(reasons)) == len(reasons)
    # `inner` stands above.
    assert [line[:7] for line in reasons] == ["PSR0306", "PSR0201", "PSR0202"]
    assert lines.count("see docs/user/breaks.md#psr0201") == 1


def test_the_limit_of_translations_is_a_reason(logged):
    def function(x, n):
        return x * n

    static = translate(function, dynamic=False)
    for n in range(2, 40):
        assert static(X, n).tolist() == [float(n)] * 2
    (reason,) = sot.stats(static).fallbacks
    assert (reason.id, reason.code, reason.count) == ("PSR0802", "UNIMP", 1)
    assert reason.message.startswith("32 translations; what failed each time: n: ")
    assert reason.message.endswith("n: 33 -> 34 (32 times)") and "mark_dynamic" in reason.hint
    again = [text for text in logged.messages if text.startswith("PSR0801 ")]
    assert len(again) == len(sot.stats(static).recompiles) >= 31


def test_a_recompile_that_is_forbidden_says_its_id():
    static = translate(lambda x: x * 2)
    static(X)
    with sot.set_stance("fail_on_recompile"), pytest.raises(sot.RecompileError) as raised:
        static(paddle.ones([2, 2]))
    assert str(raised.value).startswith("PSR0801 ") and str(raised.value).endswith("#psr0801")
