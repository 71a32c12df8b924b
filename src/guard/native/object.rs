//! Reads of Python objects that run no user code. Every function takes a live object and answers
//! with a borrowed reference, or null when there is nothing to read.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use pyo3::{ffi, intern};
use smallvec::SmallVec;

use crate::guard::number::Value;
use crate::guard::ArrayGuard;
use crate::obj::Obj;
use crate::simulator::scalars;
use crate::tracker::{DictKey, FunctionField};

use super::tensor::dim_matches;

type Ptr = *mut ffi::PyObject;

/// `type(x)`
pub(crate) fn type_of(object: Ptr) -> Ptr {
    // SAFETY: the object is live.
    unsafe { ffi::Py_TYPE(object).cast() }
}

/// The instance dictionary, made if it was not; null when the type has none.
pub(crate) fn instance_dict(py: Python<'_>, object: Ptr) -> Ptr {
    // SAFETY: the object is live; `PyObject_GenericGetDict` reads or makes its dictionary and runs no
    // user code. The reference it returns is given back: the object keeps its dictionary.
    unsafe {
        if ffi::PyModule_Check(object) != 0 {
            return ffi::PyModule_GetDict(object);
        }
        if ffi::PyType_Check(object) != 0 {
            return std::ptr::null_mut();
        }
        let dict = ffi::PyObject_GenericGetDict(object, std::ptr::null_mut());
        if dict.is_null() {
            ffi::PyErr_Clear();
            return dict;
        }
        let _ = py;
        ffi::Py_DECREF(dict);
        dict
    }
}

/// `dict[key]` with `PyDict_GetItemWithError`; the key is an exact str, int, or hashed by identity.
pub(crate) fn dict_item(dict: Ptr, key: Ptr) -> Ptr {
    // SAFETY: both are live; the keys compared are never of a class with its own `__eq__`, except for
    // other keys of the dict that collide, which dicts of this kind (namespaces) do not hold.
    unsafe {
        if ffi::PyDict_Check(dict) == 0 {
            return std::ptr::null_mut();
        }
        let value = ffi::PyDict_GetItemWithError(dict, key);
        if value.is_null() && !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear();
        }
        value
    }
}

/// The key object for a [`DictKey`].
pub(crate) fn key_object(py: Python<'_>, key: &DictKey) -> Py<PyAny> {
    match key {
        DictKey::Str(text) => pyo3::types::PyString::intern(py, text).into_any().unbind(),
        DictKey::Int(number) => pyo3::types::PyInt::new(py, *number).into_any().unbind(),
        DictKey::Identity(object) => object.py(py),
    }
}

/// Whether this is such an array. Attributes of arrays that are no subclass run no user code.
pub(crate) fn array_matches(py: Python<'_>, object: Ptr, guard: &ArrayGuard) -> bool {
    if !is_array(py, object) {
        return false;
    }
    // SAFETY: the caller's slot holds a live object.
    let object = unsafe { Bound::from_borrowed_ptr(py, object) };
    let matches = || -> PyResult<bool> {
        let dtype = object.getattr(intern!(py, "dtype"))?;
        let shape = object.getattr(intern!(py, "shape"))?;
        let dims: SmallVec<[i64; 6]> = shape.extract::<Vec<i64>>()?.into();
        let same = dtype.as_ptr() == guard.dtype.as_ptr() || dtype.eq(guard.dtype.bind(py))?;
        let mut pairs = dims.iter().zip(&guard.dims);
        Ok(same
            && dims.len() == guard.dims.len()
            && pairs.all(|(dim, wanted)| dim_matches(*dim, *wanted)))
    };
    matches().unwrap_or(false)
}

static ARRAY: PyOnceLock<Option<Py<PyAny>>> = PyOnceLock::new();

/// Whether this is a NumPy array, and no subclass.
pub(crate) fn is_array(py: Python<'_>, object: Ptr) -> bool {
    let class = ARRAY.get_or_init(py, || {
        let class = py
            .import("numpy")
            .and_then(|numpy| numpy.getattr("ndarray"));
        class.ok().map(Bound::unbind)
    });
    class
        .as_ref()
        .is_some_and(|class| type_of(object) == class.as_ptr())
}

