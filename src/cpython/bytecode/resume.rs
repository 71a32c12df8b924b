//! Resume functions: the original code entered at an instruction, with its live locals, cells and
//! stack as arguments.

use std::sync::Arc;

use pyo3::prelude::*;

use super::code::{Instruction, LocalKind, LocalSlot};
use super::instr::{Instr, typed};
use super::optable::OpTable;
use super::version::Dialect;
use super::{BytecodeError, Code, CodeBuilder, Loc, flow};

/// Where and with what a resume function starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResumeSpec {
    /// The instruction to go on with.
    pub at: usize,
    /// One entry per stack item, bottom first: true where it is a NULL, which is not passed.
    pub nulls: Vec<bool>,
    /// Local slots to pass, ascending: values of plain locals; the cell objects of cells and free
    /// variables.
    pub live: Vec<usize>,
    /// Whether the interpreter runs that instruction: the break at it is already known.
    pub native: bool,
}

/// How a resume function's code relates to the code it was made from.
///
/// A resume function that breaks again is resumed by another one made from the same original, so
/// that a loop goes round between a fixed set of resume functions.
#[derive(Debug)]
pub struct Origin {
    /// The original code.
    pub code: Arc<Code>,
    /// Where each original instruction went, and the end.
    pub positions: Vec<usize>,
    /// Where each original local slot went.
    pub slots: Vec<u32>,
    /// Parameters whose values go on to slots of locals behind the parameters.
    pub moved: Vec<u32>,
}

/// What a parameter is called whose value goes on to a slot behind the parameters.
const MOVED: &str = ".local_";

/// The name that a local has in the program.
pub fn name_of_local(name: &str) -> &str {
    name.strip_prefix(MOVED).unwrap_or(name)
}

impl Origin {
    /// Code that is its own original.
    pub fn identity(code: Arc<Code>) -> Self {
        Self {
            positions: (0..=code.instructions.len()).collect(),
            slots: (0..code.localsplus.len() as u32).collect(),
            moved: Vec::new(),
            code,
        }
    }

    /// The original instruction that went to `position`.
    pub fn index(&self, position: usize) -> Option<usize> {
        self.positions.binary_search(&position).ok()
    }
}

