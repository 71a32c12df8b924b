"""What must be true before the engine is loaded, and how logging is switched on."""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
import textwrap
import warnings

from .. import blas, settings

_CATEGORIES = {
    "graph_breaks": "graph_breaks",
    "guards": "guards",
    "recompiles": "recompiles",
    "bytecode": "bytecode",
    "ir": "ir",
}


# Those that the tests run on.
_PADDLE_VERSIONS = ("3.2", "3.3")
_INSTALL = "pip install 'paddlepaddle>=3.2,<3.4'"


def _supported() -> str:
    import paddle

    return f"paddle_sot_rs supports PaddlePaddle {' and '.join(_PADDLE_VERSIONS)}; this is {paddle.__version__}"


def check_paddle() -> None:
    """Asks every self-test of a version of Paddle that is not known: it raises `ImportError`, or warns and goes on."""
    import paddle

    if ".".join(paddle.__version__.split(".")[:2]) in _PADDLE_VERSIONS:
        return
    from .._core import layout_faults

    if faults := layout_faults():
        told = "; ".join(f"{name}: {textwrap.shorten(why, 200)}" for name, why in faults)
        raise ImportError(f"{_supported()}, whose objects could not be read ({told}): {_INSTALL}")
    warnings.warn(
        f"{_supported()}, which passes the self-tests: nobody has tried it. Compare results with plain Paddle",
        RuntimeWarning,
        stacklevel=3,
    )


def check_environment() -> None:
    """Raises `ImportError`, naming what is unsupported and what to do."""
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        raise ImportError(f"paddle_sot_rs supports CPython 3.11, 3.12 and 3.13; this is {sys.version.split()[0]}")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ImportError("paddle_sot_rs does not support free-threaded Python; use a build with the GIL")
    try:
        import paddle
    except ImportError as error:
        raise ImportError(f"paddle_sot_rs needs PaddlePaddle: {_INSTALL}") from error
    if not hasattr(paddle.base.core, "eager"):
        raise ImportError(f"{_supported()}, which has no eager tensors: {_INSTALL}")
    native = blas.set_by_environment(os.environ.get("PADDLE_SOT_NATIVE_BLAS"))
    _configure_logs(os.environ.get("PADDLE_SOT_LOGS", ""))
    _tell_of_kernels(native)
    for line in settings.misspelt():
        logging.getLogger("paddle_sot_rs").warning("%s", line)


def _tell_of_kernels(native: blas.NativeBlas | None) -> None:
    """The first line where anything is logged: which kernels MKL runs, if others would be faster."""
    log = logging.getLogger("paddle_sot_rs.blas")
    if native is not None:
        log.info("native BLAS: %s", native)
    elif advice := blas.advice():
        log.info("%s", advice)


def _configure_logs(wanted: str) -> None:
    root = logging.getLogger("paddle_sot_rs")
    if root.level == logging.NOTSET:
        # Paddle sets the root logger to INFO; breaks are read with stats() unless asked for.
        root.setLevel(logging.WARNING)
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    unknown = [name for name in names if name not in _CATEGORIES]
    if unknown:
        raise ImportError(f"PADDLE_SOT_LOGS: unknown category {unknown[0]!r}; known: {', '.join(_CATEGORIES)}")
    if not names:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    for name in [*(_CATEGORIES[name] for name in names), "blas"]:
        logger = logging.getLogger(f"paddle_sot_rs.{name}")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
        logger.propagate = False
