"""What Python computes from open dims: one file for every size, and few translations of calls."""

import math

import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec
from programs_on_dims import PROGRAMS

pytestmark = pytest.mark.default_python

SIZES = [(2, 3), (1, 1), (7, 7), (4, 4), (5, 2), (3, 8), (1, 4), (6, 1)]
EMPTY = [(0, 3), (4, 0)]
CALLS = [(2, 3), (3, 5), (7, 7), (4, 4), (5, 2), (3, 8), (6, 5), (8, 3), (9, 6), (4, 7)]

# Not exported, and why.
REFUSED = {
    "set_of_dims": "how many dims differ",
    "recursive": "a recursion that only the dim ends",
}
# Where eager mode raises because there is nothing, or a file does.
NOTHING_THERE = {
    "an index": "there is no last row: a file guards nothing",
    "an index of a product": "there is no such element: a file guards nothing",
    "eye": "its kernel does not look at a size of 0",
    "an_item_set": "the kernel that sets items wants something to set",
    **dict.fromkeys(
        ("grown", "grown_and_joined", "comprehension_of_a_range", "early_return_of_a_loop", "ring"),
        "a loop in which a variable changes its shape may not get empty",
    ),
}
# Digits that files of Paddle's have otherwise, with sizes that are known too: a pool's last one.
OTHER_DIGITS = ("pool",)
# Branches with more ways than there are translations for sizes that come once.
MANY_WAYS = ("branch_on_both", "halved", "doubled", "any_of_dims", "recursive", "shape_in")


def equal(found, wanted):
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.numpy().tobytes() == wanted.numpy().tobytes()


def answer(function, x):
    try:
        return function(x)
    except (ValueError, TypeError, IndexError, ZeroDivisionError, AssertionError) as raised:
        return raised


@pytest.mark.parametrize("name", PROGRAMS)
def test_files(name, tmp_path):
    function, path = PROGRAMS[name], str(tmp_path / "m")
    spec = [InputSpec([None, None], "float32", "x")]
    if name in REFUSED:
        with pytest.raises(sot.GraphBreakError):
            sot.save(function, path, input_spec=spec)
        return
    sot.save(function, path, input_spec=spec)
    loaded = paddle.jit.load(path)
    for size in [*SIZES, *(EMPTY if name not in NOTHING_THERE else [])]:
        x = paddle.randn(size)
        wanted = answer(function, x)
        if isinstance(wanted, Exception):
            with pytest.raises((ValueError, RuntimeError, IndexError)):
                loaded(x)
        elif name in OTHER_DIGITS:
            assert paddle.allclose(loaded(x), wanted, 1e-6, 1e-7)
        else:
            equal(loaded(x), wanted)


@pytest.mark.parametrize("name", PROGRAMS)
def test_calls(name):
    function = PROGRAMS[name]
    translated = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for size in CALLS:
        x = paddle.randn(size)
        equal(translated(x), function(x))
    stats = sot.stats(translated)
    assert stats.translations <= 3 and stats.graph_breaks == []
    assert [reason.id for reason in stats.fallbacks] == ["PSR0807"] * (name in MANY_WAYS)
    for size in [*SIZES, *EMPTY]:
        x = paddle.randn(size)
        wanted, found = answer(function, x), answer(translated, x)
        if isinstance(wanted, Exception):
            assert type(found) is type(wanted)
        else:
            equal(found, wanted)


@pytest.mark.parametrize("name", PROGRAMS)
def test_default_options(name):
    """Loops are unrolled: what comes once is not translated, what comes again is."""
    function = PROGRAMS[name]
    translated = sot.to_static(function, min_graph_size=0)
    for size in CALLS:
        x = paddle.randn(size)
        equal(translated(x), function(x))
    stats = sot.stats(translated)
    assert stats.translations <= 3 and stats.graph_breaks == []
    assert {reason.id for reason in stats.fallbacks} <= {"PSR0807"}
    for size in [*CALLS, *CALLS]:
        x = paddle.randn(size)
        equal(translated(x), function(x))
    assert sot.stats(translated).fallbacks == stats.fallbacks


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "loop" not in name])
def test_gradients_of_calls(name):
    function = PROGRAMS[name]
    translated = sot.to_static(function, min_graph_size=0)
    for size in [*CALLS[:5], *SIZES[4:]]:
        grads = []
        for call in (function, translated):
            paddle.seed(1)
            x = paddle.randn(size)
            x.stop_gradient = False
            result = call(x)
            if not result.stop_gradient:
                result.sum().backward()
            grads.append((result.stop_gradient, x.grad))
        (stops, wanted), (found_stops, found) = grads
        assert (stops, wanted is None) == (found_stops, found is None)
        if wanted is not None:
            assert paddle.allclose(found, wanted, 1e-5, 1e-6, equal_nan=True)


