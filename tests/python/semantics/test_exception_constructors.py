"""Exceptions whose class has a constructor of its own, raised and caught in a function: it runs once, and the graph
goes on. Those that leave it the interpreter makes."""

import pytest
from harness import Programs, check, tensor

programs = Programs()
X = tensor(3, grad=True)
seen = []


class Coded(Exception):
    def __init__(self, code):
        seen.append(code)
        super().__init__(f"code {code}")
        self.code = code


class Detailed(Coded):
    def __init__(self, code, *, detail=None):
        Coded.__init__(self, code + 1)
        self.detail = detail

    @property
    def double(self):
        return self.code * 2


class Silent(ValueError):
    def __init__(self, message, number):
        self.message = message


class Named(Coded):
    def __str__(self):
        return f"named {self.code}"


class WithNumber(OSError):
    def __init__(self, number):
        super().__init__(number, "no")


class Watched(Coded):
    def __new__(cls, *args):
        seen.append("new")
        return super().__new__(cls, *args)


@programs(X, graphs=1, breaks=0)
def caught(x):
    try:
        raise Coded(3)
    except Coded as error:
        return x * error.code, error.args, str(error), repr(error)


@programs(X, graphs=1, breaks=0)
def raised_in_a_callee(x):
    def checked(n):
        if n > 1:
            raise Coded(n)
        return n

    found = []
    for n in range(4):
        try:
            checked(n)
        except (KeyError, Coded) as error:
            found.append(error)
    return x * len(found) + sum(error.code for error in found)


@programs(X, graphs=1, breaks=0)
def derived(x):
    try:
        raise Detailed(1, detail=5)
    except Coded as error:
        return x * error.detail + error.double, f"{error}", error.args


@programs(X, graphs=1, breaks=0)
def without_the_base_constructor(x):
    """`BaseException.__new__` has kept the arguments."""
    try:
        raise Silent("abc", 2)
    except ValueError as error:
        return x * error.args[1], error.message, str(error)


@programs(X, graphs=1, breaks=0)
def made_before(x):
    error = Coded(2)
    try:
        raise error
    except Exception as caught:
        return x * caught.code, caught is error


@programs(X, graphs=1, breaks=0)
def finally_and_else(x):
    try:
        try:
            raise Coded(1)
        finally:
            seen.append("finally")
    except Coded as error:
        x = x + error.code
    try:
        pass
    except Coded:
        x = x * 100
    else:
        x = x * 2
    return x


@programs(X, graphs=1, breaks=0)
def dropped(x):
    Coded(7)
    return x * 2


@programs(X)
def kept(x):
    error = Coded(7)
    seen.append(error.code)
    return x * 2, error.code, [error]


@programs(X)
def leaves(x):
    y = x * 2
    raise Coded(y.shape[0])


@programs(X)
def translated(x):
    try:
        raise Coded(4)
    except Coded as error:
        raise ValueError(error.code) from error


@programs(X)
def changed(x):
    try:
        raise Coded(4)
    except Coded as error:
        error.args = ("other", 2)
        return x + len(error.args), str(error)


@programs(X, fallbacks=None)
def text_of_its_own(x):
    try:
        raise Named(4)
    except Coded as error:
        return x, str(error), f"{error}"


@programs(X)
def fields_of_c_code(x):
    try:
        raise WithNumber(2)
    except OSError as error:
        return x * error.errno, str(error)


@programs(X, fallbacks=None)
def own_new(x):
    try:
        raise Watched(2)
    except Coded as error:
        return x * error.code


@programs(X, fallbacks=None)
def a_break_in_the_handler(x):
    try:
        raise Coded(3)
    except Coded as error:
        return x * float(x.sum()) + error.code


@pytest.mark.parametrize("function, args, takes", programs)
def test_constructors(function, args, takes):
    takes = {"fallbacks": None, **takes} if "graphs" not in takes else takes
    check(function, *args, watch=lambda: list(seen), reset=seen.clear, **takes)
