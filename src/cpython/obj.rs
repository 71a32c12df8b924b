//! [`Obj`]: a Python object that can be cloned, stored and dropped without the GIL in hand.

use std::fmt;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyCFunction, PyCode, PyComplex, PyDict, PyFloat, PyFunction, PyInt, PyModule,
    PyString, PyType,
};

use crate::frame::{BUILTINS, COLLECTIONS, Modules, NUMPY, OPERATOR, PADDLE};
use crate::native;

/// A shared strong reference to a Python object.
///
/// `Py<T>` is not `Clone` without the GIL; the engine's data structures (trackers, guards, IR)
/// must be, so they hold this. Equality is identity.
#[derive(Clone)]
pub struct Obj(Arc<Py<PyAny>>);

impl Obj {
    /// Wraps an owned reference.
    pub fn new(value: Py<PyAny>) -> Self {
        Self(Arc::new(value))
    }

    /// The object, borrowed for as long as the GIL is held.
    pub fn bind<'a, 'py>(&'a self, py: Python<'py>) -> &'a Bound<'py, PyAny> {
        self.0.bind(py)
    }

    /// The one reference behind all clones, for the cycle collector: visit it from one owner only.
    pub fn reference(&self) -> &Py<PyAny> {
        &self.0
    }

    /// A new strong reference.
    pub fn py(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.clone_ref(py)
    }

    /// The address: the object's identity while it is alive.
    pub fn as_ptr(&self) -> *mut ffi::PyObject {
        self.0.as_ptr()
    }

    /// Whether both are the same object.
    pub fn is(&self, other: &Obj) -> bool {
        self.as_ptr() == other.as_ptr()
    }
}

impl<T> From<Bound<'_, T>> for Obj {
    fn from(value: Bound<'_, T>) -> Self {
        Self::new(value.into_any().unbind())
    }
}

impl<T> From<&Bound<'_, T>> for Obj {
    fn from(value: &Bound<'_, T>) -> Self {
        Self::new(value.clone().into_any().unbind())
    }
}

impl PartialEq for Obj {
    fn eq(&self, other: &Self) -> bool {
        self.is(other)
    }
}

impl Eq for Obj {}

impl std::hash::Hash for Obj {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.as_ptr() as usize).hash(state);
    }
}

impl fmt::Debug for Obj {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Obj({:p})", self.as_ptr())
    }
}

/// The qualified name of a class or function, without running user code.
pub fn name_of(value: &Bound<'_, PyAny>) -> Option<String> {
    if let Ok(class) = value.cast::<PyType>() {
        return of_type(class, "__qualname__")?.extract().ok();
    }
    let known = value.is_exact_instance_of::<PyFunction>()
        || value.is_exact_instance_of::<PyCFunction>()
        || is_builtin_method(value);
    if known {
        let name: String = value.getattr("__qualname__").ok()?.extract().ok()?;
        // Of pybind11: the capsule is of no interest.
        return Some(name.trim_start_matches("PyCapsule.").to_owned());
    }
    let module = value.cast::<PyModule>().ok()?;
    let name = module.dict().get_item("__name__").ok()??;
    name.extract().ok()
}

/// `__module__` and `__name__` of a function or class as attributes; empty where they are no texts.
pub fn module_and_name(value: &Bound<'_, PyAny>) -> (String, String) {
    (text_of(value, "__module__"), text_of(value, "__name__"))
}

/// What a `functools.cached_property` is called, and its function; `None` for anything else.
///
/// # Errors
/// When its attributes cannot be read.
pub fn cached_property<'py>(
    found: &Bound<'py, PyAny>,
) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    if !is_attr(&found.get_type(), "functools", "cached_property") {
        return Ok(None);
    }
    Ok(Some((found.getattr("attrname")?, found.getattr("func")?)))
}

/// An attribute that should be a text; empty where it is none. Of a class, it is what `type` says,
/// and instances of classes of Python code are not asked.
pub fn text_of(value: &Bound<'_, PyAny>, name: &str) -> String {
    let text = match value.cast::<PyType>() {
        Ok(class) => of_type(class, name),
        Err(_) if native::is_mutable(&value.get_type()) => None,
        Err(_) => value.getattr(name).ok(),
    };
    let text = text.and_then(|text| text.extract().ok());
    text.unwrap_or_default()
}