/// Builds the code of a resume function.
///
/// Its parameters are the live slots in order, then the stack items that are not NULL, bottom
/// first. Cells arrive as cell objects, those of free variables are put into their slots:
/// `MAKE_CELL` and `COPY_FREE_VARS` have run in the frame before. What stands behind a local
/// without a value is put into a slot behind that: locals die, and are shown, in their order.
///
/// # Errors
/// When an instruction cannot be renumbered.
pub fn build_resume(
    py: Python<'_>,
    code: &Arc<Code>,
    spec: &ResumeSpec,
) -> Result<(Code, Origin), BytecodeError> {
    let dialect = OpTable::get(py)?.dialect;
    let stacked = spec.nulls.iter().filter(|null| !**null).count();
    let plain = LocalKind {
        local: true,
        cell: false,
        free: false,
    };
    let is_plain = |slot: usize| code.localsplus[slot].kind == plain;
    let is_free = |slot: usize| code.localsplus[slot].kind.free;
    let first_set = set_later(code, spec).into_iter().min();
    let moves = |slot: usize| is_free(slot) || first_set.is_some_and(|first| first < slot);

    // Parameters; then the other locals; then the slots that hold cells, kinds kept. A cell of this
    // frame arrives in the slot it stays in (`super()` looks for `self` in the first one).
    let mut parameters: Vec<Arc<str>> = Vec::new();
    for &slot in &spec.live {
        let name = &code.localsplus[slot].name;
        parameters.push(if is_free(slot) {
            Arc::from(format!(".cell_{name}"))
        } else if moves(slot) {
            Arc::from(format!("{MOVED}{name}"))
        } else {
            name.clone()
        });
    }
    parameters.extend((0..stacked).map(|index| Arc::from(format!(".stack_{index}"))));
    let mut builder = CodeBuilder::new(py, code, parameters)?;
    let mut slots = vec![0u32; code.localsplus.len()];
    for (argument, &slot) in spec
        .live
        .iter()
        .enumerate()
        .filter(|(_, slot)| !moves(**slot))
    {
        slots[slot] = argument as u32;
        builder.code.localsplus[argument].kind.cell = !is_plain(slot);
    }
    let stays = |slot: usize| spec.live.contains(&slot) && !moves(slot);
    for (slot, old) in code.localsplus.iter().enumerate() {
        if old.kind == plain && !stays(slot) {
            slots[slot] = builder.local(&old.name);
        }
    }
    // A local that is also a cell keeps only the cell: its plain half is never read again.
    for free in [false, true] {
        for (slot, old) in code.localsplus.iter().enumerate() {
            let placed = !free && stays(slot);
            if old.kind != plain && old.kind.free == free && !placed {
                slots[slot] = builder.code.localsplus.len() as u32;
                let kind = LocalKind {
                    local: false,
                    cell: !free,
                    free,
                };
                builder.code.localsplus.push(LocalSlot {
                    name: old.name.clone(),
                    kind,
                });
            }
        }
    }
    builder.code.consts = code.consts.clone();
    builder.code.names = code.names.clone();
    builder.code.flags = (code.flags & !0x0c & !0x20) | 0x03;
    builder.loc = code
        .instructions
        .get(spec.at)
        .map_or(Loc::default(), |i| Loc {
            col: None,
            end_col: None,
            ..i.loc
        });

    // In front of RESUME, as `COPY_FREE_VARS`: nobody sees the frame without them.
    let begin = builder.code.instructions.pop();
    for (argument, &slot) in spec
        .live
        .iter()
        .enumerate()
        .filter(|(_, slot)| moves(**slot))
    {
        builder.load(argument as u32)?;
        builder.op("DELETE_FAST", argument as u32)?;
        builder.store(slots[slot])?;
    }
    builder.code.instructions.extend(begin);
    let mut next = spec.live.len() as u32;
    for &null in &spec.nulls {
        if null {
            builder.op("PUSH_NULL", 0)?;
        } else {
            builder.load(next)?;
            // `locals()` does not show it, and it lives no longer than on the stack.
            builder.op("DELETE_FAST", next)?;
            next += 1;
        }
    }
    let jump = builder.op("JUMP_FORWARD", 0)?;
    let positions = append_body(&mut builder, code, &slots, dialect)?;
    builder.patch(jump, positions[spec.at])?;
    let origin = Origin {
        code: code.clone(),
        positions,
        slots,
        moved: (0..)
            .zip(&spec.live)
            .filter(|(_, slot)| moves(**slot) && !is_free(**slot))
            .map(|(at, _)| at)
            .collect(),
    };
    Ok((builder.code, origin))
}

/// Locals without a value that get one at or after the instruction to go on with.
fn set_later(code: &Code, spec: &ResumeSpec) -> Vec<usize> {
    let reached = flow::reachable(code, spec.at);
    let runs = code.instructions.iter().zip(reached);
    let written = runs.filter(|(_, runs)| *runs);
    let mut slots: Vec<usize> = written
        .flat_map(|(it, _)| it.instr.local_uses().1)
        .map(|slot| slot as usize)
        .collect();
    slots.retain(|slot| !spec.live.contains(slot));
    slots
}

