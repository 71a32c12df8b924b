//! [`CodeBuilder`]: code objects made from instructions by name, version differences hidden.

use std::sync::Arc;

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use crate::obj::Obj;

use super::code::{Instruction, Loc, LocalKind, LocalSlot};
use super::held::{Held, hashes_quietly};
use super::instr::typed;
use super::optable::OpTable;
use super::version::Dialect;
use super::{BytecodeError, Code, ExceptionEntry};

/// Appends instructions. Jumps are patched with [`CodeBuilder::jump_here`].
pub struct CodeBuilder {
    /// The code so far.
    pub code: Code,
    /// Location given to what is appended.
    pub loc: Loc,
    table: &'static OpTable,
    /// Indices of constants, which `code` keeps alive, by address.
    consts: FxHashMap<usize, u32>,
    /// The same of those that a [`Held`] holds.
    held: FxHashMap<usize, u32>,
}

impl CodeBuilder {
    /// An empty function body with these parameters, named after `like`.
    pub fn new(
        py: Python<'_>,
        like: &Code,
        parameters: Vec<Arc<str>>,
    ) -> Result<Self, BytecodeError> {
        let table = OpTable::get(py)?;
        let kind = LocalKind {
            local: true,
            cell: false,
            free: false,
        };
        let count = parameters.len() as u32;
        let code = Code {
            instructions: Vec::new(),
            consts: Vec::new(),
            names: Vec::new(),
            localsplus: parameters
                .into_iter()
                .map(|name| LocalSlot { name, kind })
                .collect(),
            argcount: count,
            posonly: 0,
            kwonly: 0,
            flags: 0x03,
            exception_table: Vec::new(),
            filename: like.filename.clone(),
            name: like.name.clone(),
            qualname: like.qualname.clone(),
            firstlineno: like.firstlineno,
        };
        let mut this = Self {
            code,
            loc: Loc::line_only(i64::from(like.firstlineno)),
            table,
            consts: FxHashMap::default(),
            held: FxHashMap::default(),
        };
        this.op("RESUME", 0)?;
        Ok(this)
    }

