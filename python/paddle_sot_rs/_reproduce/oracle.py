"""Says what becomes of a script: each runs in a process of its own, forked from one that has imported everything.

Started by `minify` as `python -m paddle_sot_rs._reproduce.oracle`. A request is a line of JSON, and so is the answer.
"""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import re
import signal
import subprocess
import sys
import traceback
import types
from typing import Any

# Seconds that a script may run.
PATIENCE = 60


def sort(found: str) -> str:
    """What must stay the same of a difference or a message: not its numbers, sizes and places."""
    place, _, rest = found.partition(": ")
    place = re.split(r"\[", place)[0]
    rest = re.sub(r"\b(nan|inf)\b", "0", rest)
    rest = re.sub(r"\[[^a-zA-Z']*\]", "A", rest)
    rest = re.sub(r"-?\d[\d.e+-]*", "0", rest)
    # An array of no dims is written as a number.
    return f"{place}: {rest.replace('0', 'A')}"[:80]


class Oracle:
    """The process that runs scripts.

    Args:
        wanted: `differs`, `breaks` or `dies`.
        reason: the id, where it breaks.
        folder: where scripts run.
    """

    def __init__(self, wanted: str, reason: str, folder: str) -> None:
        self._wanted, self._reason, self._folder = wanted, reason, folder
        self._process: subprocess.Popen[str] | None = None
        self.runs = 0

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            command = [sys.executable, "-m", "paddle_sot_rs._reproduce.oracle"]
            # Scripts say themselves what is checked.
            quiet = {name: value for name, value in os.environ.items() if not name.startswith("PADDLE_SOT_")}
            path = os.pathsep.join(path or os.getcwd() for path in sys.path)
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**quiet, "PYTHONPATH": path},
            )
        return self._process

    def ask(self, script: str, checks: bool = False) -> str | None:
        """What is found of it; None where nothing is, or something else.

        Args:
            script: its text.
            checks: all functions that it translates are compared with plain Python.
        """
        request = {
            "script": script,
            "wanted": self._wanted,
            "reason": self._reason,
            "folder": self._folder,
            "checks": checks,
        }
        self.runs += 1
        for _ in range(2):
            process = self._started()
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(OSError):
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                if line := process.stdout.readline():
                    return json.loads(line)
        return None

    def end(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def _run(request: dict[str, Any], to: int, eager: bool) -> None:
    """In a process of its own: runs the script and writes what is found. It never returns."""
    signal.alarm(PATIENCE)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)

    def found(text: str) -> None:
        with os.fdopen(os.dup(to), "w") as file:
            file.write(text)
        os._exit(0)

    try:
        import paddle_sot_rs as sot
        from paddle_sot_rs import _core

        from . import checking, minify, reducing

        # Most scripts call once.
        _core.compile_at_once(True)
        os.chdir(request["folder"])
        sys.path.insert(0, request["folder"])
        if eager:
            sot.set_stance("eager")
        if request["checks"] and not eager:
            os.environ["PADDLE_SOT_CHECK"] = "1"

        def observe(static: Any, args: Any, kwargs: Any) -> Any:
            outcome, different = checking.compared(static, args, kwargs)
            if different:
                found(different)
            return checking.ended(outcome)

        checking.observers.append(observe)
        name = os.path.join(request["folder"], "minified.py")
        linecache.cache[name] = (0, None, request["script"].splitlines(keepends=True), name)
        sys.argv = [name]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        main.__file__ = name
        try:
            exec(reducing.code_of(request["script"], name), vars(main))
        except BaseException:  # noqa: BLE001 - only what the engine did counts
            traceback.format_exc()
        if request["wanted"] == "breaks" and (reason := minify.met(sot.stats(), request["reason"])):
            found(reason)
        if request["wanted"] == "dies" and eager:
            found("alive")
    finally:
        os._exit(0)


def _verdict(request: dict[str, Any], eager: bool = False) -> str | None:
    mine, theirs = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(mine)
        _run(request, theirs, eager)
    os.close(theirs)
    with os.fdopen(mine) as file:
        text = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if request["wanted"] != "dies" or eager:
        return text or None
    if status >= 0 or status in (-signal.SIGALRM, -signal.SIGKILL):
        return None
    # In plain Python it must live.
    alive = _verdict(request, eager=True)
    return f"died: {signal.Signals(-status).name}" if alive else None


def serve() -> None:
    """Answers requests until there are no more."""
    # What the first translation of a process takes is done before the fork.
    # This backend starts no threads.
    import paddle

    import paddle_sot_rs as sot

    from . import minify  # noqa: F401

    sot.to_static(lambda x: (x * 2).sum(), backend="eager")(paddle.ones([2]))
    for line in sys.stdin:
        answer = _verdict(json.loads(line))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
