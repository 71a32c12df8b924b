//! What guards find is borrowed until all of them have answered: no destructor may let go of it
//! meanwhile.

use std::marker::PhantomData;

#[cfg(not(Py_3_12))]
use pyo3::ffi;
use pyo3::prelude::*;

/// While this lives, making an object starts no garbage collection. Only 3.11 would start one
/// there: later versions wait for the next instruction of Python code.
#[must_use]
pub struct NoCollection<'py> {
    #[cfg(not(Py_3_12))]
    was_on: bool,
    _attached: PhantomData<Python<'py>>,
}

impl<'py> NoCollection<'py> {
    /// Until the answer is dropped.
    pub fn new(_py: Python<'py>) -> Self {
        Self {
            // SAFETY: the GIL is held, as it is until this is dropped: nobody else sees that it is
            // off.
            #[cfg(not(Py_3_12))]
            was_on: unsafe { ffi::PyGC_Disable() } != 0,
            _attached: PhantomData,
        }
    }
}

#[cfg(not(Py_3_12))]
impl Drop for NoCollection<'_> {
    fn drop(&mut self) {
        if self.was_on {
            // SAFETY: the GIL is held.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}
