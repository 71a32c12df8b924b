"""Export to ONNX, through paddle2onnx."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from .jit import save_files

# It ends the process where it meets what it does not know, and some of its tools install packages.
_CONVERT = """
import sys
import paddle2onnx
model, parameters, target, opset = sys.argv[1:]
paddle2onnx.export(model, parameters, target, opset_version=int(opset), enable_onnx_checker=True, optimize_tool="None")
"""


def save_onnx(layer_or_fn: Any, path: str | os.PathLike[str], input_spec: Any = None, opset_version: int = 17) -> None:
    """Saves a Layer or a function as one ONNX file, through paddle2onnx, which must be installed.

    paddle2onnx reads what `save` writes, in a process of its own. It does not know all of Paddle's operators.

    Args:
        layer_or_fn: what to save; translated or not. Of a Layer, `forward`.
        path: the file; `.onnx` is added where it is missing.
        input_spec: as for `save`.
        opset_version: of the ONNX operators.

    Raises:
        ImportError: paddle2onnx is not installed.
        GraphBreakError: it would need more than one graph; every reason is listed. Nothing is written.
        RuntimeError: paddle2onnx failed. Nothing is written.
        TypeError, ValueError: an argument does not fit.
    """
    if importlib.util.find_spec("paddle2onnx") is None:
        raise ImportError(
            "save_onnx needs paddle2onnx: pip install paddle2onnx (not every Python version has a wheel of it). "
            "save() writes what paddle2onnx reads elsewhere"
        )
    target = os.fspath(path)
    if not target.endswith(".onnx"):
        target += ".onnx"
    with tempfile.TemporaryDirectory() as directory:
        model = os.path.join(directory, "model")
        # ONNX has no assertions.
        save_files(layer_or_fn, model, input_spec, ranges=False)
        parameters = model + ".pdiparams"
        made = model + ".onnx"
        given = [model + ".json", parameters if os.path.exists(parameters) else "", made, str(opset_version)]
        environment = {**os.environ, "POLYGRAPHY_AUTOINSTALL_DEPS": "0"}
        done = subprocess.run([sys.executable, "-c", _CONVERT, *given], env=environment, capture_output=True, text=True)
        if done.returncode or not os.path.exists(made):
            lines = [line for line in (done.stdout + done.stderr).splitlines() if "error" in line.lower()]
            lines.sort(key=lambda line: not line.startswith("[ERROR]"))
            why = "; ".join(lines[:3]) or f"it ended with {done.returncode}"
            raise RuntimeError(f"paddle2onnx cannot convert the program: {why}")
        os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        shutil.move(made, target)
