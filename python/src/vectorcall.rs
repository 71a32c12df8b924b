//! The vectorcall of `StaticFunction`. PyO3 gives a class `tp_call` alone, for which the
//! interpreter makes a tuple of the arguments: of a small function that costs a tenth.

use std::mem::offset_of;
use std::os::raw::c_ulong;
use std::sync::Once;

use paddle_sot::c_stack;
use pyo3::Borrowed;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

use crate::static_function::StaticFunction;

unsafe extern "C" {
    fn PyMethod_New(function: *mut PyObject, instance: *mut PyObject) -> *mut PyObject;

    /// The call of an object whose class has no vectorcall.
    fn _PyObject_MakeTpCall(
        state: *mut ffi::PyThreadState,
        callable: *mut PyObject,
        args: *const *mut PyObject,
        count: ffi::Py_ssize_t,
        names: *mut PyObject,
    ) -> *mut PyObject;
}

/// What an object holds for its class to find.
pub(crate) type Entry = ffi::vectorcallfunc;

/// Lets the class of these objects take calls by [`call`]. Where PyO3 puts what an object holds is
/// read from one of them.
pub(crate) fn install(object: &Bound<'_, StaticFunction>) {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let held = std::ptr::from_ref(object.get()) as usize;
        let offset = held - object.as_ptr() as usize + offset_of!(StaticFunction, vectorcall);
        let class = object.get_type_ptr();
        // SAFETY: the GIL is held, and the class is of this module, without subclasses. All of its
        // objects hold a function at this offset from their start, as the flag says, from before
        // anybody can call them.
        unsafe {
            (*class).tp_vectorcall_offset = offset as ffi::Py_ssize_t;
            (*class).tp_flags |= ffi::Py_TPFLAGS_HAVE_VECTORCALL as c_ulong;
            ffi::PyType_Modified(class);
        }
    });
}

/// `types.MethodType(function, instance)`.
///
/// # Errors
/// Where there is no memory.
pub(crate) fn bound_method(
    function: &Bound<'_, StaticFunction>,
    instance: &Bound<'_, PyAny>,
) -> PyResult<Py<PyAny>> {
    // SAFETY: both are live objects, and the answer is new.
    unsafe {
        let method = PyMethod_New(function.as_ptr(), instance.as_ptr());
        Bound::from_owned_ptr_or_err(function.py(), method).map(Bound::unbind)
    }
}

/// The call of an object: straight to the original where it would run as it is in any case, else
/// as `tp_call` does.
///
/// # Safety
/// It is called by the interpreter, as a `vectorcallfunc` of a `StaticFunction`.
pub(crate) unsafe extern "C" fn call(
    callable: *mut PyObject,
    args: *const *mut PyObject,
    flags: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: what the interpreter gives goes on as it is.
    c_stack::for_call(|| unsafe { call_on_this_stack(callable, args, flags, names) })
}

/// # Safety
/// As for [`call`].
unsafe fn call_on_this_stack(
    callable: *mut PyObject,
    args: *const *mut PyObject,
    flags: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter calls this with the GIL held.
    let py = Python::assume_attached();
    // SAFETY: the class of `callable` is `StaticFunction`, whose slot this is.
    let object = Borrowed::from_ptr(py, callable).cast_unchecked::<StaticFunction>();
    let this = object.get();
    let count = ffi::PyVectorcall_NARGS(flags);
    if names.is_null() && !this.checks {
        // SAFETY: `args` are `count` objects that the caller holds.
        let given = (0..count as usize).map(|at| Borrowed::from_ptr(py, *args.add(at)));
        if let Some(_call) = this.inner.unasked(py, given) {
            return ffi::PyObject_Vectorcall(this.callable.as_ptr(), args, flags, names);
        }
    }
    _PyObject_MakeTpCall(ffi::PyThreadState_Get(), callable, args, count, names)
}
