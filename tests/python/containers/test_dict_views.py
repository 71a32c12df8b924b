"""Views of dicts: membership, comparisons and the operators of sets, as plain Python has them, order included."""

import collections
import enum

import paddle
import paddle_sot_rs as sot
import pytest

KEYS = (8, 0, 16, 24, 3, 32, 40, 1, 2)
GIVEN = {8, 0, 77, 24}
FROZEN = frozenset({8, 0, 99})
OTHER = {1: "1", 99: "q"}


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Equal:
    """Says itself what it is equal to, and what it makes with a view."""

    def __eq__(self, other):
        return True

    def __rand__(self, other):
        return "mine"

    __hash__ = None


class Derived(dict):
    pass


class Own(dict):
    def keys(self):
        return ["own"]


def seen(value):
    """With the order of sets, and the class of everything."""
    if isinstance(value, paddle.Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value), [seen(item) for item in value]
    if isinstance(value, dict):
        return type(value), [(seen(key), seen(item)) for key, item in value.items()]
    return type(value), str(value)


def outcome(function, *args):
    try:
        return seen(function(paddle.ones([2]), *args))
    except Exception as error:
        return type(error), str(error)


def agree(body, makers, breaks=0):
    lines = [
        "def f(x, d=None):",
        "    y = x + 1",
        *(f"    {line}" for line in body.splitlines()),
        "    return x * y, r",
    ]
    names = {}
    exec("\n".join(lines), globals(), names)
    static = sot.to_static(names["f"], min_graph_size=0)
    for make in makers:
        assert outcome(names["f"], make()) == outcome(static, make())
    record = sot.stats(static)
    assert len(record.graph_breaks) == breaks and not record.fallbacks, record.graph_breaks
    return record


def numbers():
    return {key: str(key) for key in KEYS}


def fewer():
    return {1: "1", 64: "64"}


CAPTURED = [
    "len(d.keys()), len(d.values()), len(d.items()), bool(d.values())",
    "8 in d.keys(), 3.0 in d.keys(), True in d.keys(), None in d.keys()",
    "'8' in d.values(), None in d.values(), 8 in d.values(), [] in d.values()",
    "(8, '8') in d.items(), (True, '1') in d.items(), (8, 8) in d.items(), (8,) in d.items(), [8, '8'] in d.items()",
    "d.keys() & {8, 32, 99}, {8, 32, 99, 0} & d.keys(), d.keys() & [0, 8], d.keys() & OTHER",
    "d.keys() - {8}, d.keys() - {8, 0, 16}, d.keys() - d.keys(), {8, 99, 64, 72} - d.keys(), [8, 99] - d.keys()",
    "d.keys() | {64, 72, 80}, {64, 72, 0} | d.keys(), d.keys() | OTHER, OTHER | d.keys(), d.keys() | d.items()",
    "d.keys() ^ {8, 64, 0}, {8, 64, 0} ^ d.keys(), d.items() ^ OTHER.items()",
    "d.items() - [(8, '8')], d.items() | {(1, 'q')}, d.items() & OTHER.items()",
    "d.keys() & GIVEN, d.keys() - GIVEN, d.keys() - FROZEN",
    "d.keys() == set(KEYS), d.keys() != set(KEYS), d.keys() <= set(KEYS), d.keys() < GIVEN, d.keys() >= {1}",
    "d.keys() == GIVEN, GIVEN <= d.keys(), d.keys() > FROZEN, {1} < d.keys()",
    "d.keys() == OTHER.keys(), d.items() >= OTHER.items(), OTHER.items() <= d.items(), d.keys() == list(d)",
    "d.values() == d.values(), d.keys() == 3, d.values() != [1], d.keys() == d, d.keys() is d.keys()",
    "d.keys().isdisjoint([99]), d.keys().isdisjoint({1}), d.items().isdisjoint([(1, '1')]), {99}.isdisjoint(d)",
    "type(d.keys()), isinstance(d.items(), list), d.values().__class__, hasattr(d.values(), 'isdisjoint')",
    "'missing ' + str(sorted({1, 98} - d.keys())) if {1, 98} - d.keys() else 'none'",
    "d.keys() == Equal()",
]
SETS = [
    "{8, 0, 16, 24} - {8}, {8, 0, 16} | {24, 32}, {8, 0, 16, 24} & {0, 24, 8}, {8, 0, 1} ^ {8, 16}",
    "{8, 16, 0}, list({8, 16, 0, 24}), len({1, 2, 3}), 2 in {1, 2, 3}",
    "frozenset([8, 16, 0]) - {8}, {8, 16} - frozenset([8])",
    "{Color.RED: 1, Color.GREEN: 2}.keys() - {Color.RED}, {Color.RED: 1}.keys() == {Color.RED}",
]
RAISES = ["d.keys() < 3", "d.keys() - 3", "d.values() & d.values()", "hash(d.keys())", "d.keys() + {1}"]