/// A dim of a NumPy array.
pub(crate) fn array_dim(py: Python<'_>, object: Ptr, at: usize) -> Option<i64> {
    // SAFETY: the caller's slot holds a live object.
    let object = unsafe { Bound::from_borrowed_ptr(py, object) };
    let shape = object.getattr(intern!(py, "shape")).ok()?;
    shape.get_item(at).ok()?.extract().ok()
}

/// `list[index]` from its storage.
pub(crate) fn list_item(list: Ptr, index: usize) -> Ptr {
    // SAFETY: the index is checked against the live list's length.
    unsafe {
        if ffi::PyList_Check(list) == 0 || index >= ffi::PyList_GET_SIZE(list) as usize {
            return std::ptr::null_mut();
        }
        ffi::PyList_GET_ITEM(list, index as isize)
    }
}

/// Whether the list holds exactly these objects.
pub(crate) fn list_is(list: Ptr, items: &[usize]) -> bool {
    // SAFETY: the list is live; its storage holds as many items as its length says.
    unsafe {
        if ffi::PyList_Check(list) == 0 || ffi::PyList_GET_SIZE(list) as usize != items.len() {
            return false;
        }
        let storage = (*list.cast::<ffi::PyListObject>()).ob_item;
        (0..items.len()).all(|at| storage.add(at).read() as usize == items[at])
    }
}

/// `tuple[index]` from its storage.
pub(crate) fn tuple_item(tuple: Ptr, index: usize) -> Ptr {
    // SAFETY: as for lists.
    unsafe {
        if ffi::PyTuple_Check(tuple) == 0 || index >= ffi::PyTuple_GET_SIZE(tuple) as usize {
            return std::ptr::null_mut();
        }
        ffi::PyTuple_GET_ITEM(tuple, index as isize)
    }
}

/// The content of a cell.
pub(crate) fn cell_contents(cell: Ptr) -> Ptr {
    // SAFETY: the type is checked; the cell keeps its content while it is not changed, and nothing
    // runs between this read and the use of the slot.
    unsafe {
        if ffi::PyCell_Check(cell) == 0 {
            return std::ptr::null_mut();
        }
        let content = ffi::PyCell_Get(cell);
        if !content.is_null() {
            ffi::Py_DECREF(content);
        }
        content
    }
}

extern "C" {
    static mut PyMethod_Type: ffi::PyTypeObject;
    pub(super) static mut PyODict_Type: ffi::PyTypeObject;
    fn _PyType_Lookup(class: *mut ffi::PyTypeObject, name: Ptr) -> Ptr;
    fn PyFunction_GetCode(function: Ptr) -> Ptr;
    fn PyFunction_GetGlobals(function: Ptr) -> Ptr;
    fn PyFunction_GetDefaults(function: Ptr) -> Ptr;
    fn PyFunction_GetKwDefaults(function: Ptr) -> Ptr;
    fn PyFunction_GetClosure(function: Ptr) -> Ptr;
    fn PyMethod_Self(method: Ptr) -> Ptr;
    fn PyMethod_Function(method: Ptr) -> Ptr;
}

/// Whether these are the classes in the method resolution order of a class.
pub(crate) fn order_is(class: Ptr, classes: &[WeakOrStrong]) -> bool {
    // SAFETY: the type is checked; its order is a tuple that is alive, and read without running anything.
    unsafe {
        if ffi::PyType_Check(class) == 0 {
            return false;
        }
        let order = (*class.cast::<ffi::PyTypeObject>()).tp_mro;
        if order.is_null() || ffi::PyTuple_GET_SIZE(order) as usize != classes.len() {
            return false;
        }
        let mut classes = classes.iter().enumerate();
        classes.all(|(at, known)| known.is(ffi::PyTuple_GET_ITEM(order, at as isize)))
    }
}

