"""Every opcode of the running interpreter is simulated, or there is a reason why not."""

from __future__ import annotations

import dis

import pytest
from paddle_sot_rs.debug import opcode_table

ROWS = opcode_table()


def test_the_table_has_every_opcode():
    assert {name for name, _, _ in ROWS} == set(dis.opmap)


@pytest.mark.parametrize(("name", "simulated", "reason"), ROWS, ids=[row[0] for row in ROWS])
def test_an_opcode_is_simulated_or_has_a_reason(name, simulated, reason):
    assert simulated != bool(reason)


def test_most_opcodes_of_programs_are_simulated():
    programs = [row for row in ROWS if not row[2].startswith("internal: ")]
    missing = [name for name, simulated, _ in programs if not simulated]
    assert len(missing) < len(programs) / 4, missing
