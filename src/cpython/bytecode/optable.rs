//! Opcode numbers, names, caches and jump kinds of the running interpreter, read from its own
//! `opcode` module: what differs per version as data. What differs in meaning is in `version`.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Mutex;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

use super::version::{self, Dialect};
use crate::frame::Modules;
use crate::sync::lock;

/// How an opcode uses its argument as a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpKind {
    /// It does not jump.
    None,
    /// Forward from the next instruction.
    Forward,
    /// Backward from the next instruction.
    Backward,
}

/// The opcodes of one version.
pub struct Opcodes {
    /// What differs in meaning in this version.
    pub dialect: &'static dyn Dialect,
    names: Vec<String>,
    caches: Vec<usize>,
    jumps: Vec<JumpKind>,
    numbers: FxHashMap<String, u8>,
}

impl Opcodes {
    /// Of these names and numbers; none has caches, none jumps.
    pub(super) fn new<'a>(
        dialect: &'static dyn Dialect,
        numbered: impl IntoIterator<Item = (&'a str, usize)>,
    ) -> Self {
        let mut this = Self {
            dialect,
            names: vec![String::new(); 256],
            caches: vec![0; 256],
            jumps: vec![JumpKind::None; 256],
            numbers: FxHashMap::default(),
        };
        // From 256 on they are the compiler's own.
        for (name, number) in numbered.into_iter().filter(|(_, number)| *number < 256) {
            this.numbers.insert(name.to_owned(), number as u8);
            this.names[number] = name.to_owned();
        }
        this
    }

    /// Says how many CACHE entries follow an opcode.
    pub(super) fn set_caches(&mut self, name: &str, count: usize) {
        if let Some(&number) = self.numbers.get(name) {
            self.caches[usize::from(number)] = count;
        }
    }

    /// Says that this opcode jumps; which way, its name tells.
    pub(super) fn set_jump(&mut self, number: usize) {
        if let Some(name) = self.names.get(number) {
            self.jumps[number] = if name.contains("BACKWARD") {
                JumpKind::Backward
            } else {
                JumpKind::Forward
            };
        }
    }

    /// The name of an opcode; empty when unknown.
    pub fn name(&self, op: u8) -> &str {
        &self.names[usize::from(op)]
    }

    /// The number of an opcode.
    pub fn number(&self, name: &str) -> Option<u8> {
        self.numbers.get(name).copied()
    }

    /// How many CACHE entries follow it.
    pub fn caches(&self, op: u8) -> usize {
        self.caches[usize::from(op)]
    }

    /// How it jumps.
    pub fn jump(&self, op: u8) -> JumpKind {
        self.jumps[usize::from(op)]
    }
}

/// The table of the running interpreter.
pub struct OpTable {
    opcodes: Opcodes,
    have_argument: u8,
    stack_effect: Py<PyAny>,
    effects: Mutex<FxHashMap<(u8, u32, bool), i32>>,
}

static TABLE: PyOnceLock<OpTable> = PyOnceLock::new();

impl Deref for OpTable {
    type Target = Opcodes;

    fn deref(&self) -> &Opcodes {
        &self.opcodes
    }
}

impl OpTable {
    /// The running interpreter's table.
    ///
    /// # Errors
    /// `RuntimeError` when the interpreter's version is not supported.
    pub fn get(py: Python<'_>) -> PyResult<&'static OpTable> {
        TABLE.get_or_try_init(py, || Self::read(py))
    }

    fn read(py: Python<'_>) -> PyResult<Self> {
        let info = py.version_info();
        let Some(dialect) = version::dialect(info.major, info.minor) else {
            return Err(PyRuntimeError::new_err(format!(
                "paddle_sot_rs supports CPython {}; this is {}.{}",
                version::supported(),
                info.major,
                info.minor
            )));
        };
        let module = py.module("opcode")?;
        let numbered: HashMap<String, usize> = module.getattr("opmap")?.extract()?;
        let numbered = numbered.iter().map(|(name, number)| (&**name, *number));
        let mut opcodes = Opcodes::new(dialect, numbered);
        read_caches(&mut opcodes, &module.getattr("_inline_cache_entries")?)?;
        for number in module.getattr("hasjrel")?.try_iter()? {
            opcodes.set_jump(number?.extract()?);
        }
        Ok(Self {
            opcodes,
            have_argument: module.getattr("HAVE_ARGUMENT")?.extract()?,
            stack_effect: module.getattr("stack_effect")?.unbind(),
            effects: Mutex::default(),
        })
    }

    /// By how much an instruction changes the stack's depth, when it jumps or when it does not.
    ///
    /// # Errors
    /// When the interpreter knows no such instruction.
    pub fn effect(&self, py: Python<'_>, op: u8, arg: u32, jump: bool) -> PyResult<i32> {
        // Up to 3.12 an argument that is not used may not be given.
        let arg = (op >= self.have_argument).then_some(arg);
        let key = (op, arg.unwrap_or(0), jump);
        let effects = || lock(&self.effects);
        if let Some(&known) = effects().get(&key) {
            return Ok(known);
        }
        // Not under the lock: Python may switch threads.
        let options = PyDict::new(py);
        options.set_item("jump", jump)?;
        let effect = match arg {
            Some(arg) => self.stack_effect.bind(py).call((op, arg), Some(&options)),
            None => self.stack_effect.bind(py).call((op,), Some(&options)),
        }?
        .extract()?;
        effects().insert(key, effect);
        Ok(effect)
    }
}

/// A list by number up to 3.12, a dict by name from 3.13 on.
fn read_caches(opcodes: &mut Opcodes, entries: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(by_name) = entries.cast::<PyDict>() {
        for (name, count) in by_name {
            opcodes.set_caches(&name.extract::<String>()?, count.extract()?);
        }
        return Ok(());
    }
    for (number, count) in entries.try_iter()?.enumerate().take(256) {
        opcodes.caches[number] = count?.extract()?;
    }
    Ok(())
}
