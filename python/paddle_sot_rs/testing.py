"""A conformance suite for authors of backends: `check_backend`."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from . import _backend_cases
from .backends import provide

__all__ = ["BackendCheckError", "BackendReport", "CaseResult", "backend_cases", "check_backend"]


@dataclass(frozen=True)
class CaseResult:
    """What became of one case.

    Attributes:
        name: of the case.
        rule: what a backend has to do.
        error: what went wrong; empty where nothing did.
        trace: the traceback of the error.
        seconds: how long it took.
    """

    name: str
    rule: str
    error: str = ""
    trace: str = field(default="", repr=False)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the backend keeps the rule."""
        return not self.error


@dataclass(frozen=True)
class BackendReport:
    """What `check_backend` found. `print()` of it is a table.

    Attributes:
        backend: the name.
        cases: all results, in order.
    """

    backend: str
    cases: tuple[CaseResult, ...]

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        """Those that did not pass."""
        return tuple(case for case in self.cases if not case.passed)

    def __str__(self) -> str:
        passed = len(self.cases) - len(self.failures)
        lines = [f"backend {self.backend!r}: {passed} of {len(self.cases)} cases passed"]
        for case in self.cases:
            lines.append(f"  {'ok    ' if case.passed else 'FAILED'} {case.name} ({case.seconds:.2f} s)")
            if not case.passed:
                lines += [f"         rule: {case.rule}", *(f"         {line}" for line in case.error.splitlines())]
        return "\n".join(lines)


class BackendCheckError(AssertionError):
    """Raised where a backend breaks a rule. `report` has everything.

    Attributes:
        report: the `BackendReport`.
    """

    def __init__(self, report: BackendReport) -> None:
        super().__init__(str(report))
        self.report = report


def backend_cases() -> dict[str, str]:
    """The cases by name, each with its rule."""
    return {name: case.__doc__ or "" for name, case in _backend_cases.CASES.items()}


def check_backend(
    name: str,
    *,
    options: dict[str, Any] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    only: Iterable[str] | None = None,
    skip: Iterable[str] = (),
    raises: bool = True,
) -> BackendReport:
    """Runs small functions under a backend and in eager mode, and compares.

    Values are compared within the tolerances, everything else exactly: dtypes, shapes, `stop_gradient`, gradients
    that are there, what is one object and what shares storage, exceptions, what is changed in place.

    Args:
        name: the backend, from `list_backends()`.
        options: its options.
        rtol: relative tolerance of values.
        atol: absolute tolerance of values.
        only: names of the cases to run, from `backend_cases()`. Default: all.
        skip: names of cases that are left out.
        raises: raise where a case fails; with False the report alone says so.

    Returns:
        The report.

    Raises:
        BackendCheckError: a case failed. Its message is the report.
        ValueError: there is no such backend or case.
    """
    provide(name)
    known = _backend_cases.CASES
    only, skip = list(known) if only is None else list(only), list(skip)
    for argument, names in (("only", only), ("skip", skip)):
        for case in names:
            if case not in known:
                raise ValueError(f"{argument}: unknown case {case!r}; known: {', '.join(known)}")
    results = []
    for case in (case for case in known if case in only and case not in skip):
        check = _backend_cases.Check(name, options, rtol, atol)
        rule = " ".join((known[case].__doc__ or "").split())
        started = time.perf_counter()
        error = trace = ""
        try:
            with _backend_cases.untouched_process():
                known[case](check)
        except Exception as failed:  # noqa: BLE001 - a backend may raise anything
            error, trace = f"{type(failed).__name__}: {failed}", traceback.format_exc()
        results.append(CaseResult(case, rule, error, trace, time.perf_counter() - started))
    report = BackendReport(name, tuple(results))
    if raises and report.failures:
        raise BackendCheckError(report)
    return report
