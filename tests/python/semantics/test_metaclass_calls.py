"""Classes whose metaclass has a `__call__` of its own: it is simulated, and so is what it calls through `super()`."""

import paddle_sot_rs as sot
import pytest
from harness import Programs, check, tensor, translate

programs = Programs()
X = tensor(3, grad=True)
seen = []


class Logged(type):
    limit = 4

    def __call__(cls, *args, **kwargs):
        seen.append(cls.__name__)
        made = super().__call__(*args, **kwargs)
        made.number = len(seen)
        return made

    def doubled(cls, value):
        return cls(2 * value)

    @property
    def two(cls):
        return 2


class Part(metaclass=Logged):
    def __init__(self, value, scale=1):
        seen.append("init")
        self.value = value * scale


class Derived(Part):
    limit = 5


class Single(type):
    made = {}

    def __call__(cls, *args):
        if cls not in cls.made:
            cls.made[cls] = super().__call__(*args)
        return cls.made[cls]


class Settings(metaclass=Single):
    def __init__(self):
        self.value = 1

    def raised(self):
        self.value += 1
        return self.value


class Other(Settings):
    pass


class Plainly(type):
    def __call__(cls, *args):
        return type.__call__(cls, *args)


class Made(metaclass=Plainly):
    def __init__(self, value):
        self.value = value


class Never(type):
    def __call__(cls, *args):
        return 5


class Replaced(metaclass=Never):
    pass


@programs(X, graphs=1, breaks=0)
def logged(x):
    first, second = Part(2), Derived(3, scale=2)
    return x * first.value + second.value, first.number, second.number


@programs(X, graphs=1, breaks=0)
def what_the_metaclass_has(x):
    return x * Part.doubled(3).value + Part.two, Part.limit, Derived.limit


@programs(X, graphs=1, breaks=0)
def singletons(x):
    same = Settings() is Settings(), Settings() is Other()
    return x * Settings().raised() + Other().value, same


@programs(X, graphs=1, breaks=0)
def called_by_type(x):
    return x * Made(2).value + Replaced()


def reset():
    seen.clear()
    Single.made.clear()


@pytest.mark.parametrize("function, args, takes", programs)
def test_metaclasses(function, args, takes):
    def world():
        return list(seen), [(cls.__name__, made.value) for cls, made in Single.made.items()]

    check(function, *args, watch=world, reset=reset, **takes)


def test_a_metaclass_that_changes():
    class Meta(type):
        def __call__(cls, value):
            return super().__call__(value)

    class Value(metaclass=Meta):
        def __init__(self, value):
            self.value = value

    def function(x):
        return x * Value(2).value

    translated = translate(function)
    assert bool((translated(X) == X * 2).all())
    Meta.__call__ = lambda cls, value: type.__call__(cls, 10 * value)
    assert bool((translated(X) == X * 20).all())
    del Meta.__call__
    assert bool((translated(X) == X * 2).all())
    assert sot.stats(translated).graph_breaks == []


def test_attributes_that_come_to_a_class_hide_those_of_its_metaclass():
    class Meta(type):
        scale = 2

    class Value(metaclass=Meta):
        pass

    def function(x):
        return x * Value.scale

    translated = translate(function)
    for change in (lambda: None, lambda: setattr(Value, "scale", 3), lambda: delattr(Value, "scale")):
        change()
        assert bool((translated(X) == function(X)).all())
    Meta.scale = 7
    assert bool((translated(X) == X * 7).all())
