"""Programs of branches and loops on tensors, in one another, with gradients; all of them capture control flow.

Without reentrance, `recompute` of Paddle 3.3.1 reads what it computes again without its offset: no view is saved in there.

Kinds: T is a matrix, R a tensor of one number, N a small whole number in a tensor, C a condition on a tensor, P a pair of
matrices, M a list of matrices, D a dict of matrices, F a Python number.
"""

from __future__ import annotations

import functools
import random
import types
from collections.abc import Callable
from typing import Any

import changes
import numpy as np
import paddle
from family import Family
from generator import Generator
from statements import rows_of

PRELUDE = """\
import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute

LOG = []
paddle.seed(5)
WEIGHT = paddle.arange(9, dtype="float32").reshape([3, 3]) * 0.1 - 0.3
WEIGHT.stop_gradient = False
BIAS = paddle.full([3], 0.25, dtype="float32")
BIAS.stop_gradient = False


class Scaled(PyLayer):
    @staticmethod
    def forward(ctx, v, by=2.0):
        ctx.save_for_backward(v)
        ctx.by = by
        return v * by

    @staticmethod
    def backward(ctx, gradient):
        (v,) = ctx.saved_tensor()
        return gradient * ctx.by + v * 0.01


class Settings:
    def __init__(self):
        self.scale, self.sizes = 1.5, [0.5, 2.0]


SETTINGS = Settings()
SIZES = [1.25, 0.75]


class BySettings(PyLayer):
    @staticmethod
    def forward(ctx, v):
        return v * SETTINGS.scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * SETTINGS.scale + SETTINGS.sizes[0]


class Both(PyLayer):
    @staticmethod
    def forward(ctx, v, w):
        ctx.save_for_backward(v, w)
        return v * w, v + w

    @staticmethod
    def backward(ctx, one, other):
        v, w = ctx.saved_tensor()
        return one * w + other, one * v + other


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = paddle.nn.Linear(3, 3)
        self.second = paddle.nn.Linear(3, 3)
        self.norm = paddle.nn.LayerNorm(3)
        self.drop = paddle.nn.Dropout(0.3)

    def forward(self, v):
        # Rounding decides the sign of the sum of what is normed, and other kernels round otherwise.
        return self.norm(self.second(F.relu(self.first(v)))) + 0.25


NET = Net()


def squeezed(v, w):
    return F.tanh(v * w) + v


def weighed(v, w):
    return F.tanh(v @ WEIGHT) * w


def chosen(v, w):
    if v.sum() > w.sum():
        return v * 0.5 + BIAS
    return w - v


def repeated(v, n):
    while n > 0:
        v = F.tanh(v + BIAS)
        n = n - 1
    return v
"""

LEAVES = {
    "T": "(a + WEIGHT[:1])",
    "R": "WEIGHT.mean()",
    "N": "paddle.to_tensor(2)",
    "P": "(a * 2, b + WEIGHT[:1])",
    "M": "[a * 2, b]",
    "D": '{"a": c * 2}',
}

