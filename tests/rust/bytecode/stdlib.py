"""The code objects of the standard library, in a loop around our round trip."""

import os
import re
import sysconfig
import types
import warnings

warnings.simplefilter("ignore")

FIELDS = (
    "co_code co_consts co_names co_varnames co_cellvars co_freevars co_exceptiontable co_flags co_argcount "
    "co_posonlyargcount co_kwonlyargcount co_nlocals co_filename co_name co_qualname co_firstlineno"
).split()
TABLES = ("co_positions", "co_lines")


def codes(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from codes(const)


def files():
    """Every second one; those of CPython's own tests are more than all others: every eighth."""
    root = sysconfig.get_path("stdlib")
    tests = os.path.join(root, "test")
    for folder, names, files in os.walk(root):
        names[:] = sorted(n for n in names if n not in ("site-packages", "lib2to3", "__pycache__"))
        found = sorted(f for f in files if f.endswith(".py"))
        yield from (os.path.join(folder, f) for f in found[:: 8 if folder.startswith(tests) else 2])


def all_codes(pattern):
    for path in files():
        if not re.match(pattern, os.path.basename(path)):
            continue
        try:
            with open(path, "rb") as f:
                top = compile(f.read(), path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        yield from codes(top)


def check(examine, pattern=""):
    """`examine(code)` answers what is wrong with it, or nothing; `pattern` is how file names begin."""
    count, wrong = 0, []
    for code in all_codes(pattern):
        count += 1
        try:
            bad = examine(code)
        except Exception as e:
            bad = repr(e)
        if bad:
            wrong.append((code.co_filename, code.co_qualname, bad))
    return count, wrong


def differences(code, back, dead):
    bad = [f for f in FIELDS if getattr(code, f) != getattr(back, f)]
    bad += [f for f in TABLES if list(getattr(code, f)()) != list(getattr(back, f)())]
    # The compiler also counts handlers of which nothing is left to protect.
    if back.co_stacksize > code.co_stacksize or back.co_stacksize < code.co_stacksize and not dead:
        bad.append(("co_stacksize", code.co_stacksize, back.co_stacksize))
    return bad
