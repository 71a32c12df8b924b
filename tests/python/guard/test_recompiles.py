"""How often a function is translated: what is said of each time, and what happens behind the limit."""

import logging

import paddle
import paddle_sot_rs as sot
import pytest
from harness import tensor

X = tensor(2, 3)
LIMIT = 32


def scaled(x, name):
    return x * len(name), name


def branching(x, name):
    y = x + len(name)
    if y.sum() > 1e9:
        return y - 1
    return y * 2 if name else y


def names(count):
    # Of numbers and texts that differ between calls a translation knows only the type, sooner or
    # later.
    return [f"name {n}".encode() for n in range(count)]


def called(function, names, translated):
    for name in names:
        expected, actual = function(X, name), translated(X, name)
        for a, b in zip(paddle.utils.flatten(expected), paddle.utils.flatten(actual), strict=True):
            assert a is b or (a == b).all()


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.WARNING, "paddle_sot_rs.recompiles")
    return lambda part: [record for record in caplog.records if part in record.getMessage()]


@pytest.mark.parametrize("function", [scaled, branching])
def test_behind_the_limit_it_runs_as_it_is(function, said):
    translated = sot.to_static(function, min_graph_size=0)
    called(function, names(LIMIT + 8), translated)
    record = sot.stats(translated)
    parts = 2 if function is branching else 1
    assert record.translations <= LIMIT * parts and record.translations >= LIMIT
    [line] = said("from now on it runs as it is")
    assert line.levelno == logging.WARNING and "test_recompiles.py" in line.getMessage()
    # What was translated is used on; nothing more is translated, and nothing more is said.
    hits = record.cache_hits
    called(function, [b"name 0", b"name 9", names(LIMIT + 8)[-1], b"another"], translated)
    after = sot.stats(translated)
    assert after.translations == record.translations and after.cache_hits >= hits + 2
    assert len(said("from now on it runs as it is")) == 1


def test_a_reset_lifts_the_limit():
    translated = sot.to_static(scaled, min_graph_size=0)
    called(scaled, names(LIMIT + 2), translated)
    sot.reset(translated)
    called(scaled, [b"once more", b"once more"], translated)
    record = sot.stats(translated)
    assert record.translations == 1 and record.cache_hits == 1


def test_the_guard_that_failed_is_named():
    translated = sot.to_static(scaled, min_graph_size=0)
    called(scaled, ["a", "b"], translated)
    [recompile] = sot.stats(translated).recompiles
    line = scaled.__code__.co_firstlineno
    assert f"test_recompiles.py:{line} in scaled" in str(recompile) and "name == 'a'" in str(recompile)
