"""Builtin classes that are asked before the user's: for operators and comparisons with what is derived from another
one of them, for what an `OrderedDict` takes over, and for what begins a list anew."""

import collections
import operator

import pytest
from harness import Programs, check, tensor

programs = Programs()
X = tensor(2, 3)


class Reflected(dict):
    def __ror__(self, other):
        return "reflected"

    def __eq__(self, other):
        return "equal"

    def __ne__(self, other):
        return "unequal"

    __hash__ = None


class ReflectedSet(set):
    def __ror__(self, other):
        return "or"

    def __rand__(self, other):
        return "and"

    def __rsub__(self, other):
        return "sub"

    def __rxor__(self, other):
        return "xor"

    def __eq__(self, other):
        return "equal"

    def __ge__(self, other):
        return "at least"

    __hash__ = None


class ReflectedFrozenSet(frozenset):
    __ror__, __rand__, __rsub__, __rxor__ = (
        ReflectedSet.__ror__,
        ReflectedSet.__rand__,
        ReflectedSet.__rsub__,
        ReflectedSet.__rxor__,
    )
    __eq__, __ge__ = ReflectedSet.__eq__, ReflectedSet.__ge__
    __hash__ = None


class Number(int):
    def __radd__(self, other):
        return "added"

    def __eq__(self, other):
        return "equal"

    def __ge__(self, other):
        return "at least"

    __hash__ = None


class Items(list):
    def __radd__(self, other):
        return "added"

    def __eq__(self, other):
        return "equal"

    def __gt__(self, other):
        return "greater"

    __hash__ = None


class Pair(tuple):
    __slots__ = ()

    def __eq__(self, other):
        return "equal"

    def __gt__(self, other):
        return "greater"

    __hash__ = None


Point = collections.namedtuple("Point", "a b")


class Plain:
    """Of no builtin kind: each of them leaves it to the object."""

    def __radd__(self, other):
        return ("radd", type(other).__name__)

    def __ror__(self, other):
        return ("ror", type(other).__name__)

    def __eq__(self, other):
        return ("eq", type(other).__name__)

    def __gt__(self, other):
        return ("gt", type(other).__name__)

    __hash__ = None


class OnlyReflected:
    def __ror__(self, other):
        return "reflected"


class Mapping:
    def keys(self):
        return ["z"]

    def __getitem__(self, key):
        return 5

    def __ror__(self, other):
        return "reflected"


@programs(X, graphs=1, breaks=1)
def new_dict_updated_in_place(x):
    d = {"a": 1}
    d |= Reflected(b=2)
    return d, x * 2


@programs(X, {"a": 1}, Reflected(b=2), graphs=1, breaks=1)
def given_dict_updated_in_place(x, d, other):
    same = d
    d |= other
    return d, same is d, x * 2


@programs(X, {"a": 1}, Reflected(b=2), graphs=1, breaks=1)
def dict_updated_by_operator(x, d, other):
    return operator.ior(d, other), d, x * 2


@programs(X, graphs=1, breaks=1)
def ordered_dict_updated_in_place(x):
    d = collections.OrderedDict(a=1)
    d |= Reflected(b=2)
    return d, x * 2


@programs(X, graphs=1, breaks=1)
def dict_updated_from_a_mapping(x):
    d = {"a": 1}
    d |= Mapping()
    return d, x * 2


@programs(X, graphs=0, breaks=1)
def dict_updated_from_nothing_like_it(x):
    d = {"a": 1}
    d |= OnlyReflected()
    return d, x * 2


@programs(X, {1, 3}, ReflectedSet([3]), graphs=1, breaks=2)
def sets_in_place(x, given, other):
    new = {1, 3}
    new |= other
    given -= other
    return new, given, x * 2


@programs(X, graphs=1, breaks=2)
def ordered_dict_and_another(x):
    d = collections.OrderedDict(a=1)
    return d | Reflected(b=2), collections.defaultdict(int, a=1) | Reflected(b=2), x * 2


@programs(X, ReflectedSet([3]), ReflectedFrozenSet([3]), graphs=1, breaks=8)
def set_and_another(x, s, f):
    frozen = frozenset([1, 3])
    made = {1, 3}
    return [frozen | s, frozen - s, frozen & s, frozen ^ s, made | f, made - f, made & f, made ^ f], x * 2


@programs(X, ReflectedSet([3]), graphs=1, breaks=0)
def a_derived_class_comes_first(x, s):
    return {1} | s, {1} & s, {1} == s, {1} <= s, [1] == Items([1]), {"a": 1} == Reflected(a=1), x * 2


@programs(X, graphs=1, breaks=0)
def objects_that_no_builtin_knows(x):
    o = Plain()
    sums = [1] + o, (1,) + o
    unions = {1} | o, frozenset([1]) | o, {"a": 1} | o, collections.OrderedDict(a=1) | o
    equal = 1 == o, 1.5 == o, "a" == o, None == o, [1] == o, (1,) == o, {1} == o, {"a": 1} == o  # noqa: E711, SIM300
    less = 1 < o, [1] < o, {1} < o  # noqa: SIM300
    return sums, unions, equal, less, x * 2


