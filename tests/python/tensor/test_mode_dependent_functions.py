"""Functions of Paddle that ask whether a program is being built may do something else then than in eager mode.

`mode_dependent.txt` lists those that were read and probed; where they differ, a call breaks the graph
(`test_static_branches.py`, `test_quantised_layers.py`). A Paddle that adds one fails here: read it, probe both ways
through it, refuse it where they differ, and add its name.
"""

import ast
from pathlib import Path

import paddle
import pytest

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

ASKS = frozenset(
    f"in_{mode}"
    for mode in ("dygraph_mode", "dynamic_mode", "pir_mode", "sot_simulation_mode", "static_mode", "to_static_mode")
) | {"use_pir_api", "_non_static_mode", "_legacy_C_ops"}
# What is no part of a network's forward: other executors, compilers, readers of data, tools.
NEVER_TRACED = (
    *("amp", "apy", "autograd", "audio", "base", "batch", "cost_model", "dataset", "decomposition", "device"),
    *("distributed", "framework", "hapi", "inference", "io", "jit", "libs", "onnx", "optimizer", "pir", "profiler"),
    *("pir_utils", "static", "sysconfig", "tensorrt", "text", "utils", "nn/initializer", "incubate/asp"),
    *("incubate/autograd", "incubate/autotune", "incubate/checkpoint", "incubate/distributed", "incubate/jit"),
    *("incubate/optimizer", "incubate/passes", "incubate/xpu", "incubate/cc"),
)
KNOWN = frozenset((Path(__file__).parent / "mode_dependent.txt").read_text().split())


def functions(tree, prefix):
    """Names and bodies of the functions of a module and of its classes, outermost ones only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}.{node.name}")
        elif isinstance(node, ast.FunctionDef):
            yield f"{prefix}.{node.name}", node
        else:
            yield from functions(node, prefix)


def asks(body):
    names = (getattr(node, "id", None) or getattr(node, "attr", None) for node in ast.walk(body))
    return not ASKS.isdisjoint(names)


def found():
    root = Path(paddle.__file__).parent
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).with_suffix("").as_posix()
        if any(name == skipped or name.startswith(f"{skipped}/") for skipped in NEVER_TRACED):
            continue
        for function, body in functions(ast.parse(path.read_text()), name.replace("/", ".")):
            if asks(body):
                yield function


def test_every_one_has_been_read():
    assert sorted(set(found()) - KNOWN) == []


def test_the_search_finds_what_it_should():
    assert {"nn.quant.format.LinearDequanter.forward", "nn.functional.common.dropout"} <= set(found())
    assert asks(ast.parse("def f():\n    return _legacy_C_ops.x()"))
    assert not asks(ast.parse("def f():\n    return _C_ops.x()"))
