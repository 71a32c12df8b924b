"""What texts of numbers depend on, besides the numbers: limits and locales that change between two calls."""

import sys

import paddle_sot_rs as sot
import pytest
from harness import tensor

LONG = int("7" * 4000)
DIGITS = "8" * 5000
PERCENT, PLAIN, TYPED, FIELDS = "%s", "{}", "{0:n}|{n}", "{n}|{0:>3}"


def _shown(x):
    return x * 2, str(LONG)[:9]


def _in_an_f_string(x):
    return x * 2, len(f"{LONG}"), len(f"{LONG!r:>5000}"), len(f"{LONG:,}")


def _in_containers(x):
    return x * 2, len(str([LONG])), len(repr({1: (LONG,)})), len(PERCENT % (LONG,)), len(PLAIN.format(LONG))


def _caught(x):
    try:
        text = str(LONG)
    except ValueError as error:
        text = str(error)
    return x * 2, text


def _read(x):
    return x * 2, int(DIGITS) % 7, int(DIGITS, 10) % 5, int(DIGITS.encode()) % 3


def _computed(x):
    return x * 2, LONG % 7, LONG * LONG % 11, LONG > 5, f"{LONG % 10**9}"


def _outcome(function):
    try:
        result = function(tensor(3))
    except ValueError as error:
        return str(error)
    return repr(result)


@pytest.fixture(autouse=True)
def limit():
    before = sys.get_int_max_str_digits()
    yield
    sys.set_int_max_str_digits(before)


@pytest.mark.parametrize("function", [_shown, _in_an_f_string, _in_containers, _caught, _read, _computed])
def test_the_limit_of_digits_may_change(function):
    sys.set_int_max_str_digits(6000)
    translated = sot.to_static(function, min_graph_size=0)
    outcomes = set()
    for digits in (6000, 6000, 4300, 3000, 0, 640, 6000):
        sys.set_int_max_str_digits(digits)
        expected = _outcome(function)
        assert _outcome(translated) == expected
        outcomes.add(expected)
    record = sot.stats(translated)
    assert record.graphs == 1, record
    assert (len(outcomes) == 1) == (record.graph_breaks == []) == (function is _computed)
    assert all("digits" in reason.message for reason in record.graph_breaks)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 1, f"{12345.5:n}"),
        lambda x: (x + 1, format(7, "3n")),
        lambda x: (x + 1, TYPED.format(7, n=2)),
    ],
)
def test_what_the_locale_decides_is_left_to_the_interpreter(function):
    translated = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        assert _outcome(translated) == _outcome(function)
    record = sot.stats(translated)
    assert record.graphs == 1
    assert ["locale" in reason.message for reason in record.graph_breaks] == [True], record


def test_other_types_of_numbers_in_texts_need_no_break():
    def function(x):
        return x + 1, f"{12345.5:.2f}", format(7, "03d"), FIELDS.format(7, n=2), "{an}".format(an="n")

    translated = sot.to_static(function, min_graph_size=0)
    assert _outcome(translated) == _outcome(function)
    assert sot.stats(translated).graph_breaks == []