    /// What differs in the interpreter's version.
    pub fn dialect(&self) -> &'static dyn Dialect {
        self.table.dialect
    }

    /// The index the next instruction gets.
    pub fn here(&self) -> usize {
        self.code.instructions.len()
    }

    /// Appends an opcode by name.
    pub fn op(&mut self, name: &str, arg: u32) -> Result<usize, BytecodeError> {
        let missing = || BytecodeError::Malformed {
            name: name.to_owned(),
            what: "no such opcode in this Python",
        };
        let op = self.table.number(name).ok_or_else(missing)?;
        let instr = typed(self.table.dialect, name, arg, usize::MAX).ok_or_else(missing)?;
        self.code.instructions.push(Instruction {
            instr,
            op,
            arg,
            loc: self.loc,
            offset: 0,
        });
        Ok(self.here() - 1)
    }

    /// Appends a copy of an existing instruction (slots, names and constants already valid here).
    pub fn raw(&mut self, instruction: Instruction) -> usize {
        self.code.instructions.push(instruction);
        self.here() - 1
    }

    /// Makes the jump at `index` go to `target`.
    pub fn patch(&mut self, index: usize, target: usize) -> Result<(), BytecodeError> {
        let instruction = &mut self.code.instructions[index];
        let name = self.table.name(instruction.op);
        let what = "not a jump";
        // A copy of a jump may go the other way than the original did.
        let turned = if target > index {
            name.replace("JUMP_BACKWARD_NO_INTERRUPT", "JUMP_FORWARD")
                .replace("BACKWARD", "FORWARD")
        } else {
            name.replace("FORWARD", "BACKWARD")
        };
        if let Some(op) = self.table.number(&turned) {
            instruction.op = op;
        }
        let name = self.table.name(instruction.op);
        instruction.instr =
            typed(self.table.dialect, name, 0, target).ok_or_else(|| BytecodeError::Malformed {
                name: name.to_owned(),
                what,
            })?;
        Ok(())
    }

    /// Makes the jump at `index` go to the next instruction appended.
    pub fn jump_here(&mut self, index: usize) -> Result<(), BytecodeError> {
        self.patch(index, self.here())
    }

    /// The index of a constant (by identity).
    pub fn constant(&mut self, value: &Obj) -> u32 {
        let next = self.code.consts.len() as u32;
        let consts = &mut self.code.consts;
        *self
            .consts
            .entry(value.as_ptr() as usize)
            .or_insert_with(|| {
                consts.push(value.clone());
                next
            })
    }

    /// The index of a name.
    pub fn name(&mut self, name: &str) -> u32 {
        let found = self.code.names.iter().position(|known| **known == *name);
        found.unwrap_or_else(|| {
            self.code.names.push(Arc::from(name));
            self.code.names.len() - 1
        }) as u32
    }

    /// A new local slot.
    pub fn local(&mut self, name: &str) -> u32 {
        let kind = LocalKind {
            local: true,
            cell: false,
            free: false,
        };
        self.code.localsplus.push(LocalSlot {
            name: Arc::from(name),
            kind,
        });
        self.code.localsplus.len() as u32 - 1
    }

    /// Pushes an object.
    pub fn load_const(&mut self, value: &Obj) -> Result<(), BytecodeError> {
        if !Python::attach(|py| hashes_quietly(value.bind(py))) {
            return self.load_held(value);
        }
        let index = self.constant(value);
        self.op("LOAD_CONST", index).map(drop)
    }

    /// The same where the code object must not look at it.
    pub fn load_held(&mut self, value: &Obj) -> Result<(), BytecodeError> {
        let known = value.as_ptr() as usize;
        let index = match self.held.get(&known) {
            Some(index) => *index,
            None => {
                let holder = Python::attach(|py| Held::of(value.bind(py)))?;
                let index = self.constant(&holder);
                self.held.insert(known, index);
                index
            }
        };
        self.op("LOAD_CONST", index)?;
        self.load_attr("value")
    }

    /// `LOAD_FAST`
    pub fn load(&mut self, slot: u32) -> Result<(), BytecodeError> {
        self.op("LOAD_FAST", slot).map(drop)
    }

    /// What raises in these instructions goes on here, on an empty stack.
    pub fn handler_here(&mut self, start: usize, end: usize, lasti: bool) {
        let target = self.here();
        self.code.exception_table.push(ExceptionEntry {
            start,
            end,
            target,
            depth: 0,
            lasti,
        });
    }

    /// `STORE_FAST`
    pub fn store(&mut self, slot: u32) -> Result<(), BytecodeError> {
        self.op("STORE_FAST", slot).map(drop)
    }

    /// Pushes a constant callable the way a call wants it; the arguments follow, then
    /// [`CodeBuilder::call`].
    pub fn begin_call(&mut self, callable: &Obj) -> Result<(), BytecodeError> {
        if self.dialect().is_null_first() {
            self.op("PUSH_NULL", 0)?;
        }
        self.load_const(callable)?;
        if !self.dialect().is_null_first() {
            self.op("PUSH_NULL", 0)?;
        }
        Ok(())
    }

    /// Calls with `argc` positional arguments.
    pub fn call(&mut self, argc: usize) -> Result<(), BytecodeError> {
        if self.dialect().has_precall() {
            self.op("PRECALL", argc as u32)?;
        }
        self.op("CALL", argc as u32).map(drop)
    }

    /// Takes a container and a key, pushes the item.
    pub fn subscript(&mut self) -> Result<(), BytecodeError> {
        let (name, arg) = self.dialect().subscript();
        self.op(name, arg).map(drop)
    }

    /// Load an attribute of the top of the stack.
    pub fn load_attr(&mut self, name: &str) -> Result<(), BytecodeError> {
        let index = self.name(name);
        let arg = self.dialect().load_attr_arg(index);
        self.op("LOAD_ATTR", arg).map(drop)
    }
}
