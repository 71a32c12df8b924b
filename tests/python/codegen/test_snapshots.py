"""What a translation is made of, as text: statements, guards in order, breaks, byte code.

`make snapshots` writes the files anew; the difference belongs to the commit that makes it.
"""

import dis
import re
import sys
from pathlib import Path

import paddle
import paddle_sot_rs as sot
import pytest

SNAPSHOTS = Path(__file__).parent.parent / "snapshots"
# What an instruction does, and so where a graph breaks, is another thing on each version.
FILES = SNAPSHOTS / f"{sys.version_info.major}.{sys.version_info.minor}"
X = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])


class Counter:
    def __init__(self):
        self.calls = 0
        self.scale = 2.0


class Affine(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x).tanh()


def helper(x, *rest, scale=1):
    return (x + sum(rest)) * scale


def one_graph(x, scale):
    y = x * scale
    return y.tanh(), y


def break_in_the_middle(x, texts):
    y = x * 2
    print(texts[0])
    return y + 1


def break_in_a_callee(x):
    def inner(y):
        print("inside")
        return y * 2

    return inner(x + 1) - 1


def break_in_a_loop(x):
    for step in range(3):
        x = x + step
        if step == 1:
            print("once")
    return x


def branch_on_a_tensor(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def changes_outside(x, items, table, counter):
    items.append(x + 1)
    table["last"] = items[-1] * counter.scale
    counter.calls += 1
    return len(items)


def views_in_place(x):
    y = x + 0
    row = y[0]
    row.add_(paddle.ones([2]))
    return y


def callee_with_keywords(x):
    return helper(x, 1, 2, scale=3)


def generator(x):
    def rows():
        for row in x:
            yield row * 2

    return sum(rows())


def handled_exception(x, table):
    try:
        return x + table["missing"]
    except KeyError as error:
        return x + len(table), str(error)


def cell_that_changes(x):
    count = 0

    def more():
        nonlocal count
        count += 1
        return x * count

    return more() + more(), count


def size_in_arithmetic(x):
    return x.reshape([x.shape[0] * x.shape[1]]), f"{x.shape[0]}"


CASES = {
    one_graph: (X, 3),
    break_in_the_middle: (X, ["a", "b"]),
    break_in_a_callee: (X,),
    break_in_a_loop: (X,),
    branch_on_a_tensor: (X,),
    changes_outside: (X, [], {}, Counter()),
    views_in_place: (X,),
    callee_with_keywords: (X,),
    generator: (X,),
    handled_exception: (X, {}),
    cell_that_changes: (X,),
    size_in_arithmetic: (X,),
}


def first_line(function):
    return function.__code__.co_firstlineno


def without_places(text, first):
    """The path of this file, and lines of it counted from the function's own."""
    text = re.sub(rf"\S*{Path(__file__).name}:(\d+)", lambda found: f"FILE:{int(found[1]) - first}", text)
    text = re.sub(r"<code object ([^ ,]+).*", r"<code object \1>", text)
    return re.sub(r" (at )?0x[0-9a-f]+", "", text)


def lines_of(report, first):
    for number, graph in enumerate(report.graphs):
        yield f"graph {number}"
        yield str(graph.ir).rstrip()
        yield from (f"guard {guard}" for guard in graph.guards)
        for at in dis.get_instructions(graph.code) if graph.code else ():
            line = at.positions.lineno
            line = "" if line is None else line - first
            yield f"{line!s:4}{at.opname} {at.argrepr or ('' if at.arg is None else at.arg)}".rstrip()
    for found in report.graph_breaks:
        yield f"break {found.id} {found.code} line {found.line - first}: {found.message}"


def compare(name, report, first, accepts):
    file = FILES / f"{name}.txt"
    text = "".join(f"{without_places(line, first)}\n" for line in lines_of(report, first))
    if accepts:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert file.read_text() == text, f"`make snapshots` accepts it: {file}"


@pytest.fixture
def accepts(request):
    return request.config.option.accept


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_a_translation_is_as_it_was(function, accepts):
    report = sot.explain(function, min_graph_size=0)(*CASES[function])
    compare(function.__name__, report, first_line(function), accepts)


def test_a_layer_is_as_it_was(accepts):
    report = sot.explain(sot.to_static(Affine(), min_graph_size=0))(X)
    compare("layer", report, first_line(Affine.forward), accepts)


def test_every_file_is_of_a_case():
    names = {function.__name__ for function in CASES} | {"layer"}
    assert {file.stem for file in SNAPSHOTS.glob("**/*.txt")} == names
