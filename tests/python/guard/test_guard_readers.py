"""What guards read at a call: nothing of the user's runs meanwhile, and nothing they compare with is gone."""

import enum
import gc

import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec


class Cycle:
    """Empties a list when the garbage collector finds it."""

    def __init__(self, items):
        self.items = items
        self.itself = self

    def __del__(self):
        self.items.clear()


def translate(function, **options):
    return sot.to_static(function, min_graph_size=0, **options)


def test_a_gate_opens_only_where_distinct_objects_are():
    class Net:
        pass

    def function(net, x, n):
        net.a.append(0)
        net.b.append(0)
        size = len(net.a)
        net.a.pop()
        net.b.pop()
        return x * n if size == 3 else x * 100

    net = Net()
    net.a, net.b = [0], [0]
    translated = translate(function)
    x = paddle.ones([2])
    for _ in range(4):
        translated(net, x, 1)
    net.b = net.a
    for n in (1, 2, 3, 4):
        assert translated(net, x, n).tolist() == function(net, x, n).tolist()


@pytest.mark.parametrize("name", ["_updated_padding", "_stride"])
def test_an_item_of_a_list_of_a_layer_at_the_address_of_the_one_before(name):
    layer = paddle.nn.Conv2D(1, 1, 3, padding=[int("1000") - 700] * 2, stride=[int("1000") - 700] * 2)

    def function(x):
        return layer(x) * 2

    translated = translate(function)
    x = paddle.ones([1, 1, 4, 4])
    for _ in range(3):
        assert translated(x).shape == function(x).shape
    items = getattr(layer, name)
    for number in (401, 502, 603, 704):
        items.pop()
        items.append(int(str(number)))
        assert translated(x).shape == function(x).shape


def test_what_guards_found_stays_while_a_declaration_is_asked():
    def function(x, items):
        return items[0] * 2

    translated = translate(function, input_spec=[InputSpec([None, 4], "float32")])
    x = paddle.ones([3, 4])
    for rows in (3, 5, 3, 4):
        translated(paddle.ones([rows, 4]), [paddle.full([3, 4], 3.0)])
    threshold = gc.get_threshold()
    gc.freeze()
    try:
        for more in range(60):
            gc.collect()
            gc.disable()
            items = [paddle.full([3, 4], 5.0)]
            Cycle(items)
            gc.set_threshold(gc.get_count()[0] + more)
            gc.enable()
            try:
                result = translated(x, items)
            except IndexError:
                continue
            assert result.tolist() == [[10.0] * 4] * 3
    finally:
        gc.set_threshold(*threshold)
        gc.enable()
        gc.unfreeze()


class Liar:
    """A key that lets go of what the caller holds when it is compared."""

    def __init__(self, key, items):
        self.key = key
        self.items = items
        self.asked = 0

    def __hash__(self):
        return hash(self.key)

    def __eq__(self, other):
        self.asked += 1
        self.items[0] = paddle.full([4], 7.0)
        return other == self.key


class Text(str):
    items = None
    asked = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        self.asked += 1
        self.items[0] = paddle.full([4], 7.0)
        return str.__eq__(self, other)


def text(key, items):
    made = Text(key)
    made.items = items
    return made


class Thing:
    pass


def of_dict(x, held, items):
    first = items[0]
    return first * held["a"] + x


def of_thing(x, held, items):
    first = items[0]
    return first * held.a + x


def of_missing(x, held, items):
    first = items[0]
    return first * getattr(held, "b", 3.0) + x


def of_set(x, held, items):
    first = items[0]
    return first * x if 1 in held else first - x


def of_frozen(x, held, items):
    first = items[0]
    return first * x if ("a", 1) in held else first - x


def in_dict(key):
    return {key: 1.0, "b": 2.0}


def in_thing(key):
    thing = Thing()
    thing.__dict__[key] = 1.0
    return thing


def in_set(key):
    return {key, 2}


HELD = {
    "dict": (of_dict, in_dict, "a"),
    "thing": (of_thing, in_thing, "a"),
    "missing": (of_missing, in_thing, "b"),
    "set": (of_set, in_set, 1),
    "frozen": (of_frozen, lambda key: frozenset([key]), ("a", 1)),
}


