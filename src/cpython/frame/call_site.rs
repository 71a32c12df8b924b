//! [`CallSite`]: a call made through one of our own callables.

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

use super::arguments::{ArgBinder, BoundLocals};
use super::listening::CalleeScope;
use super::pass_frame::run_new_code;
use super::replacement;
use super::{CustomCode, FrameDecision, FrameSource, FrameView};

/// A call of a Python function whose arguments are bound. The interpreter's hook is not needed.
pub struct CallSite<'a> {
    binder: &'a ArgBinder,
    bound: BoundLocals,
    args: &'a [*mut PyObject],
    positional: usize,
    names: *mut PyObject,
}

impl<'a> CallSite<'a> {
    /// A vectorcall of the binder's function; `None` when the arguments do not fit it.
    pub fn new(
        py: Python<'_>,
        binder: &'a ArgBinder,
        args: &'a [*mut PyObject],
        names: Option<&'a Bound<'_, pyo3::types::PyTuple>>,
    ) -> Option<Self> {
        let count = names.map_or(0, |names| names.len());
        Some(Self {
            bound: binder.bind_vector(py, args, names)?,
            binder,
            args,
            positional: args.len().checked_sub(count)?,
            names: names
                .filter(|_| count > 0)
                .map_or(std::ptr::null_mut(), |names| names.as_ptr()),
        })
    }
}

impl FrameSource for CallSite<'_> {
    fn view(&self) -> FrameView<'_> {
        let function = self.binder.function().as_ptr();
        // SAFETY: the binder keeps a Python function alive.
        let fields = unsafe { &*function.cast::<ffi::PyFunctionObject>() };
        FrameView {
            code: self.binder.code().as_ptr(),
            globals: fields.func_globals,
            builtins: fields.func_builtins,
            function,
            arguments: self.bound.as_slice(),
        }
    }

    fn run(&self, py: Python<'_>, decision: FrameDecision) -> PyResult<Py<PyAny>> {
        let result = match decision {
            FrameDecision::Raise(err) => return Err(err),
            FrameDecision::Run(CustomCode {
                code,
                disable_eval_frame,
            }) => {
                let _callees = CalleeScope::for_call(py, !disable_eval_frame);
                match code {
                    Some(code) => run_new_code(py, &self.view(), &code, !disable_eval_frame)?,
                    // SAFETY: the caller keeps the arguments of the call alive.
                    None => unsafe {
                        let function = self.binder.function().as_ptr();
                        replacement::call(py, function, self.args, self.names, self.positional)
                    },
                }
            }
            FrameDecision::Replace {
                function,
                args,
                callees,
            } => {
                let _callees = CalleeScope::for_call(py, callees);
                replacement::call_owned(py, &function, &args)
            }
            FrameDecision::Instead(instead) => {
                if let Some(answer) = instead.run(py, &|| {}) {
                    return answer;
                }
                let function = self.binder.function().as_ptr();
                // SAFETY: the caller keeps the arguments of the call alive.
                unsafe { replacement::call(py, function, self.args, self.names, self.positional) }
            }
        };
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, result).map(Bound::unbind) }
    }
}
