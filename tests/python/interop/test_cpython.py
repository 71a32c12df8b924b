"""CPython's own tests have the same verdicts when every frame is translated. `make cpython` runs all of the files."""

from __future__ import annotations

import importlib.util
from collections import Counter

import pytest
from paddle_sot_rs import cpython
from paddle_sot_rs.debug import force_translation

HAS_TESTS = importlib.util.find_spec("test") is not None and importlib.util.find_spec("test.test_bool") is not None
ABSENT = "Lib/test is absent: this Python was installed without it"


def squares(numbers):
    return [number * number for number in numbers]


@pytest.mark.skipif(not HAS_TESTS, reason=ABSENT)
@pytest.mark.parametrize("name", ["test_bool", "test_unpack", "test_with"])
def test_verdicts_are_the_same_and_most_frames_are_translated(name):
    frames = Counter()
    plain = cpython.verdicts(name, "plain", 120)
    forced = cpython.verdicts(name, "forced", 120, frames)
    assert {test: verdict for test, (verdict, _) in plain.items()} == {
        test: verdict for test, (verdict, _) in forced.items()
    }
    assert "ok" in {verdict for verdict, _ in plain.values()}
    whole = [number for what, number in frames.items() if not what.startswith("after a break: ")]
    assert frames["translated"] > sum(whole) / 2


def test_without_lib_test_nothing_is_run_and_that_is_said(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert cpython.compare_all(["test_bool"], 600.0, False) == 0
    assert "without Lib/test" in capsys.readouterr().out


def test_a_function_of_no_tensors_is_translated_once_and_answered_from_the_cache():
    answers = []
    with force_translation() as forced:
        # Not in a comprehension: on 3.11 that is a frame of its own, which the function becomes a
        # part of.
        for _ in range(3):
            answers.append(squares([1, 2, 3]))
    assert answers == [[1, 4, 9]] * 3
    assert forced.frames()["translated"] >= 3
    assert forced.stats().cache_hits >= 2


def test_after_it_ends_nothing_is_translated():
    with force_translation() as forced:
        squares([1, 2])
    before = forced.frames()
    squares([3, 4, 5])
    assert forced.frames() == before


def test_it_must_be_entered_before_it_is_asked():
    with pytest.raises(RuntimeError, match="enter it first"):
        force_translation().frames()
