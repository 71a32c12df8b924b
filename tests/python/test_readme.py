"""Every Python snippet of the README runs, in order, in one namespace."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def test_snippets_run(tmp_path):
    snippets = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(snippets) == 5
    script = tmp_path / "snippets.py"
    script.write_text("\n".join(snippets))
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "1 graph, 0 breaks" in result.stdout
    assert "DDCF 16" in result.stdout
    assert "1.4142" in result.stdout
    assert "1 graph\n0.0" in result.stdout
    assert "StatementIR: SIR_0" in result.stdout