TABLES = {
    "T": """
        $T0
        ($T + $T)
        ($T - $T)
        ($T * $T0)
        ($T * $F)
        ($T + $R)
        ($T0 * $R)
        (-$T)
        $T.${tanh|sigmoid|sin|abs|clone|neg|square}()
        $T.detach()
        F.${relu|gelu|softmax|silu}($T)
        F.tanh($T @ WEIGHT)
        ($T + BIAS)
        NET($T0)
        NET.${first|second|norm|drop}($T0)
        paddle.where($T > $F0, $T, $T0)
        paddle.${maximum|minimum}($T, $T0)
        paddle.clip($T, -1.0, 1.0)
        paddle.gather($T0, paddle.argsort($T0[:, 0]))
        paddle.concat([$T, $T0])[: $T0.shape[0]]
        paddle.stack([$T, $T0]).mean(0)
        $T0.${cumsum(0)|flip(0)|roll(1, 0)}
        $T0.reshape([-1, 3])
        $T0[:, [2, 0, 1]]
        paddle.zeros_like($T0)
        ($T if $C else $T0)
        ($T0 if $C else $T0)
        ($T0 if $C else ($T0 if $C else $T0))
        F.dropout($T0${|, 0.3})
        Scaled.apply($T0${|, 0.5})
        Both.apply($T0, $T0)[${0|1}]
        recompute(squeezed, $T0, ($T0 * 2))
        recompute(squeezed, $T0, $T)
        recompute(${weighed|chosen}, $T0, $T0)
        recompute(lambda v: v * $R0 + $T0, $T0)
        recompute(lambda v: v * ${SETTINGS.scale|SETTINGS.sizes[0]|SIZES[0]} + $T0.detach(), $T0)
        recompute(lambda v: (v * ($T0.detach() * 1)).sin(), ($T0 * 1), use_reentrant=${True|False})
        BySettings.apply($T0)
        chosen($T0, $T0)
        repeated($T0, $N0)
        $P0[${0|1}]
        $M0[${0|-1}]
        $D0["a"]
        (lambda v, w: v * w)($T, $T0)
    """,
    "R": """
        $R0
        $T.${sum|mean|max|min}()
        ($R + $R0)
        ($R * $R0)
        ($R * $F)
        $R.${tanh|sin|abs|detach}()
        $T0[0, 1]
        ($R if $C else $R)
        ($T0 * $T0).sum()
        paddle.dot($T0[0], $T0[1])
        $N0.astype("float32")
    """,
    "N": """
        $N0
        $N0
        ($N0 + 1)
        ($N0 % 3)
        (3 - $N0)
        paddle.argmax($T0[0])
        ($T0 > $F0).sum()
        ($N0 if $C else $N0)
        $T0.shape[0] * paddle.ones([], "int64")
    """,
    "C": """
        $R0 > $F0
        $R0 < $R0
        $T0.sum() > $F0
        $T0.mean() < $R0
        ($T0 > $F0).${any|all}()
        $N0 > 1
        $N0 == 2
        $N0 % 2 == 0
        not $N0 > 1
        ($R0 > $F0 and $N0 < 3)
        ($R0 > $F0 or $T0.sum() > 0)
        0 < $N0 < 3
        $N0
    """,
    "P": """
        ($T, $T0)
        ($T0, $T0)
        $P0[::-1]
        ($P0 if $C else ($T0, $T0))
        Both.apply($T0, $T0)
    """,
    "M": """
        [$T, $T0]
        [v * $F0 for v in $M0]
        $M0[:1] + [$T0]
    """,
    "D": """
        {"a": $T}
        {"a": $T0, "b": $T0}
    """,
}

SIMPLE = """
10: $=T1 = $T
6: $T~ = $T
4: $T~ ${+|-|*}= $T0
3: $=R1 = $R
3: $R~ = $R
2: $=N1 = $N
1: $N~ = $N
2: $T~ = $T0
1: $=T1, $=T2 = $T0, $T0
1: $=T1 = $=T2 = $T
2: $T~ = $T0.detach()
1: $T~ = $T0 * $T~.detach()
2: $=P1 = $P
1: $P~ = $P
1: $=T1, $=T2 = $P
2: $=M1 = $M
1: $M!.append($T)
1: $M![0] = $T
1: $M!.pop()
1: $=D1 = $D
1: $D!["a"] = $T
1: $=T1 = $T * 1.0; $=T1[0] = $R0
1: $=T1 = $T * 1.0; $=T1.${tanh_|relu_|zero_}()
1: $=T1 = $T * 1.0; $=T1 *= $T0
1: $=T1 = $T * 1.0; $=T1[:, 1] += $R0
1: $=T1 = $T.detach(); $=T1.stop_gradient = False; $=R1 = ($=T1 * $T0).sum()
1: $=T1, $=R1 = ($T, $R) if $C else ($T0, $R0)
1: $=T1 = paddle.stack([$T0, $T0, $T0])[$N0.clip(0, 2)]
1: $=T1 = sum([v * $F0 for v in $M0], $T0)
1: LOG.append($R + 0)
1: SETTINGS.scale = $F
1: SETTINGS.sizes = [$F, 1.0]
1: SETTINGS.sizes[0] = $F
1: SIZES[0] = $F
1: $=R1 = $R; print(round(float($=R1.detach()), 3))
"""

