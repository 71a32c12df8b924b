"""Every opcode of the running interpreter is simulated, or there is a reason why not."""

from __future__ import annotations

import dis
import enum
import functools
import inspect
import tokenize
import types
import typing
import unittest.case

import pytest
from paddle_sot_rs.debug import opcode_table

ROWS = opcode_table()


def test_the_table_has_every_opcode():
    assert {name for name, _, _ in ROWS} == set(dis.opmap)


@pytest.mark.parametrize(("name", "simulated", "reason"), ROWS, ids=[row[0] for row in ROWS])
def test_an_opcode_is_simulated_or_has_a_reason(name, simulated, reason):
    assert simulated != bool(reason)


def test_of_what_functions_execute_only_the_asynchronous_is_missing():
    missing = {name: reason for name, simulated, reason in ROWS if not simulated}
    kinds = {reason.split(":")[0] for reason in missing.values()}
    assert kinds <= {"asynchronous", "body", "internal"}, missing


def functions_of(code):
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from functions_of(const)
    if code.co_flags & inspect.CO_OPTIMIZED:
        yield code


def test_functions_of_the_standard_library_have_no_opcode_of_bodies():
    bodies = {name for name, _, reason in ROWS if reason.startswith("body: ")}
    seen = 0
    for module in (enum, functools, inspect, types, typing, unittest.case):
        with tokenize.open(module.__file__) as file:
            code = compile(file.read(), module.__file__, "exec")
        for function in functions_of(code):
            seen += 1
            assert bodies.isdisjoint(it.opname for it in dis.get_instructions(function)), function
    assert seen > 500
