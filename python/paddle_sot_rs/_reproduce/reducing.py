"""Makes a program smaller as long as something stays true of it: statements, expressions, arguments, numbers."""

from __future__ import annotations

import ast
import importlib.abc
import types
import warnings
from collections.abc import Callable, Iterator

Change = Callable[[ast.Module], Iterator[None]]

# Calls that keep their arguments: without a seed a program is not the same twice.
_PINNED = ("default_rng", "seed")

# Lists whose items a program may do without.
_PARTS = "keywords args elts decorator_list bases names targets".split()


def code_of(text: str, name: str) -> types.CodeType:
    """The code of a program, without warnings.

    Raises:
        SyntaxError, ValueError: it is none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.abc.InspectLoader.source_to_code(text, name)


def compiles(text: str) -> bool:
    """Whether it is Python."""
    try:
        code_of(text, "x")
    except (SyntaxError, ValueError):
        return False
    return True


def reduce(text: str, same: Callable[[str], bool], changes: tuple[Change, ...]) -> str:
    """The smallest program that is found; `same` tells whether one still does what it is about."""
    known: dict[str, bool] = {}

    def asked(other: str) -> bool:
        if other not in known:
            known[other] = compiles(other) and same(other)
        return known[other]

    changed = True
    while changed:
        changed = False
        for change in changes:
            text, some = shrink(text, change, asked)
            changed = changed or some
    return text


def shrink(text: str, smaller: Change, same: Callable[[str], bool]) -> tuple[str, bool]:
    """Tries every change that `smaller` makes; it undoes a change when it is asked for the next."""
    changed, at = False, 0
    while True:
        tree = ast.parse(text)
        for number, _ in enumerate(smaller(tree)):
            if number < at:
                continue
            at = number
            try:
                other = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
            except (ValueError, AttributeError, IndexError):
                continue
            if other != text and len(other) <= len(text) and same(other):
                text, changed = other, True
                break
        else:
            return text, changed


def _bodies(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    for node in list(ast.walk(tree)):
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                yield body


def runs(tree: ast.Module) -> Iterator[None]:
    """Without many statements in a row, long runs first."""
    for body in _bodies(tree):
        length = len(body) // 2
        while length > 1:
            for at in range(len(body) - length, -1, -length):
                kept = body[at : at + length]
                del body[at : at + length]
                yield
                body[at:at] = kept
            length //= 2


def statements(tree: ast.Module) -> Iterator[None]:
    """Without one statement, or with what is inside of it in its place."""
    for body in _bodies(tree):
        for at in reversed(range(len(body))):
            kept = body[at]
            inner: list[object] = [getattr(kept, name, None) for name in ("body", "orelse")]
            if isinstance(kept, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler):
                inner = []
            for other in [[], *inner]:
                if isinstance(other, list):
                    body[at : at + 1] = other
                    yield
                    body[at : at + len(other)] = [kept]


def expressions(tree: ast.Module) -> Iterator[None]:
    """With a part of an expression in its place, or None."""
    for node in list(ast.walk(tree)):
        for field, value in list(ast.iter_fields(node)):
            places = [(value, at) for at in range(len(value))] if isinstance(value, list) else [None]
            for place in places:
                kept = value if place is None else value[place[1]]
                if not isinstance(kept, ast.expr) or isinstance(kept, ast.Constant | ast.Name):
                    continue
                found = [child for child in ast.iter_child_nodes(kept) if isinstance(child, ast.expr)]
                for other in [*found, ast.Constant(None)]:
                    _put(node, field, place, other)
                    yield
                    _put(node, field, place, kept)


def _put(node: ast.AST, field: str, place: tuple[list[ast.AST], int] | None, other: ast.AST) -> None:
    if place is None:
        setattr(node, field, other)
    else:
        place[0][place[1]] = other


def arguments(tree: ast.Module) -> Iterator[None]:
    """Without an argument of a call, an item, a parameter, a decorator or a base."""
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(_PINNED):
            continue
        for field in _PARTS:
            parts = getattr(node, field, None)
            if not isinstance(parts, list):
                continue
            for at in reversed(range(len(parts))):
                kept = parts.pop(at)
                yield
                parts.insert(at, kept)


def names(tree: ast.Module) -> Iterator[None]:
    """With what a name was given in its places."""
    for body in _bodies(tree):
        for at, kept in enumerate(body):
            if not isinstance(kept, ast.Assign) or len(kept.targets) != 1 or not isinstance(kept.targets[0], ast.Name):
                continue
            name, value = kept.targets[0].id, kept.value
            del body[at]
            changed = []
            for rest in body[at:]:
                for node, field, place in _places(rest):
                    found = getattr(node, field) if place is None else place[0][place[1]]
                    if isinstance(found, ast.Name) and found.id == name and isinstance(found.ctx, ast.Load):
                        _put(node, field, place, value)
                        changed.append((node, field, place, found))
            yield
            for node, field, place, found in changed:
                _put(node, field, place, found)
            body.insert(at, kept)


def _places(tree: ast.AST) -> list[tuple[ast.AST, str, tuple[list[ast.AST], int] | None]]:
    """Where the parts of a tree are."""
    found: list[tuple[ast.AST, str, tuple[list[ast.AST], int] | None]] = []
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                found += [(node, field, (value, at)) for at in range(len(value))]
            elif isinstance(value, ast.AST):
                found.append((node, field, None))
    return found


def numbers(tree: ast.Module) -> Iterator[None]:
    """With a smaller number in each place where this one stands: sizes fit each other."""
    found: dict[int, list[ast.Constant]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1:
            found.setdefault(node.value, []).append(node)
    for value, nodes in sorted(found.items(), reverse=True):
        for smaller in dict.fromkeys((1, 2, 3, value // 2, value - 1)):
            if smaller >= value:
                continue
            for node in nodes:
                node.value = smaller
            yield
            for node in nodes:
                node.value = value


def straightened(text: str) -> str:
    """The same program as the tree prints it."""
    return ast.unparse(ast.parse(text)) + "\n"
