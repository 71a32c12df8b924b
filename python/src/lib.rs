//! What the extension module `paddle_sot_rs._core` holds.

mod debug;
mod frame;
mod frozen;
mod optimizers;
mod options;
mod package;
mod process;
mod records;
mod registry;
mod static_function;
mod vectorcall;

use paddle_sot::frame::Modules;
use paddle_sot::paddle::Paddle;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Puts all of it into the module.
///
/// # Errors
/// Where Paddle cannot be imported, or is not as it is known to be.
pub fn fill(module: &Bound<'_, PyModule>) -> PyResult<()> {
    paddle_sot_backend_paddle::link();
    paddle_sot_backend_eager::link();
    paddle_sot_backend_cinn::link();
    paddle_sot_backend_onednn::link();
    paddle_sot_backend_pylayer::link();
    module.py().keep_originals()?;
    Paddle::get(module.py())?;
    let hooks = PyDict::new(module.py());
    let take_turns_anew = wrap_pyfunction!(process::take_turns_anew, module)?;
    hooks.set_item("after_in_child", take_turns_anew)?;
    let os = module.py().module("os")?;
    os.call_method("register_at_fork", (), Some(&hooks))?;
    // A second import in the same process finds the logger installed: that is fine.
    if let Ok(handle) = pyo3_log::try_init() {
        process::keep_log_handle(handle);
    }
    module.add(
        "paddle_backend",
        paddle_sot_backend_paddle::native(module.py())?,
    )?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PYTHON_NUMBER", paddle_sot::graph::PYTHON_NUMBER)?;
    module.add_class::<static_function::StaticFunction>()?;
    module.add_class::<frozen::Frozen>()?;
    module.add_class::<frozen::TensorKinds>()?;
    module.add_function(wrap_pyfunction!(process::switch_off, module)?)?;
    module.add_function(wrap_pyfunction!(process::set_stance, module)?)?;
    module.add_function(wrap_pyfunction!(process::reset_log_levels, module)?)?;
    module.add_function(wrap_pyfunction!(process::note_hooked_saves, module)?)?;
    module.add_class::<records::BreakRecord>()?;
    module.add_class::<records::StatsRecord>()?;
    module.add_class::<records::GraphRecord>()?;
    module.add_class::<paddle_sot::translate::Continuation>()?;
    module.add_class::<paddle_sot::translate::ResumeFunction>()?;
    module.add_class::<paddle_sot::translate::CalleeFunction>()?;
    module.add_class::<registry::PythonIr>()?;
    module.add_class::<paddle_sot::plugin::GraphObject>()?;
    module.add_class::<paddle_sot::plugin::TraceObject>()?;
    module.add_function(wrap_pyfunction!(paddle_sot::plugin::delegate, module)?)?;
    module.add_function(wrap_pyfunction!(records::total_stats, module)?)?;
    module.add_function(wrap_pyfunction!(records::reset_all, module)?)?;
    module.add_function(wrap_pyfunction!(records::break_table, module)?)?;
    module.add_function(wrap_pyfunction!(records::record, module)?)?;
    module.add_function(wrap_pyfunction!(records::recorded, module)?)?;
    module.add_function(wrap_pyfunction!(records::show_progress, module)?)?;
    module.add_function(wrap_pyfunction!(records::compile_at_once, module)?)?;
    module.add_function(wrap_pyfunction!(registry::load_python, module)?)?;
    module.add_function(wrap_pyfunction!(registry::list_backends, module)?)?;
    module.add_function(wrap_pyfunction!(registry::unregister_backend, module)?)?;
    module.add_function(wrap_pyfunction!(registry::register_python_backend, module)?)?;
    module.add_function(wrap_pyfunction!(registry::swap_python_backend, module)?)?;
    module.add_function(wrap_pyfunction!(registry::renew_backend, module)?)?;
    module.add_function(wrap_pyfunction!(registry::tensor_reader, module)?)?;
    module.add_function(wrap_pyfunction!(registry::layout_faults, module)?)?;
    module.add_function(wrap_pyfunction!(registry::attribute_writes, module)?)?;
    module.add_class::<debug::Forced>()?;
    module.add_function(wrap_pyfunction!(debug::opcode_table, module)?)?;
    module.add_function(wrap_pyfunction!(debug::builtin_table, module)?)?;
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