/// Whether a class can be changed by Python code, its name and bases too.
pub(crate) fn is_mutable(class: &Bound<'_, pyo3::types::PyType>) -> bool {
    const HEAP: u64 = 1 << 9;
    const IMMUTABLE: u64 = 1 << 8;
    // SAFETY: it is a type object.
    let flags = unsafe { ffi::PyType_GetFlags(class.as_type_ptr()) } as u64;
    flags & HEAP != 0 && flags & IMMUTABLE == 0
}

/// Whether `__name__` or the like of a function or class is this constant: read with the descriptor of `function`
/// or `type`, which runs no user code.
pub(crate) fn is_named(py: Python<'_>, object: Ptr, name: Ptr, value: Ptr) -> bool {
    // SAFETY: all are live; new references are given back.
    unsafe {
        let of = match ffi::PyType_Check(object) {
            0 => ffi::Py_TYPE(object),
            _ => &raw mut ffi::PyType_Type,
        };
        let descriptor = _PyType_Lookup(of, name);
        if descriptor.is_null() {
            return false;
        }
        let Some(get) = (*ffi::Py_TYPE(descriptor)).tp_descr_get else {
            return false;
        };
        let found = get(descriptor, object, of.cast());
        if found.is_null() {
            ffi::PyErr_Clear();
            return false;
        }
        let same = const_equal(py, found, value);
        ffi::Py_DECREF(found);
        same
    }
}

/// Whether a class counts as a subclass of an abstract one. That changes with a registration only, and those are counted.
pub(crate) struct Registered {
    class: WeakOrStrong,
    is: bool,
    /// The count when it was asked last.
    seen: AtomicU64,
}

impl Registered {
    /// What was found out now.
    pub(crate) fn new(py: Python<'_>, class: &Obj, is: bool) -> Self {
        Self {
            class: WeakOrStrong::root(py, class),
            is,
            seen: AtomicU64::new(registrations(py).unwrap_or(u64::MAX)),
        }
    }

    /// Whether it is still so.
    pub(crate) fn holds(&self, py: Python<'_>, class: Ptr) -> bool {
        let now = registrations(py);
        if now.is_some_and(|now| now == self.seen.load(Ordering::Relaxed)) {
            return true;
        }
        let abstract_ = self.class.get();
        if abstract_.is_null() {
            return false;
        }
        // SAFETY: both are live. The abstract classes are those of the standard library.
        let answer = unsafe { ffi::PyObject_IsSubclass(class, abstract_) };
        if answer < 0 {
            // SAFETY: the GIL is held.
            unsafe { ffi::PyErr_Clear() };
        }
        let same = answer == i32::from(self.is);
        if let (true, Some(now)) = (same, now) {
            self.seen.store(now, Ordering::Relaxed);
        }
        same
    }
}

static REGISTRATIONS: PyOnceLock<Option<Py<PyAny>>> = PyOnceLock::new();

/// How often a class was registered with an abstract one.
fn registrations(py: Python<'_>) -> Option<u64> {
    let count = REGISTRATIONS.get_or_init(py, || {
        let count = py
            .import("_abc")
            .and_then(|abc| abc.getattr("get_cache_token"));
        count.ok().map(Bound::unbind)
    });
    let count = count.as_ref()?.call0(py).ok()?;
    count.extract(py).ok()
}

/// What `name` resolves to along the MRO, unbound.
pub(crate) fn type_attr(class: Ptr, name: Ptr) -> Ptr {
    // SAFETY: the type is checked; `_PyType_Lookup` answers with a borrowed reference and never raises
    // for exact strings.
    unsafe {
        if ffi::PyType_Check(class) == 0 {
            return std::ptr::null_mut();
        }
        _PyType_Lookup(class.cast(), name)
    }
}

/// The bases of a class in the order of lookups; empty while the class is being made.
pub(crate) fn mro<'py>(class: &Bound<'py, pyo3::types::PyType>) -> Bound<'py, PyTuple> {
    // SAFETY: it is a type object, and its order is a tuple or NULL.
    let order = unsafe {
        let order = (*class.as_type_ptr()).tp_mro;
        Bound::from_borrowed_ptr_or_opt(class.py(), order)
    };
    let order = order.and_then(|order| order.cast_into::<PyTuple>().ok());
    order.unwrap_or_else(|| PyTuple::empty(class.py()))
}

