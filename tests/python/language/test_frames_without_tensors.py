"""What CPython's own tests found, in small: functions without tensors, plain and with every frame translated."""

from __future__ import annotations

import collections.abc
import functools
import gc
import subprocess
import sys
import weakref

import pytest
from paddle_sot_rs.debug import force_translation


class Mortal:
    pass


class Loud:
    """Counts what is asked of it."""

    asked = 0

    def __repr__(self):
        type(self).asked += 1
        return "Loud()"


LOUD = Loud()


class Fails:
    def __init__(self, path):
        raise ImportError(path)


class Cost:
    _cost = 1

    def get_cost(self):
        self._cost += 1
        return self._cost

    cached = functools.cached_property(get_cost)


class Wrong:
    def __call__(self):
        return 0


Wrong.__call__ = Wrong()


class Slotted:
    __slots__ = ("a",)


class Boundless:
    def __bool__(self):
        return 1


def subclasses():
    def related(classes, of):
        return list(issubclass(one, of) for one in classes)

    return [related((one,), collections.abc.Sized) for one in (dict, object, dict, object)]


def handler_around_a_constructor():
    answers = []
    for path in "abcdef":
        try:
            answers.append(Fails(path))
        except ImportError as error:
            answers.append(str(error))
    return answers


def attributes_and_the_dict():
    item = Cost()
    return item.get_cost(), item.cached, item.get_cost(), item.cached, vars(item)


def dead_local_lives_on():
    object_ = Mortal()
    known = weakref.ref(object_)
    print("a break")
    return known() is not None


def deleted_local_dies():
    object_ = Mortal()
    known = weakref.ref(object_)
    print("a break")
    del object_
    gc.collect()
    return known() is None


def context_of_an_exception():
    try:
        try:
            raise TypeError(1)
        finally:
            raise ValueError(2)
    except Exception as error:
        found = error
    return type(found), type(found.__context__)


def calls_without_an_end():
    try:
        return Wrong()()
    except RecursionError:
        return "recursion"


def no_place_for_an_attribute():
    value = Slotted()
    value.a = 1
    try:
        value.b = 2
    except AttributeError:
        return value.a


def truth_that_is_none():
    try:
        return bool(Boundless())
    except TypeError as error:
        return str(error)


def keys_change_while_iterated():
    table = {0: 0}
    try:
        for _ in table:
            del table[0]
            table[0] = 0
    except RuntimeError as error:
        return str(error)


def deep_list():
    nested = []
    for _ in range(1200):
        nested = [nested]
    depth = 0
    while nested:
        depth, nested = depth + 1, nested[0]
    return depth


def names_that_look_interned():
    name = "".join(["__a", "dd__"])
    print("a break")
    return name is "__add__" and sys.intern(name) is not name  # noqa: F632


def locals_after_a_break():
    first = {}
    second = [first]
    print("a break")
    return sorted(locals())


def comparison_that_changes_the_list():
    class Clears:
        def __eq__(self, other):
            right.clear()
            return NotImplemented

    right = [Clears()]
    return [Clears()] == right, right


def super_without_self():
    def bare():
        super()

    try:
        bare()
    except RuntimeError as error:
        return str(error)


def classes_of_constants():
    values = 1, 1.5, "a", b"a", None, True
    one, other = 2, 3
    return (
        [value.__class__ is type(value) for value in values],
        one.__class__ is other.__class__,
        one.__class__ is int,
        {one.__class__: "found"}[int],
        isinstance(one, other.__class__),
        one.__class__("7"),
    )


FUNCTIONS = [
    subclasses, handler_around_a_constructor, attributes_and_the_dict, dead_local_lives_on, deleted_local_dies,
    context_of_an_exception, calls_without_an_end, no_place_for_an_attribute, truth_that_is_none,
    keys_change_while_iterated, deep_list, names_that_look_interned, locals_after_a_break,
    comparison_that_changes_the_list, super_without_self, classes_of_constants,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_is_what_plain_python_says(function):
    plain = [function() for _ in range(4)]
    with force_translation() as forced:
        translated = [function() for _ in range(4)]
    assert translated == plain
    assert sum(forced.frames().values()) > 0


def read_a_global():
    return LOUD is None, len([LOUD, LOUD])


def test_no_guard_asks_an_object_for_its_text():
    with force_translation():
        read_a_global()
    assert Loud.asked == 0


def test_a_local_class_is_not_kept_alive():
    def make():
        class Local:
            @staticmethod
            def method():
                return 1

        assert Local.method() == 1
        return weakref.ref(Local)

    with force_translation():
        known = make()
        gc.collect()
        assert known() is None


class Sized:
    size = 2


def counts_with(owner):
    return owner.size + 1, owner().size + 1


@pytest.mark.parametrize("owner", [Sized, Mortal], ids=["inherited", "its own"])
def test_numbers_of_a_class_do_not_keep_it_alive(owner):
    def make():
        class Local(owner):
            size = 3

        if owner is Sized:
            del Local.size
        assert counts_with(Local) == ((3, 3) if owner is Sized else (4, 4))
        return weakref.ref(Local)

    with force_translation() as forced:
        for _ in range(4):
            known = make()
            gc.collect()
            assert known() is None
        assert forced.frames()["translated"] > 0


ODD = """
import warnings

from paddle_sot_rs.debug import force_translation

warnings.simplefilter("ignore")
asked = []


class Key:
    def __hash__(self):
        return hash("size")

    def __eq__(self, other):
        asked.append(other)
        return False


class Base:
    size = 1


def run():
    found = type("Odd", (Base,), {Key(): 5})
    # New code each time: the interpreter looks names up once more when it specializes what is warm.
    names = {}
    exec("def read(owner):\\n    return owner.size, owner().size", names)
    asked.clear()
    return names["read"](found), list(asked)


plain = run()
with force_translation():
    translated = [run() for _ in range(5)]
assert all(values == (1, 1) for values, names in (plain, *translated))
# How often is up to the interpreter's cache of attributes, what else is in it: the same in one
# process, but for luck.
assert min(len(names) for values, names in translated) <= len(plain[1]), (plain, translated)
"""


def test_a_class_with_keys_that_are_no_strings():
    """Looking a name up in it calls the `__eq__` of the key. In a new process: caches are not used up."""
    subprocess.run([sys.executable, "-c", ODD], check=True)


def test_a_class_that_is_being_made():
    class Meta(type):
        def mro(cls):
            try:
                seen.append(cls.size)
            except AttributeError:
                seen.append(None)
            return super().mro()

    seen = []

    def run():
        class Made(metaclass=Meta):
            size = 1

        return Made.size

    assert run() == 1
    with force_translation():
        assert [run() for _ in range(3)] == [1] * 3
    assert seen == [None] * 4
