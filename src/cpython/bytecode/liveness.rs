//! Which local slots may still be read.

use super::Code;

/// Slots that may be read at or after `at`, through jumps and exception handlers, in order.
pub fn live_locals(code: &Code, at: usize) -> Vec<usize> {
    let count = code.instructions.len();
    let slots = code.localsplus.len();
    let mut live = vec![vec![false; slots]; count + 1];
    let mut changed = true;
    while changed {
        changed = false;
        for index in (0..count).rev() {
            let instruction = &code.instructions[index];
            let mut next = vec![false; slots];
            let mut join = |other: &[bool]| {
                for (slot, live) in next.iter_mut().zip(other) {
                    *slot |= live;
                }
            };
            if instruction.instr.falls_through() {
                join(&live[index + 1]);
            }
            if let Some(target) = instruction.instr.target() {
                join(&live[target]);
            }
            let (reads, writes) = instruction.instr.local_uses();
            for slot in writes {
                next[slot as usize] = false;
            }
            for slot in reads {
                next[slot as usize] = true;
            }
            // A handler sees the locals as they are when the instruction raises: before or after
            // its writes.
            if let Some(entry) = code.handler(index) {
                for (slot, live) in next.iter_mut().zip(&live[entry.target]) {
                    *slot |= live;
                }
            }
            if next != live[index] {
                live[index] = next;
                changed = true;
            }
        }
    }
    (0..slots)
        .filter(|&slot| live[at.min(count)][slot])
        .collect()
}
