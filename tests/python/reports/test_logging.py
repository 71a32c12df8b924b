"""`logging` in functions: what is not shown costs nothing, what is shown is one call of its own, and no more."""

import logging
import types

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

LOG = logging.getLogger("tests.a_logger")
LOG.propagate = False
SEEN = []
STATE = types.SimpleNamespace(count=0)


class Keeps(logging.Handler):
    def emit(self, record):
        SEEN.append((record.levelname, record.getMessage(), record.funcName, record.lineno, STATE.count))


@pytest.fixture(autouse=True)
def handler():
    keeps = Keeps()
    LOG.addHandler(keeps)
    LOG.setLevel(logging.INFO)
    SEEN.clear()
    yield
    LOG.removeHandler(keeps)


def quiet(x):
    LOG.debug("shape %s", x.shape)
    logging.debug("root")
    return x * 2


def speaks(x):
    y = x * 2
    STATE.count += 1
    LOG.info("shape %s of %s", x.shape, "x")
    y = y + 1
    STATE.count += 1
    LOG.warning("again")
    return y * 2


def speaks_below(x):
    def inner(y):
        LOG.error("below %d", 3)
        return y * 2

    return inner(x * 2) + 1


def adapts(x):
    y = x * 2
    logging.LoggerAdapter(LOG, {"a": 1}).info("adapted")
    return y + 1


def says_what_was_raised(x):
    y = x * 2
    try:
        raise ValueError("a")
    except ValueError:
        LOG.exception("failed")
    return y + 1


@pytest.mark.parametrize(
    ("function", "graphs", "breaks"), [(quiet, 2, 0), (speaks, 3, 2), (speaks_below, 3, 1), (adapts, 2, 1)]
)
def test_once_and_in_order(function, graphs, breaks):
    def run(of):
        SEEN.clear()
        found = []
        for _ in range(3):
            STATE.count = 0
            found.append(of(paddle.ones([2])).tolist())
        return found, list(SEEN)

    translated = translate(function)
    run(translated)
    assert run(translated) == run(function)
    record = sot.stats(translated)
    cuts = [each for each in record.graph_breaks if "_log()" in each.message]
    assert (record.graphs, len(cuts), record.fallbacks) == (graphs, breaks, [])


def test_in_a_handler():
    def run(of):
        SEEN.clear()
        return [of(paddle.ones([2])).tolist() for _ in range(4)], list(SEEN)

    assert run(translate(says_what_was_raised)) == run(says_what_was_raised)


def test_levels_that_change():
    translated, x = translate(quiet), paddle.ones([2])
    translated(x)
    LOG.setLevel(logging.DEBUG)
    assert translated(x).tolist() == [2, 2]
    assert [entry[:3] for entry in SEEN] == [("DEBUG", "shape paddle.Size([2])", "quiet")]
    LOG.setLevel(logging.INFO)
    translated(x)
    assert len(SEEN) == 1
