"""`warnings.warn` in functions: shown behind the graph, for its own line, as often as the filters say."""

# ruff: noqa: B028

import types
import warnings

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

STATE = types.SimpleNamespace(count=0)


def plain(x):
    y = x * 2
    warnings.warn("careful")
    return y + 1


def several(x):
    for k in range(2):
        warnings.warn(f"round {k} of {x.shape[0]}", DeprecationWarning)
        x = x * 2
    warnings.warn(
        "the last",
        category=RuntimeWarning,
        stacklevel=1,
    )
    return x


def below(x):
    def inner(y):
        warnings.warn("below", FutureWarning)
        return y * 2

    return inner(inner(x)) + 1


def before_others(x):
    warnings.warn("first")
    STATE.count += 1
    return x * 2


def behind_others(x):
    STATE.count += 1
    warnings.warn(f"second: {STATE.count > 0}")
    return x * 2


def of_the_caller(x):
    warnings.warn("yours", stacklevel=2)
    return x * 2


def raises_later(x):
    warnings.warn("soon")
    y = x * 2
    raise ValueError(str(y.shape[0]))


def of_an_object(x):
    warnings.warn(UserWarning("an object"))
    return x * 2


class Own(UserWarning):
    made = 0

    def __init__(self, *args):
        Own.made += 1
        super().__init__(*args)


def of_an_own_class(x):
    warnings.warn("own", Own)
    return x * 2


def in_a_try(x):
    try:
        warnings.warn("raised")
    except UserWarning:
        return x * 3
    return x * 2


CAPTURED = [plain, several, below, before_others]
OTHERS = [behind_others, of_the_caller, raises_later, of_an_object, of_an_own_class, in_a_try]


def run(of, filters):
    """What three calls answer with and show."""
    globals().pop("__warningregistry__", None)
    STATE.count = Own.made = 0
    found = []
    with warnings.catch_warnings(record=True) as shown:
        warnings.resetwarnings()
        for filter_ in filters:
            warnings.filterwarnings(**filter_)
        for _ in range(3):
            STATE.count = 0
            try:
                found.append(of(paddle.ones([2])).tolist())
            except Exception as error:  # noqa: BLE001 - the comparison is about which one it is
                found.append((type(error), str(error)))
            found.append((STATE.count, len(shown)))
    lines = [(str(each.message), each.category, each.filename, each.lineno) for each in shown]
    registry = globals().get("__warningregistry__", {})
    return found, lines, Own.made, {key: value for key, value in registry.items() if key != "version"}


FILTERS = {
    "always": [{"action": "always"}],
    "default": [{"action": "default"}],
    "once": [{"action": "once"}],
    "module": [{"action": "module"}],
    "ignore": [{"action": "ignore"}],
    "none": [],
    "raised": [{"action": "error"}],
    "one raised": [{"action": "always"}, {"action": "error", "message": "round 1"}],
    "a class raised": [{"action": "error", "category": FutureWarning}],
    "a module raised": [{"action": "error", "module": __name__}],
    "a line raised": [{"action": "error", "lineno": plain.__code__.co_firstlineno + 2}],
}


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("function", CAPTURED + OTHERS)
def test_is_shown_as_often(function, filters):
    translated = translate(function)
    for _ in range(2):
        assert run(translated, FILTERS[filters]) == run(function, FILTERS[filters])
    record = sot.stats(translated)
    if function in CAPTURED and "raised" not in filters:
        assert (record.graphs, record.graph_breaks) == (1, [])


def test_filters_that_change():
    translated = translate(plain)
    for name in ("always", "raised", "ignore", "raised", "default", "a line raised", "always"):
        assert run(translated, FILTERS[name]) == run(plain, FILTERS[name])


def test_what_shows_it_sees_what_was_done():
    seen = []

    def function(x, held):
        warnings.warn("first", stacklevel=1)
        held.append(1)
        warnings.warn("second", stacklevel=1)
        return x * 2

    for of in (function, translate(function)):
        held = []
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda *args, held=held, **named: seen.append((str(args[0]), len(held)))
            for _ in range(2):
                held.clear()
                of(paddle.ones([2]), held)
    assert seen[:4] == seen[4:] == [("first", 0), ("second", 1)] * 2


def test_recompute_warns_twice():
    layer = paddle.nn.Linear(2, 2)

    def inner(x):
        warnings.warn("in recompute", stacklevel=1)
        return layer(x) * 2

    def function(x):
        return paddle.distributed.fleet.utils.recompute(inner, x).sum()

    counts = []
    for of in (function, translate(function)):
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            x = paddle.ones([2, 2])
            x.stop_gradient = False
            for _ in range(2):
                of(x).backward()
        counts.append(sum(str(each.message) == "in recompute" for each in shown))
    assert counts == [4, 4]


def test_filters_that_are_made_in_each_call():
    translated, x = translate(plain), paddle.ones([2])
    for _ in range(5):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "care.*", UserWarning)
            assert translated(x).tolist() == [3, 3]
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])
