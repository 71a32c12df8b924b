"""Pages for users and for those who add something: snippets run, links lead somewhere, sentences are short."""

import re
import subprocess
import sys
from pathlib import Path

import paddle_sot_rs as sot
import pytest

pytestmark = pytest.mark.default_python

ROOT = Path(__file__).resolve().parents[3]
USER, ADDING = sorted((ROOT / "docs" / "user").glob("*.md")), sorted((ROOT / "docs" / "adding").glob("*.md"))
# The examples of `breaks.md` run in `test_break_ids.py`, the crate of `backend.md` in
# `test_plugin.py`; what settings are shown is looked at in `test_readme.py`.
ELSEWHERE = {"breaks.md", "backend.md", "settings.md"}
PAGES = [page for page in (*USER, *ADDING, ROOT / "docs" / "architecture.md") if page.name not in ELSEWHERE]
LINKED = [*USER, *ADDING, *(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]


def test_every_name_has_a_reference():
    page = (ROOT / "docs" / "user" / "api.md").read_text()
    named = re.findall(r"^\.\. auto\w+:: (\w+)$", page, re.M)
    assert sorted([*named, "__version__"]) == sorted(sot.__all__)


def test_the_site_is_built(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(tmp_path / "trees")]
    done = subprocess.run([*command, str(ROOT / "docs"), str(tmp_path / "site")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = (tmp_path / "site" / "user" / "api.html").read_text()
    assert 'id="paddle_sot_rs.to_static"' in shown and "Raises" in shown
    # What links lead to is a page of the site, or a file of the repository.
    for page in (tmp_path / "site").rglob("*.html"):
        for link in re.findall(r'href="([^"#:]+)(?:#[^"]*)?"', page.read_text()):
            assert (page.parent / link.partition("?")[0]).exists(), (page.name, link)


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for snippet in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(snippet, name_of(page), "exec"), names)


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        assert link.startswith("https://") or (page.parent / link).exists(), link


@pytest.mark.parametrize("page", ADDING, ids=name_of)
def test_files_that_are_named_exist(page):
    folders = ("src", "backends", "python", "tests", "examples", ".ci")
    files = [str(file) for folder in folders for file in (ROOT / folder).rglob("*.*")]
    # Those of CPython's sources are not ours.
    named = set(re.findall(r"`([\w./-]+\.(?:rs|py))`", page.read_text())) - {"opcode.py"}
    assert {name for name in named if not any(file.endswith(f"/{name}") for file in files)} == set()


@pytest.mark.parametrize("page", [page for page in USER if page.name not in {*ELSEWHERE, "README.md"}], ids=name_of)
def test_an_example_comes_first_and_sentences_are_short(page):
    text = page.read_text()
    first = text.partition("\n\n")[2]
    assert "```python" in first[:400], "an example comes first"
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for block in re.split(r"\n\n|\n(?=[-|0-9*] ?)", prose):
        if block.startswith("|"):
            continue
        for sentence in re.split(r"(?<=[.:?!])\s", block):
            assert len(sentence.split()) <= 30, sentence
        assert not block.startswith("- ") or len(block.split()) <= 40, block
