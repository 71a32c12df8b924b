"""Every Python snippet of the README and of the pages on backends, performance and serving runs, in one namespace."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def output_of(page: Path, snippets: int, tmp_path: Path) -> str:
    found = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(found) == snippets
    script = tmp_path / "snippets.py"
    script.write_text("\n".join(found))
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_snippets_of_the_readme_run(tmp_path):
    out = output_of(ROOT / "README.md", 7, tmp_path)
    # The first network, and the train step.
    assert out.count("1 graph, 0 breaks") == 2
    # The first snippet has computed already.
    assert "too late: " in out or "not needed: " in out or "not possible: " in out
    assert "PSR0101 DDCF 18" in out
    assert "1.4142" in out
    assert "1 graph\n0.0" in out
    assert "StatementIR: SIR_0" in out


def test_snippets_about_backends_run(tmp_path):
    out = output_of(ROOT / "docs" / "backends.md", 4, tmp_path)
    assert "oneDNN: " in out
    assert "operators after decomposition" in out


def test_snippets_about_performance_run(tmp_path):
    out = output_of(ROOT / "docs" / "user" / "performance.md", 2, tmp_path)
    assert out.startswith(("set: ", "not needed: ", "not possible: "))


def test_snippets_about_serving_run(tmp_path):
    assert output_of(ROOT / "docs" / "user" / "serving.md", 1, tmp_path) == "paddle.Size([8, 10])\n"


def test_snippets_about_settings_run(tmp_path):
    out = output_of(ROOT / "docs" / "user" / "settings.md", 3, tmp_path)
    assert "would be translated again: x.ndim: 1 -> 2 (x.shape == [2]" in out
    assert "function: scaled(x)" in out