FUNCTIONS = "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf expm1 log1p degrees radians fabs".split()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_pythons_digits(name, tmp_path):
    function = getattr(math, name)

    def number(x):
        # From -1 to 1, and from 1 on.
        part = 2 * x.shape[0] / (x.shape[0] + x.shape[1]) - 1
        part = part * 0.999 if name != "acosh" else 1 + x.shape[0] / 7
        return x.astype("float64").sum() * 0 + function(part)

    sot.save(number, str(tmp_path / "m"), input_spec=[InputSpec([None, None], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "m"))
    for rows in range(1, 12):
        for columns in range(1, 6):
            x = paddle.ones([rows, columns])
            equal(loaded(x), number(x))


ROUNDED = {
    "to one digit": lambda n, m: round(n / m - 1, 1),
    "to two digits": lambda n, m: round((n - 5) * 1.115 / m, 2),
    "halves": lambda n, m: round((n - 4) * 0.05, 1) + round(n * 0.25, 1) * 100,
    "to none": lambda n, m: round(n / 2 - m, 0),
    "to tens": lambda n, m: float(round(n * 5 - 13, -1) + round(n * m * 25, -2)),
    "whole": lambda n, m: float(round(n - 7, 2)),
    "divisors": lambda n, m: float(math.gcd(n * 6 - 20, m * 4) * 1000 + math.lcm(n - 4, m)),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_numbers_are_rounded_as_python_does(name, tmp_path):
    def number(x):
        return x.astype("float64").sum() * 0 + ROUNDED[name](x.shape[0], x.shape[1])

    sot.save(number, str(tmp_path / "m"), input_spec=[InputSpec([None, None], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "m"))
    for rows in range(1, 20):
        for columns in (1, 3, 4, 7):
            x = paddle.ones([rows, columns])
            equal(loaded(x), number(x))


WHOLE = {
    "comb": lambda n, m: float(math.comb(n, 3) + math.comb(n, 0)) + math.comb(5, m) * 1e5,
    "perm": lambda n, m: float(math.perm(n, 2) + math.perm(m, 4) * 1000),
    "factorial": lambda n, m: float(math.factorial(n) + math.factorial(m - 1)),
    "bits": lambda n, m: float((n * m - 5).bit_length() * 100 + (m - n).bit_count()),
    "is_integer": lambda n, m: float((n / m).is_integer()) + float(math.sqrt(n).is_integer()) * 2,
    "texts": lambda n, m: float(len(f"{n - 3}x{m * 37}") + len(str(n * m)) * 100 + len(repr(n))),
    "hypot": lambda n, m: math.hypot(n, m) + math.hypot(n / 3, m, 0.1) * 1e-3 + math.hypot(n - m),
    "fmod": lambda n, m: math.fmod(n / 3, m / 7) + math.fmod(-n, m),
    "copysign": lambda n, m: math.copysign(n, m - 3) + math.copysign(0.5, -n),
    "atan2": lambda n, m: math.atan2(n - 3, m) + math.atan2(m, n - 7.5) * 10,
    "questions": lambda n, m: float(math.isfinite(n / m)) + math.isinf(n) * 2 + math.isnan(n / m) * 4,
}


@pytest.mark.parametrize("name", WHOLE)
def test_functions_of_numbers_are_pythons(name, tmp_path):
    def number(x):
        return x.astype("float64").sum() * 0 + WHOLE[name](x.shape[0], x.shape[1])

    sot.save(number, str(tmp_path / "m"), input_spec=[InputSpec([None, None], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "m"))
    for rows in range(1, 20):
        for columns in (1, 3, 4, 7, 12):
            x = paddle.ones([rows, columns])
            equal(loaded(x), number(x))


def test_large_numbers_are_whole_ones():
    def number(x):
        return math.comb(64, int(x)), math.comb(61, int(x)), x + 1

    translated = sot.to_static(number, full_graph=True)
    for k in (0, 1, 25, 30, 32, 64, 65):
        # The middle ones have more digits than a double.
        assert translated(paddle.to_tensor(k))[:2] == (math.comb(64, k), math.comb(61, k))
    assert not sot.stats(translated).fallbacks


FAILING = {
    "factorial": lambda n: math.factorial(n - 3),
    "comb": lambda n: math.comb(n - 3, 2),
    "perm": lambda n: math.perm(n - 3, 0),
    "fmod": lambda n: math.fmod(1.0, n - 2),
}


@pytest.mark.parametrize("name", FAILING)
def test_functions_of_numbers_fail_where_python_raises(name, tmp_path):
    def number(x):
        return x.sum() * FAILING[name](x.shape[0])

    sot.save(number, str(tmp_path / "m"), input_spec=[InputSpec([None, None], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "m"))
    equal(loaded(paddle.ones([5, 1])), number(paddle.ones([5, 1])))
    with pytest.raises(ValueError):
        number(paddle.ones([2, 1]))
    with pytest.raises((ValueError, RuntimeError)):
        loaded(paddle.ones([2, 1]))


def test_large_numbers_of_choices_fail(tmp_path):
    def number(x):
        return x * math.comb(x.shape[0] * 10, 20)

    sot.save(number, str(tmp_path / "m"), input_spec=[InputSpec([None], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "m"))
    equal(loaded(paddle.ones([4])), number(paddle.ones([4])))
    with pytest.raises((ValueError, RuntimeError)):
        loaded(paddle.ones([70]))


ALIKE = {
    "equal": lambda n, m: float(n * 1e-9 == 0.0) + float(n / m == 1.0),
    "different": lambda n, m: float(n * 1e-9 != m * 1e-9) + float(n / 3 != m / 3) * 2,
}


@pytest.mark.parametrize("name", ALIKE)
def test_floats_are_compared_as_python_does(name, tmp_path):
    """Paddle takes those for equal that differ by less than 1e-8."""

    def number(x):
        return x.astype("float64").sum() * 0 + ALIKE[name](x.shape[0], x.shape[1])

    sot.save(number, str(tmp_path / "m"), input_spec=[InputSpec([None, None], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "m"))
    for size in [*SIZES, *CALLS]:
        equal(loaded(paddle.ones(size)), number(paddle.ones(size)))