@programs(X, graphs=1, breaks=3)
def ordered_dict_compared(x):
    d = collections.OrderedDict(a=1)
    other = Reflected(a=1)
    return d == other, d != other, collections.defaultdict(int, a=1) == other, x * 2


@programs(X, ReflectedSet([1]), ReflectedFrozenSet([1]), graphs=1, breaks=3)
def set_compared(x, s, f):
    return frozenset([1]) == s, {1} == f, {1} <= f, x * 2


@programs(X, Number(5), graphs=1, breaks=4)
def numbers_compared(x, n):
    return 5.0 == n, 5.0 <= n, (5 + 0j) == n, True == n, x * 2  # noqa: E712


@programs(X, 1.5, Number(5), calls=[(X, v, Number(5)) for v in (2.5, 3.5, 5.0, 6.5)], graphs=1, breaks=3)
def numbers_that_differ(x, value, n):
    return value == n, value <= n, value + n, x * 2


@programs(X, Pair((1, 2)), graphs=1, breaks=2)
def named_tuple_compared(x, pair):
    point = Point(1, 2)
    return point == pair, point < pair, x * 2


@programs(X, Items([2, 3]), Pair((2, 3)), graphs=1, breaks=3)
def shape_compared(x, items, pair):
    return x.shape == items, x.shape < items, x.shape == pair, x * 2


class Doubled(dict):
    def __getitem__(self, key):
        return 2 * dict.__getitem__(self, key)


class Renamed(dict):
    def keys(self):
        return ["b"]

    def __getitem__(self, key):
        return 7


class Ordered(collections.OrderedDict):
    pass


class RenamedOrdered(collections.OrderedDict):
    def keys(self):
        return ["a"]


class Config(dict):
    """Reads and says as a dict does."""

    def __getattr__(self, name):
        if name not in self:
            raise AttributeError(name)
        return self[name]


@programs(X, Doubled(a=1), Renamed(a=1), graphs=1, breaks=4)
def ordered_dict_of_others(x, doubled, renamed):
    new = collections.OrderedDict(doubled), collections.OrderedDict(Doubled(c=4))
    return new, collections.OrderedDict(renamed), Ordered(renamed, c=3), x * 2


@programs(X, Doubled(a=1), Renamed(a=1), graphs=1, breaks=3)
def ordered_dict_updated_from_others(x, doubled, renamed):
    d = collections.OrderedDict(z=1)
    d.update(doubled)
    d.update(renamed, k=2)
    d.update(RenamedOrdered(a=4, b=5))
    return d, x * 2


@programs(X, collections.OrderedDict(z=1), Doubled(a=1), graphs=1, breaks=1)
def given_ordered_dict_updated(x, d, doubled):
    d.update(doubled)
    return d, x * 2


@programs(X, graphs=1, breaks=1)
def keys_of_the_object_itself(x):
    config = Config(a=1)
    config.keys = lambda: ["a", "a"]
    return collections.OrderedDict(config), x * 2


@programs(X, Config(a=1, b=2), graphs=1, breaks=0)
def ordered_dict_of_what_is_like_one(x, config):
    made = collections.OrderedDict(config), Ordered(config), collections.OrderedDict(Config(c=x))
    made[0].update(config, k=3)
    made[0].update(collections.OrderedDict(b=1, a=2))
    return made, collections.OrderedDict([("a", 1)], b=2), collections.OrderedDict({"a": 1}), x * 2


@programs(X, Doubled(a=1), Renamed(a=1), graphs=1, breaks=0)
def other_dicts_read_what_it_holds(x, doubled, renamed):
    return dict(doubled), {**renamed}, dict(renamed, k=1), collections.defaultdict(int, doubled), x * 2


class Begun(list):
    def __init__(self, *args):
        self.append(1)
        super().__init__(*args)


class Numbers(list):
    pass


@programs(X, graphs=1, breaks=0)
def list_begins_anew(x):
    numbers = Numbers([1, 2])
    numbers.__init__()
    again = Numbers([x])
    again.__init__()
    again.append(5)
    return Begun(), numbers, again, Numbers(), x * 2


@programs(X, graphs=1, breaks=3)
def list_begins_anew_with_items(x):
    return Begun([4, 5]), Begun("ab"), x * 2


class Odd(list):
    def __iter__(self):
        return iter(["x", "y"])


@programs(X, graphs=1, breaks=1)
def list_in_a_slice_of_itself(x):
    odd = Odd([1, 2, 3])
    odd[:] = odd
    return len(odd), odd[0], x * 2


@programs(X, graphs=1, breaks=0)
def list_as_an_item_of_itself(x):
    odd = Odd([1, 2, 3])
    odd[1] = odd
    other = Odd([7])
    other[1:] = odd
    d = Config(a=1)
    d["self"] = d
    return odd[1] is odd, other, d["self"] is d, x * 2


@pytest.mark.parametrize(("function", "args", "expectations"), programs)
def test_builtin_classes_are_asked_first(function, args, expectations):
    check(function, *args, **expectations)
