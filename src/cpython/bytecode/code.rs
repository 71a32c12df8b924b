//! [`Code`]: a decoded code object.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCode, PyDict, PyTuple};

use crate::frame::{Modules, OWN_PACKAGE};
use crate::obj::Obj;

use super::instr::Instr;
use super::layout::{Layout, decode, instruction_at};
use super::optable::{JumpKind, OpTable, Opcodes};
use super::stack::StackDepths;
use super::tables;

/// What can be wrong with byte code.
#[derive(Debug, thiserror::Error)]
pub enum BytecodeError {
    /// A table or argument that cannot be read, or instructions that cannot run.
    #[error("the byte code of {name} is malformed: {what}")]
    Malformed {
        /// The code's qualified name.
        name: String,
        /// What is wrong.
        what: &'static str,
    },
    /// An error from the interpreter.
    #[error(transparent)]
    Python(#[from] PyErr),
}

/// A source range; `None` where the compiler gave none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loc {
    /// First line.
    pub line: Option<u32>,
    /// Last line.
    pub end_line: Option<u32>,
    /// First column, in UTF-8 bytes.
    pub col: Option<u32>,
    /// One past the last column.
    pub end_col: Option<u32>,
}

impl Loc {
    /// A line without columns.
    pub fn line_only(line: i64) -> Self {
        let line = u32::try_from(line).ok();
        Self {
            line,
            end_line: line,
            col: None,
            end_col: None,
        }
    }
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// What it means.
    pub instr: Instr,
    /// The raw opcode.
    pub op: u8,
    /// The raw argument; for jumps it is computed from the target when assembled.
    pub arg: u32,
    /// Source range.
    pub loc: Loc,
    /// Original byte offset (EXTENDED_ARG not counted).
    pub offset: u32,
}

/// What a slot of `localsplus` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalKind {
    /// A plain local (may be a cell too).
    pub local: bool,
    /// A cell this frame makes.
    pub cell: bool,
    /// A cell of the closure.
    pub free: bool,
}

/// A slot of `localsplus`.
#[derive(Clone, Debug)]
pub struct LocalSlot {
    /// Its name.
    pub name: Arc<str>,
    /// Its kind.
    pub kind: LocalKind,
}

/// An entry of the exception table; the range and the target are instruction indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceptionEntry {
    /// First covered instruction.
    pub start: usize,
    /// One past the last.
    pub end: usize,
    /// The handler.
    pub target: usize,
    /// Stack depth to unwind to.
    pub depth: u32,
    /// Whether the offset of the raising instruction is pushed.
    pub lasti: bool,
}

/// A decoded code object.
#[derive(Clone, Debug)]
pub struct Code {
    /// The instructions, without EXTENDED_ARG and CACHE.
    pub instructions: Vec<Instruction>,
    /// `co_consts`
    pub consts: Vec<Obj>,
    /// `co_names`
    pub names: Vec<Arc<str>>,
    /// Locals, cells and free variables by slot.
    pub localsplus: Vec<LocalSlot>,
    /// Positional parameters.
    pub argcount: u32,
    /// Positional-only parameters.
    pub posonly: u32,
    /// Keyword-only parameters.
    pub kwonly: u32,
    /// `co_flags`
    pub flags: u32,
    /// Handlers by range, without overlap: the interpreter searches by bisection.
    pub exception_table: Vec<ExceptionEntry>,
    /// `co_filename`
    pub filename: Arc<str>,
    /// `co_name`
    pub name: Arc<str>,
    /// `co_qualname`
    pub qualname: Arc<str>,
    /// `co_firstlineno`
    pub firstlineno: u32,
}

fn text(code: &Bound<'_, PyAny>, name: &str) -> PyResult<Arc<str>> {
    Ok(Arc::from(code.getattr(name)?.extract::<String>()?))
}

