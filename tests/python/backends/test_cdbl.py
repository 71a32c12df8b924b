"""The black list of the backend `cinn`: the table is what a probe of Paddle's functions finds."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import cdbl_probe
import paddle
import paddle_sot_rs as sot
import pytest
from paddle_sot_rs import _core, _listing

TABLE = dict(_core.cdbl())


@pytest.mark.default_python
@pytest.mark.skipif(not paddle.__version__.startswith("3.3."), reason="the table is that of Paddle 3.3")
def test_the_table_is_what_the_probe_finds():
    opens, static = Counter(), Counter()
    answers = cdbl_probe.probe()
    for answer in answers:
        opens[answer["name"]] += answer["opens"]
        static[answer["name"]] += answer["static"]
    assert len(answers) > 650
    assert sum(bool(static[answer["name"]] or opens[answer["name"]]) for answer in answers) > 550
    assert {name: not static[name] for name in opens if opens[name]} == TABLE


def test_the_documentation_shows_the_table():
    text = (Path(__file__).resolve().parents[3] / "docs" / "backends.md").read_text()
    for kind, always in (("always", True), ("by result", False)):
        shown = text.partition(f"<!-- {kind} -->")[2].partition("<!-- end -->")[0]
        assert sorted(re.findall(r"`(\w+)`", shown)) == sorted(name for name in TABLE if TABLE[name] is always)


def test_every_entry_can_be_removed_by_its_name():
    for name in TABLE:
        names = _listing.bare_names("entries", [name])[0]
        assert names[0] == name
        static = sot.to_static(lambda x: x, backend="cinn", options={"cdbl": {"remove": [name]}})
        assert static(1) == 1


ALIASES = {
    "generated": ("matmul", lambda x: paddle.matmul(x, x.T)),
    "method": ("matmul", lambda x: x.matmul(x.T)),
    "alias": ("cat", lambda x: paddle.concat([x, x])),
    "other alias": ("concat", lambda x: paddle.cat([x, x])),
    "function": (paddle.matmul, lambda x: x.matmul(x.T)),
}


@pytest.mark.parametrize("case", ALIASES)
def test_names_find_generated_functions_methods_and_aliases(case):
    entry, function = ALIASES[case]
    x = paddle.ones([3, 3])
    for settings in ({"black_list": [entry]}, {"backend": "cinn", "options": {"cdbl": {"add": [entry]}}}):
        static = sot.to_static(lambda x: function(x * 2) + 1, min_graph_size=0, **settings)
        assert (static(x) == function(x * 2) + 1).all()
        assert {reason.code for reason in sot.stats(static).graph_breaks} == {"CDBL"}


ATTRIBUTES = {
    "amax": lambda x, axis: paddle.amax(x, axis=axis),
    "logsumexp": lambda x, axis: x.logsumexp(axis),
    "all": lambda x, axis: paddle.all(x > 0, axis),
    "sum": lambda x, axis: paddle.sum(x, axis=[axis]),
    "permute": lambda x, axis: paddle.permute(x, x),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_tensors_for_attributes_do_not_end_the_process(name):
    function = ATTRIBUTES[name]
    x, axis = paddle.randn([4, 6]), paddle.zeros([], "int64")

    def outcome(run):
        try:
            return run(x, axis).numpy().tolist()
        except TypeError as error:
            return str(error).partition("(at")[0]

    assert outcome(sot.to_static(function, min_graph_size=0)) == outcome(function)


def raises_alike(function):
    def outcome(run):
        with pytest.raises((TypeError, ValueError)) as raised:
            run(paddle.ones([2, 2]))
        return raised.type

    assert outcome(sot.to_static(function, min_graph_size=0)) == outcome(function)


WITHOUT_LISTS = {
    "a method": lambda x: (x * 2).index_put(),
    "a function": lambda x: paddle.index_put(x * 2),
    "by name": lambda x: paddle.index_put(x=x * 2, value=x),
}


@pytest.mark.parametrize("name", WITHOUT_LISTS)
def test_lists_that_are_missing_do_not_end_the_process(name):
    raises_alike(WITHOUT_LISTS[name])


WITH_NONE = {
    "stack": lambda x: paddle.stack([x, None]),
    "a tuple": lambda x: paddle.stack((None, x)),
    "add_n": lambda x: paddle.add_n([x, None]),
    "meshgrid": lambda x: paddle.meshgrid(x[0], None),
    "a list for meshgrid": lambda x: paddle.meshgrid([x[0], None]),
}


@pytest.mark.parametrize("name", WITH_NONE)
def test_none_is_no_tensor(name):
    raises_alike(WITH_NONE[name])
