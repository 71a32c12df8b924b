"""`record`: one page of HTML, by its structure and, where there is one, in a browser."""

import html.parser
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import textwrap

import paddle
import paddle_sot_rs as sot
import pytest

pytestmark = [
    pytest.mark.default_python,
    pytest.mark.skipif(importlib.util.find_spec("jinja2") is None, reason="needs jinja2"),
]
X = paddle.ones([4, 3])
FOLDER = os.path.dirname(os.path.dirname(sot.__file__))
VOID = {"meta", "link", "br"}


class Page(html.parser.HTMLParser):
    """The elements of a page: (tag, attributes, text), and whether all are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements = [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        element = [tag, dict(attrs), ""]
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append([tag, dict(attrs), ""])

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for element in self.open:
            element[2] += data

    def of(self, tag, of_class=None):
        found = [element for element in self.elements if element[0] == tag]
        return [it for it in found if of_class is None or of_class in (it[1].get("class") or "").split()]


def helper(x):
    return x * 2 + 1


def work(x, name):
    y = helper(x)
    if y.sum() > 0:
        y = y - 1
    print(name, end="")
    return y.tanh() if name != "x" else y


def recorded(folder, rounds=3):
    with sot.record(folder) as report:
        run = sot.to_static(lambda x, name: work(x, name), min_graph_size=0)
        for _ in range(rounds):
            run(X, "<script>alert(1)</script>")
        run(paddle.ones([5, 3]), "b")
    return report.path.read_text()


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("report"))


def test_the_page_needs_no_network(text):
    page = Page(text)
    for tag, attributes, _ in page.elements:
        assert tag not in ("img", "iframe", "object")
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:")), (tag, attributes)
    assert "default-src 'none'" in text and "http://" not in text and "https://" not in text


def test_texts_of_the_program_are_escaped(text):
    page = Page(text)
    assert len(page.of("script")) == 1
    assert any("<script>alert(1)</script>" in shown for _, _, shown in page.of("code"))


def test_what_is_shown(text):
    page = Page(text)
    [function] = page.of("details", "function")
    shown = function[2]
    for part in ("PSR0101", "docs/user/breaks.md#psr0101", "if y.sum() > 0:", "^^^^^^^^^^^", "x.shape[0]: 4 -> 5"):
        assert part in shown, part
    assert "4 calls" in shown and "helper" in shown
    lines = {kind: [it[2] for it in page.of("div", kind)] for kind in ("captured", "broken")}
    assert any("y = y - 1" in line for line in lines["captured"])
    assert any("return x * 2 + 1" in line for line in lines["captured"])
    assert any("if y.sum() > 0:" in line and "PSR0101" in line for line in lines["broken"])
    boxes = [it[2] for it in page.of("g")]
    assert any("mul" in box and "float32 [4, 3]" in box for box in boxes)
    guards = [it[2] for it in page.of("tr", "broken")]
    assert any(".shape == [4, 3]" in guard for guard in guards)
    assert {"trace", "infer", "backend", "ran"} <= {it[1].get("class") for it in page.of("rect")}
    seconds = [it[2] for it in page.of("td", "figure")]
    assert any("%" in cell for cell in seconds)


def test_losses_are_ranked(text):
    [table] = [it for it in Page(text).of("div") if it[1].get("id") == "losses"]
    for name in ("PSR0801", "PSR0301", "PSR0101"):
        assert name in table[2]
    units = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
    found = [float(number) * units[unit] for number, unit in re.findall(r"([\d.]+) (s|ms|µs)(?=\d+%)", table[2])]
    assert len(found) == 3 and found == sorted(found, reverse=True)


def test_functions_that_are_gone_are_there(tmp_path):
    assert "lambda" in recorded(tmp_path)


def test_earlier_reports_stay(tmp_path):
    recorded(tmp_path, 1)
    recorded(tmp_path, 1)
    assert sorted(os.listdir(tmp_path)) == ["report-2.html", "report.html"]


def test_one_at_a_time(tmp_path):
    with sot.record(tmp_path), pytest.raises(RuntimeError, match="is being recorded already"), sot.record(tmp_path):
        pass
    with sot.record(tmp_path) as report:
        pass
    assert "Nothing: no graph broke" in report.path.read_text()


SCRIPT = """
    import paddle
    from paddle.jit import to_static
    import paddle_sot_rs as sot

    translated = sot.to_static(lambda x: x * 2 + 1)
    translated(paddle.ones([2]))
"""


@pytest.mark.parametrize("how", ["environment", "run"])
def test_a_whole_run(tmp_path, how):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    environment = {**os.environ, "PYTHONPATH": FOLDER}
    command = [sys.executable, str(script)]
    if how == "environment":
        environment["PADDLE_SOT_REPORT"] = str(tmp_path / "out")
    else:
        command[1:1] = ["-m", "paddle_sot_rs", "run", "--report", str(tmp_path / "out")]
    subprocess.run(command, env=environment, check=True)
    [function] = Page((tmp_path / "out" / "report.html").read_text()).of("details", "function")
    assert "script.py:6" in function[2]


def test_without_jinja(tmp_path):
    code = "import sys; sys.modules['jinja2'] = None; import paddle_sot_rs"
    environment = {**os.environ, "PYTHONPATH": FOLDER, "PADDLE_SOT_REPORT": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "pip install 'paddle-sot-rs[report]'" in done.stderr


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--enable-logging=stderr",
)


@pytest.mark.skipif(BROWSER is None, reason="needs a browser")
def test_in_a_browser(text, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(text)
    command = [BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'user'}", "--dump-dom", f"file://{path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr
    page = Page(done.stdout)
    # What the script counts is written where it has run to its end.
    [body] = page.of("body")
    assert int(body[1]["data-ready"]) == len(page.of("div", "graph")) > 0
