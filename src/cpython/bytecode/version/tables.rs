//! Tests of a [`Dialect`] on tables, without an interpreter of its version.

use std::sync::Arc;

use super::Dialect;
use crate::bytecode::coverage::unimplemented;
use crate::bytecode::instr::{Instr, typed};
use crate::bytecode::layout::{assemble, decode};
use crate::bytecode::optable::Opcodes;
use crate::bytecode::{Code, Instruction, Loc};

/// What an interpreter of the version would say of its opcodes.
pub struct Tables {
    pub dialect: &'static dyn Dialect,
    /// A first number, and the names from there on: `Include/opcode_ids.h`.
    pub opcodes: &'static [(usize, &'static str)],
    /// `_inline_cache_entries` of `Lib/opcode.py`.
    pub caches: &'static [(&'static str, usize)],
    /// The names of `hasjrel`.
    pub jumps: &'static str,
}

impl Tables {
    pub fn opcodes(&self) -> Opcodes {
        let runs = self.opcodes.iter();
        let numbered = runs.flat_map(|(first, names)| names.split(' ').zip(*first..));
        let mut opcodes = Opcodes::new(self.dialect, numbered);
        for (name, count) in self.caches {
            opcodes.set_caches(name, *count);
        }
        for name in self.jumps.split(' ') {
            let number = opcodes.number(name).expect("a jump of this version");
            opcodes.set_jump(number.into());
        }
        opcodes
    }

    /// Decodes `NAME ARG` by line, and assembles it again. `wanted` follows `RESUME`.
    pub fn there_and_back(&self, text: &str, wanted: &[Instr]) {
        let opcodes = self.opcodes();
        let bytes = bytes(&opcodes, text);
        let locations = vec![Loc::default(); bytes.len() / 2];
        let (decoded, _) = decode(&opcodes, &bytes, &locations).expect("what the version makes");
        let typed: Vec<_> = decoded.iter().map(|it| it.instr.clone()).collect();
        assert_eq!(typed[0], Instr::Resume);
        assert_eq!(&typed[1..], wanted);
        assert_eq!(assemble(&code_of(decoded), &opcodes), bytes);
    }

    pub fn every_opcode_is_decided_about(&self) {
        let opcodes = self.opcodes();
        for number in 0..=u8::MAX {
            let name = opcodes.name(number);
            let Some(instr) = typed(self.dialect, name, 0, 0) else {
                assert_eq!(name, "", "nobody has decided about it");
                continue;
            };
            let is_left = matches!(instr, Instr::Other { .. });
            assert_eq!(is_left, unimplemented(&instr).is_some(), "{name}");
        }
    }

    pub fn what_codegen_emits_is_there(&self) {
        let opcodes = self.opcodes();
        let (name, arg) = self.dialect.subscript();
        assert!(opcodes.number(name).is_some(), "{name}");
        assert_eq!(typed(self.dialect, name, arg, 0), Some(Instr::BinarySubscr));
        for skipped in self.dialect.skipped_at_loop_end() {
            assert!(opcodes.number(skipped).is_some(), "{skipped}");
        }
    }
}

/// As the interpreter lays it out, caches included.
fn bytes(opcodes: &Opcodes, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let arg: u8 = words.next().map_or(0, |arg| arg.parse().expect("a number"));
        let op = opcodes.number(name).expect("an opcode of this version");
        out.extend([op, arg]);
        out.extend(vec![0; 2 * opcodes.caches(op)]);
    }
    out
}

fn code_of(instructions: Vec<Instruction>) -> Code {
    let text: Arc<str> = Arc::from("f");
    Code {
        instructions,
        consts: Vec::new(),
        names: Vec::new(),
        localsplus: Vec::new(),
        argcount: 0,
        posonly: 0,
        kwonly: 0,
        flags: 3,
        exception_table: Vec::new(),
        filename: text.clone(),
        name: text.clone(),
        qualname: text,
        firstlineno: 1,
    }
}