/// Whether it is a method of a builtin type, as its class holds it.
pub fn is_builtin_method(value: &Bound<'_, PyAny>) -> bool {
    is_named(value, "method_descriptor") || is_slot_wrapper(value)
}

/// Whether it is a special method of a builtin type, as its class holds it.
pub fn is_slot_wrapper(value: &Bound<'_, PyAny>) -> bool {
    is_named(value, "wrapper_descriptor")
}

/// The file of a code object.
///
/// # Errors
/// When it is none.
pub fn file_of_code(code: &Bound<'_, PyAny>) -> PyResult<String> {
    code.getattr(intern!(code.py(), "co_filename"))?.extract()
}

/// The names of the arguments and variables of a code object.
///
/// # Errors
/// When it is none.
pub fn locals_of_code<'py>(code: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    code.getattr(intern!(code.py(), "co_varnames"))
}

/// The names that a code object has for globals and attributes.
///
/// # Errors
/// When it is none.
pub fn names_of_code<'py>(code: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    code.getattr(intern!(code.py(), "co_names"))
}

/// What reads a property.
///
/// # Errors
/// When it is none.
pub fn getter_of<'py>(property: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    property.getattr(intern!(property.py(), "fget"))
}

/// The qualified name of a code object.
///
/// # Errors
/// When it is none.
pub fn name_of_code(code: &Bound<'_, PyAny>) -> PyResult<String> {
    code.getattr(intern!(code.py(), "co_qualname"))?.extract()
}

/// Modules of Python and NumPy with classes of C code that are told by their names.
const HOMES: &[&str] = &[
    BUILTINS,
    "_collections",
    COLLECTIONS,
    "functools",
    NUMPY,
    OPERATOR,
];

/// The name of a class of C code in one of these modules. Classes that Python code defines may have
/// any name, and say that they are from any module; but they can be changed.
pub fn name_in_c<'py>(class: &Bound<'py, PyType>) -> Option<Bound<'py, PyString>> {
    if native::is_mutable(class) {
        return None;
    }
    let module = class.module().ok()?;
    let known = HOMES.contains(&module.to_str().ok()?);
    class.name().ok().filter(|_| known)
}

/// Whether the class of a value is the one of C code that has this name.
pub fn is_named(value: &Bound<'_, PyAny>, name: &str) -> bool {
    name_in_c(&value.get_type()).is_some_and(|found| found == name)
}

/// Whether an object is the one that a module has by this name.
pub fn is_attr(value: &Bound<'_, PyAny>, module: &str, name: &str) -> bool {
    let module = value.py().module(module);
    let found = module.and_then(|module| module.getattr(name));
    found.is_ok_and(|found| found.is(value))
}

/// Whether a class is an enumeration, by the metaclass that Python has for those.
pub fn is_enumeration(class: &Bound<'_, PyAny>) -> bool {
    is_enum_meta(class.get_type().as_any())
}

/// Whether this is the metaclass of enumerations.
pub fn is_enum_meta(meta: &Bound<'_, PyAny>) -> bool {
    is_attr(meta, "enum", "EnumType")
}

/// Whether a class is `functools.partial`.
pub fn is_partial_class(class: &Bound<'_, PyAny>) -> bool {
    is_attr(class, "functools", "partial")
}

/// What methods and `functools.partial` objects call in the end; `None` where one calls itself.
pub fn called<'py>(callable: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let mut callable = callable.clone();
    for _ in 0..100 {
        callable = if is_named(&callable, "method") {
            callable.getattr("__func__").ok()?
        } else if is_partial_class(callable.get_type().as_any()) {
            callable.getattr("func").ok()?
        } else {
            return Some(callable);
        };
    }
    None
}

/// `type.<name>` of a class. Not `getattr`: a metaclass may have its own ideas about attributes.
pub fn of_type<'py>(class: &Bound<'py, PyType>, name: &str) -> Option<Bound<'py, PyAny>> {
    if class.get_type().is(class.py().get_type::<PyType>()) {
        return class.getattr(name).ok();
    }
    let slots = class.py().get_type::<PyType>().getattr("__dict__").ok()?;
    let slot = slots.get_item(name).ok()?;
    slot.call_method1("__get__", (class,)).ok()
}

