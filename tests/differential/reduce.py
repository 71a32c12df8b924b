"""Makes a program smaller as long as it differs in the same way."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from family import family

HERE = Path(__file__).resolve().parent


OUTSIDE = """
import sys
from compare import compare
from family import family
print('FOUND', compare(sys.stdin.read(), int(sys.argv[2]), family(sys.argv[1])))
"""


def differs_outside(kind: str, source: str, seed: int) -> str | None:
    """Compares in a process of its own."""
    command = [sys.executable, "-c", OUTSIDE, kind, str(seed)]
    try:
        done = subprocess.run(command, input=source, capture_output=True, text=True, cwd=HERE, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return "timeout"
    if done.returncode < 0:
        return f"ended with {done.returncode}"
    found = done.stdout.rpartition("FOUND ")[2].strip()
    return None if found in ("None", "") else found


def _sort(found: str | None) -> str:
    """What must stay the same: the place of the difference roughly, and whether something is missing on one side."""
    if not found or not found.startswith("call"):
        return (found or "")[:20]
    place = found.split(": ")[1].split("[")[0]
    shape = re.sub(r"\[[^a-zA-Z']*\]", "A", found.split(": ", 2)[-1])
    return place + re.sub(r"[\d.e+-]+", "0", shape)[:60]


def reduce(kind: str, seed: int, outside: bool) -> str:
    from compare import compare

    programs = family(kind)

    def check(text: str) -> str | None:
        if outside:
            return differs_outside(kind, programs.prelude + text, seed)
        try:
            return compare(programs.prelude + text, seed, programs)
        except Exception as error:  # noqa: BLE001 - what escapes is a finding too
            return f"escaped {type(error).__name__} {error}"

    text = ast.unparse(ast.parse(programs.program(seed).removeprefix(programs.prelude))) + "\n"
    wanted = _sort(check(text))

    def same(text: str) -> bool:
        try:
            compile(text, "x", "exec")
        except (SyntaxError, ValueError):
            return False
        return _sort(check(text)) == wanted

    changed = bool(wanted)
    while changed:
        changed = False
        for smaller in (_statements, _expressions):
            text, some = _shrink(text, smaller, same)
            changed = changed or some
    return text + "# " + str(check(text))


def _shrink(
    text: str, smaller: Callable[[ast.Module], Iterator[None]], same: Callable[[str], bool]
) -> tuple[str, bool]:
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
            if len(other) < len(text) and same(other):
                text, changed = other, True
                break
        else:
            return text, changed


def _statements(tree: ast.Module) -> Iterator[None]:
    for node in list(ast.walk(tree)):
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            body = getattr(node, field, None)
            if not isinstance(body, list):
                continue
            for at in reversed(range(len(body))):
                kept = body[at]
                inner = [getattr(kept, name, None) for name in ("body", "orelse")]
                if isinstance(kept, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler):
                    inner = []
                for other in [[], *inner]:
                    if isinstance(other, list):
                        body[at : at + 1] = other
                        yield
                        body[at : at + len(other)] = [kept]


def _expressions(tree: ast.Module) -> Iterator[None]:
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
                if isinstance(kept, ast.Tuple | ast.List | ast.Dict):
                    continue


def _put(node: ast.AST, field: str, place: tuple[list[ast.AST], int] | None, other: ast.AST) -> None:
    if place is None:
        setattr(node, field, other)
    else:
        place[0][place[1]] = other