/// Whether making an instance is `object.__new__`. The slot remembers a `__new__` in Python that was deleted.
pub(crate) fn has_plain_constructor(class: &Bound<'_, pyo3::types::PyType>) -> bool {
    let object = class.py().get_type::<PyAny>();
    // SAFETY: both are type objects.
    unsafe {
        let slot = |class: *mut ffi::PyTypeObject| (*class).tp_new.map(|new| new as usize);
        slot(class.as_type_ptr()) == slot(object.as_type_ptr())
    }
}

/// Whether objects of this class, which is written in C, look their attributes up in their own way: weak proxies do.
pub(crate) fn has_own_lookup(class: &Bound<'_, pyo3::types::PyType>) -> bool {
    let class_ptr = class.as_type_ptr();
    // SAFETY: it is a type object.
    let (slot, flags) = unsafe { ((*class_ptr).tp_getattro, (*class_ptr).tp_flags) };
    let generic: ffi::getattrofunc = ffi::PyObject_GenericGetAttr;
    let py = class.py();
    let known = class
        .is_subclass_of::<pyo3::types::PyModule>()
        .unwrap_or(true)
        || class.is(py.get_type::<pyo3::types::PyType>());
    flags & ffi::Py_TPFLAGS_HEAPTYPE == 0
        && !known
        && slot.map(|slot| slot as usize) != Some(generic as usize)
}

/// Whether a function is called the way functions are: C code may have set another way.
pub(crate) fn is_called_as_usual(function: &Bound<'_, PyAny>) -> bool {
    function.is_instance_of::<pyo3::types::PyFunction>() && called_as_usual(function.as_ptr())
}

/// The same for what is known to be a function.
fn called_as_usual(function: Ptr) -> bool {
    // SAFETY: the caller checked that it is a function.
    let way = |function: Ptr| unsafe {
        let way = (*function.cast::<ffi::PyFunctionObject>()).vectorcall;
        way.map_or(0, |way| way as usize)
    };
    // Not every version exports the function that a new function object starts with.
    static USUAL: OnceLock<usize> = OnceLock::new();
    let usual = USUAL.get_or_init(|| {
        Python::attach(|py| {
            let fresh = py.eval(c"lambda: None", None, None);
            fresh.map_or(0, |fresh| way(fresh.as_ptr()))
        })
    });
    *usual == 0 || way(function) == *usual
}

/// A field of a function object.
pub(crate) fn function_field(function: Ptr, field: &FunctionField) -> Ptr {
    // SAFETY: the type is checked; the accessors answer with borrowed references, null where the
    // attribute reads `None`.
    unsafe {
        if ffi::PyFunction_Check(function) == 0 {
            return std::ptr::null_mut();
        }
        let none_if_null = |value: Ptr| {
            if value.is_null() {
                ffi::Py_None()
            } else {
                value
            }
        };
        match field {
            FunctionField::Code if !called_as_usual(function) => std::ptr::null_mut(),
            FunctionField::Code => PyFunction_GetCode(function),
            FunctionField::Globals => PyFunction_GetGlobals(function),
            FunctionField::Defaults => none_if_null(PyFunction_GetDefaults(function)),
            FunctionField::KwDefaults => none_if_null(PyFunction_GetKwDefaults(function)),
            FunctionField::ClosureCell(index) => {
                let cells = PyFunction_GetClosure(function);
                if cells.is_null() {
                    cells
                } else {
                    tuple_item(cells, *index)
                }
            }
        }
    }
}