fn names_of(code: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<Arc<str>>> {
    Ok(code
        .getattr(name)?
        .extract::<Vec<String>>()?
        .into_iter()
        .map(Arc::from)
        .collect())
}

impl Code {
    /// The handler of what the instruction at `at` raises.
    pub fn handler(&self, at: usize) -> Option<&ExceptionEntry> {
        let mut entries = self.exception_table.iter();
        entries.find(|entry| (entry.start..entry.end).contains(&at))
    }

    /// Decodes a code object.
    ///
    /// # Errors
    /// When the byte code is not what the compiler of this interpreter makes.
    pub fn from_py(py: Python<'_>, code: &Bound<'_, PyCode>) -> Result<Self, BytecodeError> {
        let table = OpTable::get(py)?;
        let code = code.as_any();
        let number = |name: &str| -> PyResult<u32> { code.getattr(name)?.extract() };
        let qualname = text(code, "co_qualname")?;
        let malformed = |what| BytecodeError::Malformed {
            name: qualname.to_string(),
            what,
        };
        let firstlineno = number("co_firstlineno")?;
        let bytes = code.getattr("co_code")?;
        let bytes = bytes.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
        let linetable = code.getattr("co_linetable")?;
        let linetable = linetable.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
        let locations = tables::decode_locations(linetable, firstlineno)
            .ok_or_else(|| malformed("location table"))?;
        let (instructions, index_of_unit) =
            decode(table, bytes, &locations).ok_or_else(|| malformed("opcodes"))?;
        let at = |unit: usize| instruction_at(&index_of_unit, unit);
        let exceptions = code.getattr("co_exceptiontable")?;
        let exceptions = exceptions
            .cast::<PyBytes>()
            .map_err(PyErr::from)?
            .as_bytes();
        let entries =
            tables::decode_exceptions(exceptions).ok_or_else(|| malformed("exception table"))?;
        let exception_table = entries
            .into_iter()
            .map(|(start, end, target, depth, lasti)| {
                let end = if end == index_of_unit.len() {
                    Some(instructions.len())
                } else {
                    at(end)
                };
                Some(ExceptionEntry {
                    start: at(start)?,
                    end: end?,
                    target: at(target)?,
                    depth,
                    lasti,
                })
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| malformed("exception table"))?;
        Ok(Self {
            instructions,
            consts: code
                .getattr("co_consts")?
                .cast::<PyTuple>()
                .map_err(PyErr::from)?
                .iter()
                .map(Obj::from)
                .collect(),
            names: names_of(code, "co_names")?,
            localsplus: localsplus(code)?,
            argcount: number("co_argcount")?,
            posonly: number("co_posonlyargcount")?,
            kwonly: number("co_kwonlyargcount")?,
            flags: number("co_flags")?,
            exception_table,
            filename: text(code, "co_filename")?,
            name: text(code, "co_name")?,
            qualname: qualname.clone(),
            firstlineno,
        })
    }

    /// Assembles a code object.
    ///
    /// # Errors
    /// When the interpreter refuses it.
    pub fn to_py<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCode>, BytecodeError> {
        let table = OpTable::get(py)?;
        self.validate(table)?;
        let stacksize = StackDepths::of(py, self)?.max;
        let layout = Layout::of(self, table);
        let end = layout.total;
        let unit = |index: usize| layout.starts.get(index).copied().unwrap_or(end);
        let entries: Vec<_> = self
            .exception_table
            .iter()
            .map(|entry| {
                (
                    unit(entry.start),
                    unit(entry.end),
                    unit(entry.target),
                    entry.depth,
                    entry.lasti,
                )
            })
            .collect();
        let names = |keep: &dyn Fn(&LocalKind) -> bool| -> PyResult<Bound<'py, PyTuple>> {
            PyTuple::new(
                py,
                self.localsplus
                    .iter()
                    .filter(|slot| keep(&slot.kind))
                    .map(|slot| &*slot.name)
                    .collect::<Vec<_>>(),
            )
        };
        let fields = PyDict::new(py);
        fields.set_item("co_code", PyBytes::new(py, &layout.bytes(self, table)))?;
        fields.set_item("co_linetable", PyBytes::new(py, &layout.locations(self)))?;
        fields.set_item(
            "co_exceptiontable",
            PyBytes::new(py, &tables::encode_exceptions(&entries)),
        )?;
        fields.set_item(
            "co_consts",
            PyTuple::new(py, self.consts.iter().map(|value| value.bind(py)))?,
        )?;
        fields.set_item(
            "co_names",
            PyTuple::new(py, self.names.iter().map(|name| &**name))?,
        )?;
        fields.set_item("co_varnames", names(&|kind| kind.local)?)?;
        fields.set_item("co_cellvars", names(&|kind| kind.cell)?)?;
        fields.set_item("co_freevars", names(&|kind| kind.free)?)?;
        fields.set_item(
            "co_nlocals",
            self.localsplus
                .iter()
                .filter(|slot| slot.kind.local)
                .count(),
        )?;
        fields.set_item("co_argcount", self.argcount)?;
        fields.set_item("co_posonlyargcount", self.posonly)?;
        fields.set_item("co_kwonlyargcount", self.kwonly)?;
        fields.set_item("co_flags", self.flags)?;
        fields.set_item("co_stacksize", stacksize)?;
        fields.set_item("co_filename", &*self.filename)?;
        fields.set_item("co_name", &*self.name)?;
        fields.set_item("co_qualname", &*self.qualname)?;
        fields.set_item("co_firstlineno", self.firstlineno)?;
        let template = py.get_type::<PyCode>().getattr("replace")?;
        let any = self.template(py)?;
        let made = template.call((any,), Some(&fields))?;
        Ok(made.cast_into::<PyCode>().map_err(PyErr::from)?)
    }

    /// What the interpreter takes for granted.
    fn validate(&self, table: &Opcodes) -> Result<(), BytecodeError> {
        let malformed = |what| {
            Err(BytecodeError::Malformed {
                name: self.qualname.to_string(),
                what,
            })
        };
        for (index, instruction) in self.instructions.iter().enumerate() {
            let Some(target) = instruction.instr.target() else {
                continue;
            };
            if (table.jump(instruction.op) == JumpKind::Backward) != (target <= index) {
                return malformed("a jump goes the wrong way");
            }
        }
        let mut end = 0;
        for entry in &self.exception_table {
            if entry.start < end || entry.end < entry.start {
                return malformed("ranges of the exception table overlap");
            }
            end = entry.end;
        }
        if end > self.instructions.len() {
            return malformed("the exception table goes past the end");
        }
        Ok(())
    }

    /// Any code object will do: `replace` gives it every field.
    fn template<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.module(OWN_PACKAGE)
            .and_then(|module| module.getattr("_template"))
            .or_else(|_| py.eval(c"(lambda: None)", None, None))?
            .getattr("__code__")
    }
}

/// `localsplus` as `_PyCode_Validate`/`get_localsplus_counts` lay it out: locals (some of them
/// cells), other cells, free variables.
fn localsplus(code: &Bound<'_, PyAny>) -> PyResult<Vec<LocalSlot>> {
    let cells = names_of(code, "co_cellvars")?;
    let locals = names_of(code, "co_varnames")?;
    let slot = |name: &Arc<str>, kind| LocalSlot {
        name: name.clone(),
        kind,
    };
    let mut slots: Vec<_> = locals
        .iter()
        .map(|name| {
            slot(
                name,
                LocalKind {
                    local: true,
                    cell: cells.contains(name),
                    free: false,
                },
            )
        })
        .collect();
    let cell = LocalKind {
        local: false,
        cell: true,
        free: false,
    };
    slots.extend(
        cells
            .iter()
            .filter(|name| !locals.contains(name))
            .map(|name| slot(name, cell)),
    );
    let free = LocalKind {
        local: false,
        cell: false,
        free: true,
    };
    slots.extend(
        names_of(code, "co_freevars")?
            .iter()
            .map(|name| slot(name, free)),
    );
    Ok(slots)
}
