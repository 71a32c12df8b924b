//! Opcode numbers, names, caches and jump kinds of the running interpreter, read from its own
//! `opcode` module: what differs per version as data. What differs in meaning is in `version`.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

use super::version::{self, Dialect};
use crate::frame::Modules;

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

/// The table of one interpreter.
pub struct OpTable {
    /// What differs in meaning in its version.
    pub dialect: &'static dyn Dialect,
    names: Vec<String>,
    caches: Vec<usize>,
    jumps: Vec<JumpKind>,
    numbers: FxHashMap<String, u8>,
    have_argument: u8,
    stack_effect: Py<PyAny>,
    effects: Mutex<FxHashMap<(u8, u32, bool), i32>>,
}

static TABLE: PyOnceLock<OpTable> = PyOnceLock::new();

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
        let mut table = Self {
            dialect,
            names: vec![String::new(); 256],
            caches: vec![0; 256],
            jumps: vec![JumpKind::None; 256],
            numbers: FxHashMap::default(),
            have_argument: module.getattr("HAVE_ARGUMENT")?.extract()?,
            stack_effect: module.getattr("stack_effect")?.unbind(),
            effects: Mutex::default(),
        };
        for (name, number) in module
            .getattr("opmap")?
            .cast::<PyDict>()
            .map_err(PyErr::from)?
        {
            let (name, number): (String, usize) = (name.extract()?, number.extract()?);
            if number < 256 {
                table.numbers.insert(name.clone(), number as u8);
                table.names[number] = name;
            }
        }
        table.read_caches(&module.getattr("_inline_cache_entries")?)?;
        for number in module.getattr("hasjrel")?.try_iter()? {
            let number: usize = number?.extract()?;
            if number < 256 {
                let backward = table.names[number].contains("BACKWARD");
                table.jumps[number] = if backward {
                    JumpKind::Backward
                } else {
                    JumpKind::Forward
                };
            }
        }
        Ok(table)
    }

    /// A list by number up to 3.12, a dict by name from 3.13 on.
    fn read_caches(&mut self, entries: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(by_name) = entries.cast::<PyDict>() {
            for (name, count) in by_name {
                if let Some(&number) = self.numbers.get(&name.extract::<String>()?) {
                    self.caches[usize::from(number)] = count.extract()?;
                }
            }
            return Ok(());
        }
        for (number, count) in entries.try_iter()?.enumerate().take(256) {
            self.caches[number] = count?.extract()?;
        }
        Ok(())
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

    /// By how much an instruction changes the stack's depth, when it jumps or when it does not.
    ///
    /// # Errors
    /// When the interpreter knows no such instruction.
    pub fn effect(&self, py: Python<'_>, op: u8, arg: u32, jump: bool) -> PyResult<i32> {
        // Up to 3.12 an argument that is not used may not be given.
        let arg = (op >= self.have_argument).then_some(arg);
        let key = (op, arg.unwrap_or(0), jump);
        let effects = || self.effects.lock().unwrap_or_else(PoisonError::into_inner);
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
