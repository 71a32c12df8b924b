//! How much stack a code object needs (CPython: `calculate_stackdepth` in `Python/flowgraph.c`).
//!
//! The interpreter reserves `co_stacksize` slots and never looks again, so code that needs more
//! overwrites its neighbour. What cannot be counted is refused instead.

use pyo3::prelude::*;

use super::instr::Instr;
use super::optable::OpTable;
use super::{BytecodeError, Code};

/// `CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR`
const SUSPENDS: u32 = 0x20 | 0x80 | 0x200;

/// The depth before each instruction, and the deepest the stack gets.
#[derive(Debug)]
pub struct StackDepths {
    /// One entry per instruction; `None` where nothing leads.
    pub before: Vec<Option<u32>>,
    /// What `co_stacksize` has to be.
    pub max: u32,
}

impl StackDepths {
    /// Walks every path through jumps and handlers from the first instruction.
    ///
    /// # Errors
    /// When a path pops more than there is, runs off the end, meets another at a different depth,
    /// or raises with fewer values on the stack than its handler keeps.
    pub fn of(py: Python<'_>, code: &Code) -> Result<Self, BytecodeError> {
        let table = OpTable::get(py)?;
        let mut walk = Walk {
            code,
            depths: Self {
                before: vec![None; code.instructions.len()],
                max: 0,
            },
            todo: Vec::new(),
        };
        walk.reach(0, entry_depth(py, table, code)?)?;
        while let Some(index) = walk.todo.pop() {
            walk.step(py, table, index)?;
        }
        Ok(walk.depths)
    }
}

/// A generator is resumed with a value. Before 3.13 `RETURN_GENERATOR` does not count as its push.
fn entry_depth(py: Python<'_>, table: &OpTable, code: &Code) -> Result<u32, BytecodeError> {
    if code.flags & SUSPENDS == 0 {
        return Ok(0);
    }
    let counted = match table.number("RETURN_GENERATOR") {
        Some(op) => table.effect(py, op, 0, false)? > 0,
        None => false,
    };
    Ok(u32::from(!counted))
}

struct Walk<'a> {
    code: &'a Code,
    depths: StackDepths,
    todo: Vec<usize>,
}

impl Walk<'_> {
    fn malformed(&self, what: &'static str) -> BytecodeError {
        BytecodeError::Malformed {
            name: self.code.qualname.to_string(),
            what,
        }
    }

    fn reach(&mut self, index: usize, depth: u32) -> Result<(), BytecodeError> {
        self.depths.max = self.depths.max.max(depth);
        match self.depths.before.get(index).copied() {
            None => Err(self.malformed("a path runs off the end")),
            Some(None) => {
                self.depths.before[index] = Some(depth);
                self.todo.push(index);
                Ok(())
            }
            Some(Some(known)) if known == depth => Ok(()),
            Some(Some(_)) => Err(self.malformed("paths meet at different stack depths")),
        }
    }

    fn step(&mut self, py: Python<'_>, table: &OpTable, index: usize) -> Result<(), BytecodeError> {
        let code = self.code;
        let instruction = &code.instructions[index];
        let depth = self.depths.before[index].unwrap_or(0);
        for entry in &code.exception_table {
            if !(entry.start..entry.end).contains(&index) {
                continue;
            }
            if depth < entry.depth {
                return Err(self.malformed("a handler keeps more of the stack than there is"));
            }
            // The exception, and below it the place it comes from.
            self.reach(entry.target, entry.depth + u32::from(entry.lasti) + 1)?;
        }
        if let Some(target) = instruction.instr.target() {
            let depth = self.after(py, table, index, depth, true)?;
            self.reach(target, depth)?;
        }
        let falls = self.after(py, table, index, depth, false)?;
        if instruction.instr.falls_through() && !leaves(&instruction.instr) {
            self.reach(index + 1, falls)?;
        }
        Ok(())
    }

    fn after(
        &self,
        py: Python<'_>,
        table: &OpTable,
        index: usize,
        depth: u32,
        jump: bool,
    ) -> Result<u32, BytecodeError> {
        let instruction = &self.code.instructions[index];
        let effect = table.effect(py, instruction.op, instruction.arg, jump)?;
        depth
            .checked_add_signed(effect)
            .ok_or_else(|| self.malformed("the stack is popped below its bottom"))
    }
}

fn leaves(instr: &Instr) -> bool {
    matches!(
        instr,
        Instr::Other {
            name: "INTERPRETER_EXIT"
        }
    )
}