/// `__self__` or `__func__` of a bound method.
pub(crate) fn method_part(method: Ptr, receiver: bool) -> Ptr {
    // SAFETY: the type is checked; the accessors borrow. The class keeps its method.
    unsafe {
        if ffi::Py_TYPE(method) == &raw mut ffi::PyCFunction_Type {
            let of = ffi::PyCFunction_GetSelf(method);
            if receiver || of.is_null() {
                return of;
            }
            let definition = (*method.cast::<ffi::PyCFunctionObject>()).m_ml;
            let name = ffi::PyUnicode_InternFromString((*definition).ml_name);
            if name.is_null() {
                ffi::PyErr_Clear();
                return name;
            }
            let found = type_attr(type_of(of), name);
            ffi::Py_DECREF(name);
            return found;
        }
        if ffi::Py_TYPE(method) != &raw mut PyMethod_Type {
            return std::ptr::null_mut();
        }
        if receiver {
            PyMethod_Self(method)
        } else {
            PyMethod_Function(method)
        }
    }
}

/// A `__slots__` member, read through its member descriptor.
pub(crate) fn member(py: Python<'_>, object: Ptr, name: Ptr) -> Ptr {
    let descriptor = type_attr(type_of(object), name);
    if descriptor.is_null() {
        return descriptor;
    }
    // SAFETY: member descriptors read a field; the object keeps the value, so the reference is given back.
    unsafe {
        if ffi::Py_TYPE(descriptor) != &raw mut ffi::PyMemberDescr_Type {
            return std::ptr::null_mut();
        }
        let Some(get) = (*ffi::Py_TYPE(descriptor)).tp_descr_get else {
            return std::ptr::null_mut();
        };
        let value = get(descriptor, object, type_of(object));
        if value.is_null() {
            ffi::PyErr_Clear();
        } else {
            ffi::Py_DECREF(value);
        }
        let _ = py;
        value
    }
}

/// `len(x)` of the builtin containers; `None` for other kinds.
pub(crate) fn length(object: Ptr) -> Option<usize> {
    // SAFETY: the object is live; sizes of builtin containers are read without user code.
    unsafe {
        let size = if ffi::PyList_Check(object) != 0 {
            ffi::PyList_GET_SIZE(object)
        } else if ffi::PyTuple_Check(object) != 0 {
            ffi::PyTuple_GET_SIZE(object)
        } else if ffi::PyDict_Check(object) != 0 {
            ffi::PyDict_Size(object)
        } else if ffi::PyAnySet_Check(object) != 0 {
            ffi::PySet_Size(object)
        } else {
            return None;
        };
        usize::try_from(size).ok()
    }
}

/// Whether both are the same constant: same exact type and value, floats by their bits.
pub(crate) fn const_equal(py: Python<'_>, a: Ptr, b: Ptr) -> bool {
    if a == b {
        return true;
    }
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
        // `==` of these is not exact: it runs the `__eq__` of the parts of a slice, and ranges are equal
        // when they run over the same numbers.
        if class == &raw mut ffi::PySlice_Type {
            type Slice = ffi::PySliceObject;
            let (a, b) = (&*a.cast::<Slice>(), &*b.cast::<Slice>());
            return const_equal(py, a.start, b.start)
                && const_equal(py, a.stop, b.stop)
                && const_equal(py, a.step, b.step);
        }
        if class == &raw mut ffi::PyRange_Type {
            return [c"start", c"stop", c"step"]
                .iter()
                .all(|part| range_parts_are_equal(py, a, b, part));
        }
        if class == &raw mut ffi::PyTuple_Type {
            let length = ffi::PyTuple_GET_SIZE(a);
            return length == ffi::PyTuple_GET_SIZE(b)
                && (0..length).all(|at| {
                    const_equal(
                        py,
                        ffi::PyTuple_GET_ITEM(a, at),
                        ffi::PyTuple_GET_ITEM(b, at),
                    )
                });
        }
        let (a, b) = (
            Bound::from_borrowed_ptr(py, a),
            Bound::from_borrowed_ptr(py, b),
        );
        scalars::is_scalar(&a) && scalars::are_equal(&a, &b)
    }
}