/// Appends all of `code`, local slots renumbered, and its exception table. The answer says where
/// each instruction went, and the end.
pub fn append_body(
    builder: &mut CodeBuilder,
    code: &Code,
    slots: &[u32],
    dialect: &dyn Dialect,
) -> Result<Vec<usize>, BytecodeError> {
    // Superinstructions of 3.13 have 4 bits per slot; when renumbering does not fit, they are
    // split, which moves indices: first find where each instruction goes.
    let first = builder.here();
    let mut position = Vec::with_capacity(code.instructions.len() + 1);
    let mut at = first;
    for instruction in &code.instructions {
        position.push(at);
        at += if splits(&instruction.instr, slots) {
            2
        } else {
            1
        };
    }
    position.push(at);
    for instruction in &code.instructions {
        append_one(builder, instruction, slots, &position, dialect)?;
    }
    for entry in &code.exception_table {
        builder.code.exception_table.push(super::ExceptionEntry {
            start: position[entry.start],
            end: position[entry.end],
            target: position[entry.target],
            ..*entry
        });
    }
    Ok(position)
}

fn pair(instr: &Instr) -> Option<(u32, u32)> {
    if let Instr::StoreFastLoadFast { store, load } = instr {
        return Some((*store, *load));
    }
    let (Instr::LoadFastLoadFast { first, second } | Instr::StoreFastStoreFast { first, second }) =
        instr
    else {
        return None;
    };
    Some((*first, *second))
}

fn splits(instr: &Instr, slots: &[u32]) -> bool {
    pair(instr).is_some_and(|(a, b)| slots[a as usize] > 15 || slots[b as usize] > 15)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "of some 110 instructions these have an argument that differs in a resumed body"
)]
fn append_one(
    builder: &mut CodeBuilder,
    instruction: &Instruction,
    slots: &[u32],
    position: &[usize],
    dialect: &dyn Dialect,
) -> Result<(), BytecodeError> {
    let slot = |old: u32| slots[old as usize];
    builder.loc = instruction.loc;
    if let Some((a, b)) = pair(&instruction.instr) {
        let (a, b) = (slot(a), slot(b));
        if a <= 15 && b <= 15 {
            let name = OpTableName::of(instruction);
            builder.op(name, (a << 4) | b)?;
            return Ok(());
        }
        let stores = matches!(instruction.instr, Instr::StoreFastStoreFast { .. });
        let loads = matches!(instruction.instr, Instr::LoadFastLoadFast { .. });
        let one = if loads { "LOAD_FAST" } else { "STORE_FAST" };
        let two = if stores { "STORE_FAST" } else { "LOAD_FAST" };
        builder.op(one, a)?;
        builder.op(two, b)?;
        return Ok(());
    }
    let mut copy = instruction.clone();
    match instruction.instr {
        Instr::LoadFast { local, .. }
        | Instr::StoreFast { local }
        | Instr::DeleteFast { local }
        | Instr::MakeCell { local }
        | Instr::LoadClosure { local }
        | Instr::LoadDeref { local }
        | Instr::LoadFromDictOrDeref { local }
        | Instr::StoreDeref { local }
        | Instr::DeleteDeref { local } => copy.arg = slot(local),
        // Only bodies of classes have this one, whose argument is a slot too.
        Instr::Other {
            name: name @ "LOAD_CLASSDEREF",
        } => {
            return Err(BytecodeError::Malformed {
                name: name.to_owned(),
                what: "a slot cannot be renumbered",
            });
        }
        // MAKE_CELL, COPY_FREE_VARS and RESUME have run; a resumed body is not entered at its
        // start.
        _ => {}
    }
    if let Some(target) = instruction.instr.target() {
        copy.arg = 0;
        let index = builder.raw(copy);
        return builder.patch(index, position[target]);
    }
    if copy.arg != instruction.arg {
        let name = OpTableName::of(instruction);
        let what = "a slot cannot be renumbered";
        copy.instr = typed(dialect, name, copy.arg, 0).ok_or_else(|| BytecodeError::Malformed {
            name: name.to_owned(),
            what,
        })?;
    }
    builder.raw(copy);
    Ok(())
}

struct OpTableName;

impl OpTableName {
    fn of(instruction: &Instruction) -> &'static str {
        Python::attach(|py| OpTable::get(py).map_or("", |table| table.name(instruction.op)))
    }
}
