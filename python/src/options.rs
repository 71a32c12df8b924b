//! What `to_static` was asked for, as the Python layer hands it over.

use std::collections::HashSet;

use paddle_sot::TraceOptions;
use paddle_sot::translate::{BackendChoice, CompileOptions, Worth};
use pyo3::prelude::*;
use pyo3::types::PyDict;

fn addresses(values: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    values
        .try_iter()?
        .map(|value| Ok(value?.as_ptr() as usize))
        .collect()
}

/// The options of one function, and the marks of the process: see `StaticFunction::new`.
pub fn compile_options(
    options: &Bound<'_, PyDict>,
    marks: &Bound<'_, PyDict>,
) -> PyResult<CompileOptions> {
    let get = |name: &str| options.as_any().get_item(name);
    let marked = |name: &str| addresses(&marks.as_any().get_item(name)?);
    let mut black_list = addresses(&get("black_list")?)?;
    black_list.extend(marked("black_list")?);
    let backend = BackendChoice::new(
        get("backend")?.extract()?,
        get("backend_options")?.cast::<PyDict>()?,
        Worth {
            min_graph_size: get("min_graph_size")?.extract()?,
            compile_at_call: get("compile_at_call")?.extract()?,
        },
        get("dynamic")?.extract()?,
    )?;
    let trace = TraceOptions {
        black_list: black_list.into_iter().collect(),
        black_names: get("black_names")?
            .extract::<HashSet<String>>()?
            .into_iter()
            .collect(),
        allow_list: marked("allow_list")?.into_iter().collect(),
        disabled: marked("disabled")?.into_iter().collect(),
        capture_control_flow: get("capture_control_flow")?.extract()?,
        assumes_branches: get("assumes_branches")?.extract()?,
        forward_only: get("forward_only")?.extract()?,
        capture_print: get("full_graph")?.extract()?,
        max_depth: 60,
        ..TraceOptions::default()
    };
    Ok(CompileOptions {
        backend,
        full_graph: get("full_graph")?.extract()?,
        trace,
    })
}
