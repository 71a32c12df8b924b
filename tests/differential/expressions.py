"""Random expressions of a wanted kind."""

from __future__ import annotations

import random


class Expressions:
    """Expression writers; each returns source text."""

    random: random.Random
    scope: dict[str, str]
    helpers: list[str]
    in_helper: bool

    def pick(self, options):
        return self.random.choice(options)

    def variable(self, kind: str) -> str | None:
        names = [name for name, has in self.scope.items() if has == kind]
        return self.random.choice(names) if names else None

    def any(self, kind: str) -> str:
        return getattr(self, kind.lower())()

    def leaf(self, kind: str, otherwise: str) -> str:
        return self.variable(kind) or otherwise

    def t(self, depth: int = 2) -> str:
        """A matrix of three columns."""
        first = self.leaf("T", "(WEIGHT * 1.0)[:2]")
        if depth <= 0 or self.random.random() < 0.15:
            return first
        one = self.t(depth - 1)
        writers = [
            lambda: f"({one} + {self.t(depth - 1)})",
            lambda: f"({one} - {self.t(depth - 1)})",
            lambda: f"({one} * {self.t(depth - 1)})",
            lambda: f"({one} {self.pick('+-*')} {self.i(1)})",
            lambda: f"({self.f(1)} {self.pick('+-*')} {one})",
            lambda: f"({one} / {self.pick(['2', '3.5', '-4'])})",
            lambda: f"({one} {self.pick('+-*')} {self.r(1)})",
            lambda: f"{one}.{self.pick(['tanh', 'abs', 'sigmoid', 'square', 'clone', 'detach', 'sin', 'relu'])}()",
            lambda: f"F.{self.pick(['relu', 'gelu', 'softmax', 'sigmoid', 'silu'])}({one})",
            lambda: f"paddle.matmul({one}, WEIGHT)",
            lambda: f"({one} @ WEIGHT)",
            lambda: f"(-{one})",
            lambda: f"paddle.where({one} > {self.f(0)}, {one}, {self.t(depth - 2)})",
            lambda: f"paddle.concat([{one}, {self.t(depth - 2)}], axis=0)[: {self.leaf('T', 'WEIGHT')}.shape[0]]",
            lambda: f"paddle.stack([{one}, {one}]).{self.pick(['sum', 'mean', 'max'])}({self.pick(['0', 'axis=0'])})",
            lambda: f"{one}.reshape([-1, 3])",
            lambda: f"{one}.transpose([1, 0]).t()",
            lambda: f"paddle.clip({one}, -1.0, {self.pick(['1.0', '2'])})",
            lambda: f"paddle.maximum({one}, {self.t(depth - 2)})",
            lambda: f"paddle.split({one}, 3, axis=1)[{self.pick('012')}].expand([-1, 3])",
            lambda: f"({one} if {self.b(1)} else {self.t(depth - 1)})",
            lambda: f"spread({one}, {self.t(depth - 2)}, scale={self.f(0)})",
            lambda: f"spread(*[{one}, {self.i(0)}], **{{'k': {self.r(0)}}})",
            lambda: f"soft({one})",
            lambda: f"memo({one})",
            lambda: f"sum([{one}, {self.t(depth - 2)}])",
            lambda: f"{self.o()}.value",
            lambda: f"{self.o()}({one})",
            lambda: f"(lambda v, k={self.i(0)}: v * k + {self.f(0)})({one})",
            lambda: f"functools.reduce(lambda a, b: a + b, {self.leaf('M', '[' + one + ']')})",
            lambda: f"{one}.astype('float64').astype('float32')",
            lambda: f"{one}[:, {self.pick(['[2, 0, 1]', '::1', ':'])}]",
            lambda: f"paddle.cumsum({one}, axis={self.pick('01')})",
            lambda: f"Box.shifted({one}, by={self.f(0)})",
        ]
        if not self.in_helper:
            writers += [lambda: f"loud({one})"] * (self.random.random() < 0.3)
            for helper in self.helpers:
                name, kind = helper.split(":")
                if kind == "T":
                    writers += [lambda name=name: f"{name}({one}, {self.i(0)}, {self.o()})"] * 3
        return self.pick(writers)()

    def r(self, depth: int = 2) -> str:
        """A tensor of one number."""
        have = self.variable("R")
        if have and (depth <= 0 or self.random.random() < 0.3):
            return have
        one = self.t(depth - 1)
        return self.pick(
            [f"{one}.sum()", f"{one}.mean()", f"{one}.max()", f"{one}[0, {self.pick('012')}]", f"paddle.sum({one})"]
        )

    def i(self, depth: int = 2) -> str:
        first = self.pick([self.leaf("I", "2"), str(self.random.randint(-2, 5))])
        if depth <= 0 or self.random.random() < 0.3:
            return first
        writers = [
            lambda: f"({first} {self.pick('+-*')} {self.i(depth - 1)}) % 11",
            lambda: f"({first} {self.pick(['//', '%'])} {self.pick([self.i(depth - 1), '3'])})",
            lambda: f"({first} {self.pick('&|^')} {self.i(depth - 1)})",
            lambda: f"len({self.any(self.pick('LMDS'))})",
            lambda: f"{self.leaf('T', 'WEIGHT')}.shape[{self.pick(['0', '1', '-1'])}]",
            lambda: f"len({self.leaf('T', 'WEIGHT')})",
            lambda: f"{self.leaf('T', 'WEIGHT')}.ndim",
            lambda: f"sum({self.l()})",
            lambda: f"max({first}, {self.i(depth - 1)})",
            lambda: f"abs({first})",
            lambda: f"int({self.f(depth - 1)})",
            lambda: f"{self.d()}.get({self.key()}, {first})",
            lambda: f"{self.o()}.{self.pick(['number', 'double', 'counted', 'kind'])}",
            lambda: f"({first} if {self.b(1)} else {self.i(depth - 1)})",
            lambda: f"sum(v for v in {self.l()} if v > {first})",
            lambda: "bump()",
            lambda: f"bump({first})",
            lambda: f"len({self.o()})",
            lambda: f"sum(numbers({self.pick('234')}))",
            lambda: f"int({self.leaf('R', 'WEIGHT.sum()')}.item() * 10)" if self.random.random() < 0.3 else first,
            lambda: (
                f"{self.pick([self.leaf('P', '(1, 2)'), '(4, 5)'])}.index({first})"
                if self.random.random() < 0.2
                else first
            ),
            lambda: f"divmod({first}, 3)[{self.pick('01')}]",
            lambda: "COUNT",
            lambda: "len(LOG)",
            lambda: f"TABLE[{self.pick(['chr(97)', chr(34) + 'a' + chr(34), chr(34) + 'b' + chr(34)])}]",
        ]
        if not self.in_helper:
            for helper in self.helpers:
                name, kind = helper.split(":")
                if kind == "I":
                    writers += [lambda name=name: f"{name}({self.t(0)}, {first}, {self.o()}) % 7"] * 2
        return self.pick(writers)()

    def f(self, depth: int = 2) -> str:
        first = self.pick([self.leaf("F", "0.5"), self.pick(["0.25", "-1.5", "2.0", "0.0", "-0.0", "1e-3"])])
        if depth <= 0 or self.random.random() < 0.4:
            return first
        return self.pick(
            [
                f"({first} {self.pick('+-*')} {self.f(depth - 1)})",
                f"({first} / {self.pick(['2', '4.0', self.i(0)])})",
                f"float({self.i(depth - 1)})",
                f"round({first}, 1)",
                f"min({first}, {self.f(0)})",
                f"float({self.r(1)})" if self.random.random() < 0.25 else first,
                f"({first} ** 2)",
            ]
        )

    def b(self, depth: int = 2) -> str:
        first = self.leaf("B", "True")
        if depth <= 0 or self.random.random() < 0.2:
            return first
        return self.pick(
            [
                f"(not {self.b(depth - 1)})",
                f"({self.i(depth - 1)} {self.pick(['<', '>', '==', '!=', '<=', '>='])} {self.i(0)})",
                f"({self.i(0)} < {self.i(0)} <= {self.i(0)})",
                f"({self.b(depth - 1)} {self.pick(['and', 'or'])} {self.b(depth - 1)})",
                f"isinstance({self.any(self.pick('TILDOF'))}, {self.pick(['int', 'paddle.Tensor', 'Box', 'Small', '(list, dict)'])})",
                f"({self.i(0)} {self.pick(['in', 'not in'])} {self.l()})",
                f"({self.key()} in {self.d()})",
                f"({self.t(0)} is {self.pick(['', 'not '])}{self.t(0)})",
                f"hasattr({self.o()}, '{self.pick(['value', 'small', 'extra'])}')",
                f"{self.t(0)}.stop_gradient",
                f"bool({self.l()})",
                f"({self.f(1)} > {self.f(0)})",
                f"({self.l()} == {self.l()})",
                f"any(v > {self.i(0)} for v in {self.l()})",
                f"({self.leaf('T', 'WEIGHT')}.shape == {self.pick(['[2, 3]', '[4, 3]', '(2, 3)'])})",
            ]
        )

    def tb(self) -> str:
        """A condition on the value of a tensor."""
        return self.pick(
            [
                f"{self.r(1)} > {self.f(0)}",
                f"({self.t(1)} > 0).any()",
                f"({self.t(0)} < 1).all()",
                f"{self.r(1)} < {self.r(0)}",
                f"{self.r(0)} > 0 and {self.b(1)}",
                f"{self.b(1)} or {self.r(0)} > 1",
                f"not ({self.r(1)} > 0)",
                f"{self.r(0)}",
            ]
        )

    def s(self, depth: int = 1) -> str:
        first = self.pick([self.leaf("S", '"s"'), '"ab"', '"k"'])
        return self.pick(
            [
                first,
                f"f'{{{self.leaf('I', '7')}}}-{{{self.leaf('S', '8')}!r}}'",
                f"({first} + str({self.i(1)}))[:6]",
                f"{first}.upper()",
                f"'-'.join(str(v) for v in {self.l()})[:8]",
                f"repr({self.i(0)})",
                f"str({self.leaf('T', 'WEIGHT')}.shape)",
                f"type({self.any(self.pick('TILDO'))}).__name__",
            ]
        )

    def l(self) -> str:  # noqa: E743 - kinds are one letter
        first = self.leaf("L", "[1, 2, 3]")
        return self.pick(
            [
                first,
                first,
                first,
                f"[{self.i(0)}, {self.i(0)}]",
                f"{first}[{self.pick(['1:', ':2', '::-1', '-2:', ':'])}]",
                f"sorted({first})",
                f"[v * {self.pick(['2', self.i(0)])} for v in {first}]",
                f"[v for v in {first} if v {self.pick('<>')} {self.i(0)}]",
                f"list(numbers({self.pick('123')}))",
                f"list(range({self.i(0)} % 5))",
                f"list(reversed({first}))",
                f"({first} + [{self.i(0)}])",
                f"list(map(lambda v: v + {self.i(0)}, {first}))",
                f"[*{first}[:2], *{self.leaf('L', '(7, 8)')}][:5]",
                f"sorted({{v % 3 for v in {first}}})",
                f"[a * b for a, b in zip({first}, {self.leaf('L', '[3, 4]')})]",
                f"[a + v for a, v in enumerate({first})]",
            ]
        )

    def m(self) -> str:
        first = self.variable("M")
        if first and self.random.random() < 0.5:
            return first
        return self.pick(
            [
                f"[{self.t(1)}, {self.t(1)}]",
                f"[{self.t(0)}, {self.t(0)}]",
                f"[{self.t(1)} * v for v in range({self.pick('123')})]",
                f"list(tensors({self.t(0)}, {self.pick('123')}))",
                f"[v + 1 for v in {first or '[' + self.t(0) + ']'}]",
                f"list({first or '(' + self.t(0) + ',)'})",
            ]
        )

    def d(self) -> str:
        first = self.leaf("D", '{"a": 1}')
        return self.pick(
            [
                first,
                first,
                first,
                f"{{{self.key()}: {self.i(0)}, {self.key()}: {self.i(0)}}}",
                f"{{**{first}, {self.key()}: {self.i(0)}}}",
                f"dict({first})",
                f"{{k2: v + 1 for k2, v in {first}.items()}}",
                f"dict(zip('abc', {self.leaf('L', '[1, 2]')}))",
                f"({first} | {{{self.key()}: {self.i(0)}}})",
            ]
        )

    def o(self) -> str:
        first = self.leaf("O", "Box(WEIGHT)")
        if self.random.random() < 0.7:
            return first
        return self.pick(
            [
                f"{self.pick(['Box', 'Small'])}({self.t(0)})",
                f"Box({self.t(0)}, number={self.i(0)})",
                f"{self.pick(['Box', 'Small'])}.make({self.t(0)})",
                f"{first}.push({self.i(0)})",
                f"({first} + {self.t(0)})",
            ]
        )

    def p(self) -> str:
        first = self.variable("P")
        if first and self.random.random() < 0.5:
            return first
        return self.pick(
            [f"({self.i(0)}, {self.i(0)})", f"tuple({self.l()})", f"({self.i(0)}, {self.f(0)}, {self.s()})"]
        )

    def key(self) -> str:
        return self.pick(['"a"', '"b"', '"c"', '"a"'])
