//! What the simulator does with every opcode of the running interpreter, for the test that walks
//! `dis.opmap`.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::instr::{Instr, UNIMP, typed};
use super::optable::OpTable;
use crate::frame::Modules;

/// Of what a [`Dialect`](super::Dialect) alone knows, and leaves to the interpreter.
const NEW: &str = "new in this version of CPython, and not simulated yet";

/// The reason why an instruction that has a typed form is not simulated.
pub fn unimplemented(instr: &Instr) -> Option<&'static str> {
    let Instr::Other { name } = instr else {
        return None;
    };
    let found = UNIMP.iter().find(|(known, _)| known == name);
    Some(found.map_or(NEW, |(_, reason)| *reason))
}

/// Opcodes of this interpreter: name, whether it is simulated, the reason when it is not (empty
/// when nobody has decided about it).
///
/// # Errors
/// When the interpreter's tables cannot be read.
pub fn coverage(py: Python<'_>) -> PyResult<Vec<(String, bool, &'static str)>> {
    let dialect = OpTable::get(py)?.dialect;
    let names = py.module("dis")?.getattr("opmap")?.cast_into::<PyDict>()?;
    let mut rows = Vec::with_capacity(names.len());
    for (name, number) in names.iter() {
        let name: String = name.extract()?;
        if name.starts_with("INSTRUMENTED_") {
            let reason = "internal: stands in for another one while a tool watches; code objects show that one";
            rows.push((name, false, reason));
            continue;
        }
        // What code objects cannot hold is the compiler's own.
        if number.extract::<u32>()? > 255 {
            rows.push((
                name,
                false,
                "internal: replaced before the code object is made",
            ));
            continue;
        }
        let row = match typed(dialect, &name, 0, 0) {
            Some(instr) => {
                let reason = unimplemented(&instr);
                (name, reason.is_none(), reason.unwrap_or(""))
            }
            None => (name, false, ""),
        };
        rows.push(row);
    }
    Ok(rows)
}
