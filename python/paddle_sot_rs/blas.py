"""`native_blas`: the kernels of MKL that the processor has, where MKL would not take them.

Paddle's CPU wheel computes matrix products with MKLML of 2019. On a processor that is not Intel's it takes its generic
kernels, a third to a quarter as fast, unless `MKL_DEBUG_CPU_TYPE` names others before its first call.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ._process import blas_probe

_VARIABLE = "MKL_DEBUG_CPU_TYPE"
# Haswell's: AVX2 and FMA. Those of AVX-512 (8) are an illegal instruction on some that have it.
_AVX2 = "5"
_NEEDED = ("avx2", "fma")
# Seconds that a probe may take: it takes a tenth of one on a quiet machine.
_PATIENCE = 60

SET, NOT_NEEDED, TOO_LATE, NOT_POSSIBLE = "set", "not needed", "too late", "not possible"


@dataclass(frozen=True)
class NativeBlas:
    """What `native_blas` has done.

    Attributes:
        outcome: "set", "not needed", "too late" or "not possible".
        reason: why, in a sentence.
    """

    outcome: str
    reason: str

    def __str__(self) -> str:
        return f"{self.outcome}: {self.reason}"


@dataclass(frozen=True)
class Processor:
    """What `/proc/cpuinfo` says of the first processor."""

    vendor: str
    flags: frozenset[str]

    @classmethod
    def this(cls) -> Processor:
        """The one that runs this process; without a vendor where the system does not say."""
        try:
            text = Path("/proc/cpuinfo").read_text(errors="replace")
        except OSError:
            return cls("", frozenset())
        known: dict[str, str] = {}
        for line in text.split("\n\n", 1)[0].splitlines():
            name, _, value = line.partition(":")
            known[name.strip()] = value.strip()
        return cls(known.get("vendor_id", ""), frozenset(known.get("flags", "").split()))


def _library() -> Path | None:
    import paddle

    found = Path(paddle.__file__).parent / "libs" / "libmklml_intel.so"
    return found if found.exists() else None


def _known_before(processor: Processor, library: Path | None) -> NativeBlas | None:
    """What is known without a call into MKL; None where it would run its generic kernels and need not."""
    if library is None or platform.machine() != "x86_64":
        return NativeBlas(NOT_NEEDED, "this Paddle computes without MKLML")
    if processor.vendor == "GenuineIntel":
        return NativeBlas(NOT_NEEDED, "MKL takes the best kernels of Intel's processors by itself")
    if (chosen := os.environ.get(_VARIABLE)) is not None:
        return NativeBlas(NOT_NEEDED, f"{_VARIABLE}={chosen} is set already")
    missing = [flag for flag in _NEEDED if flag not in processor.flags]
    if missing:
        return NativeBlas(NOT_POSSIBLE, f"the processor has no {' and no '.join(missing)}")
    return None


class _ProbeFailed(Exception):
    """A probe did not end well; the text says how."""


def _probe(library: Path, cpu_type: str | None) -> str:
    """The fingerprint of a new process."""
    environment = {name: value for name, value in os.environ.items() if name != _VARIABLE}
    if cpu_type is not None:
        environment[_VARIABLE] = cpu_type
    command = [sys.executable, "-I", "-S", blas_probe.__file__, str(library)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _ProbeFailed(str(error)) from error
    if done.returncode:
        raise _ProbeFailed(f"it ended with {done.returncode}")
    return done.stdout.strip()


def native_blas() -> NativeBlas:
    """Has MKL run the kernels that this processor has, for the rest of the process.

    Matrix products and convolutions of Paddle on a CPU take a third to a half of the time then, in eager mode and in
    programs. Their last digits are others than before, once and for all; hence it is asked for. Call it before the
    first computation. Processes that are started later inherit the choice.

    Returns:
        NativeBlas: "set"; "not needed" (an Intel processor, a Paddle without MKLML, a choice that was made by
            environment); "too late" (MKL has been called: it keeps what it took); "not possible" (no AVX2 or FMA, or
            a probe in a process of its own failed).
    """
    library = _library()
    known = _known_before(Processor.this(), library)
    if known is not None or library is None:
        return known or NativeBlas(NOT_NEEDED, "this Paddle computes without MKLML")
    try:
        generic, wanted = _probe(library, None), _probe(library, _AVX2)
    except _ProbeFailed as failed:
        return NativeBlas(NOT_POSSIBLE, f"a probe of the kernels failed: {failed}")
    if generic == wanted:
        return NativeBlas(NOT_NEEDED, "MKL runs the same kernels either way")
    os.environ[_VARIABLE] = _AVX2
    if blas_probe.fingerprint(blas_probe.load(str(library))) == wanted:
        return NativeBlas(SET, "MKL runs its kernels for AVX2 and FMA")
    del os.environ[_VARIABLE]
    return NativeBlas(TOO_LATE, "a matmul has run, and MKL keeps the kernels of its first call")


def advice() -> str | None:
    """One line for who runs on MKL's generic kernels without need; None for all others. It calls nothing of MKL."""
    if _known_before(Processor.this(), _library()) is not None:
        return None
    return (
        "this processor runs MKL's generic kernels, matrix products take two to four times as long: call "
        "paddle_sot_rs.native_blas() first, or set PADDLE_SOT_NATIVE_BLAS=1"
    )


def set_by_environment(text: str | None) -> NativeBlas | None:
    """Does what `PADDLE_SOT_NATIVE_BLAS` says.

    Raises:
        ImportError: it says neither 0 nor 1.
    """
    if text in (None, "", "0"):
        return None
    if text != "1":
        raise ImportError(f"PADDLE_SOT_NATIVE_BLAS: expected 0 or 1, got {text!r}")
    return native_blas()
