//! Comparisons of constants, and numbers that guards compute with.

use std::ffi::CStr;

use pyo3::ffi;
use pyo3::prelude::*;

use super::number::Value;
use super::numpy_scalars as scalars;

use super::object::Ptr;

/// Whether both are the same constant: same exact type and value, floats by their bits.
pub fn const_equal(py: Python<'_>, a: Ptr<'_>, b: Ptr<'_>) -> bool {
    if a == b {
        return true;
    }
    let (a, b) = (a.as_ptr(), b.as_ptr());
    // Parts of what is alive.
    let equal = |a, b| {
        // SAFETY: what they are parts of is alive, and does not change.
        let (a, b) = unsafe { (Ptr::new(a), Ptr::new(b)) };
        const_equal(py, a, b)
    };
    // SAFETY: both are live; only exact builtin immutable types are compared with `==`.
    unsafe {
        let class = ffi::Py_TYPE(a);
        if class != ffi::Py_TYPE(b) {
            return false;
        }
        if class == &raw mut ffi::PyFloat_Type {
            return ffi::PyFloat_AS_DOUBLE(a).to_bits() == ffi::PyFloat_AS_DOUBLE(b).to_bits();
        }
        if class == &raw mut ffi::PyComplex_Type {
            let (x, y) = (ffi::PyComplex_AsCComplex(a), ffi::PyComplex_AsCComplex(b));
            return x.real.to_bits() == y.real.to_bits() && x.imag.to_bits() == y.imag.to_bits();
        }
        let plain = class == &raw mut ffi::PyLong_Type
            || class == &raw mut ffi::PyUnicode_Type
            || class == &raw mut ffi::PyBytes_Type;
        if plain {
            let answer = ffi::PyObject_RichCompareBool(a, b, ffi::Py_EQ);
            if answer < 0 {
                ffi::PyErr_Clear();
            }
            return answer == 1;
        }
        // `==` of these is not exact: it runs the `__eq__` of the parts of a slice, and ranges are
        // equal when they run over the same numbers.
        if class == &raw mut ffi::PySlice_Type {
            type Slice = ffi::PySliceObject;
            let (a, b) = (&*a.cast::<Slice>(), &*b.cast::<Slice>());
            return equal(a.start, b.start) && equal(a.stop, b.stop) && equal(a.step, b.step);
        }
        if class == &raw mut ffi::PyRange_Type {
            return [c"start", c"stop", c"step"]
                .iter()
                .all(|part| range_parts_are_equal(py, a, b, part));
        }
        if class == &raw mut ffi::PyTuple_Type {
            let length = ffi::PyTuple_GET_SIZE(a);
            return length == ffi::PyTuple_GET_SIZE(b)
                && (0..length)
                    .all(|at| equal(ffi::PyTuple_GET_ITEM(a, at), ffi::PyTuple_GET_ITEM(b, at)));
        }
        let (a, b) = (
            Bound::from_borrowed_ptr(py, a),
            Bound::from_borrowed_ptr(py, b),
        );
        scalars::is_scalar(&a) && scalars::are_equal(&a, &b)
    }
}

/// An exact `int` that is small enough, or an exact `float`.
pub fn number(object: Ptr<'_>) -> Option<Value> {
    let object = object.as_ptr();
    // SAFETY: the object is live; the conversions of exact numbers run no user code.
    unsafe {
        let class = ffi::Py_TYPE(object);
        if class == &raw mut ffi::PyFloat_Type {
            return Some(Value::Float(ffi::PyFloat_AS_DOUBLE(object)));
        }
        if class != &raw mut ffi::PyLong_Type {
            return None;
        }
        let mut overflow = 0;
        let value = ffi::PyLong_AsLongLongAndOverflow(object, &mut overflow);
        (overflow == 0).then_some(Value::Int(value))
    }
}

/// Whether two exact ranges have the same `start`, `stop` or `step`.
fn range_parts_are_equal(
    py: Python<'_>,
    a: *mut ffi::PyObject,
    b: *mut ffi::PyObject,
    part: &CStr,
) -> bool {
    // SAFETY: both are live; the attributes of an exact range are read without user code, and the
    // references are given back.
    unsafe {
        let read = |range| ffi::PyObject_GetAttrString(range, part.as_ptr());
        let (x, y) = (read(a), read(b));
        let same = !x.is_null() && !y.is_null() && const_equal(py, Ptr::new(x), Ptr::new(y));
        if x.is_null() || y.is_null() {
            ffi::PyErr_Clear();
        }
        ffi::Py_XDECREF(x);
        ffi::Py_XDECREF(y);
        same
    }
}
