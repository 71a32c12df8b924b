"""What is computed at translation depends on more than its operands: on limits, locales, filters and contexts of the
process, which change between two calls."""

import codecs
import datetime
import decimal
import enum
import sys
import warnings

import numpy as np
import paddle_sot_rs as sot
import pytest
from harness import tensor

LONG = int("7" * 4000)
DIGITS = "8" * 5000
PERCENT, PLAIN, TYPED, FIELDS = "%s", "{}", "{0:n}|{n}", "{n}|{0:>3}"
NAMED, NESTED, NESTED_BY_NAME, SHOWN = "{n}", "{:{}}", "{:{s}}", "{!r}"


class Large(enum.Enum):
    A = LONG


class Amount(decimal.Decimal, enum.Enum):
    A = "2.675"


class Day(datetime.date, enum.Enum):
    A = (2024, 2, 29)


def _shown(x):
    return x * 2, str(LONG)[:9]


def _in_an_f_string(x):
    return x * 2, len(f"{LONG}"), len(f"{LONG!r:>5000}"), len(f"{LONG:,}")


def _in_containers(x):
    return x * 2, len(str([LONG])), len(repr({1: (LONG,)})), len(PERCENT % (LONG,)), len(PLAIN.format(LONG))


def _in_named_fields(x):
    return x * 2, len(NAMED.format(n=LONG))


def _in_slices(x):
    return x * 2, len(repr(slice(LONG)))


def _in_members(x):
    return x * 2, len(repr(Large.A)), len(str([Large.A]))


def _in_exceptions(x):
    return x * 2, len(str(ValueError([LONG])))


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


DIGITS_IN_TEXTS = [_shown, _in_an_f_string, _in_containers, _caught, _read, _computed]
DIGITS_IN_TEXTS += [_in_named_fields, _in_slices, _in_members, _in_exceptions]


@pytest.mark.parametrize("function", DIGITS_IN_TEXTS)
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
        lambda x: (x + 1, NESTED.format(7, "n")),
        lambda x: (x + 1, NESTED_BY_NAME.format(1.5, s=".3n")),
        lambda x: (x + 1, "{:{}n}".format(1234567, 9)),
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
        return (
            x + 1,
            f"{12345.5:.2f}",
            format(7, "03d"),
            FIELDS.format(7, n=2),
            "{an}".format(an="n"),
            NESTED.format(7, "03d"),
        )

    translated = sot.to_static(function, min_graph_size=0)
    assert _outcome(translated) == _outcome(function)
    assert sot.stats(translated).graph_breaks == []


def _inverted(x):
    return x * ~FLAG


def _not_escaped(x):
    return x + 1, BYTES.decode("unicode_escape")


FLAG, BYTES, SINGLE = True, b"\\d", np.float64(1.123456789012345678)
SMALL, SMALLER = np.float64(1e-200), np.float64(1e-300)
WARN = [lambda: warnings.simplefilter("ignore"), lambda: warnings.simplefilter("error")]
PRINT = [lambda: np.set_printoptions(legacy=False), lambda: np.set_printoptions(legacy="1.13")]
UNDERFLOW = [lambda: np.seterr(under="ignore"), lambda: np.seterr(under="raise")]
TRAP = [lambda on=on: decimal.getcontext().traps.__setitem__(decimal.FloatOperation, on) for on in (False, True)]
HANDLE = [lambda to=to: codecs.register_error("own", lambda error: (to, error.end)) for to in "ab"]
NOTHING = [lambda: None]

STATES = {
    "invert": (_inverted, WARN),
    "escape": (_not_escaped, WARN),
    "repr": (lambda x: (x + 1, repr(SINGLE)), PRINT),
    "str": (lambda x: (x + 1, str(SINGLE)), PRINT),
    "percent": (lambda x: (x + 1, PERCENT % SINGLE), PRINT),
    "list": (lambda x: (x + 1, f"{[SINGLE]}"), PRINT),
    "template": (lambda x: (x + 1, SHOWN.format(SINGLE)), PRINT),
    "list in a template": (lambda x: (x + 1, PLAIN.format([SINGLE])), PRINT),
    "exception": (lambda x: (x + 1, str(ValueError(SINGLE, 1))), PRINT),
    "underflow": (lambda x: (x + 1, SMALL * SMALLER), UNDERFLOW),
    "underflow of a function": (lambda x: (x + 1, np.multiply(SMALL, SMALLER)), UNDERFLOW),
    "context": (lambda x: (x + 1, Amount.A > 2.5), TRAP),
    "method": (lambda x: (x + 1, Day.A.strftime("%A")), NOTHING),
    "clock": (lambda x: (x + 1, Day.A.today()), NOTHING),
    "handler": (lambda x: (x + 1, "\u20ac".encode("ascii", "own")), HANDLE),
}


@pytest.fixture
def process():
    """What the tests below change."""
    printing, errors = np.get_printoptions(), np.geterr()
    with warnings.catch_warnings(), decimal.localcontext():
        yield
    np.set_printoptions(**printing)
    np.seterr(**errors)


def _raised_or_made(function):
    try:
        return repr(function(tensor(3)))
    except Exception as error:  # noqa: BLE001 - the same one is expected
        return type(error), str(error)


@pytest.mark.parametrize("name", STATES)
def test_what_the_process_decides_is_left_to_the_interpreter(name, process):
    function, changes = STATES[name]
    translated = sot.to_static(function, min_graph_size=0)
    outcomes = set()
    for change in [*changes, *changes]:
        change()
        expected = _raised_or_made(function)
        assert _raised_or_made(translated) == expected
        outcomes.add(expected)
    # `~True` warns since 3.12.
    differs = sys.version_info >= (3, 12) or name != "invert"
    if differs:
        assert len(outcomes) == len(changes)
        assert sot.stats(translated).graph_breaks and not sot.stats(translated).fallbacks


def test_a_warning_is_given_by_the_line_that_it_is_for(process):
    translated = sot.to_static(_inverted, min_graph_size=0)
    found = []
    for function in (_inverted, translated):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            for _ in range(3):
                function(tensor(3))
        found.append([(warning.filename, warning.lineno, str(warning.message)) for warning in given])
    assert found[0] == found[1]


def _inverted_too(x):
    return x * 3, ~FLAG


def test_a_line_that_was_warned_of_warns_of_no_other(process):
    def function(x):
        found = []
        for _ in range(3):
            found.append((~FLAG, _inverted_too(x)))
        return found

    lines = []
    for run in (function, sot.to_static(function, min_graph_size=0)):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("default")
            globals().pop("__warningregistry__", None)
            run(tensor(3))
        lines.append([warning.lineno for warning in given])
    assert lines[0] == lines[1]


def test_what_needs_nothing_of_the_process_is_one_graph():
    def function(x):
        width = int(np.sqrt(16)) + np.float64(1.5)
        text = f"{SINGLE}", f"{SINGLE:.3f}", PLAIN.format(SINGLE), "\u20ac".encode(), b"a".decode("utf-8", "ignore")
        return x * width, text, not FLAG, Amount.A is Amount.A, {Day.A.name: 1}

    translated = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        assert _outcome(translated) == _outcome(function)
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])
