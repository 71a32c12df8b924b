//! What the extension module `paddle_sot_rs._core` holds of the crates below the simulator:
//! backends, operators, frames, records of breaks. It is not built anew when the simulator changes.

mod frame;
mod optimizers;
pub mod records;
mod registry;

use pyo3::prelude::*;

/// Puts all of it into the module, and links the backends.
///
/// # Errors
/// Where the Paddle backend cannot be loaded.
pub fn fill(module: &Bound<'_, PyModule>) -> PyResult<()> {
    paddle_sot_backend_paddle::link();
    paddle_sot_backend_eager::link();
    paddle_sot_backend_cinn::link();
    paddle_sot_backend_onednn::link();
    paddle_sot_backend_pylayer::link();
    module.add(
        "paddle_backend",
        paddle_sot_backend_paddle::native(module.py())?,
    )?;
    module.add("PYTHON_NUMBER", paddle_sot_ir::PYTHON_NUMBER)?;
    module.add_class::<records::BreakRecord>()?;
    module.add_class::<records::StatsRecord>()?;
    module.add_class::<records::GraphRecord>()?;
    module.add_class::<registry::PythonIr>()?;
    module.add_class::<paddle_sot_backend::plugin::GraphObject>()?;
    module.add_class::<paddle_sot_backend::plugin::TraceObject>()?;
    module.add_function(wrap_pyfunction!(
        paddle_sot_backend::plugin::delegate,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(records::break_table, module)?)?;
    module.add_function(wrap_pyfunction!(records::show_progress, module)?)?;
    module.add_function(wrap_pyfunction!(registry::load_python, module)?)?;
    module.add_function(wrap_pyfunction!(registry::list_backends, module)?)?;
    module.add_function(wrap_pyfunction!(registry::unregister_backend, module)?)?;
    module.add_function(wrap_pyfunction!(registry::register_python_backend, module)?)?;
    module.add_function(wrap_pyfunction!(registry::swap_python_backend, module)?)?;
    module.add_function(wrap_pyfunction!(registry::renew_backend, module)?)?;
    module.add_function(wrap_pyfunction!(registry::tensor_reader, module)?)?;
    module.add_function(wrap_pyfunction!(registry::layout_faults, module)?)?;
    module.add_function(wrap_pyfunction!(registry::attribute_writes, module)?)?;
    module.add_function(wrap_pyfunction!(registry::cdbl, module)?)?;
    module.add_function(wrap_pyfunction!(registry::operators, module)?)?;
    module.add_function(wrap_pyfunction!(registry::operator_facts, module)?)?;
    module.add_function(wrap_pyfunction!(registry::whole_arguments, module)?)?;
    module.add_function(wrap_pyfunction!(optimizers::optimizer_updates, module)?)?;
    module.add_function(wrap_pyfunction!(optimizers::are_in_any_order, module)?)?;
    module.add_function(wrap_pyfunction!(optimizers::clear_gradients, module)?)?;
    module.add_function(wrap_pyfunction!(optimizers::note_cleared, module)?)?;
    module.add_function(wrap_pyfunction!(optimizers::nothing, module)?)?;
    module.add_function(wrap_pyfunction!(optimizers::prepare_step, module)?)?;
    module.add_function(wrap_pyfunction!(optimizers::prepared_step, module)?)?;
    module.add_class::<frame::CustomCode>()?;
    module.add_class::<frame::Frame>()?;
    module.add_function(wrap_pyfunction!(frame::set_eval_frame, module)?)?;
    module.add_function(wrap_pyfunction!(frame::hook_is_installed, module)?)?;
    Ok(())
}
