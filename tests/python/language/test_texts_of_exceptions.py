"""Texts with exceptions that the function raised itself: `%` and `format()` ask them as `str()` does."""

import paddle
import paddle_sot_rs as sot
import pytest


class Said(ValueError):
    def __str__(self):
        return "said"


class Plain(RuntimeError):
    pass


TEXTS = [
    "'%s' % e",
    "'%s!' % (e,)",
    "'%s and %s: 100%%' % (e, 3)",
    "'{}'.format(e)",
    "'{0} {0} {{}}'.format(e)",
    "'{who}: {}'.format(1, who=3), '{} {}'.format(e, 2)",
    "str(e), repr(e), e.args, f'{e}', f'{e!r}'",
]
RAISED = ["ValueError('bad')", "ValueError('bad', 3)", "ValueError()", "KeyError('k')", "Plain('q')", "Plain(('a', 1))"]


def agree(error, text, breaks=0):
    space = {"Said": Said, "Plain": Plain}
    body = f"        raise {error}\n    except Exception as e:\n        r = {text}\n    return x + 1, r"
    exec(f"def f(x):\n    try:\n{body}", space)
    static = sot.to_static(space["f"], min_graph_size=0)
    x = paddle.ones([2])
    for _ in range(2):
        expected = space["f"](x)[1]
        assert static(x)[1] == expected
    record = sot.stats(static)
    assert len(record.graph_breaks) + len(record.fallbacks) == breaks, (record.graph_breaks, record.fallbacks)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("error", RAISED)
def test_is_captured(error, text):
    agree(error, text)


@pytest.mark.parametrize("text", ["'%r' % e", "'{!r}'.format(e)", "'{:>9}'.format(str(e))", "'%s' % [e]"])
def test_what_templates_ask_otherwise(text):
    """What asks for something else than the text is left to the interpreter."""
    space = {}
    exec(
        f"def f(x):\n    try:\n        raise ValueError('q')\n    except ValueError as e:\n        return x, {text}",
        space,
    )
    static = sot.to_static(space["f"], min_graph_size=0)
    x = paddle.ones([2])
    assert [static(x)[1], static(x)[1]] == [space["f"](x)[1]] * 2


def test_with_a_text_of_its_own():
    for text in ("'%s' % e", "'{}'.format(e)", "'%s' % (e,)"):
        space = {"Said": Said}
        exec(f"def f(x):\n    try:\n        raise Said('q')\n    except Said as e:\n        return x, {text}", space)
        static = sot.to_static(space["f"], min_graph_size=0)
        assert static(paddle.ones([2]))[1] == "said"
