"""Runs one program in plain Python and translated, over several calls, and says where they differ."""

from __future__ import annotations

import functools
import linecache
import re
import sys
import time
import traceback
import types
import warnings
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent / "python")]

import harness  # noqa: E402
import paddle  # noqa: E402
import paddle_sot_rs as sot  # noqa: E402
from family import Family  # noqa: E402
from harness import GRADIENT, IDENTITY, Outcome, TooLarge, difference  # noqa: E402

warnings.filterwarnings("ignore")


# The file that preludes are of.
PRELUDE = "<prelude>"


@functools.cache
def _compiled(prelude: str) -> types.CodeType:
    return compile(prelude, PRELUDE, "exec", dont_inherit=True)


def load(source: str, file: str, prelude: str) -> types.ModuleType:
    """A module of its own; both sides of a comparison get one, so that their state goes separate ways."""
    module = types.ModuleType("program")
    module.__file__ = file
    # Classes look their module up by name when they are made.
    sys.modules["program"] = module
    if source.startswith(prelude):
        exec(_compiled(prelude), module.__dict__)
        source = source[len(prelude) :]
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
    return module


def outcome(
    function: Any, module: types.ModuleType, file: str, call: dict[str, Any], captures: bool, family: Family
) -> tuple[Outcome, str | None]:
    """What the call did, and the error of the backward after it.

    Where eager mode's own backward fails, what it did to gradients until then is not compared.
    """
    args, failed = family.arguments(module, call), None
    original = paddle.Tensor.backward

    def backward(*args: Any, **kwargs: Any) -> None:
        nonlocal failed
        try:
            original(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - compared
            failed = f"{type(error).__name__}: {error}"

    paddle.Tensor.backward = backward
    try:
        watch = lambda: family.state(module)  # noqa: E731
        return harness.outcome(function, file, args, {}, watch, not family.goes_backward, captures), failed
    finally:
        paddle.Tensor.backward = original


# A tensor that nobody has asked for its name has none: Paddle's messages show nothing then. Sets of
# objects that hash by their address have no order: what is compared first, when one is sorted,
# differs.
_NAMES = re.compile(
    r"(eager_tmp|eager_in_tmp|generated_tensor|output)_\d+(_deepcopy_\d+)*|0x[0-9a-f]{6,}|(?<=Leaf Var \()(?=\))"
    r"|(?<='<' not supported between instances of )'\w+' and '\w+'"
)


def settled(picture: Any) -> Any:
    """A picture without what may differ: names of tensors, modules of classes, the order of sets."""
    if isinstance(picture, list | tuple):
        return type(picture)(map(settled, picture))
    if isinstance(picture, str):
        return _NAMES.sub("...", picture)
    return picture.__qualname__ if isinstance(picture, type) else picture


# Seconds that plain Python may take for a call: numbers and lists of some programs grow without
# end, and the memory with them, a hundred times from one call to the next.
PATIENCE = 2


class TooLong(BaseException):
    """Ends a program from outside; programs catch other exceptions."""

    in_plain_python = True


# 3.11 runs `STORE_FAST` and `LOAD_FAST` in one once the code is warm, and then reports the line of
# the former.
_LINE_VARIES = sys.version_info < (3, 12)


def compare(source: str, seed: int, family: Family, file: str | None = None) -> str | None:
    """The first difference, or None."""
    return _compare(source, seed, family, file)[0]


def only_digits(source: str, seed: int, family: Family, found: str) -> bool:
    """Whether `found` is a sum of gradients that cancels in single precision.

    Sums of gradients have no fixed order, so what is left where large parts cancel is of no meaning: a gradient that
    is wrong is so in double precision too.
    """
    if f": {GRADIENT}" not in found:
        return False
    default = paddle.get_default_dtype()
    paddle.set_default_dtype("float64")
    try:
        return _compare(source.replace("float32", "float64"), seed, family, None) == (None, True)
    finally:
        paddle.set_default_dtype(default)


def _compare(source: str, seed: int, family: Family, file: str | None) -> tuple[str | None, bool]:
    """The first difference, and whether all calls could be compared."""
    file = file or f"<program {seed}>"
    plain, other = load(source, file, family.prelude), load(source, file, family.prelude)
    settings = family.settings(seed)
    translated = other.main if IDENTITY else sot.to_static(other.main, **settings)
    captures, close = settings.get("capture_control_flow", False), settings.get("backend") == "cinn"
    there, here = family.around(plain.main), family.around(translated)
    try:
        for number, call in enumerate(family.calls(seed)):
            for module in (plain, other):
                tensors = [it for it in vars(module).values() if isinstance(it, paddle.Tensor)]
                for part in (*tensors, *getattr(module, "NET", paddle.nn.Layer()).parameters()):
                    part.clear_gradient(False)
            TooLong.in_plain_python, began = True, time.monotonic()
            try:
                expected, failed = outcome(there, plain, file, call, captures, family)
            except TooLarge:
                return None, False
            except Exception as error:
                # What its objects do when they are looked at; ordered dicts do not find keys that
                # hash otherwise now.
                last = traceback.extract_tb(error.__traceback__)[-1]
                if isinstance(error, KeyError) or last.filename in (file, PRELUDE):
                    return None, False
                raise
            if time.monotonic() - began > PATIENCE:
                return None, False
            TooLong.in_plain_python = False
            actual, refused = outcome(here, other, file, call, captures, family)
            # A picture of a million numbers takes its time, too.
            TooLong.in_plain_python = True
            if failed and not family.goes_backward:
                return None, False
            if failed or refused and family.may_refuse(seed, call, refused):
                continue
            for name in ("kind", "printed", "lines", "world", "random", "value"):
                pictures = getattr(expected, name), getattr(actual, name)
                if name == "lines" and _LINE_VARIES and "UnboundLocalError" in str(expected.value):
                    continue
                if difference(*pictures, close):
                    found = difference(*map(settled, pictures), close)
                else:
                    found = None
                # Where recursion meets its limit depends on what stands below it.
                if found and "RecursionError" in repr((expected.value, expected.world)):
                    return None, False
                if found:
                    extra = ""
                    if name == "kind":
                        raised = [one.value for one in (expected, actual) if one.kind == "raised"]
                        extra = f" | {[value[1] if captures else value[1][2] for value in raised]}"
                    return f"call {number}: {name}{found}{extra}"[:1500], False
        # The answers are right then: the function runs as it is.
        fallbacks = [] if IDENTITY else sot.stats(translated).fallbacks
        panicked = next((it.message for it in fallbacks if "panicked" in it.message), None)
        return panicked, panicked is None
    finally:
        if not IDENTITY:
            sot.reset(translated)
        linecache.cache.pop(file, None)
