//! The lines that a message is about, with carets under the expression.

use pyo3::prelude::*;

use super::SourceLoc;
use crate::frame::Modules;

/// Each line behind a line break; empty where there is no source.
pub(super) fn of(py: Python<'_>, loc: &SourceLoc) -> String {
    let columns = &loc.columns;
    let lines = py
        .module("paddle_sot_rs._reports.excerpt")
        .and_then(|module| {
            let place = (&*loc.file, loc.line, columns.end_line);
            let arguments = (place.0, place.1, place.2, columns.start, columns.end);
            module
                .call_method1("of", arguments)?
                .extract::<Vec<String>>()
        });
    // Without its source a message is as right as with it.
    let lines = lines.unwrap_or_default();
    lines.iter().map(|line| format!("\n    {line}")).collect()
}