COMPOUND = """
10: if $C:
    <body>
?elif $C:
    <body>
?else:
    <body>

5: if $C:
    $T~ = $T
else:
    $T~ = $T0

4: if $C:
    <body>
else:
    <body>

3: if $C:
    $=T1 = $T
    $=R1 = $R0
else:
    $=T1 = $T0
    $=R1 = $R
$T~ = $=T1 * $=R1

4: $_i = paddle.zeros([], "int64")
while $_i < $N0:
    $_i = $_i + 1
    <body>

2: $_i = paddle.zeros([], "int64")
while $_i < 3 and $C:
    <body>
    $_i = $_i + 1

4: for $=N1 in range($N0 % 4):
    <lock $=N1>
    <body>

2: for $=N1 in range($N0 % 4):
    <lock $=N1>
    <body>
    if $C: ${break|continue}
    <body>

1: for $_v in $T0:
    $R~ = $R~ + $_v.sum()
    <body>

1: for $=T1 in $M:
    <body>

1: with paddle.no_grad():
    <body>

1: def $_f(v):
    nonlocal $T~
    $T~ = $T~ + v * $F0
    return v * $T0
$=T1 = $_f($T)

1: def $_f(v):
    if $C: return v * $R0
    <body>
    return v + $T0
$=T1 = $_f($T)

1: assert $R0 < 1000, "large"
"""

ARGUMENTS = [("a", "T"), ("b", "T"), ("c", "T"), ("n", "N"), ("m", "N"), ("r", "R")]


class Nests(Generator):
    """Writes one of them."""

    rows = {kind: [line.strip() for line in text.strip().splitlines()] for kind, text in TABLES.items()}
    leaves = LEAVES
    simple, compound = rows_of(SIMPLE, "\n"), rows_of(COMPOUND, "\n\n")
    decides = "$C"
    plain = 0.5
    results = ""

    def leaf(self, kind: str) -> str:
        # A program may take -0.0 for 0.0: it breaks the graph.
        return self.pick(["0.25", "-1.5", "2.0", "0.0", "1e-3"]) if kind == "F" else super().leaf(kind)

    def any(self, kind: str, depth: int = 2) -> str:
        if depth <= 0 or self.random.random() < 0.1:
            return self.leaf(kind)
        return self.fill(self.pick(self.rows[kind]), depth - 1) if kind in self.rows else self.leaf(kind)

    def result(self) -> str:
        # What the ways return has one form: otherwise they are no branch of a graph.
        parts = [self.returned(kind) for kind in self.results]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def returned(self, kind: str) -> str:
        """One part of a result."""
        return self.any(kind, 1)

    def program(self) -> str:
        self.lines = [PRELUDE, ""]
        self.results = "".join(self.pick("TTTTRRNPD") for _ in range(self.random.choice([1, 2, 2, 3, 3, 4])))
        head = f"def main({', '.join(name for name, _ in ARGUMENTS)}):"
        self.function(head, ARGUMENTS, self.random.randint(3, 12), "", False)
        return "\n".join(self.lines) + "\n"


def program(seed: int) -> str:
    """The source text of program number `seed`."""
    return Nests(seed).program()


def calls(seed: int) -> list[dict[str, Any]]:
    """The plain arguments of each call: equal ones, others that go other ways, other gradients and uses of the results."""
    chance = random.Random(seed * 7919 + 1)
    first = {
        "rows": chance.choice([2, 3, 4]),
        "values": chance.randint(0, 99),
        "n": chance.randint(0, 4),
        "m": chance.randint(0, 4),
        # Which of a, b, c and r have gradients, and which of those are computed from what has.
        "grad": [chance.random() < 0.7 for _ in range(4)],
        "computed": [chance.random() < 0.3 for _ in range(4)],
        "uses": chance.randint(0, 5),
        "trains": True,
        "between": None,
    }
    found = [first, dict(first)]
    others = [
        *({"n": n, "m": m} for n in range(4) for m in range(3)),
        *({"values": first["values"] + step, "n": (first["n"] + step) % 4} for step in range(1, 6)),
        *({"uses": uses, "values": first["values"] + uses} for uses in range(6)),
        {"grad": [chance.random() < 0.5 for _ in range(4)]},
        {"computed": [not it for it in first["computed"]]},
        {"rows": first["rows"] + 1},
        {"trains": False},
    ]
    found += [{**first, **change} for change in chance.sample(others, 9)]
    found += [{**first, "between": changes.pick(chance, results=False)} for _ in range(3)]
    found.append(dict(first))
    return found