/// An exact `int` that is small enough, or an exact `float`.
pub(crate) fn number(object: Ptr) -> Option<Value> {
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
fn range_parts_are_equal(py: Python<'_>, a: Ptr, b: Ptr, part: &CStr) -> bool {
    // SAFETY: both are live; the attributes of an exact range are read without user code, and the
    // references are given back.
    unsafe {
        let read = |range| ffi::PyObject_GetAttrString(range, part.as_ptr());
        let (x, y) = (read(a), read(b));
        let same = !x.is_null() && !y.is_null() && const_equal(py, x, y);
        if x.is_null() || y.is_null() {
            ffi::PyErr_Clear();
        }
        ffi::Py_XDECREF(x);
        ffi::Py_XDECREF(y);
        same
    }
}

/// Whether objects of this type can be referenced weakly.
pub(crate) fn is_weakly_referenced(value: &Bound<'_, PyAny>) -> bool {
    value
        .get_type()
        .getattr("__weakrefoffset__")
        .and_then(|at| at.extract::<isize>())
        .is_ok_and(|at| at != 0)
}

/// Whether this is a class or a function that was defined inside of a function.
fn is_local(value: &Bound<'_, PyAny>) -> bool {
    (value.is_instance_of::<pyo3::types::PyType>()
        || value.is_exact_instance_of::<pyo3::types::PyFunction>())
        && crate::obj::name_of(value).is_some_and(|name| name.contains("<locals>"))
}

/// An object to compare identities with: held weakly where its type allows.
#[derive(Debug)]
pub(crate) enum WeakOrStrong {
    /// A weak reference.
    Weak(Py<PyAny>),
    /// A strong reference.
    Strong(Obj),
}

impl WeakOrStrong {
    /// Refers to `object`.
    pub(crate) fn new(py: Python<'_>, object: &Obj) -> Self {
        let value = object.bind(py);
        let fixed = value.is_instance_of::<pyo3::types::PyType>() && !is_local(value)
            || value.is_instance_of::<pyo3::types::PyModule>();
        if !fixed && is_weakly_referenced(value) {
            if let Ok(weak) = py
                .import("weakref")
                .and_then(|module| module.getattr("ref"))
                .and_then(|make| make.call1((value,)))
            {
                return Self::Weak(weak.unbind());
            }
        }
        Self::Strong(object.clone())
    }

    /// The start of a path: strongly, unless it is a class or function that a call made and that may go again.
    pub(crate) fn root(py: Python<'_>, object: &Obj) -> Self {
        match is_local(object.bind(py)) {
            true => Self::new(py, object),
            false => Self::Strong(object.clone()),
        }
    }

    /// Whether this is a class that its instances may exchange for another: `x.__class__ = Other`.
    pub(crate) fn is_left_by_instances(&self) -> bool {
        let class = self.get();
        // SAFETY: the object is live while the reference is.
        unsafe {
            class.is_null()
                || ffi::PyType_Check(class) == 0
                || ffi::PyType_GetFlags(class.cast()) as u64 & (1 << 8) == 0
        }
    }

    /// The object, borrowed; null once it is dead.
    pub(crate) fn get(&self) -> Ptr {
        match self {
            Self::Strong(known) => known.as_ptr(),
            // SAFETY: the weak reference is live; it answers with a borrowed reference, `None` once dead.
            #[allow(deprecated)]
            Self::Weak(weak) => unsafe {
                let found = ffi::PyWeakref_GetObject(weak.as_ptr());
                if found == ffi::Py_None() {
                    std::ptr::null_mut()
                } else {
                    found
                }
            },
        }
    }

    /// Whether `object` is the one referred to.
    pub(crate) fn is(&self, object: Ptr) -> bool {
        // Nothing is equal to what is gone, not even a `None` in its place.
        !object.is_null() && self.get() == object
    }
}

/// Whether the keys of a dict are these, in order: strings and ints by value, others by identity.
pub(crate) fn dict_keys_are(dict: Ptr, keys: &[Py<PyAny>]) -> bool {
    // SAFETY: the type is checked; `PyDict_Next` borrows, and comparing exact strings and ints runs no
    // user code.
    unsafe {
        if ffi::PyDict_Check(dict) == 0 || ffi::PyDict_Size(dict) as usize != keys.len() {
            return false;
        }
        if ffi::Py_TYPE(dict) == &raw mut PyODict_Type {
            return ordered_keys_are(dict, keys);
        }
        let (mut position, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        let mut wanted = keys.iter();
        while ffi::PyDict_Next(dict, &raw mut position, &raw mut key, &raw mut value) != 0 {
            let Some(wanted) = wanted.next() else {
                return false;
            };
            if !same_key(key, wanted.as_ptr()) {
                return false;
            }
        }
        true
    }
}

/// Whether a set has this element; `None` for what is no set, or where it cannot be told.
pub(crate) fn set_holds(set: Ptr, key: Ptr) -> Option<bool> {
    // SAFETY: both are live. Elements and key are of types that hash and compare without user code, unless the set was
    // filled with others since: what an `==` of those raises is no answer.
    unsafe {
        if key.is_null() || ffi::PyAnySet_CheckExact(set) == 0 {
            return None;
        }
        match ffi::PySet_Contains(set, key) {
            0 => Some(false),
            1 => Some(true),
            _ => {
                ffi::PyErr_Clear();
                None
            }
        }
    }
}

/// Whether a set has these constants as elements, in this order.
pub(crate) fn elements_are(py: Python<'_>, set: Ptr, elements: &[Obj]) -> bool {
    // SAFETY: the type is checked.
    let size = unsafe {
        if ffi::PyAnySet_CheckExact(set) == 0 {
            return false;
        }
        ffi::PySet_Size(set) as usize
    };
    size == elements.len()
        && are_all(set, elements, |item, wanted| {
            const_equal(py, item, wanted.as_ptr())
        })
}

/// The order of an `OrderedDict` is kept beside the dict and read through its iterator.
fn ordered_keys_are(dict: Ptr, keys: &[Py<PyAny>]) -> bool {
    are_all(dict, keys, |key, wanted| same_key(key, wanted.as_ptr()))
}

/// Whether an exact set or `OrderedDict` of as many items gives the wanted ones, in this order.
fn are_all<T>(container: Ptr, wanted: &[T], same: impl Fn(Ptr, &T) -> bool) -> bool {
    // SAFETY: iterating these runs no user code, and fails where a finalizer changes them; every new reference is given
    // back.
    unsafe {
        let iterator = ffi::PyObject_GetIter(container);
        if iterator.is_null() {
            ffi::PyErr_Clear();
            return false;
        }
        let all = wanted.iter().all(|wanted| {
            let item = ffi::PyIter_Next(iterator);
            if item.is_null() {
                ffi::PyErr_Clear();
                return false;
            }
            let is_it = same(item, wanted);
            ffi::Py_DECREF(item);
            is_it
        });
        ffi::Py_DECREF(iterator);
        all
    }
}

fn same_key(key: Ptr, wanted: Ptr) -> bool {
    if key == wanted {
        return true;
    }
    // SAFETY: both are live; only exact strings and ints are compared by value.
    unsafe {
        let class = ffi::Py_TYPE(key);
        let plain = class == &raw mut ffi::PyUnicode_Type || class == &raw mut ffi::PyLong_Type;
        if !plain || class != ffi::Py_TYPE(wanted) {
            return false;
        }
        let answer = ffi::PyObject_RichCompareBool(key, wanted, ffi::Py_EQ);
        if answer < 0 {
            ffi::PyErr_Clear();
        }
        answer == 1
    }
}

/// A new reference to a slot's value.
pub(crate) fn to_bound(py: Python<'_>, object: Ptr) -> Bound<'_, PyAny> {
    // SAFETY: slots hold objects that the arguments of the running call keep alive.
    unsafe { Bound::from_borrowed_ptr(py, object) }
}

/// How many references to an object there are.
pub(crate) fn references(value: &Bound<'_, PyAny>) -> usize {
    // SAFETY: the object is live.
    let references = unsafe { ffi::Py_REFCNT(value.as_ptr()) };
    usize::try_from(references).unwrap_or(usize::MAX)
}

/// Whether the garbage collector looks at an object.
pub(crate) fn is_tracked(value: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is live.
    unsafe { ffi::PyObject_GC_IsTracked(value.as_ptr()) != 0 }
}