@pytest.mark.parametrize("body", CAPTURED + SETS)
@pytest.mark.parametrize("made", [False, True], ids=["given", "new"])
def test_captured(body, made):
    makers = [lambda: None, lambda: None] if made else [numbers, numbers, fewer, numbers, dict]
    start = "d = {8: '8', 0: '0', 16: '16', 24: '24', 1: '1', 2: '2'}\n" if made else ""
    record = agree(f"{start}r = {body}", makers)
    assert not made or record.graphs == record.translations == 1


@pytest.mark.parametrize("body", RAISES)
def test_raises_what_python_raises(body):
    agree(f"r = {body}", [numbers, numbers], breaks=1)


@pytest.mark.parametrize(
    ("body", "breaks"),
    [
        # What made a set decides on where it puts what is added.
        ("r = d.keys() - {3, 1, 2}\nr.add(64)\nr.add(65)\nr = list(r)", 2),
        ("r = d.keys() - d.keys()\nr.add(8)\nr.add(0)\nr = list(r)", 2),
        ("r = d.keys() - {1}\nr.clear()\nr.add(8)\nr.add(0)\nr = list(r)", 0),
        ("r = {8, 0, 16}\nr.add(24)\nr = list(r)", 1),
        # Operands are as they were.
        ("v = d.keys()\nr = v - {1}\nd[77] = 1\nr = r, v - {1}, len(v), 77 in v", 0),
        ("s = {1}\nr = {1, 5} - s\ns.add(5)\nr = r, s", 0),
        ("r = [1]\nr |= d.keys()", 0),
        ("s = r = {1, 99}\nr |= d.keys()\nr = r, s, r is s", 0),
        ("s = r = {1, 99}\nr &= {1}\nr = r, s, r is s", 1),
        ("r = d.keys()\nr &= {1}", 0),
        ("r = dict(d)\nr |= {77: 1}.items()", 1),
        ("r = d.keys() & Equal()", 1),
        ("r = d.keys() & FROZEN", 1),
        ("r = list(d.keys() | GIVEN)", 1),
        ("r = list(GIVEN - d.keys())", 1),
        ("r = 0\nfor key in d.keys() & GIVEN:\n    r += key\nfor key in d.keys() - {1}:\n    r = r * 2 + key", 0),
        ("s = d.keys() - {8}\nprint(end='')\nr = list(s), len(s)", 1),
        ("d['t'] = x\nr = 't' in d.keys(), len(d.keys() - {8}), d.keys() & {'t'}", 0),
    ],
)
def test_what_a_set_is_made_of(body, breaks):
    agree(body, [numbers, numbers, numbers], breaks)


@pytest.mark.parametrize(
    ("make", "breaks"),
    [
        (lambda: collections.OrderedDict(numbers()), 1),
        (lambda: collections.defaultdict(list, numbers()), 1),
        (lambda: Derived(numbers()), 1),
        (lambda: Own(numbers()), 1),
    ],
    ids=["ordered", "default", "derived", "own"],
)
def test_other_dicts(make, breaks):
    agree("r = list(d.keys() | {1}) if type(d) is not Own else d.keys() | {1}", [make, make], breaks)
    agree("r = 8 in d.keys(), '8' in d.values(), (8, '8') in d.items(), len(d.items())", [make, make])
    agree("r = d.items() == OTHER.items(), d.items() >= {(8, '8')}", [make, make])


def test_a_dict_that_changes_in_between():
    """Its keys are guarded, its values where they are compared."""
    record = agree(
        "r = 3 in d.keys(), 'q' in d.values(), d.keys() - {8}",
        [numbers, lambda: numbers() | {3: "q"}, lambda: numbers() | {4: "4"}, numbers],
    )
    assert record.translations == 3
