//! Resume functions: one for each place and shape of a frame that a graph break leaves.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::bytecode::{Code, ResumeSpec, build_resume};
use crate::codegen;
use crate::frame::Modules;
use crate::obj::Obj;
use crate::reason::Break;
use crate::sync::lock;

use super::callable::ResumeFunction;
use super::function::Translated;

/// The one that goes on as `spec` says, and where in its code the instruction at `raised_at` is.
pub(super) fn resume_function(
    py: Python<'_>,
    of: &Translated,
    code_object: &Obj,
    code: &Arc<Code>,
    globals: &Obj,
    spec: ResumeSpec,
    raised_at: usize,
) -> Result<(Obj, usize), Break> {
    let key = (
        code_object.clone(),
        globals.clone(),
        spec.clone(),
        raised_at,
    );
    if let Some(known) = lock(&of.shared.resumes).get(&key) {
        return Ok(known.clone());
    }
    let (built, moved) = build_resume(py, code, &spec)?;
    let made = built.to_py(py)?;
    log_code(py, "resume function", made.as_any())?;
    // Where the raising instruction is in the new code, for `RERAISE` to find its line.
    let decoded = Code::from_py(py, &made)?;
    let raised = moved.positions.get(raised_at);
    let position = raised
        .and_then(|index| decoded.instructions.get(*index))
        .map_or(0, |instruction| instruction.offset as usize / 2);
    let function = codegen::function(py, made.as_any(), globals)?;
    let mut translated = Translated::new(function.bind(py), of.shared.clone())?;
    if spec.native {
        let position = moved.positions[spec.at];
        lock(&translated.learnt.detours).native.insert(position);
        translated.reported = Some(position);
    }
    translated.origin = Some((code_object.clone(), Arc::new(moved)));
    let callable = Obj::from(Bound::new(py, ResumeFunction::new(Arc::new(translated)))?);
    let made = (callable.clone(), position);
    let before = lock(&of.shared.resumes).insert(key, made);
    drop(before);
    Ok((callable, position))
}

/// For `PADDLE_SOT_LOGS=bytecode`.
pub(super) fn log_code(py: Python<'_>, what: &str, code: &Bound<'_, PyAny>) -> PyResult<()> {
    if log::log_enabled!(target: "paddle_sot_rs.bytecode", log::Level::Debug) {
        let text = py.module("dis")?.call_method1("Bytecode", (code,))?;
        let text = text.call_method0("dis")?;
        log::debug!(target: "paddle_sot_rs.bytecode", "{what} of {code}\n{text}");
    }
    Ok(())
}