/// Immutable builtin values whose content is all there is to know.
pub fn is_plain_constant(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyBytes>()
        || value.is_exact_instance_of::<PyComplex>()
        || value.is_exact_instance_of::<PyCode>()
        || value.is(value.py().Ellipsis())
        || value.is(value.py().NotImplemented())
}

/// A text for messages, made without running user code.
pub fn shown(value: &Bound<'_, PyAny>) -> String {
    if let Some(name) = name_of(value) {
        return name;
    }
    let class = value.get_type();
    const HEAP: u64 = 1 << 9;
    let flags = of_type(&class, "__flags__").and_then(|flags| flags.extract::<u64>().ok());
    let is_heap = flags.is_none_or(|flags| flags & HEAP != 0);
    let named = |known: &str| class.name().is_ok_and(|name| name == known);
    let is_scalar = !is_heap && SCALARS.iter().any(|known| named(known));
    let module = of_type(&class, "__module__").and_then(|name| name.extract::<String>().ok());
    let is_paddle = module.is_some_and(|module| module.starts_with(PADDLE));
    // Layers show their parts, which may be the user's.
    let is_layer = of_type(&class, "extra_repr").is_some();
    let text = (is_scalar || is_paddle && !is_layer).then(|| value.repr());
    match text {
        Some(Ok(text)) => text.to_string().chars().take(60).collect(),
        _ => class
            .name()
            .map_or_else(|_| "an object".to_owned(), |name| format!("a {name}")),
    }
}

/// Builtin types whose `repr` looks at nothing else.
const SCALARS: &[&str] = &[
    "NoneType",
    "bool",
    "int",
    "float",
    "complex",
    "str",
    "bytes",
    "ellipsis",
    "NotImplementedType",
    "code",
];

/// `with manager: run()`, for a manager that does not look at exceptions.
///
/// # Errors
/// Those of the manager.
pub fn within<T>(manager: &Bound<'_, PyAny>, run: impl FnOnce() -> T) -> PyResult<T> {
    manager.call_method0("__enter__")?;
    let answer = run();
    let none = manager.py().None();
    manager.call_method1("__exit__", (&none, &none, &none))?;
    Ok(answer)
}

/// Runs this from a destructor: an exception may be on its way then, which Python code must not
/// meet and not swallow.
pub fn aside<T>(py: Python<'_>, run: impl FnOnce() -> T) -> T {
    let raised = PyErr::take(py);
    let answer = run();
    if let Some(raised) = raised {
        raised.restore(py);
    }
    answer
}

/// Key and value.
pub type Item<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The items of a dictionary in the order Python iterates them, which for an `OrderedDict` is not
/// that of the dict below; `None` when a key that is iterated is not there.
///
/// # Errors
/// Those of the iteration.
pub fn items_in_order<'py>(dict: &Bound<'py, PyDict>) -> PyResult<Option<Vec<Item<'py>>>> {
    if dict.is_exact_instance_of::<PyDict>() || !dict.is_instance(&ordered_dict(dict.py())?)? {
        return Ok(Some(dict.iter().collect()));
    }
    // Going over an `OrderedDict` hashes its keys.
    if !dict.iter().all(|(key, _)| hashes_in_c(&key)) {
        return Ok(None);
    }
    let mut items = Vec::with_capacity(dict.len());
    // A subclass may go over itself in another way.
    let keys = ordered_dict(dict.py())?.call_method1("__iter__", (dict,))?;
    for key in keys.try_iter()? {
        let key = key?;
        let Some(value) = dict.get_item(&key)? else {
            return Ok(None);
        };
        items.push((key, value));
    }
    Ok(Some(items))
}

/// `collections.OrderedDict`.
pub fn ordered_dict(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.collections()?.getattr("OrderedDict")
}

fn hashes_in_c(key: &Bound<'_, PyAny>) -> bool {
    key.is_exact_instance_of::<PyString>()
        || key.is_exact_instance_of::<PyInt>()
        || key.get_type().getattr("__hash__").is_ok_and(|own| {
            let default = key.py().get_type::<PyAny>().getattr("__hash__");
            default.is_ok_and(|default| own.is(&default))
        })
}
