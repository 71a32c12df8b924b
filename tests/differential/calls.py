"""Calls of builtin functions, of methods of builtin types and of operators, with arguments of all kinds, right and wrong.

`python tests/differential/calls.py [--seed S] [--count N]` makes N of them, each in a function of its own, and compares
results, what the receiver has become, and exceptions with plain Python. A call is a line of source: what differs is
printed as it is.
"""

from __future__ import annotations

import argparse
import builtins
import collections
import copy
import functools
import itertools
import math
import operator
import random
import re
import sys
import types
import warnings

import paddle
import paddle_sot_rs as sot

MODULES = {module.__name__: module for module in (collections, copy, functools, itertools, math, operator)}
RECEIVERS = {
    "list": ["[3, 1, 2]", "[]", '["b", "a"]', "[[1], [2]]", "[1, 1.0, True]"],
    "dict": ['{"a": 1, "b": 2}', "{}", "{1: [1], 2: [2]}"],
    "set": ["{1}", "{1, 2, 3}", "set()", '{"a"}'],
    "frozenset": ["frozenset([1])", "frozenset([1, 2])", "frozenset()"],
    "tuple": ["(3, 1, 2)", "()", '("a", (1,))'],
    "str": ['"hello world"', '""', '"a,b,c"', '"  Ab1 "', '"{} {a}"', '"12"'],
    "bytes": ['b"hello"', 'b""', 'b"a,b"'],
    "int": ["5", "-3", "0", "True", "2**70"],
    "float": ["2.5", "-0.0", "3.0", 'float("nan")', 'float("inf")'],
    "complex": ["(1+2j)"],
    "range": ["range(5)", "range(5, 0, -2)", "range(0)"],
    "collections.deque": ["collections.deque([1, 2, 3])", "collections.deque([1, 2], maxlen=2)"],
    "collections.OrderedDict": ["collections.OrderedDict(a=1, b=2)"],
    "collections.defaultdict": ["collections.defaultdict(list, a=[1])"],
    "collections.Counter": ['collections.Counter("aab")'],
}
VALUES = [
    *("1", "0", "-1", "2.5", "-0.0", "True", "None", "...", "2**70", "(1+2j)", 'float("nan")', "int", "str", "len"),
    *('"a"', '"12"', '""', '","', '"abc"', 'b"ab"', '"utf-8"', "[1, 2]", "[3, 1, 2]", "[]", '["b", "a"]', "[[1], [2]]"),
    *("(1, 2)", "()", "{1}", '{"a": 3}', "{}", "frozenset([1])", "range(3)", "collections.deque([1, 2])", '[("a", 1)]'),
    *("slice(1, 2)", "iter([1, 2])", "object()", "zip([1], [2])", "enumerate([5])", "map(str, [1])"),
    *("(i for i in [1, 2])", 'Exception("q")', 'type("T", (), {})'),
]
NAMED = [
    *("key=len", "key=str", "default=7", "reverse=True", "start=1", "strict=True", "a=1", 'sep=","', "initial=3"),
    *("base=10", 'encoding="utf-8"', "maxlen=2", "last=False", "maxsplit=1", "keepends=True"),
]
OPERATORS = "+ - * / // % ** @ << >> & | ^ < <= == != > >= is in and or".split()
# They read the frame, wait for somebody, or say where an object lies.
LEFT_OUT = set(
    "input open exec eval compile exit quit help copyright credits license breakpoint globals locals vars dir id hash "
    "print memoryview object super range repeat".split()
)
METHODS_LEFT_OUT = set(
    "__init_subclass__ __subclasshook__ __class__ __new__ __dir__ __reduce__ __reduce_ex__ __getstate__ __setstate__ "
    "__doc__ __hash__ __sizeof__ __init__ __class_getitem__ __getnewargs__ __getattribute__ __setattr__ "
    "__delattr__".split()
)
# With huge numbers they take for ever.
GROWS = re.compile(r"pow|shift|factorial|comb|perm|mul|concat|bytes|list|islice|\*|<<")


def _functions():
    for module in (builtins, *MODULES.values()):
        prefix = "" if module is builtins else module.__name__ + "."
        for name in dir(module):
            if name[0] != "_" and name not in LEFT_OUT and callable(getattr(module, name)) and "Warning" not in name:
                yield prefix + name


FUNCTIONS = sorted(_functions())
METHODS = [
    (receiver, name)
    for kind, receivers in RECEIVERS.items()
    for name in dir(eval(kind, dict(MODULES)))
    if name not in METHODS_LEFT_OUT
    for receiver in receivers
]


