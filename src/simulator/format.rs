//! String formatting.

use crate::variables::VarId;

use super::{Step, Tracer};

/// `f'{value!conversion:spec}'`; conversion is 0 (none), 1 (str), 2 (repr), 3 (ascii).
pub fn format_value(
    t: &mut Tracer<'_>,
    value: VarId,
    conversion: u8,
    spec: Option<VarId>,
) -> Step<VarId> {
    let _ = (value, conversion, spec);
    t.unsupported("format::format_value is not simulated")
}

/// Concatenates strings.
pub fn build_string(t: &mut Tracer<'_>, parts: &[VarId]) -> Step<VarId> {
    let _ = (parts,);
    t.unsupported("format::build_string is not simulated")
}
