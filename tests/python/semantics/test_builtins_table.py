"""Every builtin function, and every method of the builtin types, is simulated, folded, or breaks with a reason."""

from __future__ import annotations

import builtins

import pytest
from paddle_sot_rs.debug import builtin_table

TABLE = {(owner, name): (what, why) for owner, name, what, why in builtin_table()}
SCALARS = (bool, bytes, complex, float, int, object, str)
CONTAINERS = (bytearray, dict, frozenset, list, memoryview, range, set, slice, tuple)


def is_exception(value):
    return isinstance(value, type) and issubclass(value, BaseException)


# `site` adds a few that are not built in: exit, quit, help, ...
FUNCTIONS = sorted(
    name
    for name, value in vars(builtins).items()
    if callable(value) and not is_exception(value) and type(value).__module__ == "builtins" and name != "__loader__"
)
METHODS = [
    (owner.__name__, name)
    for owner in SCALARS + CONTAINERS
    for name, value in vars(owner).items()
    if callable(value) and not isinstance(value, type)
]


def row(owner, name):
    inherited = name in vars(object) and owner != "object"
    places = [(owner, name), (owner, "*"), ("*", name), *([("object", "*")] if inherited else [])]
    return next((TABLE[place] for place in places if place in TABLE), None)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_builtin_has_a_row(name):
    assert row("builtins", name) is not None


@pytest.mark.parametrize(("owner", "name"), METHODS, ids=[f"{owner}.{name}" for owner, name in METHODS])
def test_a_method_of_a_builtin_type_has_a_row(owner, name):
    assert row(owner, name) is not None


def test_what_breaks_has_a_reason():
    assert {what for what, _ in TABLE.values()} == {"simulated", "folded", "breaks"}
    assert [place for place, (what, why) in TABLE.items() if what == "breaks" and not why] == []


def test_no_row_is_given_twice():
    rows = [(owner, name) for owner, name, _, _ in builtin_table()]
    assert [place for place in TABLE if rows.count(place) > 1] == []
