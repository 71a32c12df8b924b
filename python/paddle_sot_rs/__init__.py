"""PaddleSOT in Rust: turns dynamic PaddlePaddle code into static graphs at run time."""

from __future__ import annotations

from ._process import checks

checks.check_environment()

from . import settings as _settings
from . import stance as _stance
from ._core import __version__, load_python, unregister_backend
from ._process import saves
from ._reports.recording import record
from ._reports.recording import record_by_environment as _record_by_environment
from ._reproduce.minify import Minified, minify
from .api import (
    allow_in_graph,
    black_list,
    disable,
    graph_break,
    is_compiling,
    to_static,
)
from .backends import list_backends, register_backend, swap_backend
from .blas import NativeBlas, native_blas
from .compat import patch_paddle
from .dims import Dim
from .errors import GraphBreakError, RecompileError
from .frozen import Frozen, FrozenStats, freeze
from .jit import save
from .onnx import save_onnx
from .report import Explanation, GraphBreak, Seconds, Stats, explain, reset, stats
from .settings import config
from .specification import DynamicDims, mark_dynamic, mark_static
from .stance import set_stance

__all__ = [
    "Dim",
    "DynamicDims",
    "Explanation",
    "Frozen",
    "FrozenStats",
    "GraphBreak",
    "GraphBreakError",
    "Minified",
    "NativeBlas",
    "RecompileError",
    "Seconds",
    "Stats",
    "__version__",
    "allow_in_graph",
    "black_list",
    "config",
    "disable",
    "explain",
    "freeze",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "minify",
    "native_blas",
    "patch_paddle",
    "record",
    "register_backend",
    "reset",
    "save",
    "save_onnx",
    "set_stance",
    "stats",
    "swap_backend",
    "to_static",
    "unregister_backend",
]

checks.check_paddle()
saves.watch()
_stance.set_by_environment()
_settings.show_progress_by_environment()
load_python()
_record_by_environment()