def arguments(module: types.ModuleType, call: dict[str, Any]) -> tuple[Any, ...]:
    """Fresh real arguments for one side, and what is done with the results."""
    numbers = np.random.default_rng(call["values"])
    leaves, tensors = [], []
    for at, shape in enumerate([(call["rows"], 3)] * 3 + [()]):
        data = numbers.standard_normal(shape).astype(paddle.get_default_dtype())
        tensor = paddle.to_tensor(data, stop_gradient=not call["grad"][at])
        leaves.append(tensor)
        if call["computed"][at]:
            tensor = tensor * 1.5
            if call["grad"][at]:
                tensor.retain_grads()
                tensor.register_hook(lambda gradient, at=at: module.LOG.append(at))
        tensors.append(tensor)
    a, b, c, r = tensors
    n, m = paddle.to_tensor(call["n"]), paddle.to_tensor(call["m"])
    between = functools.partial(changes.change, module, (a, b, c, r)) if call["between"] else None
    return a, b, c, n, m, r, leaves, call, between


def around(main: Callable[..., Any]) -> Callable[..., Any]:
    """Goes backward from some of the results."""

    def step(*given: Any) -> Any:
        *args, _, call, between = given
        if not call["trains"]:
            with paddle.no_grad():
                return main(*args)
        results = main(*args)
        tensors = _tensors(results)
        picked = {1: tensors[:1], 2: tensors[-1:], 3: tensors[::2]}.get(call["uses"], tensors)
        roots = [tensor for tensor in picked if not tensor.stop_gradient]
        goes_back = bool(roots)
        if between:
            # What control flow hands on is a new tensor, in which changes of arguments do not show.
            loss = sum(tensor.astype("float32").sum() * (at + 0.5) for at, tensor in enumerate(roots))
            results = [tensor.detach().clone() for tensor in tensors]
            if call["between"].drops:
                picked = tensors = roots = [tensor.detach() for tensor in tensors]
            between(tensors, call["between"])
        else:
            loss = sum((tensor.astype("float32") ** 2).sum() for tensor in roots)
        if goes_back:
            loss.backward()
        return results

    return step


def _tensors(value: Any) -> list[paddle.Tensor]:
    if isinstance(value, paddle.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for item in value for tensor in _tensors(item)] if isinstance(value, list | tuple) else []


def state(module: types.ModuleType) -> Any:
    """What a program may leave behind in its module."""
    log, module.LOG[:] = list(module.LOG), []
    # Hooks of one backward have no order among each other.
    hooks = sorted(it for it in log if isinstance(it, int))
    left = [it for it in log if not isinstance(it, int)]
    return [hooks, left, module.WEIGHT, module.BIAS, module.NET, vars(module.SETTINGS), module.SIZES]


def settings(seed: int) -> dict[str, Any]:
    """How program number `seed` is translated."""
    found: dict[str, Any] = {"capture_control_flow": True}
    if seed % 4:
        found["min_graph_size"] = 0
    if seed % 11 == 0:
        found["backend"] = "eager"
    elif seed % 7 == 0:
        found.update(backend="cinn", dynamic=True)
    return found


def may_refuse(seed: int, call: dict[str, Any], error: str) -> bool:
    """The gradients of captured branches and loops compute them again."""
    words = "has other numbers than when", "has been modified by an inplace operation"
    return bool(call["between"]) and (any(it in error for it in words) or is_of_python(call, error))


def is_of_python(call: dict[str, Any], error: str) -> bool:
    """Whether what runs again has read something else than a tensor that the caller has changed since."""
    return call["between"] is not None and call["between"].target == "python" and "since the call: what" in error


FAMILY = Family(PRELUDE, program, calls, arguments, state, settings, around, may_refuse)
