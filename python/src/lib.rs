//! What the extension module `paddle_sot_rs._core` holds.

mod debug;
mod frozen;
mod options;
mod package;
mod process;
mod recorded;
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
    paddle_sot_bindings_base::fill(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<static_function::StaticFunction>()?;
    module.add_class::<frozen::Frozen>()?;
    module.add_class::<frozen::TensorKinds>()?;
    module.add_function(wrap_pyfunction!(process::switch_off, module)?)?;
    module.add_function(wrap_pyfunction!(process::set_stance, module)?)?;
    module.add_function(wrap_pyfunction!(process::reset_log_levels, module)?)?;
    module.add_function(wrap_pyfunction!(process::note_hooked_saves, module)?)?;
    module.add_class::<paddle_sot::translate::Continuation>()?;
    module.add_class::<paddle_sot::translate::ResumeFunction>()?;
    module.add_class::<paddle_sot::translate::CalleeFunction>()?;
    module.add_function(wrap_pyfunction!(recorded::total_stats, module)?)?;
    module.add_function(wrap_pyfunction!(recorded::reset_all, module)?)?;
    module.add_function(wrap_pyfunction!(recorded::record, module)?)?;
    module.add_function(wrap_pyfunction!(recorded::recorded, module)?)?;
    module.add_function(wrap_pyfunction!(recorded::compile_at_once, module)?)?;
    module.add_class::<debug::Forced>()?;
    module.add_function(wrap_pyfunction!(debug::opcode_table, module)?)?;
    module.add_function(wrap_pyfunction!(debug::builtin_table, module)?)?;
    Ok(())
}
