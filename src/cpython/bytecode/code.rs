//! [`Code`]: a decoded code object.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCode, PyDict, PyTuple};
use smallvec::SmallVec;

use crate::frame::Modules;
use crate::obj::Obj;

use super::instr::{typed, Instr};
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
        py.module("paddle_sot_rs")
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

/// The instructions, and for each code unit the index of the instruction that starts there
/// (EXTENDED_ARG counts as the start).
pub(super) fn decode(
    table: &Opcodes,
    bytes: &[u8],
    locations: &[Loc],
) -> Option<(Vec<Instruction>, Vec<usize>)> {
    let units = bytes.len() / 2;
    let mut instructions = Vec::with_capacity(units);
    let mut index_of_unit = vec![usize::MAX; units];
    let extended = table.number("EXTENDED_ARG")?;
    let (mut unit, mut start, mut prefix) = (0, 0, 0u32);
    while unit < units {
        let (op, arg) = (
            bytes[2 * unit],
            (prefix << 8) | u32::from(bytes[2 * unit + 1]),
        );
        if op == extended {
            prefix = arg;
            unit += 1;
            continue;
        }
        index_of_unit[start] = instructions.len();
        instructions.push(Instruction {
            instr: typed(table.dialect, table.name(op), arg, 0)?,
            op,
            arg,
            loc: locations.get(unit).copied().unwrap_or_default(),
            offset: 2 * unit as u32,
        });
        unit += 1 + table.caches(op);
        (start, prefix) = (unit, 0);
    }
    for instruction in &mut instructions {
        if let Some(unit) = jump_unit(table, instruction) {
            let target = instruction_at(&index_of_unit, unit)?;
            let name = table.name(instruction.op);
            instruction.instr = typed(table.dialect, name, instruction.arg, target)?;
        }
    }
    Some((instructions, index_of_unit))
}

/// The instruction that starts at this code unit.
fn instruction_at(index_of_unit: &[usize], unit: usize) -> Option<usize> {
    let index = index_of_unit.get(unit).copied();
    index.filter(|&index| index != usize::MAX)
}

/// The bytes of these instructions.
#[cfg(all(test, feature = "v314"))]
pub(super) fn assemble(code: &Code, table: &Opcodes) -> Vec<u8> {
    Layout::of(code, table).bytes(code, table)
}

/// The code unit an instruction jumps to.
fn jump_unit(table: &Opcodes, instruction: &Instruction) -> Option<usize> {
    let next = instruction.offset as usize / 2 + 1 + table.caches(instruction.op);
    match table.jump(instruction.op) {
        JumpKind::None => None,
        JumpKind::Forward => Some(next + instruction.arg as usize),
        JumpKind::Backward => Some(
            next.checked_sub(instruction.arg as usize)
                .unwrap_or(usize::MAX),
        ),
    }
}

/// Where each instruction lies.
struct Layout {
    starts: Vec<usize>,
    args: Vec<u32>,
    total: usize,
}

/// How many EXTENDED_ARG an argument needs.
fn prefixes(arg: u32) -> usize {
    match arg {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        0x1_0000..=0xff_ffff => 2,
        _ => 3,
    }
}

impl Layout {
    /// A jump can have two sizes that both hold: backward over 255 units, or over 256 of which one
    /// is its own prefix. The compiler of 3.13 starts large and may end at the large one. What was
    /// read starts at the size it had, and so stays as it was; an edit may leave a prefix without
    /// use, then everything starts small.
    fn of(code: &Code, table: &Opcodes) -> Self {
        let read = Self::grow(code, table, prefixes);
        let jumps = code.instructions.iter().zip(&read.args);
        let mut jumps = jumps.filter(|(instruction, _)| instruction.instr.target().is_some());
        if jumps.any(|(instruction, arg)| prefixes(*arg) < prefixes(instruction.arg)) {
            return Self::grow(code, table, |_| 0);
        }
        read
    }

    /// Grows the prefixes of jumps until nothing changes. They never shrink, which could go back
    /// and forth for ever.
    fn grow(code: &Code, table: &Opcodes, prefixes_of_jump: impl Fn(u32) -> usize) -> Self {
        let mut args: Vec<u32> = code.instructions.iter().map(|i| i.arg).collect();
        let mut widths: Vec<usize> = code
            .instructions
            .iter()
            .map(|i| match i.instr.target() {
                Some(_) => prefixes_of_jump(i.arg),
                None => prefixes(i.arg),
            })
            .collect();
        loop {
            let mut starts = Vec::with_capacity(args.len());
            let mut total = 0;
            for (instruction, width) in code.instructions.iter().zip(&widths) {
                starts.push(total);
                total += width + 1 + table.caches(instruction.op);
            }
            let mut grown = false;
            for (index, instruction) in code.instructions.iter().enumerate() {
                let Some(target) = instruction.instr.target() else {
                    continue;
                };
                let next = starts.get(index + 1).copied().unwrap_or(total);
                let to = starts.get(target).copied().unwrap_or(total);
                args[index] = to.abs_diff(next) as u32;
                if prefixes(args[index]) > widths[index] {
                    widths[index] = prefixes(args[index]);
                    grown = true;
                }
            }
            if !grown {
                return Self {
                    starts,
                    args,
                    total,
                };
            }
        }
    }

    fn bytes(&self, code: &Code, table: &Opcodes) -> Vec<u8> {
        let extended = table.number("EXTENDED_ARG").unwrap_or(0);
        let mut out = Vec::with_capacity(2 * self.total);
        for (index, instruction) in code.instructions.iter().enumerate() {
            let arg = self.args[index];
            let size =
                self.starts.get(index + 1).copied().unwrap_or(self.total) - self.starts[index];
            let caches = table.caches(instruction.op);
            let bytes: SmallVec<[u8; 4]> = arg.to_be_bytes().into_iter().collect();
            for prefix in (1..size - caches).rev() {
                out.extend([extended, bytes[3 - prefix]]);
            }
            out.extend([instruction.op, bytes[3]]);
            out.extend(std::iter::repeat_n(0, 2 * caches));
        }
        out
    }

    fn locations(&self, code: &Code) -> Vec<u8> {
        let runs: Vec<_> = code
            .instructions
            .iter()
            .enumerate()
            .map(|(index, instruction)| {
                let end = self.starts.get(index + 1).copied().unwrap_or(self.total);
                (instruction.loc, end - self.starts[index])
            })
            .collect();
        tables::encode_locations(&runs, code.firstlineno)
    }
}
