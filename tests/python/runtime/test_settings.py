"""Options: in a block, in the environment, and what is wrong."""

import contextvars
import inspect
import subprocess
import sys
import threading
from pathlib import Path

import paddle
import paddle_sot_rs as sot
import pytest
from paddle_sot_rs.settings import SETTINGS, table

pytestmark = pytest.mark.default_python
PAGE = Path(__file__).resolve().parents[3] / "docs" / "user" / "settings.md"
X = paddle.ones([2])
PER_FUNCTION = [name for name, setting in SETTINGS.items() if setting.per_function]


def backend_of(**given):
    static = sot.to_static(lambda x: x * 2 + 1, **given)
    assert static(X).tolist() == [3.0, 3.0]
    return [graph.backend for graph in static.graphs()]


def test_the_page_has_the_table():
    assert table() in PAGE.read_text()


def test_the_table_has_every_option_of_to_static():
    # `fallback` is another word for `full_graph`; a specification belongs to one function.
    others = {"fn_or_layer", "fallback", "input_spec"}
    assert set(inspect.signature(sot.to_static).parameters) - others == set(PER_FUNCTION)


def test_a_block_holds_for_functions_that_are_translated_in_it():
    before = sot.to_static(lambda x: x + 1, min_graph_size=0)
    with sot.config(backend="eager", min_graph_size=0):
        assert backend_of() == ["eager"]
        with sot.config(backend="paddle"):
            assert backend_of() == ["paddle"]
            assert backend_of(backend="eager") == ["eager"]
        with sot.config(backend=None):
            assert backend_of() == ["paddle"]
        assert backend_of() == ["eager"]
        before(X)
    assert [graph.backend for graph in before.graphs()] == ["paddle"]
    assert backend_of(min_graph_size=0) == ["paddle"]


def test_full_graph_can_be_taken_back():
    def breaks(x):
        sot.graph_break()
        return x * 2

    with sot.config(full_graph=True):
        with pytest.raises(sot.GraphBreakError):
            sot.to_static(breaks)(X)
        assert sot.to_static(breaks, full_graph=False)(X).tolist() == [2.0, 2.0]
        assert sot.to_static(breaks, fallback=True)(X).tolist() == [2.0, 2.0]


def test_a_block_holds_for_its_thread():
    found = []
    with sot.config(backend="eager", min_graph_size=0):
        for run in (lambda work: work(), contextvars.copy_context().run):
            thread = threading.Thread(target=run, args=[lambda: found.append(backend_of(min_graph_size=0))])
            thread.start()
            thread.join()
    assert found == [["paddle"], ["eager"]]


def test_one_block_may_be_entered_again():
    block = sot.config(backend="eager", min_graph_size=0)
    with block, block:
        assert backend_of() == ["eager"]
    assert backend_of(min_graph_size=0) == ["paddle"]


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"bakend": "eager"}, TypeError, "config: unknown option 'bakend'; known: backend, full_graph"),
        ({"logs": "ir"}, TypeError, "config: unknown option 'logs'"),
        ({"backend": "tvm"}, ValueError, "backend: unknown backend 'tvm'; known: .*eager, "),
        ({"backend": 3}, TypeError, "backend: expected a name from list_backends"),
        ({"full_graph": 1}, TypeError, "full_graph: expected True or False, got 1"),
        ({"dynamic": "yes"}, TypeError, "dynamic: expected True or False, got 'yes'"),
        ({"min_graph_size": -1}, ValueError, "min_graph_size: expected a number of operations, 0 or more, got -1"),
        ({"black_list": ["no_such_name"]}, ValueError, "black_list: Paddle has no function"),
        ({"options": 3}, TypeError, "options: expected a dict, got int"),
    ],
)
def test_wrong_options(given, error, text):
    with pytest.raises(error, match=text):
        sot.config(**given)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("BACKEND", "eager", "eager"),
        ("FULL_GRAPH", "1", True),
        ("DYNAMIC", "0", False),
        ("MIN_GRAPH_SIZE", "7", 7),
        ("COMPILE_AT_CALL", "3", 3),
        ("BLACK_LIST", "nonzero, paddle.nn.functional.relu", ("nonzero", "paddle.nn.functional.relu")),
        ("CAPTURE_CONTROL_FLOW", "1", True),
        ("OPTIONS", '{"fuse": true}', {"fuse": True}),
    ],
)
def test_the_environment(monkeypatch, name, text, value):
    monkeypatch.setenv(f"PADDLE_SOT_{name}", text)
    from paddle_sot_rs.settings import resolved

    said = dict.fromkeys(PER_FUNCTION)
    assert resolved(said)[name.lower()] == value
    with sot.config(**{name.lower(): None}):
        assert resolved(said)[name.lower()] == SETTINGS[name.lower()].default


def test_the_environment_comes_last(monkeypatch):
    monkeypatch.setenv("PADDLE_SOT_BACKEND", "eager")
    monkeypatch.setenv("PADDLE_SOT_MIN_GRAPH_SIZE", "0")
    assert backend_of() == ["eager"]
    with sot.config(backend="paddle"):
        assert backend_of() == ["paddle"]
    assert backend_of(backend="paddle") == ["paddle"]


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("BACKEND", "tvm", "backend: unknown backend 'tvm'; known: .*eager, "),
        ("FULL_GRAPH", "yes", "PADDLE_SOT_FULL_GRAPH: expected 0 or 1, got 'yes'"),
        ("MIN_GRAPH_SIZE", "-3", "PADDLE_SOT_MIN_GRAPH_SIZE: expected a number, 0 or more, got '-3'"),
        ("COMPILE_AT_CALL", "0", "PADDLE_SOT_COMPILE_AT_CALL: expected the number of a call, 1 or more, got 0"),
        ("BLACK_LIST", "no_such_name", "PADDLE_SOT_BLACK_LIST: Paddle has no function"),
        ("OPTIONS", "[]", "PADDLE_SOT_OPTIONS: expected a JSON object"),
    ],
)
def test_a_wrong_environment(monkeypatch, name, text, error):
    monkeypatch.setenv(f"PADDLE_SOT_{name}", text)
    with pytest.raises(ValueError, match=error):
        sot.to_static(lambda x: x)


@pytest.mark.parametrize(
    ("variables", "text", "fails"),
    [
        ({"PADDLE_SOT_BAKEND": "x"}, "PADDLE_SOT_BAKEND is no setting; did you mean PADDLE_SOT_BACKEND?", False),
        ({"PADDLE_SOT_STANCE": "lazy"}, "PADDLE_SOT_STANCE: stance: expected one of 'default', 'eager'", True),
    ],
)
def test_wrong_at_import(monkeypatch, variables, text, fails):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, "-c", "import paddle_sot_rs"], capture_output=True, text=True, check=False)
    assert text in done.stderr
    assert (done.returncode != 0) is fails
