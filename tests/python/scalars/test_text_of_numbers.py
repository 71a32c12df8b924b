"""Texts that differ between calls: what numbers look like is made again, not translated again."""

import contextlib
import io
import math

import paddle
import paddle_sot_rs as sot
import pytest
from harness import apart, tensor

X = tensor(3)


class Holder:
    name = ""


HOLDER = Holder()
NUMBERS = [1, 2, 7, -3, 2**70, 0, True, 1.5, math.nan, -0.0, math.inf]


def seen(function, *args):
    """What a call answers, raises, prints and leaves behind."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            result = function(X, *args)
        except Exception as error:  # noqa: BLE001 - compared
            result = type(error), str(error)
    return repr(result), out.getvalue(), HOLDER.name


def in_an_f_string(x, n):
    return x * 2, f"step {n}", f"{n!r:>9}|{n!s}|{n:>12}|{{}}"


def by_percent(x, n):
    return x * 2, "%s" % n, "%r of %s, %s" % (n, 5, "a")


def by_format(x, n):
    return x * 2, "{}: {:>8} {a}".format(n, n, a=1), "{0}{0}".format(n)


def by_functions(x, n):
    return x * 2, str(n) + "!", "<" + repr(n) + str(n), ascii(n), format(n, ">5"), format(n)


def computed(x, n):
    return x * 2, f"{n * 2 + 1}", f"{n / 7:.3f} {n * 0.5:e} {x.shape[0]}"


def joined_again(x, n):
    text = f"a{n}"
    text += "b"
    return x * 2, f"{text}{text}", text + text, "%s/%s" % (text, "c"), f"{text:>20}"


def kept(x, n):
    made = f"k{n}"
    HOLDER.name = made
    parts = [made, (made, n)]
    parts.append(made)
    return x * 2, parts, {"name": made}, parts[0] is parts[2], made is None, isinstance(made, str), type(made)


def printed(x, n):
    y = x * 2
    print(f"step {n}", n, end=f"{n}\n")
    return y + 1


def raised(x, n):
    if n == 7:
        raise ValueError(f"bad {n}")
    return x * 2


def caught(x, n):
    try:
        raise ValueError(f"bad {n}")
    except ValueError as error:
        return x * 2, error.args, str(error)


def in_a_closure(x, n):
    text = f"{n}"

    def inner():
        return text + "!"

    return x * 2, inner(), [f"{text}{at}" for at in range(2)]


@pytest.mark.parametrize("numbers", [[n for n in NUMBERS if type(n) is int], [n for n in NUMBERS if type(n) is float]])
@pytest.mark.parametrize(
    "function",
    [in_an_f_string, by_percent, by_functions, joined_again, kept, computed, in_a_closure],
    ids=lambda function: function.__name__,
)
def test_numbers_are_shown_without_another_translation(function, numbers):
    translated = sot.to_static(function, min_graph_size=0)
    for n in [*numbers, *numbers]:
        assert seen(translated, n) == seen(function, n)
    stats = sot.stats(translated)
    # That the number has 64 bits is guarded.
    assert stats.translations == 2 + (2**70 in numbers) and not stats.graph_breaks, stats


@pytest.mark.parametrize("function", [by_format, printed, raised, caught], ids=lambda function: function.__name__)
def test_numbers_of_all_types_are_shown(function):
    translated = sot.to_static(function, min_graph_size=0)
    for n in [*NUMBERS, *NUMBERS]:
        assert seen(translated, n) == seen(function, n)


def character(x, n):
    return x * 2, "%c" % n


def width(x, n):
    return x * 2, f"{'abc':>{n}}"


def digits(x, n):
    return x * 2, "%d" % n


@pytest.mark.parametrize("numbers", [[1, 65, -1, 10, 66, 2**70], [1.5, 65.0, math.nan, 3.5, math.inf, 8.0]])
@pytest.mark.parametrize("function", [character, width, digits], ids=lambda function: function.__name__)
def test_what_raises_for_some_values_is_not_put_off(function, numbers):
    translated = sot.to_static(function, min_graph_size=0)
    for n in [*numbers, *numbers]:
        assert seen(translated, n) == seen(function, n)


def found(x, n):
    return x * 2 + n, {3: "a", 5: "b"}.get(n), n in {7: 1}


def compared(x, n):
    return x * 2, f"{n}" == "7", len(f"{n}"), f"{n}".zfill(4), bool(f"{n}")


def looked_up(x, n):
    return x * 2, getattr(HOLDER, f"name{n}", None)


@pytest.mark.parametrize("function", [found, compared, looked_up], ids=lambda function: function.__name__)
def test_with_many_values_the_graph_breaks_where_one_is_needed(function):
    translated = sot.to_static(function, min_graph_size=0)
    for n in range(120):
        assert seen(translated, n) == seen(function, n)
    stats = sot.stats(translated)
    assert not stats.fallbacks and stats.graph_breaks, stats
    before = stats.translations
    for n in range(120, 150):
        assert seen(translated, n) == seen(function, n)
    assert sot.stats(translated).translations == before


def test_with_a_full_graph_a_needed_value_is_translated_each_time():
    translated = sot.to_static(found, min_graph_size=0, full_graph=True)
    for n in range(20):
        assert seen(translated, n) == seen(found, n)
    assert sot.stats(translated).translations == 20


def handed_on(x, text):
    HOLDER.name = text
    return x * 2, text, text + "!", f"<{text}>", text is None, [text], text + "", "" + text, f"{text}"


def decided_on(x, mode):
    return x * 2 if mode.startswith("a") else x.sum()


def test_texts_from_outside():
    texts = [f"run {n}" for n in range(10)]
    translated = sot.to_static(handed_on, min_graph_size=0)
    for text in [*texts, "", "\x00\u20ac"]:
        assert seen(translated, text) == seen(handed_on, text)
        answers = translated(X, text)
        assert all(answers[at] is text for at in (1, -1, -2, -3))
    assert sot.stats(translated).translations == 2
    translated = sot.to_static(decided_on, min_graph_size=0)
    for text in ["ab", "b", "ac", "c", "a", "ab"]:
        assert seen(translated, text) == seen(decided_on, text)
    assert not sot.stats(translated).graph_breaks


def test_a_subclass_of_str_is_no_text():
    class Named(str):
        def __format__(self, spec):
            return "formatted"

    translated = sot.to_static(handed_on, min_graph_size=0)
    for text in ["a", "b", Named("c"), "d", Named("e")]:
        assert seen(translated, text) == seen(handed_on, text)


def test_a_function_that_shows_is_replaced(monkeypatch):
    def function(x, n):
        return x * 2, str(n)

    translated = sot.to_static(function, min_graph_size=0)
    for n in range(4):
        assert seen(translated, n) == seen(function, n)
    monkeypatch.setitem(globals(), "str", lambda n: f"other {n}")
    for n in range(4):
        assert seen(translated, n) == seen(function, n)
        assert translated(X, n)[1] == f"other {n}"


def test_gradients_go_on():
    def function(x, n):
        return (x * n).sum(), f"{n}"

    translated = sot.to_static(function, min_graph_size=0)
    for n in range(5):
        gradients = []
        for run in (function, translated):
            x = paddle.ones([2])
            x.stop_gradient = False
            loss, text = run(x, n)
            loss.backward()
            gradients.append((x.grad.tolist(), text))
        assert gradients[0] == gradients[1]


class Numbered(paddle.nn.Layer):
    def __init__(self, at):
        super().__init__()
        self.at = at

    def forward(self, x, found):
        x = x * 2
        found[self.at] = x
        return x + 1


def test_objects_that_have_numbers_are_no_values_of_one_number():
    # Each layer has a translation all the same: no break is won.
    layers = [Numbered(at) for at in range(24)]

    @sot.to_static(min_graph_size=0)
    def function(x, layer):
        found = {}
        return layer(x, found), found[layer.at]

    for layer in [*layers, *layers]:
        answers = function(X, layer)
        assert (answers[0] == X * 2 + 1).all() and (answers[1] == X * 2).all()
    stats = sot.stats(function)
    assert stats.translations == 24 and not stats.graph_breaks, stats


SHOW = {
    "str": str,
    "f": lambda n: f"{n}",
    "grouped": lambda n: f"{n:,}",
    "percent d": lambda n: "%d" % n,
    "percent s": lambda n: "%s %s" % (n, 1),
    "format": lambda n: "{}".format(n),
    "percent f": lambda n: "%.2f" % n,
    "f float": lambda n: f"{n:.2f}",
    "e": lambda n: f"{n:e}",
    "hex": hex,
}


@pytest.mark.parametrize("name", SHOW)
def test_whole_numbers_that_are_too_large_to_show(name):
    def caught(x, n):
        try:
            text = SHOW[name](n)
        except (ValueError, OverflowError) as error:
            text = str(error)
        return x + 1, text

    def unused(x, n):
        SHOW[name](n)
        return x + 1

    for function in (caught, unused):
        translated = sot.to_static(apart(function), min_graph_size=0)
        for n in (1, 2, 5, 10**5000, 10**400, 7, 2**70):
            assert seen(translated, n) == seen(function, n), n
        translated = sot.to_static(apart(function), min_graph_size=0)
        for n in (1, 2, 5, -(2**62), 7):
            assert seen(translated, n) == seen(function, n), n
        stats = sot.stats(translated)
        assert (stats.graphs, stats.translations, stats.graph_breaks) == (2, 2, []), stats
