//! Functions whose `__code__` is assigned to: the translations of each code object are kept apart,
//! so that the first one finds its own again.

use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCode;

use crate::sync::lock;

use super::Translated;

/// Code objects of one function, beside its first one, whose translations are kept.
const MAX_OTHERS: usize = 8;

impl Translated {
    /// Whether this is the code that is translated.
    pub fn is_of(&self, code: &Bound<'_, PyCode>) -> bool {
        self.code.as_ptr() == code.as_ptr()
    }

    /// Whether the function still has the code it had.
    pub fn is_current(&self) -> bool {
        let function = self.function.as_ptr();
        // SAFETY: `function` is alive, and asked for its code only where it is a Python function.
        unsafe {
            ffi::PyFunction_Check(function) == 0
                || ffi::PyFunction_GetCode(function) == self.code.as_ptr()
        }
    }

    /// What to call in the place of this one, where the function has other code now.
    ///
    /// # Errors
    /// When the new code cannot be asked for its parameters.
    pub fn of_other_code(&self, py: Python<'_>) -> PyResult<Option<Arc<Self>>> {
        if self.is_current() {
            return Ok(None);
        }
        if let Some(known) = lock(&self.others).iter().find(|other| other.is_current()) {
            return Ok(Some(known.clone()));
        }
        let mut made = Self::new(self.function.bind(py), self.shared.clone())?;
        made.receiver.clone_from(&self.receiver);
        made.specification.clone_from(&self.specification);
        made.is_callee = self.is_callee;
        made.is_first = false;
        let made = Arc::new(made);
        let dropped = {
            let mut others = lock(&self.others);
            others.push(made.clone());
            (others.len() > MAX_OTHERS).then(|| others.remove(0))
        };
        // Outside of the lock: what it holds may run user code.
        drop(dropped);
        Ok(Some(made))
    }
}
