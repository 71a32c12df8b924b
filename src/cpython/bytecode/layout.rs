//! Instructions as bytes, and back: extended arguments, caches and jumps.

use smallvec::SmallVec;

use super::code::{Code, Instruction, Loc};
use super::instr::typed;
use super::optable::{JumpKind, Opcodes};
use super::tables;

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
pub(super) fn instruction_at(index_of_unit: &[usize], unit: usize) -> Option<usize> {
    let index = index_of_unit.get(unit).copied();
    index.filter(|&index| index != usize::MAX)
}

/// The bytes of these instructions.
#[cfg(all(test, feature = "experimental"))]
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
pub(super) struct Layout {
    pub(super) starts: Vec<usize>,
    pub(super) args: Vec<u32>,
    pub(super) total: usize,
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
    pub(super) fn of(code: &Code, table: &Opcodes) -> Self {
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
    pub(super) fn grow(
        code: &Code,
        table: &Opcodes,
        prefixes_of_jump: impl Fn(u32) -> usize,
    ) -> Self {
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

    pub(super) fn bytes(&self, code: &Code, table: &Opcodes) -> Vec<u8> {
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

    pub(super) fn locations(&self, code: &Code) -> Vec<u8> {
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