def call(draw: random.Random) -> tuple[str, str]:
    """A receiver, and an expression with it as `r`."""
    arguments = [draw.choice(VALUES) for _ in range(draw.choice([0, 1, 1, 1, 2, 2, 3]))]
    if draw.random() < 0.15:
        arguments.append(draw.choice(NAMED))
    given = ", ".join(arguments)
    kind = draw.random()
    if kind < 0.5:
        receiver, name = draw.choice(METHODS)
        made = receiver, f"r.{name}({given})" if draw.random() < 0.97 else f"r.{name}"
    elif kind < 0.75:
        made = "0", f"{draw.choice(FUNCTIONS)}({given})"
    elif kind < 0.95:
        made = draw.choice(VALUES), f"r {draw.choice(OPERATORS)} ({draw.choice(VALUES)})"
    else:
        one = draw.choice(VALUES)
        forms = ["-r", "~r", "not r", "[*r]", "{**r}", "r[1:]", "(*r, 1)", "[i for i in r]", "{i: i for i in r}"]
        made = one, draw.choice([*forms, f"r[{draw.choice(VALUES)}]", "f'{r}'", "f'{r!r:>9}'"])
    return call(draw) if "2**70" in "".join(made) and GROWS.search(made[1]) else made


def _shown(value, nested=False):
    if isinstance(value, (set, frozenset)):
        # In their order, where it does not depend on where objects lie.
        items = [_shown(item, True) for item in value]
        return type(value).__name__ + repr(sorted(items) if "0x" in "".join(items) else items)
    if hasattr(value, "__next__") and not nested:
        try:
            items = [_shown(item, True) for item in itertools.islice(value, 20)]
            # One that has come to its end may be of another type.
            return type(value).__name__ + repr(items) if items else "nothing more"
        except Exception as error:  # noqa: BLE001 - compared
            return type(value).__name__ + repr(error)
    return re.sub(r"0x[0-9a-f]+", "0x", repr(value))


def _outcome(function, *arguments):
    try:
        _, result, receiver = function(*arguments)
    except Exception as error:  # noqa: BLE001 - compared
        # Methods called with wrong arguments: after a break the text names another class of the
        # object, or none.
        text = re.sub(r"\b\w+\.(?=\w+\(\))", "", str(error))
        return type(error).__name__, re.sub(r"0x[0-9a-f]+", "0x", text)
    return type(result).__name__, _shown(result), _shown(receiver)


SOURCES = {
    "made": "def function(x):\n    r = {receiver}\n    result = {expression}\n    return x + 1, result, r\n",
    "given": "def function(x, r):\n    result = {expression}\n    return x + 1, result, r\n",
    "global": "R = {receiver}\ndef function(x):\n    r = R\n    result = {expression}\n    return x + 1, result, r\n",
}


def difference(receiver: str, expression: str, where: str):
    """What plain Python does and what the translation does, where that differs; each is called twice."""
    source = SOURCES[where].format(receiver=receiver, expression=expression)
    x = paddle.ones([2])
    seen = []
    for translate in (None, sot.to_static):
        names = {**MODULES, "__name__": "calls"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            exec(compile(source, "<call>", "exec", dont_inherit=True), names)
        function = names["function"]
        if translate:
            function = translate(function, min_graph_size=0)
        outcomes = []
        for _ in range(2):
            given = (eval(receiver, dict(MODULES)),) if where == "given" else ()
            outcomes.append(_outcome(function, x, *given))
        seen.append(outcomes)
    return None if seen[0] == seen[1] else seen


def run(seed: int, count: int):
    """Yields what differs: the receiver, the expression, where the receiver comes from, and both outcomes."""
    draw = random.Random(seed)
    for _ in range(count):
        receiver, expression = call(draw)
        where = draw.choice(list(SOURCES))
        if isinstance(eval(receiver, dict(MODULES)), (types.GeneratorType, type)) and where == "global":
            # The second call finds what the first one has left.
            where = "made"
        found = difference(receiver, expression, where)
        if found:
            yield receiver, expression, where, *found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10000)
    options = parser.parse_args()
    found = 0
    for receiver, expression, where, expected, actual in run(options.seed, options.count):
        found += 1
        print(f"{where} r = {receiver}; {expression}\n    {expected}\n    {actual}", flush=True)
    print(f"# seed {options.seed}, {options.count} calls, {found} differences")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
