"""Builtin functions, methods of builtin types and operators, called with right and wrong arguments of all kinds."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

CALLS = runpy.run_path(str(Path(__file__).resolve().parents[2] / "differential" / "calls.py"))


@pytest.mark.parametrize("seed", range(4))
def test_calls_do_what_they_do_in_plain_python(seed):
    """`tests/differential/calls.py` makes any number of them."""
    assert list(CALLS["run"](seed, 1000)) == []


@pytest.mark.parametrize(
    ("receiver", "expression"),
    [
        ("{1}", "r.intersection([1], [2])"),
        ("{1}", "r.intersection()"),
        ("frozenset([1])", "r.intersection([1], [])"),
        ('[("a", 1)]', "{**r}"),
        ("zip([1], [2])", "{**r}"),
        ("1", "format(r, key=len)"),
        ('"12"', "r.__len__(default=7)"),
        ("collections.deque([1])", "r.index"),
        ("[1]", "ValueError(r.append(r)) and str(ValueError(r))"),
    ],
)
@pytest.mark.parametrize("where", ["made", "given"])
def test_what_was_found(receiver, expression, where):
    assert CALLS["difference"](receiver, expression, where) is None


@pytest.mark.parametrize("call", ["paddle.stack(r)", "sum(r)", "r.index(r)", "r.count(r)", "paddle.to_tensor(r)"])
def test_lists_of_tensors_that_hold_themselves_end_no_process(call):
    source = f"""
import paddle, paddle_sot_rs as sot
def function(x, r):
    return x + 1, {call}
for run in (function, sot.to_static(function, min_graph_size=0)):
    r = [1, paddle.ones([2])]
    r.append(r)
    try:
        print(run(paddle.ones([2]), r)[1])
    except Exception as error:
        print(type(error).__name__)
"""
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120)
    first, second = ran.stdout.split()
    assert (ran.returncode, first) == (0, second)
