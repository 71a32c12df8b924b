"""The examples in Paddle's docstrings, as bodies of functions: translated twice they print and compute what plain Python does.

`docstrings.py` runs them all, `docstrings.py --every 12` some of them, `docstrings.py NAME...` those whose name contains one of these.
With `--mutants 6 --seed 1` it is six examples made of each, in which something is changed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import faulthandler
import inspect
import io
import linecache
import pkgutil
import random
import re
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import paddle_sot_rs as sot
from mutants import mutants
from paddle.utils import unique_name

CHUNK = 60

# Seconds for an example. Some of Paddle's kernels never end with arguments that make no sense.
PATIENCE = 120
TRANSLATES = "plain Python is done"

SCRIPT = str(Path(__file__).resolve())

# What is not looked into: other devices and processes, static graphs, files, downloads, settings of
# the process.
MODULES = re.compile(
    r"\.(distributed|base|cuda|tensorrt|xpu|onnx|dataset|proto|cpp_extension|device|profiler|sot|static|utils|hub|passes)\b"
)
EXAMPLES = re.compile(
    r"enable_static|distributed|[gx]pu|cuda|\+SKIP|REQUIRES|fleet|static\.|tempfile|save\(|load\(|Model\(|download|pretrained=True"
    r"|multiprocess|DataLoader|dataset|Program|\bos\.|open\(|sleep|[pP]rofiler|\bjit\.|to_static|InputSpec|flops\(|\bhub|set_default_dtype"
    r"|set_flags|custom_device|is_compiled|onnx|version|audio\.|summary\(|vision\.models\.|sysconfig|rng_state|\bid\("
)

# Where plain Python differs, and why.
KNOWN = {
    "Tensor.detach": "gradients of leaves say stop_gradient=True",
    "Tensor.grad": "gradients of leaves say stop_gradient=True",
    "backward_mode.backward": "gradients of leaves say stop_gradient=True",
    "operator_stats": "counts the operators that eager mode runs",
    "fftshift": "eager mode raises SystemError behind a print()",
    "log_normal": "eager mode raises SystemError behind a print()",
    "loss.hsigmoid_loss": "a label out of range: eager mode reads memory behind its weight",
    "new_empty": "memory that nothing was written to",
}


def objects() -> Iterator[tuple[str, Any]]:
    """What Paddle documents, with its name."""
    modules = [paddle]
    for info in pkgutil.walk_packages(paddle.__path__, "paddle."):
        if not MODULES.search(info.name):
            with contextlib.suppress(Exception):
                modules.append(import_module(info.name))
    for module in modules:
        for name, found in list(vars(module).items()):
            home = str(getattr(found, "__module__", ""))
            if name.startswith("_") or not callable(found) or not home.startswith("paddle"):
                continue
            yield f"{home}.{getattr(found, '__name__', name)}", found
            if inspect.isclass(found):
                for member, value in list(vars(found).items()):
                    value = getattr(value, "__func__", value)
                    yield f"{home}.{found.__name__}.{member}", getattr(value, "fget", None) or value
    for name in dir(paddle.Tensor):
        yield f"paddle.Tensor.{name}", getattr(paddle.Tensor, name, None)


def examples() -> list[tuple[str, str]]:
    """Names and source text, each text once."""
    found: dict[str, str] = {}
    for name, item in objects():
        text = getattr(item, "__doc__", None)
        if not isinstance(text, str):
            continue
        for block in re.split(r"\.\. code-block|:name:", text.expandtabs()):
            lines = re.findall(r"^\s*(?:>>>|\.\.\.)(?: (.*)|)$", block, re.M)
            source = "\n".join(lines)
            if source and not EXAMPLES.search(source):
                with contextlib.suppress(SyntaxError):
                    ast.parse(source)
                    found.setdefault(source, name)
    return sorted((name, source) for source, name in found.items())


def function(name: str, source: str) -> Callable[[], dict[str, Any]]:
    """The example as a function that answers with what it binds."""
    bound: dict[str, None] = {}
    for statement in ast.parse(source).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for node in (node for target in targets for node in ast.walk(target)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound[node.id] = None
    answer = ", ".join(f"{one!r}: {one}" for one in bound)
    text = f"def example():\n{textwrap.indent(source, '    ')}\n    return {{{answer}}}\n"
    file = f"<example of {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace: dict[str, Any] = {"__name__": "example", "paddle": paddle, "np": np, "numpy": np}
    exec(compile(text, file, "exec"), namespace)
    return namespace["example"]


def picture(value: Any, depth: int = 0) -> Any:
    """What can be compared, to the last bit."""
    if isinstance(value, paddle.Tensor):
        if value.is_sparse() or not value._is_initialized():
            return "tensor", str(value.dtype), value.shape
        gradient = None if value.grad is None else value.grad.numpy().tobytes()
        return "tensor", str(value.dtype), value.shape, value.stop_gradient, value.numpy().tobytes(), gradient
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, int | float | complex | str | bytes | None):
        return repr(value)
    if depth < 4 and isinstance(value, list | tuple):
        return type(value).__name__, [picture(item, depth + 1) for item in value]
    if depth < 4 and isinstance(value, dict):
        return "dict", [(repr(key), picture(item, depth + 1)) for key, item in value.items()]
    if isinstance(value, paddle.nn.Layer):
        return type(value).__name__, [picture(item, depth + 1) for item in value.parameters()]
    return type(value).__name__


def without_names(text: str) -> str:
    """Without addresses and made-up names."""
    return re.sub(r"0x[0-9a-f]+|generated_tensor_\d+|eager_tmp_\d+|\w+_\d+\.[wb]_\d+|\bTensor \(\w*\)", "_", text)


def seed() -> None:
    """Random numbers are the same in each run."""
    paddle.seed(42)
    np.random.seed(0)
    random.seed(0)


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    """What it prints, and what it answers or raises."""
    seed()
    printed = io.StringIO()
    with unique_name.guard():
        try:
            with contextlib.redirect_stdout(printed):
                answer = picture(call())
        except Exception as error:  # whatever the example raises is what is compared
            answer = f"{type(error).__name__}: {without_names(str(error))[:200]}"
    return without_names(printed.getvalue()), answer


def compare(name: str, source: str) -> str | None:
    """How a translated example differs from plain Python, or None."""
    plain = function(name, source)
    expected = outcome(plain)
    print(TRANSLATES, flush=True)
    translated = sot.to_static(function(name, source), min_graph_size=0)
    for call in ("first", "second"):
        found = outcome(translated)
        if differ(name, found, expected):
            if differ(name, outcome(plain), expected):
                return None
            return f"{name}: the {call} call differs\n{source}\n--- plain\n{expected}\n--- translated\n{found}"[:3000]
        expected = outcome(plain)
    return None


def differ(name: str, one: tuple[str, Any], other: tuple[str, Any]) -> bool:
    """Whether two outcomes do. Messages about arguments that make no sense show memory: of those the class of the error counts."""
    raised = isinstance(one[1], str) and isinstance(other[1], str)
    if "#" in name and raised:
        return one[1].split(":")[0] != other[1].split(":")[0]
    return one != other


def is_known(name: str) -> bool:
    return any(part in name for part in KNOWN)


def choose(names: list[str], every: int) -> list[tuple[str, str]]:
    """The examples whose name contains one of these, or one in so many."""
    if names:
        return [one for one in examples() if any(part in one[0] for part in names)]
    return [one for one in examples() if not is_known(one[0])][::every]


def in_process(arguments: list[str]) -> tuple[subprocess.CompletedProcess[str], list[tuple[str, str]], int]:
    """Runs a script in a process of its own, which an example may end, and a directory that it may write files to.

    The answer is how it ended, what it has begun (number and name), and how many differences it found: they are printed.
    """
    with tempfile.TemporaryDirectory() as here:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=here)
    begun = re.findall(r"^begins (\d+) (.*)$", done.stdout, re.M)
    reports = re.split(r"^(?=begins |differs )", done.stdout, flags=re.M)
    differences = [report for report in reports if report.startswith("differs ")]
    print("".join(differences), end="", flush=True)
    return done, begun, len(differences)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--mutants", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chunk", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = choose(options.names, options.every)
    if options.mutants:
        chosen = [made for one in chosen for made in mutants(*one, options.mutants, options.seed)]
    if options.chunk:
        first, end = options.chunk
        for at in range(first, min(end, len(chosen))):
            print("begins", at, chosen[at][0], flush=True)
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            if found := compare(*chosen[at]):
                print(f"differs {found}", flush=True)
        return 0
    first, wrong = 0, 0
    while first < len(chosen):
        last = min(first + CHUNK, len(chosen))
        arguments = [
            SCRIPT,
            *options.names,
            f"--every={options.every}",
            f"--mutants={options.mutants}",
            f"--seed={options.seed}",
            "--chunk",
            str(first),
            str(last),
        ]
        done, begun, differences = in_process(arguments)
        wrong += differences
        if done.returncode != 0:
            at, name = begun[-1] if begun else (str(first), "?")
            last = int(at) + 1
            # Paddle's own kernels may end it, too.
            if not options.mutants or done.stdout.rstrip().endswith(TRANSLATES):
                print(f"{name} ends the process ({done.returncode})\n{done.stderr[-2000:]}")
                wrong += 1
        first = last
    print(f"{len(chosen)} examples, {wrong} differences")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
