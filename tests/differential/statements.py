"""Random statements, as two weighted tables: simple ones and those with a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generator import Generator

Writer = Callable[["Generator"], None]
SIMPLE: list[tuple[Writer, int]] = []
COMPOUND: list[tuple[Writer, int]] = []


def simple(weight: int) -> Callable[[Writer], Writer]:
    def add(writer: Writer) -> Writer:
        SIMPLE.append((writer, weight))
        return writer

    return add


def compound(weight: int) -> Callable[[Writer], Writer]:
    def add(writer: Writer) -> Writer:
        COMPOUND.append((writer, weight))
        return writer

    return add


@simple(14)
def assign_tensor(g: Generator) -> None:
    g.assign("T", g.t(3))


@simple(4)
def assign_number_tensor(g: Generator) -> None:
    g.assign("R", g.r(2))


@simple(12)
def assign_scalar(g: Generator) -> None:
    kind = g.pick("IIIFBSP")
    g.assign(kind, g.any(kind))


@simple(8)
def assign_container(g: Generator) -> None:
    kind = g.pick("LLMMDO")
    g.assign(kind, g.any(kind))


@simple(5)
def alias(g: Generator) -> None:
    kind = g.pick("TLMDO")
    if name := g.variable(kind):
        g.assign(kind, name)


@simple(6)
def augment(g: Generator) -> None:
    kind = g.pick("TTIIFLO")
    names = [name for name, has in g.scope.items() if has == kind and name not in g.locked]
    if names:
        by = {
            "T": lambda: f"{g.pick('+-*')}= {g.pick([g.t(1), g.f(0)])}",
            "I": lambda: f"{g.pick(['+', '-', '|'])}= {g.i(1)}",
            "F": lambda: f"*= {g.f(0)}",
            "L": lambda: f"+= [{g.i(0)}]",
            "O": lambda: f"+= {g.t(0)}",
        }[kind]()
        g.line(f"{g.pick(names)} {by}")


@simple(10)
def mutate_list(g: Generator) -> None:
    name = g.leaf("L", "LOG")
    writers = [
        f"{name}.append({g.i(1)})",
        f"{name}.extend({g.l()})",
        f"{name}.insert({g.pick(['0', '1', '-1'])}, {g.i(0)})",
        f"{name}.reverse()",
        f"{name}[{g.pick(['0', '-1', '1'])}] = {g.i(1)}",
        f"{name}[{g.pick([':1', '1:', '1:2'])}] = {g.l()}",
        f"{name}[0:1] = []",
        f"{name}.append(len({name}))",
    ]
    if name != "LOG":
        writers += [f"{name}.sort()", f"{name}[-1] += {g.i(0)}", f"{name}.pop()", f"del {name}[0]", f"{name}.clear()"]
    # A loop over the list must not feed itself.
    if name in g.locked:
        writers = [f"{name}.reverse()", f"{name}[-1] = {g.i(0)}"]
    g.line(g.pick(writers))


@simple(6)
def mutate_tensor_list(g: Generator) -> None:
    if name := g.variable("M"):
        if name in g.locked:
            g.line(f"{name}[0] = {g.t(1)}")
            return
        g.line(
            g.pick(
                [
                    f"{name}.append({g.t(1)})",
                    f"{name}[{g.pick(['0', '-1'])}] = {g.t(1)}",
                    f"{name}[0] += {g.t(0)}",
                    f"{name}.insert(0, {g.t(0)})",
                    f"{name}.pop()",
                    f"{name}.reverse()",
                ]
            )
        )


@simple(7)
def mutate_dict(g: Generator) -> None:
    name = g.leaf("D", "TABLE")
    if name in g.locked:
        g.line(f"{name}.update(a={g.i(0)})")
        return
    g.line(
        g.pick(
            [
                f"{name}[{g.key()}] = {g.i(1)}",
                f"{name}.update({g.key()[1]}={g.i(0)})",
                f"{name}.setdefault({g.key()}, {g.i(0)})",
                f"{name}.pop({g.key()}, None)",
                f"{name}.pop({g.key()})" if name != "TABLE" else f"{name}.update(TABLE)",
                f"{name}[{g.key()}] = {name}.get({g.key()}, 0) + {g.i(0)}",
                f"{name} and {name}.popitem()" if name != "TABLE" else "TABLE['a'] += 1",
            ]
        )
    )


@simple(8)
def mutate_object(g: Generator) -> None:
    name = g.leaf("O", "Box(WEIGHT)")
    g.line(
        g.pick(
            [
                f"{name}.value = {g.t(1)}",
                f"{name}.number += {g.i(0)}",
                f"{name}.push({g.i(0)})",
                f"{name}.items.append({g.pick([g.i(0), g.t(0)])})",
                f"{name}.extra = {g.any(g.pick('TIL'))}",
                f"setattr({name}, 'number', {g.i(0)})",
                f"{name}.counted",
                f"{name}.kind = {g.i(0)}",
                f"{name}.items = {g.l()}",
                f"del {name}.number; {name}.number = {g.i(0)}",
            ]
        )
    )


@simple(5)
def mutate_global(g: Generator) -> None:
    g.line(
        g.pick(
            [
                f"LOG.append({g.any(g.pick('TRIS'))})",
                f"bump({g.i(0)})",
                f"TABLE[{g.key()}] = {g.pick([g.i(0), g.i(0)])}",
                f"Box.kind = {g.i(0)}",
                f"globals()['COUNT'] = {g.i(0)}" if g.random.random() < 0.3 else "LOG.append(COUNT)",
            ]
        )
    )


@simple(4)
def mutate_tensor(g: Generator) -> None:
    name = g.name("T")
    g.line(f"{name} = {g.t(1)} * 1.0")
    g.scope[name] = "T"
    g.line(
        g.pick(
            [
                f"{name}.add_({g.t(0)})",
                f"{name}[0] = {g.f(0)}",
                f"{name}[:, 1] = {g.r(0)}",
                f"{name}.scale_({g.f(0)})",
                f"{name}[0].add_({name}[1])" if g.random.random() < 0.5 else f"{name}.zero_()",
            ]
        )
    )


@simple(4)
def break_here(g: Generator) -> None:
    g.line(
        g.pick(
            [
                f"print({g.t(1)})",
                f"print({g.i(0)}, {g.r(0)})",
                f"print({g.any(g.pick('ISLDFB'))})",
                f"LOG.append({g.t(1)}.numpy().shape)",
                f"LOG.append({g.r(1)}.item())",
                f"LOG.append({g.t(0)}.tolist()[0])",
                f"print('{{}} {{}}'.format({g.i(0)}, {g.s()}))",
            ]
        )
    )


@simple(4)
def unpack(g: Generator) -> None:
    a, b = g.name("I"), g.name("L")
    kind = g.random.randint(0, 5)
    if kind == 0:
        g.line(f"{a}, *{b} = {g.pick([g.l(), g.l(), f'(1, *{g.l()})'])}")
        g.scope.update({a: "I", b: "L"})
    elif kind == 1:
        c = g.name("I")
        g.line(f"{a}, {c} = {g.i(1)}, {g.i(1)}")
        g.line(f"{a}, {c} = {c}, {a}")
        g.scope.update({a: "I", c: "I"})
    elif kind == 2:
        c, d = g.name("T"), g.name("T")
        g.line(f"({c}, {d}), {a} = [{g.t(1)}, {g.t(0)}], {g.i(0)}")
        g.scope.update({a: "I", c: "T", d: "T"})
    elif kind == 3:
        c = g.name("T")
        g.line(f"{c}, *{g.name('T')} = {g.m()}")
        g.scope[c] = "T"
    elif kind == 4:
        g.line(f"{a} = {g.name('I')} = {g.i(1)}")
        g.scope[a] = "I"
    else:
        g.line(f"if ({a} := {g.i(1)}) > 1: bump({a})")
        g.scope[a] = "I"


@simple(2)
def check(g: Generator) -> None:
    if g.random.random() < 0.5:
        g.line(f"assert {g.b(1)} or {g.pick(['True', g.b(0)])}, {g.s()}")
    elif g.depth > 1:
        kind = g.pick(["ValueError", "KeyError", "RuntimeError", "IndexError"])
        g.line(f"if {g.b(1)}: raise {kind}({g.pick([g.s(), g.i(0)])})")


@simple(2)
def leave(g: Generator) -> None:
    if g.depth <= 1:
        return
    if g.loops and g.random.random() < 0.6:
        g.line(f"if {g.pick([g.b(1), g.tb()])}: {g.pick(['break', 'continue'])}")
    elif not g.in_helper and g.random.random() < 0.5:
        g.line(f"if {g.pick([g.b(1), g.tb()])}: {g.result()}")


@simple(1)
def forget(g: Generator) -> None:
    names = [name for name in g.scope if name[-1].isdigit() and name not in g.locked]
    if names and g.depth == 1:
        name = g.pick(names)
        g.line(f"del {name}")
        del g.scope[name]


@compound(9)
def branch(g: Generator) -> None:
    condition = g.tb() if g.random.random() < 0.4 else g.b()
    with g.block(f"if {condition}:"):
        g.body()
    if g.random.random() < 0.3:
        with g.block(f"elif {g.pick([g.b(), g.tb()])}:"):
            g.body()
    if g.random.random() < 0.6:
        with g.block("else:"):
            g.body()


@compound(9)
def loop(g: Generator) -> None:
    v, w = g.name("I"), g.name("I")
    choice = g.random.randint(0, 9)
    new: dict[str, str] = {v: "I"}
    source = g.variable("L")
    if choice <= 2 or (choice == 3 and not source):
        head = f"for {v} in range({g.pick(['2', '3', '1, 4', '3, 0, -1', g.i(0) + ' % 4'])}):"
    elif choice == 3:
        head = f"for {v} in {source}[:4]:"
    elif choice == 4:
        head, new = f"for {v}, {w} in enumerate({g.l()}[:4]):", {v: "I", w: "I"}
    elif choice == 5:
        u = g.name("T")
        head, new = f"for {v}, {u} in zip({g.l()}[:3], {g.m()}[:3]):", {v: "I", u: "T"}
    elif choice == 6:
        key = g.name("S")
        head, new = f"for {key}, {v} in {g.d()}.items():", {key: "S", v: "I"}
        if (name := head.split(" in ")[1].split(".items")[0]) in g.scope:
            g.locked.add(name)
    elif choice == 7:
        u = g.name("T")
        head, new = f"for {u} in {g.pick([f'tensors({g.t(0)}, 3)', f'list({g.m()})[:3]'])}:", {u: "T"}
    elif choice == 8:
        u = g.name("R")
        head, new = f"for {u} in {g.t(0)}:", {}
    else:
        head = f"for {v} in {g.pick([f'numbers({g.i(0)} % 4)', f'filter(None, {g.l()}[:4])', f'sorted({g.d()}.values())[:4]'])}:"
    g.loops += 1
    with g.block(head):
        g.scope.update(new)
        if choice == 8:
            inner = g.name("T")
            g.line(f"{inner} = {u} + {g.t(0)}")
            g.scope[inner] = "T"
        g.body()
        if g.random.random() < 0.2:
            g.line(f"if {g.pick([g.b(1), g.tb()])}: {g.pick(['break', 'continue'])}")
    g.loops -= 1
    if g.random.random() < 0.15:
        with g.block("else:"):
            g.body(2)


@compound(3)
def repeat(g: Generator) -> None:
    v = g.name("I")
    g.line(f"{v} = 0")
    g.scope[v] = "I"
    g.locked.add(v)
    condition = f"{v} < {g.pick('123')}" if g.random.random() < 0.6 else f"{v} < 3 and {g.r(1)} < {g.pick(['5', '50'])}"
    g.loops += 1
    with g.block(f"while {condition}:"):
        g.line(f"{v} += 1")
        g.body()
    g.loops -= 1
    g.locked.discard(v)


@compound(4)
def context(g: Generator) -> None:
    v = g.name("L")
    head = g.pick(
        [
            "with paddle.no_grad():",
            "with Guarded(LOG):",
            "with Guarded(LOG, swallow=True):",
            f"with Guarded(LOG) as {v}:",
            f"with managed(LOG, {g.i(0)}) as {g.name('I')}:",
            "with contextlib.suppress(ValueError, KeyError):",
            "with contextlib.nullcontext():",
            "with Guarded(LOG), managed(LOG, 1):",
            "with paddle.enable_grad():",
        ]
    )
    with g.block(head):
        g.body()
        if "suppress" in head or "swallow" in head:
            g.line(f"bump(risky({g.i(0)}))")


@compound(5)
def attempt(g: Generator) -> None:
    with g.block("try:"):
        g.body()
        if g.random.random() < 0.6:
            g.line(
                g.pick(
                    [
                        f"bump(risky({g.i(0)}))",
                        f"bump({g.d()}[{g.key()}])",
                        f"bump({g.l()}[{g.i(0)}])",
                        f"raise KeyError({g.i(0)})",
                        f"bump({g.i(0)} // {g.i(0)})",
                        f"{g.o()}.missing",
                        f"if {g.tb()}: raise ValueError('tensor')",
                    ]
                )
            )
    kind = g.random.randint(0, 4)
    if kind < 4:
        error = g.pick(["ValueError", "(KeyError, IndexError)", "Exception", "ZeroDivisionError", "LookupError"])
        with g.block(f"except {error} as error:"):
            g.line(g.pick(["LOG.append(str(error))", "LOG.append(type(error).__name__)", "print(error)"]))
            g.body(2)
            if g.random.random() < 0.15:
                g.line(g.pick(["raise", "raise RuntimeError('again') from error", "raise TypeError('other')"]))
        if g.random.random() < 0.3:
            with g.block("else:"):
                g.body(2)
    if kind == 4 or g.random.random() < 0.35:
        with g.block("finally:"):
            g.line(g.pick(["LOG.append('finally')", f"bump({g.i(0)})"]))
            loops, g.loops = g.loops, 0
            g.body(2)
            g.loops = loops


@compound(4)
def closure(g: Generator) -> None:
    name = g.name("I") + "_f"
    count = g.name("I")
    g.line(f"{count} = {g.i(0)}")
    g.scope[count] = "I"
    kind = g.random.randint(0, 2)
    outer, loops, helper = dict(g.scope), g.loops, g.in_helper
    g.loops = 0
    free = [key for key in g.scope]
    g.locked.update(free)
    with g.block(f"def {name}(v, k=1):"):
        g.scope.update({"v": "T", "k": "I"})
        g.locked.discard("v")
        g.in_helper = True
        if kind:
            g.line(f"nonlocal {count}")
            g.line(f"{count} += k")
        if g.random.random() < 0.5:
            g.assign("T", g.t(1))
        else:
            g.body(2)
        g.line(f"return {g.pick(['v', g.t(1)])} * {count}")
    g.locked.difference_update(free)
    g.scope, g.loops, g.in_helper = outer, loops, helper
    if g.random.random() < 0.25:
        g.line(f"LOG.append({name}({g.t(0)}, k={g.i(0)}))")
    for _ in range(g.random.randint(1, 2)):
        g.assign("T", f"{name}({g.t(0)}{g.pick(['', ', ' + g.i(0)])})")


@compound(2)
def match(g: Generator) -> None:
    subject = g.pick([g.i(1), g.l(), g.d(), g.p(), g.o()])
    with g.block(f"match {subject}:"):
        cases = ["1 | 2", "[a2, *_]", '{"a": int(a2)}', "(0, _)", "Small()", "Box(number=a2)", "int() as a2 if a2 > 2"]
        for case in g.random.sample(cases, 2):
            with g.block(f"case {case}:"):
                g.body(2)
        with g.block("case _:"):
            g.body(2)


@compound(2)
def generator(g: Generator) -> None:
    name = g.name("I") + "_g"
    outer, loops, helper = dict(g.scope), g.loops, g.in_helper
    free = [key for key in g.scope]
    g.locked.update(free)
    with g.block(f"def {name}(limit):"):
        g.in_helper = True
        with g.block("for at in range(limit):"):
            g.scope["at"] = "I"
            g.locked.add("at")
            g.body(1)
            g.line(f"yield {g.t(1)} * at")
    g.locked.difference_update(free)
    g.scope, g.loops, g.in_helper = outer, loops, helper
    g.assign("M", f"list({name}({g.pick('123')}))")
