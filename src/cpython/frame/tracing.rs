//! Whether the user traces, profiles or monitors: then their own code must run.

use pyo3::prelude::*;

use super::modules::Modules;
use super::runtime;

/// Whether a trace function, a profile function or a `sys.monitoring` tool is active.
pub fn user_is_tracing(py: Python<'_>) -> bool {
    traces(py) || monitors(py)
}

fn traces(py: Python<'_>) -> bool {
    if !runtime::layout_is_known(py) {
        return traces_slowly(py).unwrap_or(true);
    }
    let state = runtime::thread_state(py);
    // SAFETY: the layout was checked and the GIL is held.
    unsafe {
        !(*state).c_tracefunc.is_null() || !(*state).c_profilefunc.is_null() || (*state).tracing > 0
    }
}

fn traces_slowly(py: Python<'_>) -> PyResult<bool> {
    let sys = py.module("sys")?;
    Ok(!sys.call_method0("gettrace")?.is_none() || !sys.call_method0("getprofile")?.is_none())
}

#[cfg(not(Py_3_12))]
fn monitors(_py: Python<'_>) -> bool {
    false
}

#[cfg(Py_3_12)]
use monitoring::monitors;

#[cfg(Py_3_12)]
mod monitoring {
    use pyo3::prelude::*;
    use pyo3::sync::PyOnceLock;
    use pyo3::types::PyString;

    use crate::frame::modules::Modules;
    use crate::frame::words::Words;

    /// Tool ids that users can have; 6 and 7 serve `sys.setprofile` and `sys.settrace`.
    const USER_TOOLS: usize = 6;

    /// Where the interpreter keeps the names of its tools.
    struct ToolNames(*const usize);

    // SAFETY: an address inside `_PyRuntime`, read under the GIL only.
    unsafe impl Send for ToolNames {}
    // SAFETY: as above.
    unsafe impl Sync for ToolNames {}

    static NAMES: PyOnceLock<Option<ToolNames>> = PyOnceLock::new();

    pub fn monitors(py: Python<'_>) -> bool {
        let names = NAMES.get_or_init(py, || locate(py).ok().flatten());
        match names {
            Some(ToolNames(names)) => (0..USER_TOOLS)
                // SAFETY: `locate` found an array of that many words inside `_PyRuntime`.
                .any(|tool| unsafe { names.add(tool).read_volatile() } != 0),
            None => asks(py).unwrap_or(true),
        }
    }

    fn asks(py: Python<'_>) -> PyResult<bool> {
        let monitoring = py.module("sys")?.getattr("monitoring")?;
        for tool in 0..USER_TOOLS {
            if !monitoring.call_method1("get_tool", (tool,))?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds the array by registering a tool under a name of our own for a moment.
    fn locate(py: Python<'_>) -> PyResult<Option<ToolNames>> {
        let Some(words) = Words::of_runtime() else {
            return Ok(None);
        };
        let monitoring = py.module("sys")?.getattr("monitoring")?;
        for tool in (0..USER_TOOLS).rev() {
            if !monitoring.call_method1("get_tool", (tool,))?.is_none() {
                continue;
            }
            let name = PyString::new(py, &format!("paddle-sot-rs looks for slot {tool}"));
            let address = name.as_ptr() as usize;
            monitoring.call_method1("use_tool_id", (tool, &name))?;
            let found = words.find(|word| word == address);
            monitoring.call_method1("free_tool_id", (tool,))?;
            let [slot] = found[..] else {
                return Ok(None);
            };
            let first = slot.wrapping_sub(tool);
            let inside = words.contains(first as usize, USER_TOOLS * size_of::<usize>());
            // SAFETY: found inside the symbol.
            let released = unsafe { slot.read_volatile() } == 0;
            return Ok((inside && released).then_some(ToolNames(first)));
        }
        Ok(None)
    }
}
