"""Dicts that exist and have tuples for keys, as registries of pairs of classes do: they are looked into, and a guard
says that the tuples are the same."""

import paddle_sot_rs as sot
from harness import check, tensor, translate

X = tensor(3, grad=True)


class Base:
    pass


class Part(Base):
    pass


def double(x):
    return x * 2


def triple(x):
    return x * 3


OF_BASES, OF_PARTS = (Base, Base), (Part, Base)
RULES = {OF_BASES: double, OF_PARTS: triple}
NAMES = {("a", 1): 2.0, ("b", (2, None)): 3.0}
OF_LISTS = {(1, 2.5): 1}


def reset():
    RULES.clear()
    RULES.update({OF_BASES: double, OF_PARTS: triple})
    NAMES.clear()
    NAMES.update({("a", 1): 2.0, ("b", (2, None)): 3.0})


def dispatched(x):
    found = [pair for pair in RULES if issubclass(Part, pair[0]) and issubclass(Base, pair[1])]
    return RULES[found[-1]](x), len(found), (Part, Part) in RULES, RULES.get((int, int)) is None


def test_rules_for_pairs():
    check(dispatched, X, graphs=1, breaks=0, reset=reset)


def test_items_by_key():
    def function(x):
        total = NAMES["a", 1] + NAMES["b", (2, None)]
        for name, number in NAMES:
            total += len(name) + (number if isinstance(number, int) else 0)
        return x * total, list(NAMES.values())

    check(function, X, graphs=1, breaks=0, reset=reset)


def test_keys_are_the_objects_that_they_are():
    def function(x):
        return [key for key in NAMES], x * 2

    reset()
    translated = translate(function)
    for _ in range(2):
        assert [one is other for one, other in zip(translated(X)[0], NAMES, strict=True)] == [True, True]
        reset()


def test_items_are_set_and_taken():
    def function(x):
        NAMES["c", 3] = 4.0
        taken = NAMES.pop(("a", 1))
        return x * taken, len(NAMES)

    check(function, X, watch=lambda: list(NAMES.items()), reset=reset, fallbacks=None)


def test_rules_that_come_later():
    reset()
    translated = translate(dispatched)
    for change in (lambda: None, lambda: RULES.update({(Part, Base): double}), lambda: RULES.pop((Part, Base)), reset):
        change()
        for _ in range(2):
            ours, plain = translated(X), dispatched(X)
            assert bool((ours[0] == plain[0]).all())
            assert ours[1:] == plain[1:]
    assert sot.stats(translated).graph_breaks == []


def test_other_keys_are_left_alone():
    def function(x):
        return x * len(OF_LISTS) * sum(OF_LISTS.values())

    check(function, X, fallbacks=None)