@pytest.mark.parametrize("make", [Liar, text])
@pytest.mark.parametrize("name", HELD)
def test_a_guard_asks_no_key_what_it_is_equal_to(name, make):
    function, hold, key = HELD[name]
    if make is text and not isinstance(key, str):
        pytest.skip("a text")
    translated = translate(function)
    x = paddle.ones([4])
    for _ in range(3):
        translated(x, hold("c" if name == "missing" else key), [paddle.full([4], 3.0)])
    for _ in range(12):
        outcomes = []
        for call in (function, translated):
            items = [paddle.full([4], 5.0)]
            known = make(key, items)
            outcomes.append((call(x, hold(known), items).tolist(), items[0].tolist(), known.asked))
        # A translation looks for the attribute too.
        assert outcomes[0][:2] == outcomes[1][:2] if name == "thing" else outcomes[0] == outcomes[1]


class Color(enum.Enum):
    RED = 1
    GREEN = 2


def test_tables_of_every_size_and_kind_of_key():
    def function(x, table, known):
        return x * table[257] + table[Color.RED] * table["a"] - (1 if -3 in known else 2) * (1 if "b" in known else 3)

    x = paddle.ones([2])
    translated = translate(function)
    keys = ["a", 257, Color.RED, None, int, Color.GREEN, "GREEN"]
    for size in (0, 3, 30, 90, 200, 30000):
        table = {key: float(at) for at, key in enumerate(keys)}
        # Hashes that meet at the same places, and places where something was.
        few = min(size, 90)
        table |= {(at << 7) + 3: 0.0 for at in range(few)}
        table |= {str(at): 0.0 for at in range(few)}
        for at in range(0, few, 2):
            del table[(at << 7) + 3]
        for elements in (
            {-3},
            {-1, -2, -3, "b"},
            {"a", "b", 257, None, int},
            set(range(-3, size)),
            {at << 7 for at in range(size)} | {"b"},
        ):
            known = elements | {"gone"}
            known.discard("gone")
            table[257] = table[257] + 1.0
            for _ in range(2):
                assert translated(x, table, known).tolist() == function(x, table, known).tolist()
    assert sot.stats(translated).graph_breaks == []


@pytest.mark.parametrize("size", [0, 30, 300, 30000])
def test_attributes_beside_keys_that_are_no_texts(size):
    def function(x, thing):
        return x * thing.first + thing.last

    x = paddle.ones([2])
    translated = translate(function)
    for number in (1.0, 2.0, 1.0, 1.0):
        thing = Thing()
        thing.first = number
        thing.__dict__.update({at << 7: at for at in range(size)})
        thing.__dict__.update({f"name{at}": at for at in range(size)})
        for at in range(0, size, 2):
            del thing.__dict__[at << 7]
        thing.__dict__[(1, 2)] = 0
        thing.last = 3.0
        assert translated(x, thing).tolist() == function(x, thing).tolist()
    assert sot.stats(translated).cache_hits >= 2


def test_keys_that_compare_as_builtins_do_cost_no_translation():
    def function(x, table, known):
        return x * table["RED"] + (1 if ("a", 1) in known else 2)

    x = paddle.ones([2])
    translated = translate(function)
    for more in (7, b"RED", Color.RED, 1.5):
        # A member has the hash of its name, and `b"RED"` too.
        table = {Color.RED: 1.0, "RED": 2.0}
        known = {("a", True), "RED", more}
        assert translated(x, table, known).tolist() == function(x, table, known).tolist()
    assert sot.stats(translated).translations == 1


def test_no_destructor_runs_among_guards():
    def function(x, thing, items):
        first = items[0]
        return first * thing.a + x

    def thing():
        made = Thing()
        made.a = 1.0
        return made

    translated = translate(function)
    x = paddle.ones([4])
    for _ in range(3):
        translated(x, thing(), [paddle.full([4], 3.0)])
    kept = []
    threshold = gc.get_threshold()
    gc.freeze()
    try:
        for _ in range(30):
            gc.disable()
            gc.set_threshold(1)
            items = [paddle.full([4], 5.0)]
            # Its dictionary is made when a guard reads it, and is one more than the threshold.
            held = thing()
            Cycle(items)
            kept.append([{} for _ in range(100)])
            gc.enable()
            try:
                assert translated(x, held, items).tolist() == [6.0] * 4
            except IndexError:
                continue
    finally:
        gc.set_threshold(*threshold)
        gc.enable()
        gc.unfreeze()
