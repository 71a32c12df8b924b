"""Writes random programs: one seed, one program, the same on every Python version.

Variables have a kind (T: a matrix, R: a tensor of one number, I, F, B, S: Python scalars, L: a list of integers, M: a list
of tensors, D: a dict of numbers, P: a tuple, U: a set, Q: a deque, N: an array, O, V, W: objects of classes of the
prelude, A: any object, E: one that can be a key, H: a list of objects, G: an object whose special methods note what they
are asked, J: something to iterate that notes what is taken), so that most programs run to their end; the exceptions
that remain are part of the game.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

from expressions import Expressions, Unfit
from prelude import PRELUDE
from statements import COMPOUND_ROWS, SIMPLE_ROWS

ARGUMENTS = [("x", "T"), ("y", "T"), ("n", "I"), ("flag", "B"), ("items", "L"), ("table", "D"), ("box", "O")]
ARGUMENTS += [("other", "O"), ("things", "H")]
STEP = "    "


class Generator(Expressions):
    """The state of one program being written: lines, indentation and the variables in scope."""

    simple, compound = SIMPLE_ROWS, COMPOUND_ROWS
    # What decides whether a loop or the function is left.
    decides = "$${B|C}"
    # How many statements have no block.
    plain = 0.66

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.indent = 0
        self.scope: dict[str, str] = {}
        self.fresh = 0
        self.depth = 0
        self.budget = 0
        self.loops = 0
        self.locked: set[str] = set()
        self.helpers: list[str] = []
        self.in_helper = False

    def line(self, text: str) -> None:
        self.lines.append(STEP * self.indent + text)

    def name(self, kind: str) -> str:
        self.fresh += 1
        return f"{kind.lower()}{self.fresh}"

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Writes `head`, then an indented block whose new variables end with it."""
        self.line(head)
        scope, locked, loops, helper = dict(self.scope), set(self.locked), self.loops, self.in_helper
        if head.startswith(("for ", "while ")):
            self.loops += 1
        elif head.startswith(("def ", "class ")):
            # What is assigned to in there is a variable of its own.
            self.locked.update(self.scope)
            self.loops, self.in_helper = 0, True
        elif head.startswith("except*"):
            # Nothing may leave from in there.
            self.loops, self.in_helper = 0, True
        elif head == "finally:" and self.random.random() < 0.9:
            self.loops = 0
        self.indent += 1
        self.depth += 1
        start = len(self.lines)
        yield
        if len(self.lines) == start:
            self.line("pass")
        self.indent -= 1
        self.depth -= 1
        # One in thirty keeps names that may be unbound.
        if head.startswith(("def ", "class ")) or self.random.random() > 0.03:
            self.scope = scope
        self.locked, self.loops, self.in_helper = locked, loops, helper

    def body(self, most: int = 3) -> None:
        for _ in range(self.random.randint(1, most)):
            self.statement()

    def statement(self) -> None:
        self.budget -= 1
        if self.depth > 1 and self.random.random() < 0.05:
            return self.leave()
        simple = self.depth > 3 or self.budget < 0 or self.random.random() < self.plain
        rows, weights = self.simple if simple else self.compound
        template = self.random.choices(rows, weights)[0]
        state = len(self.lines), self.indent, self.depth, dict(self.scope), set(self.locked), self.loops, self.in_helper
        lines = template.removeprefix("!").splitlines()
        if template[0] == "!" and self.random.random() < 0.8:
            lines = ["with catching(LOG, Exception):", *(STEP + line for line in lines)]
        try:
            self.emit(lines, {})
        except Unfit:
            length, self.indent, self.depth, self.scope, self.locked, self.loops, self.in_helper = state
            del self.lines[length:]

    def leave(self) -> None:
        if self.loops and self.random.random() < 0.7:
            self.line(self.fill(f"if {self.decides}: ${{break|continue}}", 1))
        elif not self.in_helper:
            self.line(self.fill(f"if {self.decides}: return $Z", 1))

    def emit(self, lines: list[str], made: dict[str, str]) -> None:
        """Writes the lines of a template, blocks with what is deeper."""
        at, lock = 0, None
        while at < len(lines):
            text, inner = lines[at], []
            at += 1
            while at < len(lines) and lines[at].startswith(STEP):
                inner.append(lines[at][len(STEP) :])
                at += 1
            if text.startswith("?"):
                text = text[1:]
                if self.random.random() < 0.5:
                    continue
            if text == "<body>":
                self.body()
                continue
            if text.startswith("<lock "):
                lock = self.fill(text[6:-1], 0, made)
                continue
            if text.startswith("del $T~") and self.depth > 1:
                raise Unfit
            known = set(made)
            text = self.fill(text, 2, made)
            new = {name: key[2] for key, name in made.items() if key not in known and key[1] == "="}
            if text.startswith("del ") and text[4:] in self.scope:
                del self.scope[text[4:]]
            if not inner:
                self.line(text)
                self.scope.update(new)
                continue
            with self.block(text):
                self.scope.update(new)
                self.locked.difference_update(new)
                if lock:
                    self.locked.add(lock)
                self.emit(inner, made)

    def function(self, head: str, arguments: list[tuple[str, str]], size: int, result: str, helper: bool) -> None:
        self.scope, self.locked = dict(arguments), set()
        self.budget = size
        with self.block(head):
            self.locked, self.in_helper = set(), helper
            for _ in range(size // 2 + 1):
                self.statement()
            self.line(f"return {result or self.result()}")

    def result(self) -> str:
        parts = [self.any(self.pick("TTTTRIFBBSLMDOPVWNUQH")) for _ in range(self.random.randint(1, 4))]
        chance = self.random.random()
        if chance < 0.2:
            return self.any("T")
        if chance < 0.35:
            return "{" + ", ".join(f'"{at}": {part}' for at, part in enumerate(parts)) + "}"
        return f"[{', '.join(parts)}]" if chance < 0.6 else f"({', '.join(parts)},)"

    def program(self) -> str:
        self.lines = [PRELUDE]
        for at in range(self.random.randint(0, 2)):
            kind = self.pick("TTI")
            arguments = [("v", "T"), ("k", "I"), ("box", "O")]
            self.line("")
            result = "v" if kind == "T" else "k"
            self.function(f"def helper{at}(v, k, box):", arguments, self.random.randint(2, 6), result, True)
            self.helpers.append(f"helper{at}:{kind}")
        self.line("")
        head = f"def main({', '.join(name for name, _ in ARGUMENTS)}):"
        self.function(head, ARGUMENTS, self.random.randint(4, 18), "", False)
        if any("NET" in line for line in self.lines[1:]):
            self.lines.insert(1, "NET = Net()")
        return "\n".join(self.lines) + "\n"


def program(seed: int) -> str:
    """The source text of program number `seed`."""
    return Generator(seed).program()
