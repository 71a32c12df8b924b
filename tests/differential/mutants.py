"""Examples with one or two things changed: numbers, flags, dtypes, lengths, arguments left out or numbers instead of tensors.

Most of them raise in plain Python, some only there: what Paddle's eager mode refuses, its programs may take.
"""

from __future__ import annotations

import ast
import copy
import random
import re
from collections.abc import Callable, Iterator

DTYPES = ["float64", "int64", "int32", "bool", "float16", "complex64", "uint8"]
WORDS = ["mean", "sum", "none", "constant", "reflect", "max", "NHWC", "NCHW"]


def mutants(name: str, source: str, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Up to `count` of them, with names that say which."""
    for number in range(count):
        chance = random.Random(f"{seed} {name} {number}")
        tree = _Collecting().visit(ast.parse(source))
        places = list(_places(tree))
        if places:
            for _ in range(chance.choice([1, 1, 2])):
                chance.choice(places)(chance)
            tree.body.insert(0, ast.parse("printed = []").body[0])
            yield f"{name} #{number}", ast.unparse(ast.fix_missing_locations(tree))


class _Collecting(ast.NodeTransformer):
    """What is printed goes to a list: `print` breaks the graph."""

    def visit_Call(self, node: ast.Call) -> ast.Call:  # noqa: N802 - the name that `ast` looks for
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "print":
            values = ast.Tuple(node.args, ast.Load())
            return ast.Call(ast.parse("printed.append", mode="eval").body, [values], [])
        return node


def _places(tree: ast.AST) -> Iterator[Callable[[random.Random], None]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
            yield lambda chance, node=node: _constant(node, chance)
        elif isinstance(node, ast.List) and node.elts and all(isinstance(item, ast.Constant) for item in node.elts):
            yield lambda chance, node=node: _length(node, chance)
        elif isinstance(node, ast.Call):
            if ast.unparse(node.func).endswith("to_tensor"):
                yield from [lambda chance, node=node: _dtype(node, chance)] * 3
            if node.keywords:
                yield lambda chance, node=node: _left_out(node, chance)
            if any(isinstance(argument, ast.Name) for argument in node.args):
                yield lambda chance, node=node: _number(node, chance)


def _constant(node: ast.Constant, chance: random.Random) -> None:
    value = node.value
    if isinstance(value, bool):
        node.value = chance.choice([not value, None, 1])
    elif isinstance(value, int):
        # `int64 ** -3` never ends in Paddle.
        node.value = chance.choice([0, -1, 1, 2, 3, value + 1, value - 1, 1.5, None, True])
    elif isinstance(value, float):
        node.value = chance.choice([0.0, -1.0, 1, 2.5, value + 0.5, float("inf"), -value])
    elif isinstance(value, str):
        is_dtype = re.fullmatch(r"(u?int|float|bool|complex)\d*", value)
        node.value = chance.choice(DTYPES if is_dtype else [*WORDS, value + "x"])


def _length(node: ast.List, chance: random.Random) -> None:
    if node.elts and chance.random() < 0.5:
        node.elts.pop()
    else:
        node.elts = [*node.elts, *map(copy.deepcopy, node.elts[-1:])]


def _dtype(node: ast.Call, chance: random.Random) -> None:
    del node.args[1:]
    node.keywords = [keyword for keyword in node.keywords if keyword.arg != "dtype"]
    node.keywords.append(ast.keyword("dtype", ast.Constant(chance.choice([*DTYPES, "float32"]))))


def _left_out(node: ast.Call, chance: random.Random) -> None:
    if node.keywords:
        node.keywords.pop(chance.randrange(len(node.keywords)))


def _number(node: ast.Call, chance: random.Random) -> None:
    at = [index for index, argument in enumerate(node.args) if isinstance(argument, ast.Name)]
    if at:
        node.args[chance.choice(at)] = ast.Constant(chance.choice([2, 0, 1.5, None, True, -1]))
